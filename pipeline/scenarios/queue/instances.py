"""Jobs of a `queue` episode, from the log of a workload.

    log, in order of submission     ... 2298 2299 2300 2301 2302 | 2304 ... 2559 | 2560 ... 3583
    a warm window at job 2304           runs over waits runs waits | the window    | follow-on jobs

A job of the log that started before the window's first job was submitted, and ended after it, runs
when the window begins; one that was submitted before and started later waits. The others before the
window are known by their completed runs alone, from which the predictions begin.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.machines import Asked, Machine, fit
from hindcast.pipeline.simulation.kernel import INTS, compiled
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.schema import Workload

Ints = NDArray[np.int64]
_HOUR_S = 3600


@dataclass(frozen=True)
class Log:
    """The L usable jobs of a log in order of `submit`; ties keep the order of submission.

    Attributes:
        processors: Processors of the machine.
        row: Number of each job in order of submission, (L,): its place among the usable tasks.
        submit: Moment in s from which the job waits, (L,): when it was submitted, or eligible, see
            `read_log`.
        arrive: Moment in s at which the job was eligible, (L,); when it was submitted, where that
            is not known or later.
        cpu: Processors of each job, (L,).
        run: Run time in s, at least 1, (L,).
        requested: Requested time in s, at least 1, (L,).
        user: Number of the user, -1 if unknown, (L,).
        key: Number of the triple (user, cpu, requested), -1 if the user is unknown, (L,).
        queue: Number of the queue in the log, 0 if unknown, (L,).
        start: Start in the log in s, (L,): `submit` where it is not known, and layout.NEVER if the
            log does not know any.
        known: Whether the log knows the start, (L,).
        by_end: Jobs in order of their ends in the log, (L,); empty without starts.
        ends: These ends, ascending, (L,); empty without starts.
        several: What the jobs ask for on a machine of several resources, None on one of processors.
    """

    processors: int
    row: Ints
    submit: Ints
    arrive: Ints
    cpu: Ints
    run: Ints
    requested: Ints
    user: Ints
    key: Ints
    queue: Ints
    start: Ints
    known: NDArray[np.bool_]
    by_end: Ints
    ends: Ints
    several: "Several | None" = None

    @property
    def has_starts(self) -> bool:
        """True if the log says when jobs started."""
        return len(self.ends) > 0


@dataclass(frozen=True)
class Several:
    """A machine of K resources in M pools, and what the L jobs of a log ask for.

    Attributes:
        machine: The machine.
        capacity: Units of each resource by pool, (M, K).
        asked: What the jobs ask for, (L,).
        caveats: What the log does not tell, and whom the machine leaves out.
        too_wide: The jobs of the log that no machine could start; some may run in a beginning.
    """

    machine: Machine
    capacity: Ints
    asked: Asked
    caveats: tuple[Caveat, ...] = ()
    too_wide: Log | None = None


@dataclass(frozen=True)
class Jobs:
    """The jobs of one episode: indices into a log, and the state when the window begins.

    Attributes:
        now: Submission of the window's first job, on the clock of the log.
        running: Jobs that run, (R,). Numbers from L on are those of Several.too_wide.
        carried: Jobs that wait, (C,).
        counted: Jobs of the window, a range.
        follow: Jobs that arrive after them, a range.
    """

    now: int
    running: Ints
    carried: Ints
    counted: range
    follow: range


_Key = tuple[str, Machine | None]
_read: list[tuple[pl.DataFrame, _Key, Log]] = []  # the log that was read last, by its key


def read_log(workload: Workload, arrive: str = "submit", machine: Machine | None = None) -> Log:
    """Return the log of a workload. The last one is kept, for its other windows.

    Jobs wait from their submission, or if `arrive` is "eligible" from when they were eligible. On a
    machine of several resources, jobs that are too wide for their pool are left out.
    """
    key = (arrive, machine if machine is not None and machine.is_several else None)
    for tasks, of, log in _read:
        if tasks is workload.tasks and of == key:
            return log
    log = _log_of(workload, key[1]) if arrive == "submit" else _by_eligible(workload, key[1])
    _read[:] = [
        *(kept for kept in _read if kept[0] is workload.tasks),
        (workload.tasks, key, log),
    ]
    return log


def _by_eligible(workload: Workload, machine: Machine | None) -> Log:
    """Return the log in order of the moments at which jobs were eligible."""
    if "eligible_s" not in workload.tasks.columns or workload.tasks["eligible_s"].is_null().all():
        raise InputError(
            'config.arrive is "eligible", but the log does not say when jobs became eligible; '
            'set config.arrive = "submit"'
        )
    return _in_order_of_eligible(read_log(workload, machine=machine))


def _in_order_of_eligible(log: Log) -> Log:
    """Return a log whose jobs are in order of the moment at which they may start, (J,).

    That moment takes the place of the submission. A job of unknown start gets it as its start.
    """
    order = np.argsort(log.arrive, kind="stable")
    columns = {name: getattr(log, name)[order] for name in _BY_JOB}
    start = np.where(columns["known"], columns["start"], columns["arrive"])
    by_end, ends = _ends(start + columns["run"]) if log.has_starts else (log.by_end, log.ends)
    if log.has_starts:
        columns["start"] = start
    if (several := log.several) is not None:
        left_out = several.too_wide and _in_order_of_eligible(several.too_wide)
        several = replace(several, asked=several.asked.take(order), too_wide=left_out)
    return replace(
        log, **{**columns, "submit": columns["arrive"], "by_end": by_end, "ends": ends},
        several=several,
    )  # fmt: skip


_BY_JOB: Final = (
    "row", "submit", "arrive", "cpu", "run", "requested", "user", "key", "queue", "start", "known",
)  # fmt: skip


def _ends(ends: Ints) -> tuple[Ints, Ints]:
    """Return the jobs in order of their ends, and these ends."""
    by_end = np.argsort(ends, kind="stable")
    return by_end, ends[by_end]


def usable(workload: Workload) -> pl.Series:
    """Return which tasks of a workload are jobs that ran and fit on its machine."""
    assert workload.machines is not None
    return _has_run(workload, _cpu(workload.tasks) <= _processors(workload.machines))


def tasks_of(workload: Workload, machine: Machine | None) -> pl.DataFrame:
    """Return the tasks of the jobs that `Log.row` numbers."""
    if machine is None or not machine.is_several:
        return workload.tasks.filter(usable(workload))
    # jobs that are too wide may run in a beginning
    return workload.tasks.filter(_has_run(workload, _cpu(workload.tasks) > 0))


def _has_run(workload: Workload, fits: pl.Series) -> pl.Series:
    """Return which of the tasks that fit have a run time of their own."""
    if "run_unknown" in workload.tasks.columns:  # the reader took another number as the run time
        return fits & ~workload.tasks["run_unknown"]
    return fits


def _log_of(workload: Workload, machine: Machine | None) -> Log:
    """Return the jobs of a workload as arrays; raise InputError if no job can be played."""
    if workload.tasks.is_empty():
        raise InputError('scenario queue needs the jobs of a trace, such as [trace] format = "swf"')
    if workload.machines is None:
        raise InputError(
            "scenario queue needs the processors of the machine, but the workload has no machines"
        )
    tasks = tasks_of(workload, machine)
    if tasks.is_empty():
        raise InputError("no job of the workload has a run time and fits on its machine")
    submit, cpu = _whole(tasks["submit_s"]), _whole(_cpu(tasks))
    run = np.maximum(_whole(tasks["duration_s"]), 1)
    requested = run if "requested_s" not in tasks.columns else _whole(tasks["requested_s"])
    requested = np.maximum(requested, 1)
    user = np.full(len(run), -1, np.int64)
    if "user" in tasks.columns:
        user = tasks["user"].rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
    key = np.unique(np.stack([user, cpu, requested]), axis=1, return_inverse=True)[1].reshape(-1)
    start = np.full(len(run), m.NEVER)
    known = np.zeros(len(run), bool)
    by_end = ends = np.zeros(0, np.int64)
    if "wait_s" in tasks.columns and tasks["wait_s"].is_not_null().any():
        known = tasks["wait_s"].is_not_null().to_numpy()
        start = submit + _whole(tasks["wait_s"].fill_null(0.0))
        by_end, ends = _ends(start + run)
    arrive = submit.copy()
    if "eligible_s" in tasks.columns:
        eligible = tasks["eligible_s"].fill_null(-np.inf).fill_nan(-np.inf).to_numpy()
        arrive = np.maximum(np.ceil(eligible), submit).astype(np.int64)
        # A wait is whole seconds rounded up; a start before the moment of eligibility is noise.
        arrive = np.where(known, np.minimum(arrive, np.maximum(start, submit)), arrive)
    log = Log(
        processors=_processors(workload.machines),
        row=np.arange(len(run)),
        submit=submit,
        arrive=arrive,
        cpu=cpu,
        run=run,
        requested=requested,
        user=user,
        key=np.where(user < 0, -1, key),
        queue=_whole(tasks["queue"].fill_null(0).cast(pl.Float64))
        if "queue" in tasks.columns
        else np.zeros(len(run), np.int64),
        start=start,
        known=known,
        by_end=by_end,
        ends=ends,
    )
    return log if machine is None else _on_several(log, machine, workload, tasks)


def _on_several(log: Log, machine: Machine, workload: Workload, tasks: pl.DataFrame) -> Log:
    """Return the jobs of a log that fit on a machine of several resources.

    Those that are too wide stand beside them, as `several.too_wide`. Raises InputError if no job
    fits.
    """
    fitted = fit(machine, workload, tasks, log.cpu, log.run, log.start, log.processors)
    several = Several(machine, fitted.capacity, fitted.asked, fitted.caveats)
    fits = fitted.too_wide < 0
    if not fits.any():
        raise InputError("no job of the workload fits on the machine of config.capacity")
    too_wide = _part(log, several, ~fits)
    several = replace(several, too_wide=too_wide)
    return replace(_part(log, several, fits), processors=int(fitted.capacity[:, 0].sum()))


def _part(log: Log, several: Several, chosen: NDArray[np.bool_]) -> Log:
    """Return a log of the chosen jobs, (L,), with what they ask of a machine."""
    columns = {name: getattr(log, name)[chosen] for name in _BY_JOB}
    by_end = ends = np.zeros(0, np.int64)
    if log.has_starts:
        by_end, ends = _ends(columns["start"] + columns["run"])
    return replace(
        log, **{**columns, "by_end": by_end, "ends": ends},
        several=replace(several, asked=several.asked.take(chosen)),
    )  # fmt: skip


def with_too_wide(log: Log, jobs: Jobs) -> Log:
    """Return a log that has the jobs of a window from L on too, which no history counts."""
    if log.several is None or not (jobs.running >= len(log.submit)).any():
        return log
    other = log.several.too_wide
    assert other is not None
    assert other.several is not None
    columns: dict[str, Any] = {
        n: np.concatenate([getattr(log, n), getattr(other, n)]) for n in _BY_JOB
    }
    asked = log.several.asked.joined(other.several.asked)
    return replace(log, **columns, several=replace(log.several, asked=asked))


def _cpu(tasks: pl.DataFrame) -> pl.Series:
    """Return the processors that jobs held; where the log does not know, those they requested."""
    cpu = pl.col("cores") * pl.col("instances")
    if {"allocated_cores", "requested_cores"} <= set(tasks.columns):
        positive = [
            pl.when(pl.col(n) > 0).then(pl.col(n)) for n in ("allocated_cores", "requested_cores")
        ]
        cpu = pl.coalesce(*positive, cpu)
    return tasks.select(cpu.cast(pl.Float64).ceil().alias("cpu"))["cpu"]


def _processors(machines: pl.DataFrame) -> int:
    return int(machines["cores"].sum())


def _whole(values: pl.Series) -> Ints:
    """Return seconds or processors as whole numbers, rounded up."""
    rounded: Ints = np.ceil(values.to_numpy()).astype(np.int64)
    return rounded


def first_job(config: QueueConfig, window: int) -> int:
    """Return the number of a window's first job in the log."""
    return config.starts[window] if config.starts else window * config.jobs


