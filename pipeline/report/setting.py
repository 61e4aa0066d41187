"""Values of a report about one setting: the finding, tables and plots."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from hindcast.pipeline.evaluation.anchors import anchor_of_evaluation
from hindcast.pipeline.evaluation.summary.cautions import cautions
from hindcast.pipeline.evaluation.summary.evaluations import Evaluation
from hindcast.pipeline.evaluation.summary.finding import Finding, gain, state_finding
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns, Setting
from hindcast.pipeline.evaluation.summary.planned import cells, planned
from hindcast.pipeline.evaluation.summary.rows import best_first
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    name_with_unit,
    with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.report.heat_map import heat_map, heat_map_figure
from hindcast.pipeline.report.multiples import small_multiples
from hindcast.pipeline.report.plots import differences_plot, means_plot, profile_plot, windows_plot
from hindcast.pipeline.report.schedule_figures import Figure, figures_of
from hindcast.pipeline.report.tables import (
    main_table,
    metrics_table,
    planned_table,
    references_table,
    rows_of,
    seeds_table,
    windows_table,
)
from hindcast.pipeline.schedules.schedule import Schedule, file_name, read_schedule
from hindcast.pipeline.statistics.intervals import Array
from hindcast.pipeline.storage.run_files import JOBS

SLOWDOWN: Final = "mean_bounded_slowdown"  # of `queue`
_PROFILES: Final = 8  # curves of a performance profile; more are hard to read


def setting_part(summary: Summary, setting: Setting) -> dict[str, Any]:
    """Return the values of the section about a setting, see report.html.jinja."""
    finding, comparisons = state_finding(summary, setting), cells(planned(setting))
    anchor = anchor_of_evaluation(setting.first.folder)
    headline, strongest = summary.headline(setting), summary.strongest[setting.label]
    rows = rows_of(summary, setting, headline.metric.name)
    drawn = setting.first.bound if rows[0]["bound"] is not None else None
    caveats = [
        *cautions(setting.entries.values(), setting.scores),
        *(caveat for evaluation in setting.evaluations for caveat in evaluation.caveats),
    ]
    windows, by_policy = windows_table(summary, setting), small_multiples(summary, setting)
    tables = (
        planned_table(setting, comparisons),
        references_table(summary, setting) if summary.references[setting.label] else None,
        windows,
        metrics_table(summary, setting),
        seeds_table(summary, setting),
    )
    return {
        "finding": finding,
        "caveats": list(dict.fromkeys(caveat.text for caveat in caveats)),
        "tiles": list(_tiles(summary, setting, finding)),
        "main": main_table(summary, setting, anchor),
        "strongest": strongest,
        "means": means_plot(rows, strongest, drawn),
        "differences": None if strongest is None else differences_plot(rows, strongest),
        "by_window": _windows_plot(summary, setting, finding),
        "profile": _profile(summary, setting),
        "by_policy": by_policy,
        "folded": windows if by_policy else None,
        "loads": _loads(summary, setting, finding),
        "schedules": _schedules(summary, setting, finding),
        "tables": [table for table in tables if table is not None],
    }


def _tiles(summary: Summary, setting: Setting, finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yield the four numbers behind the finding: a title, the number and what it is of."""
    row = finding.learned
    if row is None or finding.baseline is None:
        return
    rows = rows_of(summary, setting, row["metric"])
    baseline = next(other for other in rows if other["policy"] == finding.baseline)
    decimals = decimals_for(other["mean"] for other in rows)
    learned = "Best learned policy" if finding.verdict != "win" else "Learned policy"
    for title, found in ((learned, row), ("Strongest simple policy", baseline)):
        number = with_unit(write_number(found["mean"], decimals), found["unit"])
        yield title, number, found["policy"]
    value, low, high = gain(row)
    digits = decimals_telling((value, low, high), decimals_for([value], digits=2))
    share = f" ({100 * value / abs(baseline['mean']):+.1f} %)" if baseline["mean"] else ""
    interval = (
        f"{summary.level * 100:g} % interval {write_interval(low, high, digits, signed=True)}"
        if low is not None
        else "no interval from one window"
    )
    number = with_unit(write_number(value, digits, signed=True), row["unit"])
    yield "Gain, paired", number + share, interval
    if row["bound"] is not None and (gap := abs(baseline["mean"] - row["bound"])) > 0:
        room = with_unit(write_number(gap, decimals), row["unit"])
        text = f"of {room} between {finding.baseline} and the {setting.first.bound_kind} bound"
        yield "Room to the bound closed", f"{100 * value / gap:.0f} %", text


def _windows_plot(summary: Summary, setting: Setting, finding: Finding) -> str | None:
    row, baseline = finding.learned, finding.baseline
    if row is None or baseline is None:
        return None
    headline = summary.headline(setting)
    policy, other = headline.find(row["policy"]), headline.find(baseline)
    assert policy is not None
    assert other is not None
    difference = policy.window_means - other.window_means
    names = (policy.name, baseline, name_with_unit(row["metric"], row["unit"]))
    return windows_plot(difference, row["better"], row["wins"], row["losses"], names)


