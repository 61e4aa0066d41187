"""Caveats of a log whose columns may have another unit or meaning than they were read with.

No unit is known for certain, so each is judged by its fit: a job seldom runs longer than its limit,
few run longer than the log, and no machine does many times the work that it can do. Thresholds are
between what the logs of the Parallel Workloads Archive show and what they show once a column is
multiplied by 60 or 1,000.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.caveats import Caveat, share_text
from hindcast.pipeline.workloads.log_columns import LogColumns, job_count, span_text

LIMITS_EXCEEDED: Final = "limits_exceeded"
LIMITS_FAR: Final = "limits_far_above_runs"
LIMITS_OF_RUNS: Final = "limits_follow_runs"
RUNS_BEYOND_LOG: Final = "runs_longer_than_log"
CORE_UNIT: Final = "unit_of_processors"
MEMORY_UNIT: Final = "unit_of_memory"
IDLE_BUT_WAITING: Final = "waits_on_an_idle_machine"
TOO_MANY_NAMES: Final = "too_many_names"

_FEWEST: Final = 50  # jobs, below which a share says nothing about a unit
_ABOVE_LIMIT: Final = 0.2  # of the jobs; logs of the archive have at most a tenth
_LIMIT_KEPT: Final = 0.15  # of the jobs above their limits, in the right unit
# Factor between a limit and the run time -> what it may mean.
_ABOVE: Final = (
    (60, "is the limit in minutes?"),
    (1000, "is the run time in milliseconds?"),
    (3600, "is the limit in hours?"),
)
_FAR: Final = (
    (60, "is the limit in seconds, or the run time in minutes?"),
    (1000, "is the limit in milliseconds?"),
    (3600, "is the run time in hours?"),
)
_BEYOND_FAR: Final = 0.01  # of the jobs, above three such parts of their limits
_NEAR_FAR: Final = 0.02  # of the jobs, about such a part of their limits
_FEWEST_LIMITS: Final = 3
_ONE_RATIO: Final = 0.5  # of the jobs with a limit
_FEWEST_RUNS: Final = 20  # different run times; with fewer, one ratio is no wonder
_LONGER_THAN_LOG: Final = 0.05  # of the jobs
_HUNDREDS: Final = 0.95  # of the jobs
_IDLE: Final = 0.05  # of the machine
_LONG_WAITS: Final = 10  # times the mean run
_MOST_MEMORY_KB: Final = 2.0**30  # per processor, in more than half of the jobs
_LEAST_MEMORY_KB: Final = 100.0
# Column -> share of different values among the jobs that a column of this meaning does not have.
_DISTINCT: Final = {
    "queue": 0.2, "partition": 0.2, "qos": 0.2, "cluster": 0.2, "account": 0.5, "group": 0.5,
    "user": 0.5,
}  # fmt: skip
_FEWEST_NAMES: Final = 20
_SAME: Final = 0.9  # of the jobs
_FEWEST_BOTH: Final = 20  # jobs, below which a share says nothing about a unit
_LONG_RUN_S: Final = 60.0
_FAR_TIMES: Final = 10.0  # times end - start, or a part of it
_FAR_SHARE: Final = 0.05  # of the jobs
# Factor between end - start and the run time -> what it may mean.
_ENDS: Final = (
    (60.0, "is the run time in minutes?"), (1 / 60, "is the run time in seconds, not minutes?"),
    (3600.0, "is the run time in hours?"),
    (0.001, "is the run time in milliseconds?"), (1000.0, "are starts and ends in milliseconds?"),
)  # fmt: skip


def unit_caveats(log: LogColumns) -> Iterator[Caveat]:
    """Yield the caveats of columns whose unit or meaning does not fit the other columns."""
    yield from _limits(log)
    yield from _limits_of_runs(log)
    if log.tasks.height >= _FEWEST:
        yield from _runs(log)
        yield from _processors(log)
        yield from _memory(log)
        yield from _idle(log)
    yield from _names(log)


def _limits(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if run times are mostly above the limits, or all far below."""
    limited = ~log.derived & (log.requested > 0)
    run, limit = log.run[limited], log.requested[limited]
    if not len(run):
        return
    above = float((run > limit).mean())
    if above > _ABOVE_LIMIT:
        fits = (text for size, text in _ABOVE if (run > limit * size).mean() <= _LIMIT_KEPT)
        n, _, work = log.shares(limited & (log.run > log.requested))
        text = (
            f"{n:,} of {len(run):,} jobs with a time limit ({share_text(above)} of them, "
            f"{share_text(work)} of the work) ran longer than it: "
            f"{next(fits, 'is the limit in another unit?')}"
        )
        yield Caveat(LIMITS_EXCEEDED, text, {"jobs": n, "share": above, "work_share": work})
    elif len(run) >= _FEWEST:
        for size, question in _FAR:
            part = run * size / limit
            near = (part >= 0.5) & (part <= 1.1)
            if (
                (part > 3).mean() <= _BEYOND_FAR
                and near.mean() >= _NEAR_FAR
                and len(np.unique(limit[near])) >= _FEWEST_LIMITS
            ):
                n = int((part > 1.1).sum())
                text = (
                    f"{n:,} of {len(run):,} jobs with a time limit ({share_text(n / len(run))}) "
                    f"ran longer than a {size:,}th of it, and {int(near.sum()):,} about so long: "
                    f"{question}"
                )
                yield Caveat(LIMITS_FAR, text, {"jobs": n, "near": int(near.sum()), "size": size})
                return


