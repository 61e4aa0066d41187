"""Parts of a record: pools of partitions, and the jobs that `--where` and `--without` name.

A pool is a set of processors and the partitions that use it. Pools are separate machines with one
clock. Partitions that share nodes are one pool of the union. A partition or a pool selects jobs:
the others vanish, so the processors that remain must be known. A user, a queue or an account only
selects who is counted: all jobs run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.scenarios.queue.instances import usable
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.resources.capacities import Capacities, on_machine
from hindcast.pipeline.workloads.schema import Workload

_COUNTS: Final = ("user", "queue", "account")
_SELECTS: Final = ("partition", "pool")
_SECONDS: Final = re.compile(r"-?\d{1,15}")


@dataclass(frozen=True)
class Pool:
    """A set of processors and the partitions that use it.

    Attributes:
        name: Its partitions, joined by +.
        partitions: Names or numbers of its partitions.
        processors: Processors of the pool.
    """

    name: str
    partitions: tuple[str, ...]
    processors: int


@dataclass(frozen=True)
class Where:
    """Conditions on the jobs of a record.

    Attributes:
        names: Allowed names or numbers by condition: partition, pool, user, queue, account.
        begin, end: Part of the log that is the run, in s on its clock; None: its own end.
    """

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    begin: int | None = None
    end: int | None = None


def parse_pools(text: str) -> tuple[Pool, ...]:
    """Return the pools of a text such as `batch=64,debug+fast=16`."""
    pools = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, processors = (word.strip() for word in part.partition("="))
        partitions = tuple(word.strip() for word in name.split("+"))
        if not all(partitions) or not re.fullmatch(r"[1-9]\d{0,8}", processors):
            raise InputError(
                f"--pools {part!r}: expected PARTITION=PROCESSORS, or A+B=PROCESSORS for "
                "partitions that share nodes"
            )
        pools.append(Pool(name, partitions, int(processors)))
    named = [partition for pool in pools for partition in pool.partitions]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice or not pools:
        raise InputError(
            f"--pools {text!r}: partition {twice[0]} has two pools; partitions that share nodes "
            "are one pool, A+B=PROCESSORS" if twice else "--pools names no pool"
        )  # fmt: skip
    return tuple(pools)


def parse_where(texts: Sequence[str], second_zero: datetime | None = None) -> Where:
    """Return the conditions of texts such as `partition=batch,user=ann+bob` or `FROM..TO`."""
    names: dict[str, tuple[str, ...]] = {}
    begin = end = None
    for text in (part.strip() for whole in texts for part in whole.split(",")):
        key, equals, values = (word.strip() for word in text.partition("="))
        if equals and key in _SELECTS + _COUNTS and values:
            # The name of a pool has a + itself; several names are separate conditions else.
            found = (values,) if key == "pool" else tuple(v.strip() for v in values.split("+"))
            names[key] = (*names.get(key, ()), *found)
        elif ".." in text and not equals:
            begin, end = parse_times(text, "--where", second_zero)
        else:
            known = [f"{each}=NAME" for each in _SELECTS + _COUNTS] + ["FROM..TO"]
            raise InputError(f"--where {text!r}: {did_you_mean(text, known)}")
    return Where(names, begin, end)


def parse_times(
    text: str, option: str, second_zero: datetime | None = None
) -> tuple[int | None, int | None]:
    """Return the two moments of `FROM..TO` in s on the clock of the log, None for an empty one.

    Args:
        text: Seconds on the clock of the log, or dates and times of ISO 8601.
        option: What the text was given to, for messages.
        second_zero: Moment of second 0 in the time zone of the log; None if it is unknown.
    """
    begin, dots, end = (word.strip() for word in text.partition(".."))
    if not dots:
        raise InputError(f"{option} {text!r}: expected FROM..TO, such as 2024-03-01..2024-03-08")
    moments = tuple(_moment(word, option, second_zero) if word else None for word in (begin, end))
    if None not in moments and moments[0] >= moments[1]:  # type: ignore[operator]
        raise InputError(f"{option} {text!r}: the end is not after the begin")
    return moments[0], moments[1]


def _moment(text: str, option: str, second_zero: datetime | None) -> int:
    """Return a moment in s on the clock of the log; without an offset it is local time there."""
    if _SECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{option} {text!r}: expected seconds on the clock of the log, or a time such as "
            "2024-03-01T12:00"
        ) from error
    if second_zero is None:
        raise InputError(
            f"{option} {text!r}: the log does not say when its clock began; give seconds on it"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=second_zero.tzinfo)
    # Differences of times in one zone forget its changes of clocks; in UTC there are none.
    try:
        return int((moment.astimezone(UTC) - second_zero.astimezone(UTC)).total_seconds())
    except OverflowError as error:  # in the first or the last hours of the calendar
        raise InputError(f"{option} {text!r}: expected a year from 2 to 9998") from error


def labels(workload: Workload, record: Record, column: str) -> NDArray[np.object_]:
    """Return the name or number of each job in a column of the log, (N,); "" if it is unknown."""
    tasks = workload.tasks
    if column not in tasks.columns:
        return np.full(len(record.row), "", object)
    values = tasks.filter(usable(workload))[column]
    if names := record.names.get(column):
        values = values.replace_strict(names, default=None, return_dtype=pl.String)
    texts: NDArray[np.object_] = values.cast(pl.String).fill_null("").to_numpy().astype(object)
    return texts[record.row]


def split(
    record: Record, pools: Sequence[Pool], partition: NDArray[np.object_],
    capacities: Capacities | None = None,
) -> tuple[Record, ...]:  # fmt: skip
    """Return the record of each pool. Jobs that are wider than their pool are left out.

    Args:
        record: The record of all pools.
        pools: The pools, which name every partition of the record.
        partition: Name or number of each job's partition, (N,).
        capacities: What the pools have beside processors.

    Raises:
        InputError: A partition of a pool has no job, or a job is in no pool.
    """
    named = {name for pool in pools for name in pool.partitions}
    found = set(partition.tolist())
    if missing := sorted(named - found):
        raise InputError(
            f"--pools: no job is in partition {missing[0]!r}; {did_you_mean(missing[0], found)}"
        )
    if homeless := sorted(found - named):
        count = int(np.isin(partition, homeless).sum())
        raise InputError(
            f"--pools: {count:,} jobs are in no pool; name the partitions "
            f"{', '.join(name or '(unknown)' for name in homeless)} too"
        )
    return tuple(select(record, pool, partition, capacities) for pool in pools)


def select(
    record: Record, pool: Pool, partition: NDArray[np.object_],
    capacities: Capacities | None = None,
) -> Record:  # fmt: skip
    """Return the record of one pool. Jobs that are wider than the pool are left out."""
    inside = np.isin(partition, pool.partitions)
    if capacities:
        of_pool = record.take(np.flatnonzero(inside))
        return on_machine(of_pool, pool.processors, capacities[pool.name], f"pool {pool.name}")
    inside &= record.cpu <= pool.processors
    if not inside.any():
        raise InputError(
            f"pool {pool.name}: no job of its partitions fits on {pool.processors} processors"
        )
    return replace(record.take(np.flatnonzero(inside)), processors=pool.processors)


def selected(where: Where, pools: Sequence[Pool]) -> Pool | None:
    """Return the pool that conditions select, None if they name neither pool nor partition."""
    wanted = where.names.get("partition", ()) + where.names.get("pool", ())
    if not wanted:
        return None
    for pool in pools:
        if set(wanted) in ({pool.name}, set(pool.partitions)):
            return pool
    for pool in pools:
        if set(wanted) < set(pool.partitions):
            raise InputError(
                f"--where partition={'+'.join(wanted)}: it shares its processors; use "
                f"pool={pool.name}"
            )
    known = ", ".join(pool.name for pool in pools)
    raise InputError(
        f"--where {'+'.join(wanted)}: the other jobs vanish, so the processors that remain must be "
        f"known, for example --pools {wanted[0]}=64" + (f" (given: {known})" if known else "")
    )


def counts(
    where: Where, columns: Mapping[str, NDArray[np.object_]], size: int
) -> NDArray[np.bool_]:
    """Return which jobs are counted, (N,): those of the users, queues and accounts of conditions.

    Args:
        where: The conditions.
        columns: Name or number of each job, (N,), by `user`, `queue`, `account`.
        size: Number of jobs N.
    """
    counted = np.ones(size, bool)
    for key in _COUNTS:
        for name in where.names.get(key, ()):
            if name not in columns[key]:
                known = sorted(set(columns[key].tolist()) - {""})
                raise InputError(f"--where {key}={name}: no such job; {did_you_mean(name, known)}")
        if key in where.names:
            counted &= np.isin(columns[key], where.names[key])
    return counted


def part(where: Where, record: Record) -> tuple[int, int]:
    """Return the first job of the run and the number after its last one.

    Without a begin, the run begins where it does without conditions.
    """
    first = record.first
    if where.begin is not None:
        first = int(np.searchsorted(record.arrive, where.begin))
    last = len(record.submit)
    if where.end is not None:
        last = int(np.searchsorted(record.arrive, where.end))
    if first >= last and where.begin is None:
        begin = int(record.arrive[first])
        raise InputError(
            f"--where ..TO: without FROM, the run begins at second {begin:,} of the log"
        )
    if first >= last:
        raise InputError("--where FROM..TO: no job arrived in this part of the log")
    return first, last
