"""Savings by starting later, for a log of jobs and the hours of a grid.

A job could start at its recorded start, or up to its slack later; jobs without a recorded start, at
their submission. Length is known as requested, where the log has requests, and as it was in the
rows marked so. If log and series have dates that overlap, the jobs of these dates count. Else the
log is laid on the series from the second week on, week after week and again from the beginning, at
the same hour of the day where the log has a clock.

Power is proportional to cores that run; nodes that idle or sleep are not counted. Intervals are of
95 % by `relative_difference` over weeks of the log, since jobs of one week share its hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.grids.starts import Rule, Work, bound, paused, starts
from hindcast.pipeline.statistics.intervals import relative_difference
from hindcast.pipeline.traces.hourly.series import CARBON, HOUR_S, PRICE, Series
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.log_caveats import QUARANTINED, reader_caveats
from hindcast.pipeline.workloads.log_columns import LogColumns, peak
from hindcast.pipeline.workloads.log_units import (
    CORE_UNIT,
    IDLE_BUT_WAITING,
    LIMITS_EXCEEDED,
    LIMITS_FAR,
    LIMITS_OF_RUNS,
    RUNS_BEYOND_LOG,
)
from hindcast.pipeline.workloads.schema import Workload

SHORT_H: Final = 2.0  # requested, below which a job has the first slack
_WEEK: Final = 168
_DAY: Final = 24
_HOUR_MS: Final = 1000 * HOUR_S
_FEW: Final = 4  # weeks below which there is no interval
_ENOUGH: Final = 0.95  # share of jobs that must lie within the series to lay a log on it
RULES: Final[Mapping[str, Rule]] = {  # with a perfect forecast lengths are known, too
    "as it happened": Rule("now"),
    "lowest_window, again": Rule("lowest_window", again=True),
    "carbon_time": Rule("carbon_time"),
    "lowest_slot, again": Rule("lowest_slot", again=True),
    "threshold .2 of 24 h": Rule("threshold"),
    "latest": Rule("latest"),
    "lowest_window, hours and lengths known": Rule("lowest_window", "perfect", again=True),
}
PIECES: Final = {"in pieces": Rule("now"), "best hours in pieces": Rule("now", "perfect")}
BEST: Final = "lowest_window, again"  # of the rules that see no hour to come
_MANY: Final = 0.05  # share of jobs outside of the series that is said first
# Caveats about times, lengths and cores; no scheduler is played, so others do not matter here.
_MATTER: Final = (
    QUARANTINED, cv.RUNS_AND_ENDS, LIMITS_EXCEEDED, LIMITS_FAR, LIMITS_OF_RUNS,
    RUNS_BEYOND_LOG, CORE_UNIT, IDLE_BUT_WAITING, "runaways", "caution",
)  # fmt: skip


@dataclass(frozen=True)
class Laid:
    """Jobs of a log on hours of a series, which is repeated if the log is longer.

    Attributes:
        work: Jobs in hours of the repeated series; none has its wait and its run in two
            repetitions.
        turns: How often the series is there.
        weeks: Week of the log of each job, (J,).
        begins: Starts on the clock of the log in hours, (J,).
        known: What is known of the lengths.
        note: How the log was laid on the series.
        outside: Jobs that are not counted.
    """

    work: Work
    turns: int
    weeks: NDArray[np.int64]
    begins: NDArray[np.float64]
    known: str
    note: str
    outside: int


def aim(series: Series) -> str:
    """Return the column that is saved: carbon, or the price of a series without."""
    return CARBON if CARBON in series.table.columns else PRICE


def lay(workload: Workload, series: Series, slack_h: tuple[float, float]) -> Laid:
    """Return the jobs of a workload on the hours of a series of one zone. Raises InputError.

    `slack_h` are the longest waits of jobs below SHORT_H and of others.
    """
    x = series.values(aim(series))
    tasks = workload.tasks
    wait = tasks["wait_s"].fill_null(0.0).clip(0.0).to_numpy() if "wait_s" in tasks.columns else 0.0
    begin = (tasks["submit_s"].to_numpy() + wait) / HOUR_S
    run = tasks["duration_s"].to_numpy() / HOUR_S
    cores = np.rint((tasks["cores"] * tasks["instances"]).to_numpy()).clip(1).astype(np.int64)
    known, known_by = run, "lengths as they were, since the log has no requests"
    log = LogColumns(workload)
    asked = log.requested / HOUR_S
    unasked = log.n_derived + int(((asked <= 0) & ~log.derived).sum())
    if unasked < tasks.height:
        known = np.where(asked > 0, asked, run)
        known_by = "lengths as requested"
        if unasked:
            known_by += f", and as they were for {unasked:,} of all jobs, without a request"
    slack = np.where(known < SHORT_H, *slack_h).astype(np.float64)
    order = np.argsort(begin, kind="stable")
    work = Work(begin[order], run[order], known[order], slack[order], cores[order])
    first, last = float(work.submit[0]), float(work.submit[-1])
    zero = workload.provenance.second_zero
    ahead = 0.0 if zero is None else zero / HOUR_S - series.first_hour
    if zero is not None and first + ahead < len(x) and last + ahead > 0:
        placed, turn = work._replace(submit=work.submit + ahead), np.zeros(len(order))
        note = "log and series have dates in common; jobs of these dates count"
    else:
        tail = float(np.quantile(work.wait + np.maximum(work.run, work.known), _ENOUGH)) + _WEEK
        length = int((len(x) - _WEEK - tail) // _WEEK) * _WEEK
        if length < _WEEK:
            raise InputError(
                f"the series has {len(x):,} hours; expected three weeks more than the jobs last, "
                f"at least {np.ceil(2 * _WEEK + tail):,.0f} hours"
            )
        shifted = work.submit + ahead - np.floor((first + ahead) / _DAY) * _DAY
        turn = np.floor(shifted / length)
        placed = work._replace(submit=_WEEK + shifted - turn * length)
        dates = "the log has no dates" if zero is None else "log and series have no date in common"
        note = f"{dates}; the log is laid on the series from its second week on"
    inside = placed.within(x)
    if not inside.any():
        raise InputError("no job of the log lies within hours of the series that are known")
    turns = int(turn[inside].max()) + 1
    note += f", {turns} times over" if turns > 1 else ""
    placed = placed._replace(submit=placed.submit + turn * len(x))
    placed = Work(*(each[inside] for each in placed))  # type: ignore[arg-type]
    begins = work.submit[inside]
    weeks = ((begins - first) // _WEEK).astype(np.int64)
    return Laid(placed, turns, weeks, begins, known_by, note, int((~inside).sum()))


def cautions(workload: Workload) -> tuple[Caveat, ...]:
    """Return what of a log limits what its jobs would have saved: clock, starts, lengths, cores."""
    tasks, found = workload.tasks, []
    if any(note.startswith(cv.NO_ZONE) for note in workload.provenance.notes):
        found.append(Caveat("no_zone", (
            f"{cv.NO_ZONE}: if the log has another clock, its jobs lie on wrong hours of the "
            "series; set time_zone, Etc/UTC if it is UTC"
        )))  # fmt: skip
    unknown = int(LogColumns(workload).unknown("wait_s").sum())
    if unknown:
        found.append(Caveat("unknown_starts", (
            f"the starts of {unknown:,} of {tasks.height:,} jobs are unknown: as it happened, they "
            "start at their submission here"
        ), {"jobs": unknown}))  # fmt: skip
    return (*found, *(each for each in reader_caveats(workload) if each.code in _MATTER))


def compare(laid: Laid, series: Series) -> list[dict[str, Any]]:
    """Return a row for each rule, for the rule on as many cores as were in use, and the bounds."""
    goal, work = aim(series), laid.work
    x = np.tile(series.values(goal), laid.turns)
    priced = PRICE in series.table.columns
    price = np.tile(series.values(PRICE), laid.turns) if priced else np.full(len(x), np.nan)
    now, paid_now = work.cost(x, work.submit), work.cost(price, work.submit)
    core_h, run_ms = work.run * work.cores, np.rint(work.run * _HOUR_MS)

    def as_known(rule: Rule) -> Work:
        return work._replace(known=work.run) if rule.forecast == "perfect" else work

    def most_cores(delay: NDArray[np.float64] | float) -> int:
        # Whole numbers, since sums of hours may miss that one job ends where another starts.
        begin_ms = np.rint((laid.begins + delay) * _HOUR_MS)
        return int(peak(begin_ms, begin_ms + run_ms, work.cores))

    def per_energy(saved: NDArray[np.float64]) -> float | None:
        known = ~np.isnan(saved)
        energy = work.run[known] @ work.cores[known]
        return float(saved[known].sum() / energy) if known.any() else None

    def row(
        name: str, rule: Rule, cost: NDArray[np.float64], **more: float | None
    ) -> dict[str, Any]:
        known = ~np.isnan(cost)
        low, high = _interval(now[known], cost[known], laid.weeks[known])
        before, saved = now[known].sum(), per_energy(now - cost)
        return {
            "rule": name, "foresight": rule.forecast == "perfect",
            # a share of nothing, or of money that is earned, is unknown
            "saved_percent": 100 * (1 - cost[known].sum() / before) if before > 0 else None,
            "low": low, "high": high, "saved_g_per_kwh": saved if goal == CARBON else None,
            "saved_per_mwh": saved if goal == PRICE else None, "wait_h": None,
            "wait_h_per_core_hour": None, "peak_cores": None, "late": None, **more,
        }  # fmt: skip

    used = most_cores(0.0)
    limited = replace(RULES[BEST], capacity=used)
    rows = []
    for name, rule in {**RULES, f"{BEST}, on {used:,} cores": limited}.items():
        start = starts(as_known(rule), x, rule)
        delay = start - work.submit
        rows.append(row(
            name, rule, work.cost(x, start),
            saved_per_mwh=per_energy(paid_now - work.cost(price, start)),
            wait_h=float(delay.mean()),
            wait_h_per_core_hour=float(delay @ core_h) / float(work.run @ work.cores),
            peak_cores=most_cores(delay), late=int((delay > work.wait + 1e-9).sum()),
        ))  # fmt: skip
    for name, rule in PIECES.items():
        paid, end = paused(as_known(rule), x, rule)
        waited = float((end - work.run - work.submit).mean())
        rows.append(row(name, rule, paid * work.cores, wait_h=waited))
    best = bound(work, x) * work.cores
    return [*rows, row("best start", Rule("now", "perfect"), best)]


def _interval(
    now: NDArray[np.float64], cost: NDArray[np.float64], weeks: NDArray[np.int64]
) -> tuple[float | None, float | None]:
    """Return the interval of the saved share in percent; None with few weeks."""
    sums = np.array([np.bincount(weeks, values) for values in (now, cost)])
    sums = sums[:, sums[0] != 0]
    if sums.shape[1] < _FEW or sums[0].sum() <= 0:
        return None, None
    change = relative_difference(sums[1], sums[0])
    return 100 * (0.0 - change.high), 100 * (0.0 - change.low)  # unlike -x, keeps a zero +0.0


def conclusion(rows: list[dict[str, Any]], laid: Laid) -> list[str]:
    """Return the conclusions from the rows, and their limits, as sentences."""
    of = {row["rule"]: row for row in rows}
    now, best, most = (of[name] for name in ("as it happened", BEST, "best start"))
    used, jobs, total = now["peak_cores"], len(laid.begins), len(laid.begins) + laid.outside
    limited = of[f"{BEST}, on {used:,} cores"]
    sign = -1.0 if (best["saved_percent"] or 0.0) < 0.0 else 1.0  # below 0: it costs more
    left = "touch hours that are unknown or outside of the series"
    few = laid.outside > _MANY * total
    lines = [f"Only {jobs:,} of {total:,} jobs are counted: the others {left}."] if few else []
    if best["saved_percent"] is None:
        lines.append("Electricity as it was used cost nothing or less: shares of it are unknown.")
    elif best["low"] is None:
        lines.append(f"Fewer than {_FEW} weeks of jobs: the numbers are of these weeks alone.")
    elif best["low"] <= 0 <= best["high"]:
        lines.append(f"Not shown: the interval of what is saved begins at {best['low']:.1f} %.")
    grams, share = best["saved_g_per_kwh"], _percent(best, sign)
    of_what = f"of the money for electricity, {sign * (best['saved_per_mwh'] or 0):.2f} per MWh"
    if grams is not None:
        of_what = f"of the carbon, {sign * grams:.1f} g/kWh"
    if best["low"] is not None:
        ends = sorted((sign * best["low"], sign * best["high"]))
        share += " ({:.1f} to {:.1f}, 95 % over weeks)".format(*ends)
    sees = "sees no hour to come"
    if np.array_equal(laid.work.known, laid.work.run):
        sees += " but knows how long each job runs"
    what = f"saved {share}" if sign > 0.0 else f"cost {share} more"
    lines.append(
        f"Starting later by `{BEST}`, which {sees}, would have {what} {of_what}. The best starts "
        f"that there are save {_percent(most)}."
    )
    lines.append(
        f"Jobs would have started {best['wait_h']:.1f} h later on average, "
        f"{best['wait_h_per_core_hour']:.1f} h by core-hours, with up to {best['peak_cores']:,} "
        f"cores at one moment in place of {used:,}."
    )
    rest = f"{_percent(limited)} is left"
    if (limited["saved_percent"] or 0.0) < 0.0:
        rest = f"it costs {_percent(limited, -1.0)} more"
    lines.append(
        f"On {used:,} cores {rest}, with starts "
        f"{limited['wait_h']:.1f} h later and {limited['late']:,} of {jobs:,} jobs "
        "beyond their slack."
    )
    if grams is not None and best["saved_per_mwh"] is not None:
        lines.append(
            f"Money for electricity changes by {0.0 - best['saved_per_mwh']:+.2f} per MWh."
        )
    lines.append(
        f"{laid.known}; {laid.note}. "
        + ("" if few else f"{laid.outside:,} jobs are not counted, since they {left}. ")
        + ("Carbon is the zone's average, not that of the marginal plant, and power"
           if grams is not None else "Power")
        + " of idle nodes is not counted."
    )  # fmt: skip
    return lines


def _percent(row: Mapping[str, Any], sign: float = 1.0) -> str:
    share = row["saved_percent"]
    return "an unknown share" if share is None else f"{sign * share:.1f} %"