def _compared(summary: Summary, setting: Setting, finding: Finding) -> list[str]:
    """Return the policies that stand beside each other in pictures, the present one first.

    They are the strongest simple policy and the best learned one. Without a learned policy, they
    are what was recorded, the first reference that is a rule or the second best, and the best.
    """
    policies = best_first(summary.headline(setting))
    order = [policy.name for policy in policies]
    if finding.learned is not None and finding.baseline is not None:
        order = [finding.baseline, finding.learned["policy"], *order]
    else:
        kinds = {policy.name: policy.kind for policy in policies[1:]}
        recorded = [name for name, kind in kinds.items() if kind == "recorded"]
        references = [n for n in summary.references[setting.label] if kinds.get(n) == "heuristic"]
        order = [*[*recorded, *references, *kinds][:1], *order]
    return list(dict.fromkeys(order))


def _loads(summary: Summary, setting: Setting, finding: Finding) -> Figure | None:
    """Return the windows by offered load and slowdown; None where loads are not known."""
    loads = {w: load for e in setting.evaluations for w, load in e.loads.items()}
    if not loads or SLOWDOWN not in {metric.name for metric in summary.metrics(setting)}:
        return None
    pairing = summary.pairings[setting.label, SLOWDOWN]
    found = [pairing.find(name) for name in _compared(summary, setting, finding)]
    policies = [policy for policy in found if policy is not None][:2]
    load = np.array([loads.get(window, np.nan) for window in pairing.windows])
    of = heat_map(load, {policy.name: policy.window_means for policy in policies})
    seeds = "; seeds are averaged" if any(len(p.values) > 1 for p in policies) else ""
    what = (
        f"A window is one of those that the page compares on{seeds}. A job arrives at its "
        "submission, or at its eligibility where the recipe says so."
    )
    return heat_map_figure(of, f"loads {setting.label}", what)


def _schedules(summary: Summary, setting: Setting, finding: Finding) -> list[Figure]:
    """Return figures of the schedules that lie beside the scores, of two policies."""
    windows = summary.headline(setting).windows
    for evaluation in setting.evaluations:
        found = _read(evaluation, setting, _compared(summary, setting, finding))
        if (first := next(found, None)) is not None:
            window, count = first.facts["window"], count_of(len(windows), "window")
            others = (each for each in found if each.facts["window"] == window)
            caution = f"This is 1 of {count} and has no interval." * (len(windows) > 1)
            if window not in windows:
                caution = (
                    f"Window {window} is none of the {count} of the scores, and has no interval."
                )
            return list(figures_of([first, *islice(others, 1)], f"window {window}", caution))
    return []


def _read(evaluation: Evaluation, setting: Setting, policies: Sequence[str]) -> Iterator[Schedule]:
    """Yield a schedule of every policy that has one of the evaluation's recipe.

    Of the training seeds of an agent, it is the first one.
    """
    if not (evaluation.folder / JOBS).is_dir():
        return
    for policy in policies:
        seeds = [entry.name for entry in setting.entries.values() if entry.group == policy]
        for name in dict.fromkeys([policy, *seeds]):
            path = evaluation.folder / JOBS / f"{file_name(name)}.parquet"
            schedule = read_schedule(path) if path.is_file() else None
            # Names that differ in a character such as "/" share a file.
            if (
                schedule
                and schedule.facts["policy"] == name
                and schedule.facts["source"].get("digest") == evaluation.digest
            ):
                yield schedule
                break


def _profile(summary: Summary, setting: Setting) -> dict[str, Any] | None:
    """Return the plot of ratios to the bound, or to the best policy of each window.

    Nothing is plotted if a value or bound has a sign that makes ratios meaningless.
    """
    headline = summary.headline(setting)
    better = headline.metric.better
    bound = summary.bounds[setting.label]
    if better == "neither" or len(headline.policies) < 2:
        return None
    chosen = _profiled(summary, setting)
    every = np.stack([policy.window_means for policy in headline.policies])
    name = setting.first.bound
    if bound is None:
        bound = every.min(axis=0) if better == "lower" else every.max(axis=0)
        name = "the best policy of the window"
    if (bound <= 0).any() or (every < 0).any():
        return None
    ratios: dict[str, Array] = {policy.name: policy.values / bound for policy in chosen}
    plot = profile_plot(ratios, better, f"{headline.metric.name} / {name}")
    return {"plot": plot, "bound": name, "left": len(headline.policies) - len(chosen)}


def _profiled(summary: Summary, setting: Setting) -> list[PolicyRuns]:
    """Return the policies for the profile, best first: learned and references, then the rest."""
    ordered = best_first(summary.headline(setting))
    references = summary.references[setting.label]
    first = [p.name for p in ordered if p.name in references or p.kind == "learned"]
    rest = [p.name for p in ordered if p.name not in first]
    kept = [*first, *rest][:_PROFILES]
    return [policy for policy in ordered if policy.name in kept]
