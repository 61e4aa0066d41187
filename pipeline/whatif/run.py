"""A run: the part of a log that is played, and the state in which it begins.

    jobs of a run     | running | carried | from `first` on ..           | later parts of chains |
    counted                       yes       yes, follow-on jobs are not    with their first part

The jobs that run at the beginning come first. Then come those that wait, in order of arrival, and
then those that arrive. Times are on the clock of the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.instances import Log, histories
from hindcast.pipeline.scenarios.queue.layout import LATER, NEVER
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.resources.amounts import Resources, together

UNPLANNED: Final = LATER  # arrival of a job that joins the queue when its predecessor ends


@dataclass(frozen=True)
class Past:
    """The jobs of a log that were completed before a run.

    Attributes:
        log: The log.
        now: Beginning of the run in s.
    """

    log: Log
    now: int


@dataclass(frozen=True)
class Run:
    """The N jobs of a run.

    Attributes:
        processors: Processors of the machine.
        now: Beginning of the run in s.
        running: Number of jobs that run then; they come first.
        row: Index of each job in the record, (N,).
        submit: Submission by the user in s, (N,).
        arrive: Moment in s at which the scheduler may start the job, (N,); UNPLANNED for a later
            part of a chain, which comes when the part before it ends.
        cpu: Processors, (N,).
        run: Run time in s, (N,).
        requested: Requested time in s, (N,).
        user: Number of the user in the record, -1 if unknown, (N,).
        key: Number of the triple (user, cpu, requested), -1 if the user is unknown, (N,).
        queue, partition, qos, account, nodes: Numbers, -1 if unknown, (N,).
        start: Recorded start in s, NEVER if it is unknown, (N,). A running job always has one: its
            arrival if the log does not know it.
        counted: Whether outcomes count the job, (N,). A chain counts once, with its first part.
        chain: Index of the part that follows, -1 if none does, (N,).
        last: Last run of every user that was completed before the run in s, -1 if none was, (U,).
        before: The run before it, (U,).
        similar: Last completed run of every key, (K,).
        past: The jobs that were completed before.
        resources: Resources of the machine; None for processors alone.
        asks: What each job asks for, (N, K + 1), see Record.
    """

    processors: int
    now: int
    running: int
    row: Array
    submit: Array
    arrive: Array
    cpu: Array
    run: Array
    requested: Array
    user: Array
    key: Array
    queue: Array
    partition: Array
    qos: Array
    account: Array
    nodes: Array
    start: Array
    counted: NDArray[np.bool_]
    chain: Array
    last: Array
    before: Array
    similar: Array
    past: Past
    resources: Resources | None = None
    asks: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        """Give jobs no asks beside processors on a machine without resources."""
        if self.resources is None:
            object.__setattr__(self, "asks", np.zeros((len(self.row), 0), np.int64))

    @property
    def carried(self) -> int:
        """Number of counted jobs that wait when the run begins."""
        return int((self.arrive[self.running :] < self.now).sum())


PER_JOB: Final = (
    "row", "submit", "arrive", "cpu", "run", "requested", "user", "key", "queue", "partition",
    "qos", "account", "nodes", "start", "counted", "chain", "asks",
)  # fmt: skip
_OF_RECORD: Final = (
    "submit", "arrive", "cpu", "requested", "user", "key", "queue", "partition", "qos", "account",
    "nodes", "asks",
)  # fmt: skip


def run_of(
    record: Record, first: int, last: int | None = None, *,
    follow: int = 0, warm: bool = True, now: int | None = None,
) -> Run:  # fmt: skip
    """Return the run from a job of the record on.

    Args:
        record: The record.
        first: The first job.
        last: The first job after it; None: the run goes to the end of the log.
        follow: Number of jobs after `last` that arrive as well and are not counted.
        warm: Whether the machine and the queue begin as they were recorded, or empty.
        now: Beginning of the run, after the arrival of the job before the first one and not after
            that of the first one; None: that of the first one.

    Raises:
        InputError: There is no such job, or the log does not know the starts that `warm` needs.
    """
    size = len(record.submit)
    stop = size if last is None else last
    if not 0 <= first < stop <= size:
        raise InputError(f"expected jobs from 0 to {size:,}, got {first:,} to {stop:,}")
    log, now = log_of(record), int(record.arrive[first]) if now is None else now
    running = carried = np.zeros(0, np.int64)
    if warm:
        if not log.has_starts:
            raise InputError(
                "a run begins as the log did, but the log does not say when jobs started (all "
                "waits are -1)"
            )
        start = log.start[:first]
        running = np.flatnonzero((start < now) & (start + record.run[:first] > now))
        carried = np.flatnonzero(start >= now)
    arriving = np.concatenate([carried, np.arange(first, min(stop + follow, size))])
    if warm and record.too_wide is not None:
        wide = record.too_wide
        holds = np.flatnonzero(wide.known & (wide.start < now) & (wide.start + wide.run > now))
        if len(holds):
            running, record = np.append(running, size + holds), _both(record, wide)
    row = np.concatenate([running, arriving])
    start = record.start[row]
    of_log = running < size
    start[: len(running)][of_log] = log.start[running[of_log]]
    return Run(
        processors=record.processors, now=now, running=len(running), row=row,
        resources=record.resources,
        run=record.run[row], start=start,
        counted=(np.arange(len(row)) >= len(running)) & (row < stop),
        chain=np.full(len(row), -1), **{name: getattr(record, name)[row] for name in _OF_RECORD},
        **_histories(log, now, record.user[row], record.key[row]),
    )  # fmt: skip


def _both(record: Record, other: Record) -> Record:
    """Return a record with the jobs of another one behind its own."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(record, name), getattr(other, name)])
               for name in (*_OF_RECORD, "run", "start")}  # fmt: skip
    return replace(record, row=np.arange(len(columns["run"])), **columns)


