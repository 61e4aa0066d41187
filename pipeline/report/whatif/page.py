"""The page of `hindcast whatif`, and the files with its numbers.

    OUT/whatif.html    the page; it loads nothing and works without scripts
    OUT/whatif.json    what the page says in numbers and sentences
    OUT/whatif.csv     every policy, metric and reference, on the windows and in the run
    OUT/groups.csv     policies by partition, QOS, account, queue, user, size and request of jobs
    OUT/changes.csv    changed worlds, if there are any
    OUT/shake.csv      every draw of every policy, if the run was shaken
    OUT/advice.csv     settings of schedulers with their simulated values, if there are any

The same input gives the same bytes. Names of files, columns and keys below are stable.

whatif.json, besides log, format, settings, sha256, processors, jobs, windows, training, commands,
command:

    conclusion       first sentence of the page
    badge, colour    words and colour of the badge, see `hindcast.pipeline.whatif.verdict`
    disqualifiers    facts that forbid a conclusion, each a code, a text and numbers
    reasons          everything that kept the badge from a better one, and prices
    cautions         what limits every number of the page
    nearness         grade ("A" to "D", "-", "" without record), letters by measurement, numbers
                     (over, open, passed, twins, odd, reaction, delta, explained, idle), known
                     (order and mode by which the log is served, null if none is known), nearest,
                     closed (from, to, jobs, share of each closed time), rest (numbers without them)
    replay           late, compared, mean_delay_s, ks; null without record
    record           mean_bounded_slowdown, mean_wait_s and scheduler_mean_wait_s (from the moment
                     of eligibility) of the jobs of the run, as the log has them; null without it
    policies         recorded, plain, candidate, aside, agent, best_run, best_windows, kinds
    evidence         numbers behind the badge: both scopes, shake_sd, ratios, and others
    equal            sentences about policies that cannot be told apart
    longer_waits     sentences about groups that wait longer
    surer            sentences about the data that would make comparisons surer
    missing          sentences about fields that the log lacks
    resources        with GPUs or memory: sentences about what stops jobs and what is held
    lower_bounds     with GPUs or memory: of the means of the run, and of its wait by resource

whatif.csv: scope, policy, kind, metric, unit, mean, low, high, blocks, reference, difference,
difference_low, difference_high, shake_sd. groups.csv: kind, group, jobs, work_share, policy,
mean_wait_s, p95_wait_s, mean_bounded_slowdown. changes.csv: change, policy, jobs, removed, chains,
mean_bounded_slowdown, mean_wait_s, same_jobs_slowdown, same_jobs_wait_s, difference, low, high,
shake_sd. shake.csv: policy, draw, mean_bounded_slowdown, mean_wait_s.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.pages.numbers import TimeUnit, percent, three_digits, time_unit
from hindcast.pipeline.pages.tables import Table
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.rules import explaining
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif import tables, words
from hindcast.pipeline.report.whatif.held import machine_text, resource_facts
from hindcast.pipeline.report.whatif.jobs import by_group, groups, recorded
from hindcast.pipeline.report.whatif.material import (
    RECORDED,
    THE_LOG,
    Cast,
    Material,
    evidence_of,
    log_means,
    scheduler_wait,
)
from hindcast.pipeline.report.whatif.pictures import (
    groups_figure,
    loads_figure,
    schedule_figures,
)
from hindcast.pipeline.report.whatif.plots import policies_plot, weeks_plot
from hindcast.pipeline.storage.files import write_json, write_text
from hindcast.pipeline.whatif import verdict as v
from hindcast.pipeline.workloads.caveats import to_json
from hindcast.pipeline.workloads.log_caveats import mostly_unread

PAGE: Final = "whatif.html"
_CLASSES: Final = {"green": "win", "yellow": "unclear", "red": "loss", "grey": ""}  # of page.css
_REPLAY: Final = ("late", "compared", "mean_delay_s", "ks")
_CAUTIONS: Final = 3  # of the first screen
_NO_AREA: Final = "; no area is in it, in spite of its name"  # of steady_area


def write_page(material: Material, out: Path) -> dict[str, Any]:
    """Write the page and its numbers; return its path and what it concludes."""
    cast = material.cast
    evidence = evidence_of(material, words.failing(material))
    told = v.verdict(evidence)
    shown = cast.shown(material.known, material.played)
    frames = {name: material.played[name] for name in shown}
    if RECORDED in frames:
        frames[RECORDED] = _known(material, frames[RECORDED])
    grouped = by_group(
        material.jobs, frames, groups(material.jobs, material.processors, material.names)
    )
    unit = words.typical_wait(material, shown)
    facts = _sentences(material, told, grouped, unit)
    _write_tables(material, grouped, out)
    write_json(out / "whatif.json", _as_json(material, evidence, told, facts))
    write_text(out / PAGE, _html(material, told, facts, grouped, frames, unit))
    return {
        "page": str(out / PAGE),
        "lines": [f"grade of the machine: {material.letter or 'none'}", told.badge, told.sentence],
        "warnings": [caveat.text for caveat in material.caveats],
        "unread": mostly_unread(material.caveats),
        "grade": material.letter,
        "badge": told.badge,
        "rule": cast.candidate,
        "agent": cast.agent,
    }


def _known(material: Material, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of the replay that is null where the record does not know the wait."""
    known = material.jobs["recorded_wait_s"].is_not_null()
    return frame.select(pl.when(known).then(name).alias(name) for name in frame.columns)


