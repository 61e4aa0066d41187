"""Machines of several resources in `queue`: their settings, and the jobs that fit on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.scenarios.queue.asks import (
    ANY_GPUS,
    GPUS,
    PROCESSORS,
    TYPE,
    Asks,
    check_names,
    equivalents,
    in_order_of_capacity,
    left_out,
    named_types,
    read_asks,
    shape_of,
    too_wide,
    units_of,
    unknown_asks,
    wide_jobs,
)
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.fitting import Shape
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.log_names import names_of
from hindcast.pipeline.workloads.schema import Workload

Ints = NDArray[np.int64]
_LEAST_START: Final = -(1 << 61)


@dataclass(frozen=True)
class Machine:
    """A machine of K resources, or M pools of it.

    Attributes:
        names: Names of the resources, in order.
        left_out: Resources of the settings that have no capacity.
        pools: Name of each pool; ("",) for one machine.
        capacity: Amounts by pool and resource, in processors, GPUs and MiB; 0 for processors that
            the log's machine gives.
    """

    names: tuple[str, ...]
    left_out: tuple[str, ...]
    pools: tuple[str, ...]
    capacity: tuple[tuple[int, ...], ...]

    @property
    def has_pools(self) -> bool:
        """True if the jobs of some partitions have a machine of their own."""
        return self.pools != ("",)

    @property
    def is_several(self) -> bool:
        """True if there is more than processors, or more than one pool."""
        return len(self.names) > 1 or self.has_pools

    @property
    def shape(self) -> Shape:
        """Numbers of the resources."""
        return shape_of(self.names)


def machine_of(config: QueueConfig) -> Machine:
    """Return the machine of settings. Raises InputError for settings that contradict each other."""
    check_names(config.resources, "config.resources")
    pools = config.pools or {"": config.capacity}
    if config.pools and config.capacity:
        raise InputError("config.capacity and config.pools are both given, expected one of them")
    for pool, capacity in pools.items():
        where = f"config.pools.{pool}" if config.pools else "config.capacity"
        for name in capacity:
            known = [*config.resources, *((f"{TYPE}TYPE",) if GPUS in config.resources else ())]
            of_type = name.startswith(TYPE) and GPUS in config.resources and name != ANY_GPUS
            if name not in known and not of_type:
                raise InputError(f"{where}: {name!r} is none of the resources; "
                                 f"{did_you_mean(name, known)}")  # fmt: skip
        if config.pools and PROCESSORS not in capacity:
            raise InputError(f"{where} has no {PROCESSORS}, which a pool must have")
    in_all = {
        name: sum(capacity[name] for capacity in pools.values())
        for name in dict.fromkeys(name for capacity in pools.values() for name in capacity)
        if all(name in capacity for capacity in pools.values())
    }
    types = [n for n in in_order_of_capacity(in_all) if n.startswith(TYPE)]
    wanted = []
    for name in config.resources:
        wanted += types if name == GPUS and types and GPUS not in in_all else [name]
    names = tuple(name for name in wanted if name in in_all or name == PROCESSORS)
    return Machine(
        names=names, left_out=tuple(name for name in wanted if name not in names),
        pools=tuple(pools),
        capacity=tuple(tuple(of.get(name, 0) for name in names) for of in pools.values()),
    )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Asks of N jobs on a machine, with their pools.

    Attributes:
        asks: Their asks.
        pool: Pool of each job, (N,).
        equivalent: Equivalent processors in thousandths, (N,).
        wide: Whether the job is wide, (N,).
    """

    asks: Asks
    pool: Ints
    equivalent: Ints
    wide: NDArray[np.bool_]

    def take(self, jobs: NDArray[np.int64] | NDArray[np.bool_]) -> "Asked":
        """Return what some of the jobs ask for."""
        return Asked(self.asks.take(jobs), self.pool[jobs], self.equivalent[jobs], self.wide[jobs])

    def joined(self, other: "Asked") -> "Asked":
        """Return what these jobs and then others ask for."""
        return Asked(
            self.asks.joined(other.asks),
            np.concatenate([self.pool, other.pool]),
            np.concatenate([self.equivalent, other.equivalent]),
            np.concatenate([self.wide, other.wide]),
        )


