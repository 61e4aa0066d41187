"""Live states of machines of several resources, or of pools.

Beside the keys of hindcast.pipeline.scenarios.queue.live_state:

    capacity     of the machine: GPUs, and memory in MiB; by default that of the settings
    pools        capacity by pool, with its processors; by default those of the settings
    gpus         of a job, all of them
    gpu_types    of a job: those that it asks for, or holds, by type
    memory       of a job in MiB
    pool         of a job, where there are pools
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import did_you_mean
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.asks import (
    ANY_GPUS,
    GPUS,
    MEMORY,
    PROCESSORS,
    TYPE,
    Asks,
    equivalents,
    too_wide,
)
from hindcast.pipeline.scenarios.queue.instances import Several
from hindcast.pipeline.scenarios.queue.live_fields import Ints, check_keys, fail, kind_of
from hindcast.pipeline.scenarios.queue.machines import Asked, Machine
from hindcast.pipeline.settings.ranges import shown

_MOST: Final = 10**12


def read_amount(value: Any, name: str, where: str, least: float = 0) -> float:
    """Return an amount of a resource: whole, or of GPUs with at most three decimals."""
    of_gpus = name.rpartition(".")[2].startswith(GPUS)
    kinds = (int, float) if of_gpus else (int,)
    if type(value) not in kinds or not least <= value <= _MOST or round(value, 3) != value:
        kind = "a number with at most three decimals" if of_gpus else "a whole number"
        fail(where, f"{name} is {shown(value)}, expected {kind} from {least:,} to {_MOST:,}")
    return float(value)


def read_amounts(value: Any, names: Sequence[str], name: str, where: str) -> dict[str, float]:
    """Return the amounts of an object; absent ones are left out."""
    if type(value) is not dict:
        fail(where, f"{name} is {kind_of(value)}, expected an object of amounts by resource")
    check_keys([value], names, where, name)
    return {key: read_amount(value[key], f"{name}.{key}", where, -_MOST) for key in value}


def with_processors(state: Mapping[str, Any], machine: Machine) -> Mapping[str, Any]:
    """Return a state of pools with the processors of all of them."""
    pools = state.get("pools")
    if not machine.has_pools or PROCESSORS in state:
        return state
    if type(pools) is dict and all(type(p) is dict for p in pools.values()):
        given = [p.get(PROCESSORS) for p in pools.values()]
    else:
        given = [of[0] for of in machine.capacity]
    return {**state, PROCESSORS: sum(n for n in given if type(n) is int)}


def read_several(
    state: Mapping[str, Any], machine: Machine, jobs: Sequence[Mapping[str, Any]], running: int,
    more: int, where: str,
) -> tuple[Several, Ints, NDArray[np.float64] | None]:  # fmt: skip
    """Return the machine of a state of M pools and K resources, and what its N jobs ask for.

    The arrays of an episode hold whole numbers. If an amount of GPUs in the state has decimals, all
    amounts of GPUs are held in thousandths.

    Args:
        state: The state.
        machine: The machine of the settings, whose capacities the state may replace.
        jobs: The running jobs, then those that wait.
        running: Number of running jobs.
        more: Number of jobs behind them that never arrive.
        where: File and line, for messages.

    Returns:
        The machine with what the jobs ask for; how many units of the arrays make one of each
        resource, (K,), 1 or 1000; and the free units if the state gives them, (M, K), else None.
        A free amount is NaN where the state does not give it.
    """
    amounts = _amounts(state, "pools" if machine.has_pools else "capacity", machine, where)
    free = None
    if state.get("free") is not None:
        free = _amounts(state, "free", machine, where)
    gpus, types, memory, pool = _of_jobs(jobs, running, machine, where)
    values = [*amounts.reshape(-1), *gpus, *(n for by_type in types for n in by_type.values())]
    values += [] if free is None else [n for n in free.reshape(-1) if not np.isnan(n)]
    unit = 1 if all(float(value).is_integer() for value in values) else 1000
    names = machine.names
    units = np.array([unit if name.startswith(GPUS) else 1 for name in names])
    n = len(jobs) + more
    asked, any_gpus = np.zeros((n, len(names))), np.zeros(n)
    asked[:, 0] = [*(job[PROCESSORS] for job in jobs), *[1] * more]
    for k, name in enumerate(names[1:], 1):
        for i in range(len(jobs)):
            if name == MEMORY:
                asked[i, k] = memory[i]
            elif name == GPUS:
                asked[i, k] = gpus[i]
            else:
                asked[i, k] = types[i].get(name.removeprefix(TYPE), 0.0)
    if any(name.startswith(TYPE) for name in names):
        for i in range(len(jobs)):
            any_gpus[i] = max(gpus[i] - sum(types[i].values()), 0.0)
    asks = Asks(
        np.rint(asked * units).astype(np.int64), np.rint(any_gpus * unit).astype(np.int64),
        np.zeros(asked.shape, bool),
    )  # fmt: skip
    capacity = np.rint(amounts * units).astype(np.int64)
    of_pool = np.array([*pool, *([0] * more)], np.int64)
    equivalent = np.zeros(n, np.int64)
    for p, of_this_pool in enumerate(capacity):
        inside = np.flatnonzero(of_pool == p)
        equivalent[inside] = equivalents(asks.take(inside), of_this_pool, machine.shape)
        lacking = too_wide(asks.take(inside), of_this_pool, machine.shape)
        for i, k in zip(inside[lacking >= 0], lacking[lacking >= 0], strict=True):
            if running <= i < len(jobs):
                name = (*names, ANY_GPUS)[k]
                fail(where, f"waiting[{i - running}] asks for more {name} than there are")
    several = Several(machine, capacity, Asked(asks, of_pool, equivalent, np.zeros(n, bool)))
    return several, units, None if free is None else np.rint(free * units)


def _amounts(
    state: Mapping[str, Any], key: str, machine: Machine, where: str
) -> NDArray[np.float64]:
    """Return the amounts of each resource by pool, (M, K); NaN where what is free is not given."""
    other = "capacity" if machine.has_pools else "pools"
    if state.get(other) is not None:
        fail(where, f"{other} is given, but the settings have {key}; expected {key}")
    found = state.get(key, {})
    if key == "free" and type(found) is int and not machine.has_pools:
        found = {PROCESSORS: found}
    if type(found) is not dict:
        fail(where, f"{key} is {kind_of(found)}, expected an object")
    if machine.has_pools and found:
        check_keys([found], machine.pools, where, key)
    rows = []
    for pool, default in zip(machine.pools, machine.capacity, strict=True):
        name = f"{key}.{pool}" if machine.has_pools else key
        given = found.get(pool, {}) if machine.has_pools else found
        given = read_amounts(given, machine.names, name, where)
        if key == "capacity":
            given[PROCESSORS] = float(state[PROCESSORS])
        unknown = [np.nan] * len(default) if key == "free" else default
        row = [given.get(r, float(n)) for r, n in zip(machine.names, unknown, strict=True)]
        for resource, amount in zip(machine.names, row, strict=True):
            if amount <= 0 and key != "free":
                fail(where, f"{name}.{resource} is {shown(amount)}, expected more than 0")
        rows.append(row)
    return np.array(rows)


def _of_jobs(
    jobs: Sequence[Mapping[str, Any]], running: int, machine: Machine, where: str
) -> tuple[list[float], list[dict[str, float]], list[float], list[int]]:
    """Return of each job all its GPUs, GPUs by type, memory in MiB, and the place of its pool."""
    gpus, types, memory, pool = [], [], [], []
    for i, job in enumerate(jobs):
        at = f"running[{i}]" if i < running else f"waiting[{i - running}]"
        by_type = job.get("gpu_types") or {}
        if type(by_type) is not dict:
            fail(where, f"{at}.gpu_types is {kind_of(by_type)}, expected an object")
        of_types = {
            name: read_amount(number, f"{at}.gpu_types.gpus:{name}", where)
            for name, number in by_type.items()
        }
        total = round(sum(of_types.values()), 3)  # .1 + .2 is not above .3
        value = job.get(GPUS)
        gpus.append(total if value is None else read_amount(value, f"{at}.{GPUS}", where, total))
        types.append(of_types)
        value = job.get(MEMORY)
        memory.append(0.0 if value is None else read_amount(value, f"{at}.{MEMORY}", where))
        pool.append(0)
        if machine.has_pools:
            name = job.get("pool")
            if name not in machine.pools:
                fail(where, f"{at}.pool is {shown(name)}; {did_you_mean(str(name), machine.pools)}")
            pool[-1] = machine.pools.index(name)
    return gpus, types, memory, pool


def set_free(ints: Ints, free: NDArray[np.float64], machine: Machine, where: str) -> None:
    """Set the free units of the arrays, (M, K); NaN leaves what the running jobs do not hold."""
    at = int(ints[m.FREE_AT])
    for i, amount in enumerate(free.reshape(-1)):
        name = machine.names[i % len(machine.names)]
        if amount > ints[at + i]:
            fail(where, f"free has more {name} than the running jobs leave")
        if not np.isnan(amount):
            ints[at + i] = int(amount)


def set_reservation(
    ints: Ints, pool: int, start: int, spare: Mapping[str, float], units: Ints, machine: Machine
) -> None:
    """Close the phase of a pool: enter the reservation of a job that starts at `start`.

    `spare` are the amounts by resource that are left beside it then, 0 where none is given; `units`
    are those of `read_several`, (K,).
    """
    begin = int(ints[m.SPARE_AT]) + pool * len(units)
    for k, name in enumerate(machine.names):
        ints[begin + k] = round(spare.get(name, 0.0) * int(units[k]))
    ints[int(ints[m.SHADOW_AT]) + pool] = start
    ints[int(ints[m.CLOSED_AT]) + pool] = 1
    ints[m.CLOSED] += 1


def reservations_in(
    ints: Ints, units: Ints, machine: Machine
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield pool, start (s of the episode) and keys `spare` and `pool` of each reservation."""
    for pool, name in enumerate(machine.pools):
        if ints[int(ints[m.CLOSED_AT]) + pool] == 1:
            spare = spare_of(ints, pool, units, machine)
            keys = {"spare": spare, "pool": name} if machine.has_pools else {"spare": spare}
            yield pool, int(ints[int(ints[m.SHADOW_AT]) + pool]), keys


def spare_of(ints: Ints, pool: int, units: Ints, machine: Machine) -> dict[str, int | float]:
    """Return the amounts by resource that are left beside the reservation of a pool."""
    begin = int(ints[m.SPARE_AT]) + pool * len(units)
    amounts = (int(ints[begin + k]) / int(unit) for k, unit in enumerate(units))
    return {
        name: int(amount) if amount.is_integer() else amount
        for name, amount in zip(machine.names, amounts, strict=True)
    }
