"""Tables of the page of `hindcast whatif`. Every column has one unit."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.estimators.selection import rank_correlation
from hindcast.pipeline.pages.numbers import (
    TimeUnit,
    count_of,
    percent,
    three_digits,
    write_interval,
)
from hindcast.pipeline.pages.tables import NOTHING, Badge, Cell, Row, Table
from hindcast.pipeline.report.whatif import words
from hindcast.pipeline.report.whatif.jobs import recorded
from hindcast.pipeline.report.whatif.material import LEARNED, RECORDED, THE_LOG, Material
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT, Scope, pair_of, ranking, spread
from hindcast.pipeline.whatif import predictable
from hindcast.pipeline.whatif.grade import LIMITS
from hindcast.pipeline.whatif.replay import distance
from hindcast.pipeline.whatif.verdict import FEWEST_BLOCKS, Colour

KINDS: Final = {
    "partition": "By partition",
    "qos": "By QOS",
    "account": "By account",
    "queue": "By queue",
    "user": "By user",
    "size": "By size",
    "gpus": "By GPUs",
    "request": "By request",
}
_MEASURED: Final[Mapping[str, str]] = {
    "over": "processor-seconds beyond the machine, of those held",
    "open": "waiting while every waiting job fits",
    "passed": "equal jobs of one user of which the later one started first",
    "odd": "starts out of nothing, of those after a wait",
    "reaction": "median wait of a job that comes when nobody waits, and that fits [s]",
    "idle": "waiting in which the known scheduler would have started the job",
}
_SIDES: Final[Mapping[Colour, str]] = {
    "grey": "same",
    "green": "better",
    "yellow": "better",
    "red": "worse",
}
_JAIN: Final = (
    " Fairness is Jain's index of the mean slowdowns of users: 1 if all are equal, 1 / users if "
    "one user has it all."
)
_KS: Final = (
    " KS is the Kolmogorov-Smirnov distance of two distributions: the largest difference of their "
    "shares of jobs below any value, 0 if they are equal, 1 if they do not overlap."
)


def grade_table(material: Material) -> Table:
    """Return the measurements behind the grade."""
    grade = material.grade
    assert grade is not None
    body = []
    for name, text in _MEASURED.items():
        value = grade.numbers.get(name)
        if name not in grade.letters or value is None:
            continue
        write: Callable[[float], str] = _seconds if name == "reaction" else _small_share
        said = text
        if name == "over" and material.resources is not None:
            said = f"{grade.worst} held beyond the machine, of those held"
        cells = [Cell(said), Cell(write(value), value), Cell(grade.letters[name])]
        if grade.rest is not None:
            rest = grade.rest[name]
            cells += [Cell(write(rest), rest), Cell(grade.rest_letters.get(name, NOTHING))]
        body.append(Row([*cells, *(Cell(write(limit), limit) for limit in LIMITS[name])]))
    text = (
        ". The letter is that of the worst. None of them but the last knows an order of the "
        "scheduler; the first four are 0 for every scheduler that keeps an order on this machine."
    )
    head = ["measured over the whole record", "value", "letter"]
    if grade.rest is not None:
        head += ["without the closed times", "letter"]
        text += " With closed times it is that of the rest, at best B."
    head += ["A up to", "B up to", "C up to"]
    return Table(f"Grade {grade.letter}", text, head, body)


def beside_tables(material: Material, unit: TimeUnit) -> Iterator[Table]:
    """Yield the tables of the log beside its replay and simulated schedulers."""
    jobs = material.jobs
    log = recorded(jobs)
    names = [material.known, "fcfs", "conservative", "fcfs_easy"]
    frames = {THE_LOG: log, "replay": material.played[RECORDED]}
    frames |= {name: material.played[name] for name in names if name in material.played}
    text = (
        f": means over the {count_of(jobs.height, 'counted job')} of the run whose wait is known. "
        "The log is what was recorded; the replay starts every job at its recorded start; the "
        "others are simulated." + _KS
    )
    rows = [
        Row([Cell(name), *(Cell(_number(value), value) for value in values)])
        for name, values in _measures(jobs, frames, unit).items()
    ]
    yield Table("Beside the log", text, ["measure", *frames], rows)


def _measures(
    jobs: pl.DataFrame, frames: Mapping[str, pl.DataFrame], unit: TimeUnit
) -> dict[str, list[float]]:
    known = jobs["recorded_wait_s"].is_not_null()
    week = jobs.filter(known)["week"].to_numpy()
    frames = {name: of.filter(known) for name, of in frames.items()}
    waits = {name: of["wait_s"].to_numpy() for name, of in frames.items()}
    slowdowns = {name: of["bounded_slowdown"].to_numpy() for name, of in frames.items()}
    weekly = {name: _weekly(week, wait) for name, wait in waits.items()}
    if not known.any():
        return {}

    def by_column(of: Callable[[str], float]) -> list[float]:
        return [float(of(name)) for name in frames]

    found = {
        f"mean wait [{unit.name}]": by_column(lambda n: waits[n].mean() / unit.size_s),
        f"median wait [{unit.name}]": by_column(lambda n: np.median(waits[n]) / unit.size_s),
        f"p95 wait [{unit.name}]": by_column(lambda n: np.quantile(waits[n], 0.95) / unit.size_s),
        "mean bounded slowdown": by_column(lambda n: slowdowns[n].mean()),
        "KS of the waits to the log": by_column(lambda n: distance(waits[THE_LOG], waits[n])),
    }
    if len(weekly[THE_LOG]) > 2:
        found["rank correlation of weekly mean waits with the log"] = by_column(
            lambda n: rank_correlation(weekly[THE_LOG], weekly[n])
        )
    return found


def _weekly(week: NDArray[np.int64], wait: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean wait of each week that has jobs."""
    counts = np.bincount(week)
    return np.asarray(np.bincount(week, wait)[counts > 0] / counts[counts > 0])