def select_jobs(config: QueueConfig, log: Log, window: int) -> Jobs:
    """Return the jobs of a window. Raises InputError if the log has not enough of them."""
    size, first = len(log.submit), first_job(config, window)
    if first + (1 if config.whole else config.jobs) > size:
        raise InputError(
            f"window {window}: it begins at job {first:,} and has {config.jobs:,} jobs, but the "
            f"log has {size:,} usable jobs"
        )
    last = size if config.whole else first + config.jobs
    now = int(log.submit[first])
    running = carried = np.zeros(0, np.int64)
    if config.warm:
        if not log.has_starts:
            raise InputError(
                "config.warm is true, but the log does not say when jobs started (all waits are "
                "-1); set config.warm = false"
            )
        running, carried = _running(log, slice(0, first), now)
        if log.several is not None and log.several.too_wide is not None:
            wide = log.several.too_wide
            too_wide, _ = _running(wide, slice(None), now)
            order = np.argsort(np.concatenate([log.row[running], wide.row[too_wide]]))
            running = np.concatenate([running, size + too_wide])[order]
    return Jobs(
        now=now,
        running=running,
        carried=carried,
        counted=range(first, last),
        follow=range(last, last if config.whole else min(last + config.follow, size)),
    )


def _running(log: Log, jobs: slice, now: int) -> tuple[Ints, Ints]:
    """Return which of some jobs run in the log at a time, and which wait or come later."""
    start, end = log.start[jobs], log.start[jobs] + log.run[jobs]
    return np.flatnonzero((start < now) & (end > now)), np.flatnonzero(start >= now)