def _limits_of_runs(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if most limits are the run times times one number."""
    limited = ~log.derived & (log.requested > 0)
    run, limit = log.run[limited], log.requested[limited]
    if len(np.unique(run)) < _FEWEST_RUNS:
        return
    ratios, counts = np.unique(np.round(limit / run, 6), return_counts=True)
    share = float(counts.max()) / len(run)
    if share > _ONE_RATIO:
        n, ratio = int(counts.max()), float(ratios[counts.argmax()])
        text = (
            f"{n:,} of {len(run):,} jobs with a time limit ({share_text(share)}) have {ratio:.4g} "
            "times their run time as the limit: rules that read it know how long jobs run"
        )
        yield Caveat(LIMITS_OF_RUNS, text, {"jobs": n, "share": share, "ratio": ratio})


def _runs(log: LogColumns) -> Iterator[Caveat]:
    span = float(np.ptp(log.submit))
    n, jobs, work = log.shares(log.run > span)
    if jobs > _LONGER_THAN_LOG:
        text = (
            f"{job_count(n, jobs, work)} ran longer than the {span_text(span)} in which jobs were "
            "submitted: are run times in milliseconds, or is this a short piece of a log?"
        )
        yield Caveat(RUNS_BEYOND_LOG, text, {"jobs": n, "share": jobs, "work_share": work})


def _processors(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if nearly all jobs have whole hundreds of processors, and not all the same."""
    cpu = log.cpu
    hundreds = cpu % 100 == 0
    n, jobs, work = log.shares(hundreds)
    if jobs >= _HUNDREDS and len(np.unique(cpu)) > 1:
        unit = "thousandths" if (cpu % 1000 == 0).mean() >= _HUNDREDS / 2 else "hundredths"
        text = (
            f"{job_count(n, jobs, work)} have whole hundreds of processors, at least "
            f"{int(cpu.min()):,}: are they in {unit} of a processor?"
        )
        yield Caveat(CORE_UNIT, text, {"jobs": n, "share": jobs, "work_share": work})


def _memory(log: LogColumns) -> Iterator[Caveat]:
    if "memory_kb" not in log.tasks.columns:
        return
    known = log.tasks["memory_kb"].fill_null(0.0).to_numpy()
    asked = known > 0
    if asked.sum() < _FEWEST:
        return
    median = float(np.median(known[asked]))
    for jobs, bound, unit in (
        (known > _MOST_MEMORY_KB, "more than 1 TiB", "is it in bytes?"),
        (asked & (known < _LEAST_MEMORY_KB), "less than 100 KB", "is it in MB or GB?"),
    ):
        if jobs.sum() > 0.5 * asked.sum():
            text = (
                f"{job_count(*log.shares(jobs))} have {bound} of memory a processor, with a median "
                f"of {median:,.4g} KB a processor: {unit}"
            )
            yield Caveat(MEMORY_UNIT, text, {"jobs": int(jobs.sum()), "median_kb": median})


def _idle(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if jobs wait for long, although the machine has hardly anything to do."""
    if "wait_s" not in log.tasks.columns or log.unknown("wait_s").all() or not log.load:
        return
    held = pl.lit(0.0)  # by the user, or by another job
    if "eligible_s" in log.tasks.columns:
        held = (pl.col("eligible_s") - pl.col("submit_s")).clip(lower_bound=0).fill_null(0.0)
    waits = log.tasks.select(pl.col("wait_s") - held).to_series().drop_nulls()
    wait, run = float(waits.to_numpy().mean()), float(log.run.mean())
    if log.load < _IDLE and wait > _LONG_WAITS * run:
        text = (
            f"jobs wait {span_text(wait)} in the mean, {wait / run:,.0f} times as long as they "
            f"run, though {share_text(log.load)} of the {log.processors:,.0f} processors are in "
            "use: are run times in minutes or hours, or submissions and starts in milliseconds?"
        )
        yield Caveat(IDLE_BUT_WAITING, text, {"wait_s": wait, "run_s": run, "load": log.load})


def _names(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if a column of names has more values per job than _DISTINCT admits."""
    tasks, told, most = log.tasks, [], 0
    for name, share in _DISTINCT.items():
        if name not in tasks.columns or (name == "queue" and log.queues_are_partitions):
            continue
        known = tasks.select(name, "wait_s").drop_nulls(name)
        n = known[name].n_unique()
        if n <= max(_FEWEST_NAMES, share * known.height):
            continue
        is_wait = (known[name].cast(pl.Float64) == known["wait_s"]).fill_null(value=False)
        same = float(is_wait.to_numpy().mean())
        wait = f" and is the wait in {share_text(same)} of them" if same >= _SAME else ""
        told.append(f"{name} has {n:,} values in {known.height:,} jobs{wait}")
        most = max(most, n)
    if told:
        text = (
            f"{'; '.join(told)}: does the column have another meaning? Pools, groups and users are "
            "taken from it"
        )
        yield Caveat(TOO_MANY_NAMES, text, {"columns": len(told), "most": most})


def run_notes(rows: pl.DataFrame) -> list[str]:
    """Return a note if run times of more than 5 % of the jobs are far from end - start.

    A tenth or ten times of it is far: suspended jobs run for less, but hardly for a tenth.
    """
    run, by_ends = pl.col("duration_s"), pl.col("run_by_ends")
    both = rows.filter(by_ends.is_not_null(), pl.max_horizontal(run, by_ends) >= _LONG_RUN_S)
    ratio = (both["run_by_ends"] / both["duration_s"]).to_numpy()
    far = (ratio > _FAR_TIMES) | (ratio < 1 / _FAR_TIMES)
    if len(far) < _FEWEST_BOTH or far.mean() <= _FAR_SHARE:
        return []
    middle = float(np.median(ratio[far]))
    fits = (text for size, text in _ENDS if abs(middle / size - 1) < _FAR_SHARE)
    n = int(far.sum())
    note = (
        f"{cv.CAUTION}{cv.RUNS_DIFFER} for {n:,} jobs ({share_text(n / rows.height)} of them), "
        f"whose end - start is {middle:.4g} times the run time in the middle: "
        f"{next(fits, 'is a column taken for another?')}"
    )
    return [note]