def run_table(material: Material, unit: TimeUnit, colour: Colour) -> Table:
    """Return every policy in the run."""
    scope, jobs = material.run, material.jobs
    carried = int(jobs["carried"].sum())
    text = f": means over {count_of(jobs.height, 'counted job')}"
    if carried:
        text += f", of which {carried:,} waited when the run began"
    if material.shaken:
        draws = len(next(iter(material.shaken.values())).slowdown)
        text += (
            f". Shaken: mean and standard deviation over {draws} draws that shift every submission "
            "by up to a minute"
        )
    if scope.blocks < FEWEST_BLOCKS:
        text += ". The run is shorter than four weeks, so that there are no intervals."
    else:
        text += (
            f". Intervals and differences are over {count_of(scope.blocks, 'week')} of submission."
        )
    return _policies(material, scope, "One run", text, unit, colour)


def windows_table(material: Material, unit: TimeUnit, colour: Colour) -> Table | None:
    """Return every policy on the windows."""
    if material.windows is None:
        return None
    text = (
        f": means over {count_of(len(material.plan.test), 'window')} of {material.plan.jobs} jobs, "
        "95 % intervals over windows. Every window begins as the log was at that moment, so no "
        "policy pays for its own past; in the run it does. Waits count from the beginning of the "
        "window."
    )
    return _policies(material, material.windows, "Windows", text, unit, colour)


def _policies(
    material: Material, scope: Scope, title: str, text: str, unit: TimeUnit, colour: Colour
) -> Table:
    """Return the table of policies on the windows or in the run, best first."""
    cast, is_run = material.cast, scope is material.run
    best = cast.best_run if is_run else cast.best_windows
    references = [name for name in (cast.recorded, best) if name in scope.values]
    if not material.comparable:
        references = [name for name in references if name != RECORDED]
    both = is_run and words.shows_both_waits(material)
    fair = material.jobs["user"].drop_nulls().len() > 0
    order = best_first(material, scope)
    ranked = [name for name in order if name not in {RECORDED, *material.knowing}]
    ranks = ranking(scope, material.shaken, ranked)
    head = ["policy", *(["rank"] if is_run else []), "mean bounded slowdown"]
    head += [f"beside {name} [%]" for name in references]
    head += [f"mean wait [{unit.name}]"]
    head += [f"scheduler's mean wait [{unit.name}]"] if both else []
    head += [f"{name} wait [{unit.name}]" for name in ("p95", "p99", "longest")]
    head += ["waited over 48 h [%]", "fairness of users"]
    head += ["slowdown of wide jobs", "slowdown of long jobs"]
    body = []
    for name in order:
        cells = [_name(material, name, best)]
        if is_run:
            rank = ranks.get(name)
            cells.append(Cell(NOTHING) if rank is None else Cell(str(rank), rank))
        cells.append(_estimate(material, scope, name, HEADLINE, three_digits))
        cells += [_beside(material, scope, name, str(other), colour) for other in references]
        cells.append(_estimate(material, scope, name, WAIT, unit.number))
        if both:
            wait = scope.value(name, WAIT) - float(material.jobs["held_s"].to_numpy().mean())
            cells.append(Cell(unit.number(wait), wait))
        for metric in ("p95_wait_s", "p99_wait_s", "max_wait_s"):
            cells.append(_one(scope, name, metric, unit.number))
        cells.append(_one(scope, name, "starved_share", lambda value: f"{100 * value:.1f}"))
        cells.append(
            _one(scope, name, "user_fairness", lambda value: f"{value:.2f}")
            if fair
            else Cell(NOTHING)
        )
        for metric in ("mean_slowdown_wide", "mean_slowdown_long"):
            # 0 if there is no such job
            cells.append(_one(scope, name, metric, lambda v: three_digits(v) if v else NOTHING))
        knowing = name in material.knowing
        marked = "strongest" if name == cast.recorded else "bound" if knowing else ""
        body.append(Row(cells, marked, pinned=knowing))
    return Table(title, text + (_JAIN if fair else ""), head, body)


