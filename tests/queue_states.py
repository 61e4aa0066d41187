"""States of episodes of `queue` as JSON, to compare decisions of a simulator with live ones."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.asks import GPUS, MEMORY, TYPE
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.live_fields import WEEK_S, Ints
from hindcast.pipeline.scenarios.queue.machines import Machine, machine_of
from hindcast.pipeline.scenarios.queue.several.live import reservations_in


def state_of(
    ints: NDArray[np.int64], floats: NDArray[np.float64], config: QueueConfig | None = None
) -> dict[str, Any]:
    """Return the state of an episode at a decision, in which names are numbers.

    The settings are needed with several resources or pools.

    Observations of `read_moment` of the state equal those of the episode. The state does not hold
    what no scheduler knows: run times of jobs that have not ended, and jobs to come. Learned run
    times would need every completed run, and the state has those of the predictions alone.
    """
    now = int(ints[m.NOW])

    def block(place: int, jobs: Ints) -> list[int]:
        values: list[int] = ints[int(ints[place]) + jobs].tolist()
        return values

    def jobs_at(place: int, count: int) -> Ints:
        return ints[int(ints[place]) : int(ints[place]) + count]

    waits = jobs_at(m.WAITING_AT, int(ints[m.WAITING]))
    runs = jobs_at(m.BY_REQUEST_AT, int(ints[m.RUNNING]))
    hour = jobs_at(m.HOUR_AT, int(ints[m.HOURS]))
    state: dict[str, Any] = {
        "now": now,
        "processors": int(ints[m.PROCESSORS]),
        "free": int(ints[m.FREE]),
        "clock_s": (int(ints[m.CLOCK]) + now) % WEEK_S,
        "arrivals": int(((hour <= now) & (hour > now - 3600)).sum()),
        "first_submitted": int(ints[m.FIRST_SUBMIT]),
        "expects_arrivals": bool(ints[m.NEXT] < ints[m.JOBS]),
        "waiting": _objects(
            ("id", "submitted", "processors", "requested", "user", "queue"),
            waits.tolist(),
            *(block(at, waits) for at in (m.SUBMIT_AT, m.CPU_AT, m.REQUESTED_AT)),
            [None if u < 0 else u for u in block(m.USER_AT, waits)],
            block(m.QUEUE_AT, waits),
        ),
        "running": _objects(
            ("id", "started", "processors", "requested", "user"),
            runs.tolist(),
            *(block(at, runs) for at in (m.START_AT, m.CPU_AT, m.REQUESTED_AT)),
            [None if u < 0 else u for u in block(m.USER_AT, runs)],
        ),
        "completed": _completed(ints, floats, waits),
    }
    if config is not None and (machine := machine_of(config)).is_several:
        for jobs, numbers in ((state["waiting"], waits), (state["running"], runs)):
            for job, keys in zip(
                jobs, _keys_of_several(ints, numbers.tolist(), machine), strict=True
            ):
                job.update(keys)
        del state["free"]  # what the running jobs leave
        state |= _capacities_in(ints, machine)
        state["reservation"] = [
            {"start": shadow, **keys}
            for _, shadow, keys in reservations_in(ints, _units_in(ints, machine), machine)
        ]
        if not machine.has_pools:
            state["reservation"] = next(iter(state["reservation"]), None)
    elif ints[m.CLOSED] == 1:
        state["reservation"] = {"start": int(ints[m.SHADOW]), "spare": int(ints[m.SPARE])}
    return state


def _objects(names: Sequence[str], *columns: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _completed(ints: Ints, floats: NDArray[np.float64], waits: Ints) -> list[dict[str, Any]]:
    """Return completed runs that reproduce the histories of the waiting users.

    These are the last run of every key, then the last two of every user.
    """
    similar, users = {}, {}
    for job in waits.tolist():
        user, key = int(ints[ints[m.USER_AT] + job]), int(ints[ints[m.KEY_AT] + job])
        if user < 0:
            continue
        users[user] = [int(ints[ints[at] + user]) for at in (m.BEFORE_AT, m.LAST_AT)]
        ln = float(floats[ints[m.LN_SIMILAR_AT] + key])
        if math.isfinite(ln):
            similar[key] = {
                "user": user,
                "processors": int(ints[ints[m.CPU_AT] + job]),
                "requested": int(ints[ints[m.REQUESTED_AT] + job]),
                "run": round(math.exp(ln)),
            }
    runs = list(similar.values())
    listed_users = {run["user"] for run in runs}
    for user, (before, last) in users.items():
        if before >= 0:
            runs += [{"user": user, "run": before}, {"user": user, "run": last}]
        elif last >= 0 and user not in listed_users:  # the user's only run belongs to no key
            runs.append({"user": user, "run": last})
    return runs


def _units_in(ints: Ints, machine: Machine) -> Ints:
    """Return how many units of an episode's arrays make one of each resource, (K,): 1 or 1000.

    The capacity of the episode must be that of the settings.
    """
    begin = int(ints[m.CAPACITY_AT])
    given = np.array([max(amount, 1) for amount in machine.capacity[0]])
    units = ints[begin : begin + len(given)] // given
    return np.where(np.array([name.startswith(GPUS) for name in machine.names]), units, 1)


def _keys_of_several(ints: Ints, jobs: Sequence[int], machine: Machine) -> list[dict[str, Any]]:
    """Return the further keys of jobs in a state of an episode; a running job holds its type."""
    units, names = _units_in(ints, machine), machine.names
    shape, width, found = machine.shape, len(names) + 1, []
    for job in jobs:
        begin = int(ints[m.ASK_AT]) + width * job
        amounts = [int(n) / int(unit) for n, unit in zip(ints[begin:], units, strict=False)]
        unit = int(units[shape.first_type]) if shape.last_type else 1
        of_any = int(ints[begin + width - 1]) / unit
        keys: dict[str, Any] = dict(zip(names[1:], amounts[1:], strict=True))
        types = {n.removeprefix(TYPE): keys.pop(n) for n in names if n.startswith(TYPE)}
        if types:
            keys[GPUS] = sum(types.values()) + of_any
            placed = int(ints[int(ints[m.PLACED_AT]) + job])
            if placed:
                types[names[placed].removeprefix(TYPE)] += of_any
            keys["gpu_types"] = types
        if MEMORY in keys:
            keys[MEMORY] = int(keys[MEMORY])
        if machine.has_pools:
            keys["pool"] = machine.pools[int(ints[int(ints[m.POOL_AT]) + job])]
        found.append(keys)
    return found


def _capacities_in(ints: Ints, machine: Machine) -> dict[str, Any]:
    """Return the key `capacity`, or `pools`, of the state of an episode."""
    begin, units, width = int(ints[m.CAPACITY_AT]), _units_in(ints, machine), len(machine.names)
    pools = {
        pool: {
            name: int(ints[begin + width * p + k]) // int(units[k])
            for k, name in enumerate(machine.names)
        }
        for p, pool in enumerate(machine.pools)
    }
    return {"pools": pools} if machine.has_pools else {"capacity": pools[""]}