def _write_tables(material: Material, grouped: pl.DataFrame, out: Path) -> None:
    """Write whatif.csv, groups.csv and, where there is something to write, the other tables."""
    cast = material.cast
    parts = (cast.recorded, cast.plain, cast.candidate, cast.aside, cast.best_run)
    scopes = {"windows": material.windows, "run": material.run}
    table = n.rows(
        {name: scope for name, scope in scopes.items() if scope is not None},
        material.kinds,
        list(dict.fromkeys(filter(None, parts))),
        material.shaken,
    )
    write_text(out / "whatif.csv", table.write_csv())
    write_text(out / "groups.csv", grouped.write_csv())
    shaken = [
        pl.DataFrame(
            {
                "policy": name,
                "draw": range(len(of.slowdown)),
                n.HEADLINE: of.slowdown,
                n.WAIT: of.wait,
            }
        )
        for name, of in material.shaken.items()
    ]
    others = {
        "shake.csv": pl.concat(shaken) if shaken else None,
        "changes.csv": material.changes,
        "advice.csv": material.advice,
    }
    for name, frame in others.items():
        if frame is None:
            (out / name).unlink(missing_ok=True)  # of a call before with other options
        else:
            write_text(out / name, frame.write_csv())


def _sentences(
    material: Material, told: v.Verdict, grouped: pl.DataFrame, unit: TimeUnit
) -> dict[str, list[str]]:
    """Return the sentences of the page by the key under which whatif.json has them."""
    return {
        "reasons": [text for text in told.reasons if text not in told.sentence],
        "cautions": words.cautions(material, told, unit),
        "record": list(words.record(material, unit)),
        "known": list(filter(None, [words.served(material), *words.beside_known(material)])),
        "closed": list(words.closed_times(material)),
        "equal": list(words.equal_policies(material)),
        "agents": list(words.agents(material)),
        "longer_waits": list(words.losers(material, grouped, unit)),
        "surer": list(words.surer(material)),
        "missing": list(material.missing),
        **({"resources": list(resource_facts(material))} if material.resources else {}),
    }