def best_first(material: Material, scope: Scope) -> list[str]:
    """Return the policies, best first, with those that know run times at the end."""
    return sorted(scope.values, key=lambda name: (name in material.knowing, scope.value(name)))


def _one(scope: Scope, name: str, metric: str, told: Callable[[float], str]) -> Cell:
    value = scope.value(name, metric)
    return Cell(NOTHING) if math.isnan(value) else Cell(told(value), value)


def _name(material: Material, name: str, best: str | None) -> Cell:
    cast, badges = material.cast, []
    if name == cast.recorded:
        badges.append(Badge("replay of the log", "strongest"))
    if name == material.known:
        badges.append(Badge("as your scheduler", "strongest"))
    if name in material.knowing:
        badges.append(Badge("knows run times", "knows"))
    if material.kinds.get(name) == LEARNED:
        told = {"agent": "delivered", "rule": "refused"}.get(material.delivered.get(name, ""))
        badges.append(Badge(told or "no gate", "learned"))
    if name == cast.candidate:
        badges.append(Badge("best before" if cast.before else "best after the fact"))
    elif name == best:
        badges.append(Badge("best after the fact"))
    return Cell(name, badges=badges)


def _estimate(
    material: Material, scope: Scope, name: str, metric: str, told: Callable[[float], str]
) -> Cell:
    mean = scope.means[name][metric]
    shakes = spread(material.shaken, name, metric) if scope is material.run else None
    small = more = ""
    if len(scope.values[name][metric]) >= FEWEST_BLOCKS:
        small = f"{told(mean.low)} .. {told(mean.high)}"
    if shakes is not None:
        more = f"shaken {told(shakes[0])} \N{PLUS-MINUS SIGN} {told(shakes[1])}"
    return Cell(told(mean.value), mean.value, small, more=more)


def _beside(material: Material, scope: Scope, name: str, reference: str, colour: Colour) -> Cell:
    """Return a difference with its interval; the one that the badge is about has its colour."""
    if name == reference or (name == RECORDED and not material.comparable):
        return Cell(NOTHING)
    pair = pair_of(scope, name, reference)
    judged = (name, reference) == (material.cast.candidate, RECORDED)
    side = _SIDES[colour] if judged else "same"
    small = ""
    if pair.has_interval:
        small = " .. ".join(percent(end)[:-2] for end in (pair.share.low, pair.share.high))
    return Cell(percent(pair.share.value)[:-2], pair.share.value, small, side)


def changes_table(material: Material, unit: TimeUnit) -> Table | None:
    """Return every policy in every changed world."""
    if material.changes is None or material.changes.is_empty():
        return None
    head = [
        "change",
        "policy",
        "jobs",
        "removed",
        "cut into parts",
        "mean bounded slowdown",
        "unchanged, same jobs",
        "difference",
        f"mean wait [{unit.name}]",
        f"unchanged, same jobs [{unit.name}]",
    ]
    body = []
    for row in material.changes.iter_rows(named=True):
        interval = ""
        if row["low"] is not None and math.isfinite(row["low"]):
            interval = write_interval(row["low"], row["high"], 1, signed=True)
        shakes = ""
        if row["shake_sd"] is not None:
            shakes = f"shaken \N{PLUS-MINUS SIGN} {three_digits(row['shake_sd'])}"
        cells = [Cell(row["change"]), Cell(row["policy"])]
        cells += [Cell(f"{row[name]:,}", row[name]) for name in ("jobs", "removed", "chains")]
        cells += [
            Cell(three_digits(row[HEADLINE]), row[HEADLINE]),
            Cell(three_digits(row["same_jobs_slowdown"]), row["same_jobs_slowdown"]),
            Cell(
                three_digits(row["difference"], signed=True),
                row["difference"],
                interval,
                more=shakes,
            ),
            Cell(unit.number(row[WAIT]), row[WAIT]),
            Cell(unit.number(row["same_jobs_wait_s"]), row["same_jobs_wait_s"]),
        ]
        body.append(Row(cells))
    text = (
        ": the same policy from the same moment, with the same running and waiting jobs, in "
        "another world. Both sides are simulated: nothing here is compared with the record. "
        "Differences are those of the slowdown, with 95 % intervals over weeks if there are four."
    )
    return Table("Changed worlds", text, head, body, words=2)