def joined(runs: Sequence[Run]) -> tuple[Run, Array]:
    """Return the runs of several machines as one, and the place of each of its jobs, (N,).

    Places count through the jobs of the runs, one run after the other. The result is for outcomes:
    the jobs of one run do not compete with those of another. All begin at one moment.
    """
    if len(runs) == 1:
        return runs[0], np.arange(len(runs[0].row))
    parts = {name: np.concatenate([getattr(run, name) for run in runs]) for name in PER_JOB}
    sizes = [len(run.row) for run in runs]
    begins = np.cumsum([0, *sizes[:-1]])
    waits = np.concatenate([np.arange(len(run.row)) >= run.running for run in runs])
    place = np.lexsort((parts["row"], parts["arrive"] * waits, waits))
    inverse = np.argsort(place)
    shift = np.repeat(begins, sizes)
    follows = parts["chain"] >= 0
    parts["chain"] = np.where(follows, inverse[np.where(follows, parts["chain"] + shift, 0)], -1)
    columns: dict[str, Any] = {name: values[place] for name, values in parts.items()}
    processors, running = sum(run.processors for run in runs), sum(run.running for run in runs)
    resources = together([run.resources for run in runs])
    return replace(
        runs[0], processors=processors, running=running, resources=resources, **columns
    ), place


_read: list[tuple[Record, Log]] = []  # the record that was read last


def log_of(record: Record) -> Log:
    """Return the record as the log of the scenario; an unknown start is the arrival."""
    for known, log in _read:
        if known is record:
            return log
    has_starts = bool(record.known.any())
    start = np.where(record.start == NEVER, record.arrive, record.start)
    ends = start + record.run
    by_end = np.argsort(ends, kind="stable") if has_starts else np.zeros(0, np.int64)
    log = Log(
        processors=record.processors, row=np.arange(len(start)), submit=record.arrive,
        arrive=record.arrive, known=record.known, cpu=record.cpu, run=record.run,
        requested=record.requested, user=record.user, key=record.key, queue=record.queue,
        start=start, by_end=by_end, ends=ends[by_end],
    )  # fmt: skip
    _read[:] = [(record, log)]
    return log


def with_histories(record: Record, run: Run) -> Run:
    """Return a run with the histories that a record gives the keys of its jobs."""
    return replace(run, **_histories(log_of(record), run.now, run.user, run.key))


def _histories(log: Log, now: int, user: Array, key: Array) -> dict[str, Any]:
    """Return the completed runs of the users and keys of a run before it begins."""
    largest = int(log.user.max(initial=-1))  # a job that is too wide may have another user
    users, keys = np.unique(user[(user >= 0) & (user <= largest)]), np.unique(key[key >= 0])
    found = histories(log, now, users, keys)
    last, before = np.full((2, max(largest, int(user.max(initial=-1))) + 1), -1)
    similar = np.full(int(max(log.key.max(initial=-1), key.max(initial=-1))) + 1, -1)
    last[users], before[users], similar[keys] = found
    return {"last": last, "before": before, "similar": similar, "past": Past(log, now)}
