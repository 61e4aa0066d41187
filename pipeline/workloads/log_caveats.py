"""Facts about a log of jobs that limit what can be said about its machine.

The list is the same for every format: it is measured on the columns of a workload, and on the
counts and notes that its reader left. Shares of work are shares of processors x run time. Some of
the facts rule out that one policy is called better than another on this log: DISQUALIFYING.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.caveats import Caveat, of_provenance, share_text
from hindcast.pipeline.workloads.log_names import names_of
from hindcast.pipeline.workloads.schema import Workload

FEW_JOBS: Final = "few_jobs"
LIMITS_EXCEEDED: Final = "limits_exceeded"
UNKNOWN_WAITS: Final = "unknown_waits"
UNKNOWN_ASKS: Final = "unknown_asks"
CLUSTERS_POOLED: Final = "clusters_pooled"
PARTITIONS_POOLED: Final = "partitions_pooled"
OVERLOADED: Final = "overloaded"
QUARANTINED: Final = "quarantined"
GPUS: Final = "gpus"
HARDLY_ANY_WAITS: Final = "hardly_any_waits"
WAITS_WHILE_FITTING: Final = "waits_while_fitting"
_SIZE: Final = (
    "the processors of the machine (--set processors=N; for SWF, MaxProcs of the header; for a "
    "table, its mapping)"
)
# Code of a caveat that rules out a word of gain -> what would mend it.
DISQUALIFYING: Final[Mapping[str, str]] = {
    cv.NO_CLUSTER_SIZE: _SIZE,
    cv.NO_LIMITS: "the time limits with which the jobs were submitted",
    cv.NO_WAIT_TIMES: "the times at which the jobs started",
    UNKNOWN_WAITS: "the starts of these jobs",
    UNKNOWN_ASKS: "what these jobs asked for",
    FEW_JOBS: "a longer log",
    LIMITS_EXCEEDED: "the unit of the time limits",
    CLUSTERS_POOLED: "the log of one cluster alone",
    PARTITIONS_POOLED: "the processors of each partition (--pools NAME=PROCESSORS,...)",
    OVERLOADED: _SIZE,
    QUARANTINED: "rows that can be read",
    GPUS: "the GPUs of the machine (whatif --capacity gpus=N)",
}

_SHARE: Final = 0.05  # of jobs or of work, above which an unknown value rules out a word of gain
_SMALL: Final = 0.01  # below which it is not worth a warning
_LEAST_JOBS: Final = 400
_OVERLOAD: Final = 1.2
_ABOVE_LIMIT: Final = 0.2  # of the jobs; logs of the archive have at most a tenth
_LIMIT_KEPT: Final = 0.05  # of the jobs above their limits, in the right unit
_UNITS: Final = ((60, "minutes"), (3600, "hours"), (0.001, "milliseconds"))  # in s
_FAR: Final = 5.0  # times its limit that a runaway has run, and longer than jobs were submitted
_FAR_WITHOUT_LIMIT: Final = 100.0  # times the median run time, where no limit is known
_LONG_WAIT_S: Final = 60.0
_WAITS: Final = 0.05  # of the jobs wait so long; with fewer, nearly nobody waits
_FITTING: Final = 0.5  # of the waiting
_DERIVED: Final = "requested_s from duration_s"  # a count of the readers
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class _Log:
    """Columns of a log, each (J,), and what its reader counted."""

    workload: Workload

    @cached_property
    def tasks(self) -> pl.DataFrame:
        return self.workload.tasks

    @cached_property
    def run(self) -> NDArray[np.float64]:
        return self.tasks["duration_s"].to_numpy()

    @cached_property
    def submit(self) -> NDArray[np.float64]:
        return self.tasks["submit_s"].to_numpy()

    @cached_property
    def cpu(self) -> NDArray[np.float64]:
        """Processors that jobs held; where the log does not know, those they requested."""
        cpu = pl.col("cores") * pl.col("instances")
        if {"allocated_cores", "requested_cores"} <= set(self.tasks.columns):
            known = [pl.col("allocated_cores"), pl.col("requested_cores")]
            cpu = pl.coalesce(*(pl.when(column > 0).then(column) for column in known), cpu)
        return self.tasks.select(cpu.cast(pl.Float64)).to_series().to_numpy()

    @cached_property
    def work(self) -> NDArray[np.float64]:
        return self.cpu * self.run

    @cached_property
    def requested(self) -> NDArray[np.float64]:
        if "requested_s" not in self.tasks.columns:
            return self.run
        return self.tasks["requested_s"].fill_null(strategy="zero").to_numpy()

    @cached_property
    def derived(self) -> NDArray[np.bool_]:
        """Which requests may be run times: exactly those, if `n_derived` is as many."""
        if (self.requested == self.run).all():
            return np.ones(len(self.run), bool)
        if "request_unknown" in self.tasks.columns:
            return self.tasks["request_unknown"].to_numpy()
        if not self.workload.provenance.counts.get(_DERIVED):
            return np.zeros(len(self.run), bool)
        same: NDArray[np.bool_] = self.requested == self.run
        return same

    @property
    def n_derived(self) -> int:
        marked = int(self.derived.sum())
        if marked == len(self.run) or "request_unknown" in self.tasks.columns:
            return marked
        return min(self.workload.provenance.counts.get(_DERIVED, 0), marked)

    @cached_property
    def processors(self) -> float:
        machines = self.workload.machines
        return 0.0 if machines is None else float(machines["cores"].sum())

    def unknown(self, name: str) -> NDArray[np.bool_]:
        """Return for which jobs the value of a column is not known."""
        if name not in self.tasks.columns:
            return np.ones(len(self.run), bool)
        return self.tasks[name].is_null().to_numpy()

    def shares(self, jobs: NDArray[np.bool_]) -> tuple[int, float, float]:
        """Return the number of some jobs, their share of the jobs, and their share of the work."""
        n = int(jobs.sum())
        return n, n / max(len(jobs), 1), float(self.work[jobs].sum() / self.work.sum())

    def groups(self, name: str) -> list[tuple[int, float, float]]:
        """Return the number, share of the jobs and of the work of each group, the largest first."""
        if name not in self.tasks.columns:
            return []
        groups = (
            pl.DataFrame({"group": self.tasks[name], "work": self.work})
            .drop_nulls()
            .group_by("group")
            .agg(jobs=pl.len() / len(self.run), work=pl.col("work").sum() / self.work.sum())
            .sort("work", "group", descending=[True, False])
        )
        return [(int(group), jobs, work) for group, jobs, work in groups.iter_rows()]


def log_caveats(
    workload: Workload,
    *,
    pools: bool = False,
    fitting: float | None = None,
    resources: Collection[str] = (),
) -> tuple[Caveat, ...]:
    """Return the facts about a log that limit what can be said, notes of its reader included.

    Args:
        workload: The log.
        pools: Whether its partitions are played as pools of their own.
        fitting: Share of the recorded waiting (job-seconds) while the job would have fitted.
        resources: Resources of the simulated machine beside its processors.

    Returns:
        The caveats, one for each fact.
    """
    noted = of_provenance(workload.provenance)
    if workload.tasks.is_empty():
        return noted
    log = _Log(workload)
    has_gpus = any(name.partition(":")[0] == "gpus" for name in resources)
    measured = [
        *_waits(log), *_requests(log), *_above_limits(log), *_load(log), *_wide(log),
        *_pooled(log, pools=pools), *(() if has_gpus else _gpus(log)), *_runaways(log),
        *_quarantined(log), *_clock(log),
    ]  # fmt: skip
    if log.tasks.height < _LEAST_JOBS:
        text = f"the log has {log.tasks.height:,} jobs: too few to tell policies apart"
        measured.append(Caveat(FEW_JOBS, text, {"jobs": log.tasks.height}))
    if fitting is not None and fitting > _FITTING:
        text = (
            f"jobs waited although they fitted for {share_text(fitting)} of the recorded waiting: "
            "limits, reservations or partitions that the simulated machine does not have"
        )
        measured.append(Caveat(WAITS_WHILE_FITTING, text, {"share": fitting}))
    codes = {caveat.code for caveat in measured}
    sized = {cv.NO_CLUSTER_SIZE: {"processors": log.processors}}
    kept = (
        replace(caveat, numbers=sized.get(caveat.code, caveat.numbers))
        for caveat in noted
        if caveat.code not in codes
    )
    return (*kept, *measured)


def reader_caveats(workload: Workload) -> tuple[Caveat, ...]:
    """Return the caveats of a workload as its reader left it: those of a log, if it is one."""
    if "requested_s" in workload.tasks.columns:
        return log_caveats(workload)
    return of_provenance(workload.provenance)


def requests_known(workload: Workload) -> bool:
    """Return whether rules that read requested times know no run times: in 95 % of the jobs."""
    log = _Log(workload)
    return log.n_derived <= _SHARE * log.tasks.height


def _count(n: int, jobs: float, work: float) -> str:
    """Return a number of jobs with shares: `12 jobs (3.1% of them, 20% of the work)`."""
    noun = "job" if n == 1 else "jobs"
    return f"{n:,} {noun} ({share_text(jobs)} of them, {share_text(work)} of the work)"


def _requests(log: _Log) -> Iterator[Caveat]:
    n, work = log.n_derived, log.shares(log.derived)[2]
    jobs, exact = n / log.tasks.height, n == int(log.derived.sum())
    if max(jobs, work if exact else 0.0) < _SMALL:
        return
    code = cv.NO_LIMITS if jobs > _SHARE else "some_requests_are_run_times"
    text = cv.NO_REQUESTS
    if not log.workload.provenance.counts.get(_DERIVED) and "requested_s" in log.tasks.columns:
        text = "every time limit is the run time, so that rules that read it know how long jobs run"
    if n < log.tasks.height:
        share = share_text(work) if exact else f"at most {share_text(work)}"
        text = (
            f"no time limit is known for {n:,} jobs ({share_text(jobs)} of them, {share} of the "
            "work): their run times stand for it, so that rules that read it know how long they run"
        )
    yield Caveat(code, text, {"jobs": n, "share": jobs, "work_share": work})


def _above_limits(log: _Log) -> Iterator[Caveat]:
    limited = ~log.derived
    run, limit = log.run[limited], log.requested[limited]
    above = float((run > limit).mean()) if len(run) else 0.0
    if above <= _ABOVE_LIMIT:
        return
    n = int((run > limit).sum())
    fits = (unit for size, unit in _UNITS if float((run > limit * size).mean()) <= _LIMIT_KEPT)
    unit = next(fits, "another unit")
    text = (
        f"{n:,} of {len(run):,} jobs with a time limit ({share_text(above)}) ran longer than it: "
        f"is the limit in {unit}?"
    )
    yield Caveat(LIMITS_EXCEEDED, text, {"jobs": n, "share": above})


def _waits(log: _Log) -> Iterator[Caveat]:
    unknown = log.unknown("wait_s")
    n, jobs, work = log.shares(unknown)
    if unknown.all():
        text = f"{cv.NO_WAIT}: nothing can be compared with the recorded scheduler"
        noted = of_provenance(log.workload.provenance)
        yield next((c for c in noted if c.code == cv.NO_WAIT_TIMES), Caveat(cv.NO_WAIT_TIMES, text))
    if unknown.all():
        return
    waited = float((log.tasks["wait_s"].drop_nulls().to_numpy() >= _LONG_WAIT_S).mean())
    if waited < _WAITS:
        text = f"nearly nobody waits: {share_text(waited)} of the jobs waited for a minute or more"
        yield Caveat(HARDLY_ANY_WAITS, text, {"waited": waited})
    if max(jobs, work) < _SMALL:
        return
    text = (
        f"the start of {_count(n, jobs, work)} is unknown: they count in no recorded wait, and the "
        "scheduler of the log is known by the others alone"
    )
    code = UNKNOWN_WAITS if work > _SHARE else "some_unknown_waits"
    yield Caveat(code, text, {"jobs": n, "share": jobs, "work_share": work})


def _load(log: _Log) -> Iterator[Caveat]:
    """Yield a caveat if the jobs are more work than the machine can do in the span of the log."""
    span = float((log.submit + log.run).max() - log.submit.min())
    load = float(log.work.sum()) / (log.processors * span) if log.processors else 0.0
    if load > _OVERLOAD:
        text = (
            f"the jobs are {load:.2f} times the work that {log.processors:,.0f} processors can do "
            f"in the {_span(span)} of the log: the machine is larger, or jobs share processors"
        )
        yield Caveat(OVERLOADED, text, {"load": load, "processors": log.processors})


def _wide(log: _Log) -> Iterator[Caveat]:
    wide = np.ceil(log.cpu) > log.processors
    if log.processors and wide.any():
        n, jobs, work = log.shares(wide)
        text = (
            f"{_count(n, jobs, work)} held more than the {log.processors:,.0f} processors of the "
            "machine and are left out: is it larger?"
        )
        yield Caveat("wider_than_machine", text, {"jobs": n, "share": jobs, "work_share": work})


def _pooled(log: _Log, *, pools: bool) -> Iterator[Caveat]:
    clusters = log.groups("cluster")
    if len(clusters) > 1:
        named = _listed(log.workload, "cluster", clusters)
        text = (
            f"{len(clusters)} clusters are pooled as one machine: {named}; read one of them "
            "(--set cluster=NAME)"
        )
        yield Caveat(CLUSTERS_POOLED, text, {"clusters": len(clusters)})
    partitions = log.groups("partition")
    if pools or len(partitions) < 2 or sum(work for _, _, work in partitions[1:]) <= _SHARE:
        return
    named = _listed(log.workload, "partition", partitions)
    text = (
        f"{len(partitions)} partitions are played as one pool of {log.processors:,.0f} processors, "
        f"which each job can use wholly: {named}"
    )
    rest = sum(work for _, _, work in partitions[1:])
    numbers = {"partitions": len(partitions), "work_share_outside_largest": rest}
    yield Caveat(PARTITIONS_POOLED, text, numbers)


def _listed(workload: Workload, name: str, groups: list[tuple[int, float, float]]) -> str:
    """Return the largest groups: `a 60% of the jobs and 9.0% of the work, b 40% and 91%`."""
    names = names_of(workload, name)
    listed = [
        f"{names.get(g, f'{name} {g}')} {share_text(jobs)}{of_jobs} and {share_text(work)}{of_work}"
        for (g, jobs, work), of_jobs, of_work in zip(
            groups[:4], (" of the jobs", "", "", ""), (" of the work", "", "", ""), strict=False
        )
    ]
    return ", ".join(listed) + (", ..." if len(groups) > len(listed) else "")


def _gpus(log: _Log) -> Iterator[Caveat]:
    if "gpus" not in log.tasks.columns:
        return
    held = (log.tasks["gpus"].fill_null(0) > 0).to_numpy()
    if held.any():
        n, jobs, work = log.shares(held)
        hours = float(log.work[held].sum()) / _HOUR_S
        text = (
            f"{_count(n, jobs, work)} held GPUs, for {hours:,.0f} core hours: the simulated "
            "machine has none, so that these jobs do not compete for them"
        )
        numbers = {"jobs": n, "share": jobs, "work_share": work, "core_hours": hours}
        yield Caveat(GPUS if work > _SHARE else "some_gpus", text, numbers)


def _runaways(log: _Log) -> Iterator[Caveat]:
    """Yield a caveat for runs far longer than their limit, and longer than the log around them."""
    span = float(np.ptp(log.submit))
    typical = float(np.median(log.run))
    # A job without a limit has the largest one, or its run time.
    unlimited = log.derived | (log.requested == log.run)
    beyond_limit = np.where(
        unlimited, log.run > _FAR_WITHOUT_LIMIT * typical, log.run > _FAR * log.requested
    )
    runaway = beyond_limit & (log.run > max(span, typical))
    if not runaway.any():
        return
    n, jobs, work = log.shares(runaway)
    longest = int(np.argmax(np.where(runaway, log.run, 0.0)))
    run, limit = float(log.run[longest]), float(log.requested[longest])
    of_limit = "" if unlimited[longest] else f", {run / limit:,.0f} times its limit"
    text = (
        f"{_count(n, jobs, work)} ran longer than the {_span(span)} in which jobs were "
        f"submitted, job {log.tasks['job_id'][longest][:40]} for {_span(run)}{of_limit}: ends that "
        "were not recorded? Means and the load hang on them"
    )
    yield Caveat("runaways", text, {"jobs": n, "longest_s": run, "work_share": work})


def _quarantined(log: _Log) -> Iterator[Caveat]:
    provenance = log.workload.provenance
    bad = provenance.left_out.get("quarantined", 0)
    read = provenance.counts.get("rows_read", 0) - sum(provenance.left_out.values()) + bad
    if read > 0 and bad > _SHARE * read:
        text = (
            f"{bad:,} of {read:,} rows of jobs ({share_text(bad / read)}) could not be used and "
            "are not among the jobs: `hindcast ingest` writes them to quarantine.parquet"
        )
        yield Caveat(QUARANTINED, text, {"rows": bad, "share": bad / read})


def _clock(log: _Log) -> Iterator[Caveat]:
    """Yield a caveat if times without a zone go over a change of clocks."""
    notes = log.workload.provenance.notes
    origins = [n.partition(": ")[2] for n in notes if n.startswith("UnixStartTime: ")]
    if not any(n.startswith(cv.NO_ZONE) for n in notes) or not origins or not origins[0].isdigit():
        return
    begin = int(origins[0])
    end = begin + float(log.submit.max())
    told, most = [], 0
    for place, changes in _CHANGES.items():
        years = range(_date(begin).year, _date(end).year + 1)
        within = [d for year in years for d in changes(year) if begin < d.timestamp() < end]
        if within:
            after = int((log.submit + begin >= within[0].timestamp()).sum())
            told.append(f"in {place} on {within[0]:%Y-%m-%d}, with {after:,} submissions after it")
            most = max(most, after)
    if told:
        text = (
            "times without an offset from UTC are read as UTC, but clocks change within the log "
            f"({'; '.join(told)}; of {log.tasks.height:,}): if the machine's did, times after it "
            "are an hour off. Set time_zone, Etc/UTC if it was UTC"
        )
        yield Caveat("clock_change", text, {"jobs": most})


def _date(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _sunday(year: int, month: int, day: int) -> datetime:
    """Return the first Sunday on or after a day."""
    date = datetime(year, month, day, 2, tzinfo=UTC)
    return date + timedelta(days=(6 - date.weekday()) % 7)


def _europe(year: int) -> tuple[datetime, datetime]:
    return _sunday(year, 3, 25), _sunday(year, 10, 25)  # the last Sundays


def _north_america(year: int) -> tuple[datetime, datetime]:
    return _sunday(year, 3, 8), _sunday(year, 11, 1)


def _australia(year: int) -> tuple[datetime, datetime]:
    return _sunday(year, 4, 1), _sunday(year, 10, 1)


# Where clocks change -> the days of a year on which they do.
_CHANGES: Final = {"Europe": _europe, "North America": _north_america, "Australia": _australia}


def _span(seconds: float) -> str:
    """Return a time span in days, hours or seconds."""
    for size, unit in ((_DAY_S, "days"), (_HOUR_S, "h")):
        if seconds >= 2 * size:
            return (
                f"{seconds / size:,.3g} {unit}"
                if seconds < 100 * size
                else (f"{seconds / size:,.0f} {unit}")
            )
    return f"{seconds:,.0f} s"


def missing_fields(workload: Workload, resources: Collection[str] = ()) -> tuple[str, ...]:
    """Return a sentence for everything that a log does not say, and what follows from it.

    `resources` are those of the simulated machine beside its processors.
    """
    log = _Log(workload)
    return tuple(_missing(log, {name.partition(":")[0] for name in resources}))


def _missing(log: _Log, resources: Collection[str]) -> Iterator[str]:
    tasks = log.tasks
    if (starts := log.unknown("wait_s")).all():
        yield (
            "Starts of jobs: without them the log's own scheduler has no row, runs begin with an "
            "empty machine, and the simulated machine cannot be compared with the real one."
        )
    elif starts.any():
        yield f"The starts of {_count(*log.shares(starts))}: they are in no recorded number."
    if log.n_derived == tasks.height:
        yield (
            "Requested times: without them the run time stands for the request, so that every rule "
            "that reads it knows the future."
        )
    elif log.n_derived:
        yield (
            f"The requested times of {log.n_derived:,} jobs "
            f"({share_text(log.n_derived / tasks.height)} of them): their run times stand for them."
        )
    if log.unknown("user").all():
        yield "Users: without them there are no predictions from earlier jobs, and no fairness."
    if (eligible := log.unknown("eligible_s")).all():
        yield (
            "The time at which a job became eligible: holds and dependencies of users count as "
            "waits of the scheduler here."
        )
    elif eligible.any():
        yield f"The time at which {_count(*log.shares(eligible))} became eligible."
    yield from _missing_limits(log)
    if any(c.code == cv.NO_CLUSTER_SIZE for c in of_provenance(log.workload.provenance)):
        yield "The size of the machine: it was taken from the jobs, so that it may be too small."
    if (
        "gpus" in tasks.columns
        and "gpus" not in resources
        and (held := (tasks["gpus"].fill_null(0) > 0).to_numpy()).any()
    ):
        yield (
            f"The GPUs of the machine: {_count(*log.shares(held))} held some, and the simulated "
            "machine does not count them."
        )
    if (log.tasks["memory"] > 0).any() and "memory" not in resources:
        yield "The memory of the machine: the log has that of jobs, and it limits nothing here."
    yield (
        "Outages, reservations, limits per user and holds: no log of this kind has them; a "
        "scheduler that respects them looks slow beside one that need not."
    )


def _missing_limits(log: _Log) -> Iterator[str]:
    """Yield what is not known of queues and partitions."""
    numbers = {name: len(log.groups(name)) for name in ("partition", "queue")}
    same = (
        numbers["partition"]
        and "queue" in log.tasks.columns
        and (log.tasks["queue"].equals(log.tasks["partition"]))
    )
    several = {name: n for name, n in numbers.items() if n > 1 and not (name == "queue" and same)}
    if not several:
        yield "Queues or partitions: the log has one at most, so their limits cannot be seen."
    if "partition" in several:
        yield (
            f"The nodes of the {several['partition']} partitions, and which of them share some: "
            "the log names the partitions, but not their processors or limits."
        )
    if "queue" in several:
        yield (
            f"Limits of the {several['queue']} queues (processors, jobs per user, hours): the log "
            "names the queues but not their limits, and the simulated machine has none."
        )