def predictable_table(material: Material) -> Table | None:
    """Return what completed runs explain of the weights of later jobs, by context."""
    found = material.predictable
    if found is None:
        return None
    body = []
    for name, shares in zip(predictable.NAMES, found.weight.tolist(), strict=True):
        cells = [
            Cell(NOTHING) if math.isnan(share) else Cell(percent(share, signed=False), share)
            for share in shares
        ]
        body.append(Row([Cell(name), *cells]))
    caption = (
        ": share of the variation of 10 s / max(run, 10 s), the weight of a job in the mean "
        "bounded slowdown, that the runs explain which had ended when the job arrived. Below 0, "
        "the mean of the part, known only afterwards, would have been nearer."
    )
    return Table("Completed runs", caption, ["known of", *predictable.PARTS], body)


def advice_table(material: Material, unit: TimeUnit) -> Table | None:
    """Return the simulated value of every setting, beside its rule and today's scheduler."""
    if material.advice is None or material.advice.is_empty():
        return None
    head = [
        "rule",
        "scheduler",
        "the same order?",
        "jobs that reserve",
        "mean bounded slowdown",
        *(f"{name} wait [{unit.name}]" for name in ("mean", "p99", "longest")),
        "slowdown of wide jobs",
        "slowdown of long jobs",
    ]
    body = []
    for row in material.advice.iter_rows(named=True):
        cells = [Cell(row["rule"], badges=[Badge(row["choice"])] if row["choice"] else [])]
        cells += [Cell(row[name]) for name in ("scheduler", "exact", "reservations")]
        cells.append(Cell(three_digits(row[HEADLINE]), row[HEADLINE]))
        cells += [
            Cell(unit.number(row[name]), row[name]) for name in (WAIT, "p99_wait_s", "max_wait_s")
        ]
        for name in ("mean_slowdown_wide", "mean_slowdown_long"):
            cells.append(Cell(three_digits(row[name]) if row[name] else NOTHING, row[name]))
        body.append(Row(cells, "strongest" if row["scheduler"] == "today" else ""))
    text = (
        ": what each setting does with these jobs, simulated as a policy of its own in the run, "
        "with its rounding, its period and its reservations. Constants were chosen before the run. "
        "A value holds for its own line alone: Slurm reserves for every tested job unless told."
    )
    return Table("Simulated values of the settings", text, head, body, words=4)


def groups_tables(table: pl.DataFrame, unit: TimeUnit) -> Iterator[Table]:
    """Yield mean waits by partition, QOS, account, queue, user, size and request of the jobs."""
    shown = list(dict.fromkeys(table["policy"]))
    for (kind,), rows in table.group_by("kind", maintain_order=True):
        body = []
        for (group,), found in rows.group_by("group", maintain_order=True):
            by_policy = {row["policy"]: row for row in found.iter_rows(named=True)}
            first = by_policy[shown[0]]
            cells = [
                Cell(str(group)),
                Cell(f"{first['jobs']:,}", first["jobs"]),
                Cell(f"{100 * first['work_share']:.1f}", first["work_share"]),
            ]
            body.append(Row([*cells, *(_group(by_policy[name], unit) for name in shown)]))
        head = ["jobs of the run", "jobs", "share of the work [%]"]
        head += [f"{name} [{unit.name}]" for name in shown]
        text = ": mean waits in the run, without intervals. groups.csv has slowdowns and p95 waits."
        yield Table(KINDS[str(kind)], text, head, body)


def _group(row: Mapping[str, Any], unit: TimeUnit) -> Cell:
    if row["mean_wait_s"] is None:
        return Cell(NOTHING)
    return Cell(unit.number(row["mean_wait_s"]), row["mean_wait_s"])


def _number(value: float) -> str:
    return NOTHING if math.isnan(value) else three_digits(value)


def _seconds(value: float) -> str:
    return f"{value:,.0f}"


def _small_share(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.0f} %"