def _finite(value: Any) -> Any:
    """Return numbers that JSON can hold: null for those that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(of) for key, of in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_json(
    material: Material, evidence: v.Evidence, told: v.Verdict, facts: dict[str, list[str]]
) -> dict[str, Any]:
    """Return whatif.json."""
    plan, grade, cast = material.plan, material.grade, material.cast
    replay = material.replay
    nothing: dict[str, Any] = {
        "grade": "",
        "letters": {},
        "numbers": {},
        "known": None,
        "closed": [],
    }
    not_numbers = {"disqualifiers", "machine"}
    numbers = {k: of for k, of in asdict(evidence).items() if k not in not_numbers}
    found = {
        "log": material.name,
        "format": material.format,
        "settings": dict(material.settings),
        "sha256": [file.sha256 for file in material.provenance.files],
        "processors": material.processors,
        **({"lower_bounds": dict(material.bounds)} if material.bounds else {}),
        "conclusion": told.sentence,
        "badge": told.badge,
        "colour": told.colour,
        "disqualifiers": to_json(told.disqualifiers),
        "nearness": grade.json if grade is not None else nothing,
        "replay": None if replay is None else {name: getattr(replay, name) for name in _REPLAY},
        "record": {**log_means(material), "scheduler_mean_wait_s": scheduler_wait(material.jobs)}
        if cast.recorded
        else None,
        "jobs": {
            "used": plan.log_jobs,
            "train": plan.validation_first,
            "run": material.jobs.height,
            "carried": int(material.jobs["carried"].sum()),
            "unknown waits": material.jobs["recorded_wait_s"].null_count(),
            **{f"left out: {k}": of for k, of in material.provenance.left_out.items()},
        },
        "windows": {
            "train": len(plan.train),
            "validation": len(plan.validation),
            "test": len(plan.test),
            "jobs": plan.jobs,
            "follow": plan.follow,
            "warm": plan.warm,
        },
        "policies": {**asdict(cast), "kinds": dict(material.kinds)},
        "evidence": numbers,
        **{key: of for key, of in facts.items() if key not in {"record", "known", "closed"}},
        "training": None if material.training is None else dict(material.training),
        "commands": dict(material.commands),
        "command": material.command,
    }
    return dict(_finite(found))


def _tiles(material: Material, unit: TimeUnit) -> list[tuple[str, str, str]]:
    """Return the four numbers of the first screen, all of the run: title, number, small text."""
    cast, found = material.cast, []
    rows: list[tuple[str, str, dict[str, float]]] = []
    # On a machine that is not the log's, a rule beside the record would say nothing of the rule.
    if cast.recorded and material.comparable:
        rows.append(("The log", "from the log", log_means(material)))
    else:
        rows.append((cast.aside, "simulated, in the run", _values(material, cast.aside)))
    rows.append((cast.candidate, "simulated, in the run", _values(material, cast.candidate)))
    for name, small, values in rows:
        for metric, what, told in (
            (n.WAIT, "mean wait", unit.text),
            (n.HEADLINE, "mean slowdown", three_digits),
        ):
            shakes = n.spread(material.shaken, name, metric)
            text = small
            if shakes is not None:
                spread = time_unit(shakes[1]).text if metric == n.WAIT else three_digits
                text += f"; sd {spread(shakes[1])} over shakes"
            elif name == "The log" and metric == n.WAIT and words.shows_both_waits(material):
                text += "; the user's, holds included"
            found.append((f"{name}: {what}", told(values[metric]), text))
    return found


def _values(material: Material, name: str) -> dict[str, float]:
    return {metric: material.run.value(name, metric) for metric in (n.WAIT, n.HEADLINE)}


def _span(seconds: float) -> str:
    size, name = (86_400, "days") if seconds >= 2 * 86_400 else (3600, "h")
    return f"{seconds / size:,.0f} {name}" if seconds >= 3600 else f"{seconds:,.0f} s"


def _described(material: Material) -> dict[str, str]:
    ends = {name: _NO_AREA for name in material.kinds if name.startswith("steady_area")}
    return {name: text + ends.get(name, "") for name, text in material.descriptions.items()}


def _html(
    material: Material,
    told: v.Verdict,
    facts: dict[str, list[str]],
    grouped: pl.DataFrame,
    frames: dict[str, pl.DataFrame],
    unit: TimeUnit,
) -> str:
    """Return whatif.html."""
    cast: Cast = material.cast
    left_out = dict(material.provenance.left_out)
    counted_tasks = material.provenance.counts.get("tasks")
    if counted_tasks is not None and (unused := counted_tasks - material.plan.log_jobs):
        left_out["wider than the machine, or without a run time"] = unused
    order = tables.best_first(material, material.run)
    beside: tuple[Table, ...] = ()
    if cast.recorded and RECORDED in material.played:
        beside = tuple(tables.beside_tables(material, unit))
    weeks = {**({THE_LOG: recorded(material.jobs)} if cast.recorded else {})}
    weeks |= {name: frame for name, frame in frames.items() if name != RECORDED}
    return render(
        Path(__file__).with_name(f"{PAGE}.jinja"),
        material=material,
        cast=cast,
        plan=material.plan,
        told=told,
        facts=facts,
        class_=_CLASSES[told.colour],
        first_cautions=_CAUTIONS,
        carried=int(material.jobs["carried"].sum()),
        span=_span(material.span_s),
        tiles=_tiles(material, unit),
        left_out=left_out,
        machine=machine_text(material.resources) if material.resources else "",
        percent=percent,
        three_digits=three_digits,
        measurements=words.measurements(material),
        grades=tables.grade_table(material) if material.grade else None,
        beside=beside,
        run=tables.run_table(material, unit, told.colour),
        windows=tables.windows_table(material, unit, told.colour),
        changes=tables.changes_table(material, unit),
        advice=tables.advice_table(material, unit),
        predictable=tables.predictable_table(material),
        unit=unit,
        lines=[] if material.advice is None else list(material.advice.iter_rows(named=True)),
        groups=list(tables.groups_tables(grouped, unit)),
        groups_figure=groups_figure(grouped, tables.KINDS, unit),
        loads=loads_figure(material),
        schedules=list(schedule_figures(material)),
        policies_plot=policies_plot(material, order, unit),
        # One point is no line.
        weeks_plot=weeks_plot(material, weeks, unit) if material.jobs["week"].max() else None,
        **explaining(_described(material)),
    )