@dataclass(frozen=True)
class Fitted:
    """The jobs of a log on a machine of several resources.

    Attributes:
        asked: What the jobs ask for.
        too_wide: First resource in which each job is too wide for its pool, (N,); -1 if none is,
            K if no GPU type has enough.
        capacity: Units of each resource by pool, (M, K).
        caveats: What the log does not tell, and whom the machine leaves out.
    """

    asked: Asked
    too_wide: Ints
    capacity: Ints
    caveats: tuple[Caveat, ...]


def fit(
    machine: Machine, workload: Workload, tasks: pl.DataFrame, cpu: Ints, run: Ints,
    start: Ints, processors: int,
) -> Fitted:  # fmt: skip
    """Return the jobs of a log on a machine.

    Args:
        machine: The machine.
        workload: The log.
        tasks: Its N jobs that ran.
        cpu, run: Processors and run times of the jobs, (N,).
        start: Start of each job in the log, (N,); below -2**61 if it is unknown.
        processors: Processors of the log's machine.

    Raises:
        InputError: The log does not say what jobs ask for, or its jobs name other GPU types.
    """
    named = named_types(workload.tasks)
    types = [name for name in machine.names if name.startswith(TYPE)]
    if types and not named:
        raise InputError(
            f"no job of the log names a GPU type; expected {GPUS!r} in place of {', '.join(types)} "
            "in config.resources, with the sum of their capacities"
        )
    units = units_of(workload.tasks, machine.names)
    capacity = np.array(machine.capacity, np.int64)
    if not machine.has_pools and capacity[0, 0] == 0:
        capacity[0, 0] = processors
    capacity *= units
    asks = read_asks(tasks, cpu, machine.names, units)
    others = (*machine.left_out, *(name for name in named if types and name not in types))
    known = start > _LEAST_START
    caveats = [
        *left_out(dict.fromkeys(others), tasks.filter(known), start[known], run[known]),
        *unknown_asks(asks, machine.names, run),
    ]
    pool = np.zeros(len(cpu), np.int64)
    if machine.has_pools:
        pool = _pool_of(machine, workload, tasks)
        if (lost := int((pool < 0).sum())) > 0:
            text = (
                f"the partition of {lost:,} jobs is unknown or in no pool: the pools are taken as "
                "one machine"
            )
            caveats.append(Caveat("pools_as_one", text, {"jobs": lost}))
            pool, capacity = np.zeros(len(cpu), np.int64), capacity.sum(axis=0, keepdims=True)
    wide = np.full(len(cpu), -1)
    asked = Asked(asks, pool, np.zeros(len(cpu), np.int64), np.zeros(len(cpu), bool))
    for p, most in enumerate(capacity):
        inside = np.flatnonzero(pool == p)
        of_pool = asks.take(inside)
        wide[inside] = too_wide(of_pool, most, machine.shape)
        asked.equivalent[inside] = equivalents(of_pool, most, machine.shape)
        asked.wide[inside] = wide_jobs(of_pool, most, machine.shape)
    for k, name in enumerate((*machine.names, ANY_GPUS)):
        if (count := int((wide == k).sum())) > 0:
            text = f"left out, as they need more {name} than their machine has: {count:,} jobs"
            caveats.append(Caveat("too_wide", text, {"jobs": count}))
    return Fitted(asked, wide, capacity, tuple(caveats))


def _pool_of(machine: Machine, workload: Workload, tasks: pl.DataFrame) -> Ints:
    """Return the pool of each job, (N,); -1 if its partition is unknown or in no pool."""
    if "partition" not in tasks.columns:
        return np.full(tasks.height, -1)
    names: Mapping[int, str] = names_of(workload, "partition")
    pools = {part.strip(): p for p, name in enumerate(machine.pools) for part in name.split("+")}
    numbers = {
        number: pools.get(names.get(number, str(number)), -1)
        for number in tasks["partition"].cast(pl.Int64).drop_nulls().unique().to_list()
    }
    missing = sorted(set(pools) - {names.get(number, str(number)) for number in numbers})
    if missing:
        raise InputError(
            f"config.pools: no job is in partition {missing[0]!r}; "
            f"{did_you_mean(missing[0], [names.get(n, str(n)) for n in numbers])}"
        )
    found = tasks["partition"].cast(pl.Int64).replace_strict(
        numbers, default=-1, return_dtype=pl.Int64
    )  # fmt: skip
    pool: Ints = found.fill_null(-1).to_numpy()
    return pool
