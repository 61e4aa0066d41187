"""Facts about a log of jobs that limit what can be said about its machine.

The list is the same for every format: it is measured on the columns of a workload, and on the
counts and notes that its reader left. Shares of work are shares of processors x run time. Some of
the facts rule out that one policy is called better than another on this log: DISQUALIFYING.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.caveats import Caveat, of_provenance, share_text
from hindcast.pipeline.workloads.log_columns import HOUR_S, LogColumns, job_count, span_text
from hindcast.pipeline.workloads.log_names import names_of
from hindcast.pipeline.workloads.log_units import (
    CORE_UNIT,
    IDLE_BUT_WAITING,
    LIMITS_EXCEEDED,
    LIMITS_FAR,
    RUNS_BEYOND_LOG,
    unit_caveats,
)
from hindcast.pipeline.workloads.schema import Provenance, Workload

FEW_JOBS: Final = "few_jobs"
UNKNOWN_WAITS: Final = "unknown_waits"
UNKNOWN_ASKS: Final = "unknown_asks"
CLUSTERS_POOLED: Final = "clusters_pooled"
PARTITIONS_POOLED: Final = "partitions_pooled"
OVERLOADED: Final = "overloaded"
QUARANTINED: Final = "quarantined"
GPUS: Final = "gpus"
HARDLY_ANY_WAITS: Final = "hardly_any_waits"
WAITS_WHILE_FITTING: Final = "waits_while_fitting"
_ONE_CLUSTER: Final = "--set cluster=NAME"
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
    cv.RUNS_AND_ENDS: "the unit of run times, starts and ends",
    LIMITS_EXCEEDED: "the unit of the time limits",
    LIMITS_FAR: "the unit of the time limits and of the run times",
    RUNS_BEYOND_LOG: "the unit of the run times, or a longer log",
    CORE_UNIT: "the unit of the processors",
    IDLE_BUT_WAITING: "the unit of times and run times",
    CLUSTERS_POOLED: "the log of one cluster alone",
    PARTITIONS_POOLED: "the processors of each partition (--pools NAME=PROCESSORS,...)",
    OVERLOADED: _SIZE,
    QUARANTINED: "rows that can be read",
    GPUS: "the GPUs of the machine (whatif --capacity gpus=N)",
}

_EARLY: Final = "wait_s unknown, since the start is before the submission"  # counted by readers
_SHARE: Final = 0.05  # of jobs or of work, above which an unknown value rules out a word of gain
_MOSTLY: Final = 0.5  # of the rows
_SMALL: Final = 0.01  # below which it is not worth a warning
_LEAST_JOBS: Final = 400
_OVERLOAD: Final = 1.2
# Factor of the load -> unit of run times, read as seconds or, for seconds, as minutes.
_RUN_UNITS: Final = ((60, "seconds, not minutes"), (1000, "milliseconds"))
_LEAST_LOAD: Final = 0.2
_FAR: Final = 5.0  # times its limit that a runaway has run, and longer than jobs were submitted
_FAR_BEYOND_S: Final = 604_800
_FAR_WITHOUT_LIMIT: Final = 100.0  # times the median run time, where no limit is known
_LONG_WAIT_S: Final = 60.0
_WAITS: Final = 0.05  # of the jobs wait so long; with fewer, nearly nobody waits
_FITTING: Final = 0.5  # of the waiting


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
        resources: Resources that the simulated machine has beside processors, such as "gpus".

    Returns:
        The caveats, one for each fact.
    """
    noted = of_provenance(workload.provenance)
    if workload.tasks.is_empty():
        return noted
    log = LogColumns(workload)
    measured = [
        *_waits(log), *_requests(log), *unit_caveats(log), *_load(log), *_wide(log),
        *_pooled(log, pools=pools), *_runaways(log), *_quarantined(workload.provenance),
        *_clock(log),
        *([] if any(name.startswith("gpus") for name in resources) else _gpus(log)),
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
    return (*of_provenance(workload.provenance), *_quarantined(workload.provenance))


def mostly_unread(caveats: Iterable[Caveat]) -> bool:
    """Return whether more than half of the rows of a log could not be used."""
    return any(c.code == QUARANTINED and c.numbers["share"] > _MOSTLY for c in caveats)


def requests_known(workload: Workload) -> bool:
    """Return whether at least 95 % of the jobs have a request that was not taken from their run."""
    log = LogColumns(workload)
    return log.n_derived <= _SHARE * log.tasks.height


def _requests(log: LogColumns) -> Iterator[Caveat]:
    n, work = log.n_derived, log.shares(log.derived)[2]
    jobs, exact = n / log.tasks.height, n == int(log.derived.sum())
    if max(jobs, work if exact else 0.0) < _SMALL:
        return
    code = cv.NO_LIMITS if jobs > _SHARE else "some_requests_are_run_times"
    text = cv.NO_REQUESTS
    if not log.n_counted and "requested_s" in log.tasks.columns:
        text = "every time limit is the run time, so that rules that read it know how long jobs run"
    if n < log.tasks.height:
        share = share_text(work) if exact else f"at most {share_text(work)}"
        text = (
            f"no time limit is known for {n:,} jobs ({share_text(jobs)} of them, {share} of the "
            "work): their run times stand for it, so that rules that read it know how long they run"
        )
    yield Caveat(code, text, {"jobs": n, "share": jobs, "work_share": work})


def _waits(log: LogColumns) -> Iterator[Caveat]:
    unknown = log.unknown("wait_s")
    n, jobs, work = log.shares(unknown)
    if unknown.all():
        text = f"{cv.NO_WAIT}: nothing can be compared with the recorded scheduler"
        noted = of_provenance(log.workload.provenance)
        yield next((c for c in noted if c.code == cv.NO_WAIT_TIMES), Caveat(cv.NO_WAIT_TIMES, text))
        return
    waited = float((log.tasks["wait_s"].drop_nulls().to_numpy() >= _LONG_WAIT_S).mean())
    if waited < _WAITS:
        text = f"nearly nobody waits: {share_text(waited)} of the jobs waited for a minute or more"
        yield Caveat(HARDLY_ANY_WAITS, text, {"waited": waited})
    if max(jobs, work) < _SMALL:
        return
    early = log.workload.provenance.counts.get(_EARLY, 0)
    why = f", {early:,} since it is before the submission: are both in one unit and time zone?"
    text = (
        f"the start of {job_count(n, jobs, work)} is unknown: they count in no recorded wait, and "
        f"the scheduler of the log is known by the others alone{why if early else ''}"
    )
    code = UNKNOWN_WAITS if work > _SHARE else "some_unknown_waits"
    yield Caveat(code, text, {"jobs": n, "share": jobs, "work_share": work})


def _load(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if the jobs are more work than the machine can do in the span of the log."""
    load = log.load
    if load > _OVERLOAD:
        # Runs of another unit end long after the log, so they are held against the submissions.
        offered = float(log.work.sum()) / max(log.processors * float(np.ptp(log.submit)), 1.0)
        units = (unit for size, unit in _RUN_UNITS if _LEAST_LOAD <= offered / size <= _OVERLOAD)
        unit = next(units, "")
        why = f", or run times are in {unit}" if unit else ""
        text = (
            f"the jobs are {load:.2f} times the work that {log.processors:,.0f} processors can do "
            f"in the {span_text(log.span)} of the log: the machine is larger, or jobs share "
            f"processors{why}"
        )
        yield Caveat(OVERLOADED, text, {"load": load, "processors": log.processors})


def _wide(log: LogColumns) -> Iterator[Caveat]:
    wide = np.ceil(log.cpu) > log.processors
    if log.processors and wide.any():
        n, jobs, work = log.shares(wide)
        text = (
            f"{job_count(n, jobs, work)} held more than the {log.processors:,.0f} processors of "
            "the machine and are left out: is it larger?"
        )
        yield Caveat("wider_than_machine", text, {"jobs": n, "share": jobs, "work_share": work})


def _pooled(log: LogColumns, *, pools: bool) -> Iterator[Caveat]:
    clusters = log.groups("cluster")
    if len(clusters) > 1:
        named = _listed(log.workload, "cluster", clusters)
        way = "a table of its rows" if log.workload.provenance.format == "table" else _ONE_CLUSTER
        text = (
            f"{len(clusters)} clusters are pooled as one machine: {named}; read one of them ({way})"
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


def _gpus(log: LogColumns) -> Iterator[Caveat]:
    if "gpus" not in log.tasks.columns or cv.GPUS_ARE_CORES in log.workload.provenance.notes:
        return
    held = (log.tasks["gpus"].fill_null(0) > 0).to_numpy()
    if held.any():
        n, jobs, work = log.shares(held)
        hours = float(log.work[held].sum()) / HOUR_S
        text = (
            f"{job_count(n, jobs, work)} held GPUs, for {hours:,.0f} core hours: the simulated "
            "machine has none, so that these jobs do not compete for them (whatif --capacity "
            "gpus=N)"
        )
        numbers = {"jobs": n, "share": jobs, "work_share": work, "core_hours": hours}
        yield Caveat(GPUS if work > _SHARE else "some_gpus", text, numbers)


def _runaways(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat for runs far longer than their limit, and longer than the log around them.

    In a long log, a week beyond the limit is enough where such jobs are much of the work.
    """
    span = float(np.ptp(log.submit))
    typical = float(np.median(log.run))
    # A job without a limit has the largest one, or its run time.
    unlimited = log.derived | (log.requested == log.run)
    beyond_limit = np.where(
        unlimited, log.run > _FAR_WITHOUT_LIMIT * typical, log.run > _FAR * log.requested
    )
    runaway = beyond_limit & (log.run > max(span, typical))
    beyond = f"longer than the {span_text(span)} in which jobs were submitted"
    if not runaway.any():
        runaway = ~unlimited & beyond_limit & (log.run - log.requested > _FAR_BEYOND_S)
        beyond = "more than a week beyond their limits"
        if log.shares(runaway)[2] < _SMALL:
            return
    n, jobs, work = log.shares(runaway)
    longest = int(np.argmax(np.where(runaway, log.run, 0.0)))
    run, limit = float(log.run[longest]), float(log.requested[longest])
    of_limit = "" if unlimited[longest] else f", {run / limit:,.0f} times its limit"
    text = (
        f"{job_count(n, jobs, work)} ran {beyond}, job {log.tasks['job_id'][longest][:40]} for "
        f"{span_text(run)}{of_limit}: ends that were not recorded? Means and the load hang on them"
    )
    yield Caveat("runaways", text, {"jobs": n, "longest_s": run, "work_share": work})


def _quarantined(provenance: Provenance) -> Iterator[Caveat]:
    bad = provenance.left_out.get("quarantined", 0)
    read = provenance.counts.get("rows_read", 0) - sum(provenance.left_out.values()) + bad
    if read > 0 and bad > _SHARE * read:
        text = (
            f"{bad:,} of {read:,} rows of jobs ({share_text(bad / read)}) could not be used and "
            "are not among the jobs: `hindcast ingest` writes them to quarantine.parquet"
        )
        yield Caveat(QUARANTINED, text, {"rows": bad, "share": bad / read})


def _clock(log: LogColumns) -> Iterator[Caveat]:
    """Yield a caveat if times without a zone go over a change of clocks."""
    provenance = log.workload.provenance
    begin = provenance.second_zero
    if not any(n.startswith(cv.NO_ZONE) for n in provenance.notes) or begin is None:
        return
    end = begin + float(log.submit.max())
    told, most = [], 0
    for place, changes in _CHANGES.items():
        years = range(_date(begin).year, _date(end).year + 1)
        within = [d for year in years for d in changes(year) if begin < d.timestamp() < end]
        if within:
            n, _, work = log.shares(log.submit + begin >= within[0].timestamp())
            told.append(
                f"in {place} on {within[0]:%Y-%m-%d}, with {n:,} submissions after it and "
                f"{share_text(work)} of the work"
            )
            most = max(most, n)
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


def missing_fields(workload: Workload, resources: Collection[str] = ()) -> tuple[str, ...]:
    """Return a sentence for everything that a log does not say, and what follows from it.

    `resources` are those of the simulated machine beside its processors.
    """
    log = LogColumns(workload)
    return tuple(_missing(log, {name.partition(":")[0] for name in resources}))


def _missing(log: LogColumns, resources: Collection[str]) -> Iterator[str]:
    """Yield a sentence for everything that a log does not have, with what follows."""
    tasks = log.tasks
    if (starts := log.unknown("wait_s")).all():
        yield (
            "Starts of jobs: without them the log's own scheduler has no row, runs begin with an "
            "empty machine, and the simulated machine cannot be compared with the real one."
        )
    elif starts.any():
        yield f"The starts of {job_count(*log.shares(starts))}: they are in no recorded number."
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
        yield f"The time at which {job_count(*log.shares(eligible))} became eligible."
    yield from _missing_limits(log)
    if any(c.code == cv.NO_CLUSTER_SIZE for c in of_provenance(log.workload.provenance)):
        yield "The size of the machine: it was taken from the jobs, so that it may be too small."
    counted = "gpus" in tasks.columns and "gpus" not in resources
    if counted and (held := (tasks["gpus"].fill_null(0) > 0).to_numpy()).any():
        yield (
            f"The GPUs of the machine: {job_count(*log.shares(held))} held some, and the simulated "
            "machine does not count them."
        )
    if (log.tasks["memory"] > 0).any() and "memory" not in resources:
        yield "The memory of the machine: the log has that of jobs, and it limits nothing here."
    yield (
        "Outages, reservations, limits per user and holds: no log of this kind has them; a "
        "scheduler that respects them looks slow beside one that need not."
    )


def _missing_limits(log: LogColumns) -> Iterator[str]:
    """Yield what is not known of queues and partitions."""
    numbers = {name: len(log.groups(name)) for name in ("partition", "queue")}
    if log.queues_are_partitions:
        del numbers["queue"]
    several = {name: n for name, n in numbers.items() if n > 1}
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