@compiled(types.void(INTS, INTS, INTS, INTS, types.int64, INTS, INTS, INTS, types.int64))
def _look_back(by_end, user, key, run, completed, users, before, keys, missing):  # type: ignore[no-untyped-def]
    """Fill the last two runs of users and the last run of keys, in entries that are -2.

    An entry without such a run stays -2. `missing` is the number of entries to fill.
    """
    for place in range(completed - 1, -1, -1):
        if missing == 0:
            break
        job = by_end[place]
        if user[job] < 0:
            continue
        if users[user[job]] == -2:
            users[user[job]] = run[job]
            missing -= 1
        elif before[user[job]] == -2:
            before[user[job]] = run[job]
            missing -= 1
        if keys[key[job]] == -2:
            keys[key[job]] = run[job]
            missing -= 1


def histories(log: Log, now: int, users: Ints, keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the last completed runs of users and keys before a time.

    Args:
        log: The log.
        now: The time.
        users: Numbers of users, (U,).
        keys: Numbers of keys, (K,).

    Returns:
        The last run of every user, the run before it, and the last run of every key, -1 where
        there is none.
    """
    if not log.has_starts:
        return tuple(np.full(len(block), -1) for block in (users, users, keys))  # type: ignore[return-value]
    last = np.full(int(log.user.max()) + 1, -3)
    before = last.copy()
    similar = np.full(int(max(log.key.max(), keys.max(initial=-1))) + 1, -3)
    last[users] = before[users] = -2
    similar[keys] = -2
    completed = int(np.searchsorted(log.ends, now))
    _look_back(
        log.by_end, log.user, log.key, log.run, completed, last, before, similar,
        2 * len(users) + len(keys),
    )  # fmt: skip
    return tuple(np.maximum(block, -1) for block in (last[users], before[users], similar[keys]))


def recent_submissions(log: Log, now: int) -> Ints:
    """Return the submissions of the hour before a time."""
    in_order = log.submit[: len(log.ends)] if log.has_starts else log.submit
    first, stop = np.searchsorted(in_order, (now - _HOUR_S + 1, now))
    return log.submit[first:stop]
