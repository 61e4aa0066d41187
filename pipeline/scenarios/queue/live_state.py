"""States of a real machine as JSON, and the memory in which the compiled `observe` reads them.

A state is an object with these keys, see docs/how-to/decide.md for all of them:

    now, processors          the moment, and the size of the machine
    waiting, running         jobs, the waiting ones in order of arrival
    completed                runs that have ended, the last one at the end: from them predictions,
                             and with config.run_times what is learned from the runs of all users
    reservation              of the job that holds it, if there is one

Times are whole seconds on any one clock. In the memory, time 0 is the moment. The run time of an
unfinished job is unknown: it is set to the requested time, and no observation reads it. Future jobs
are represented by one that never arrives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types

from hindcast.pipeline.errors import InputError, nearest
from hindcast.pipeline.scenarios.queue import dynamics as kernel
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.queue.initial_state import (
    Beginning,
    lay_jobs,
    require_memory,
    settle,
)
from hindcast.pipeline.scenarios.queue.live_fields import (
    COMPLETED,
    JOB_OF_SEVERAL,
    LISTS,
    OF_SEVERAL,
    OTHERS,
    RESERVATION,
    STATE,
    WEEK_S,
    Ints,
    check_jobs,
    check_keys,
    fail,
    kind_of,
    read_flag,
    read_jobs,
    read_names,
    read_number,
    read_values,
)
from hindcast.pipeline.scenarios.queue.machines import Machine, machine_of
from hindcast.pipeline.scenarios.queue.observation import observe
from hindcast.pipeline.scenarios.queue.run_times import contexts_of, learn_all
from hindcast.pipeline.scenarios.queue.several.live import (
    read_amounts,
    read_several,
    reservations_in,
    set_free,
    set_reservation,
    with_processors,
)
from hindcast.pipeline.scenarios.queue.several.transition import is_several, several_of
from hindcast.pipeline.settings.ranges import shown
from hindcast.pipeline.simulation.arrays import EpisodeArrays, begin_episode
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled
from hindcast.pipeline.simulation.scenario import Instance

_THURSDAY_S: Final = 3 * 86_400  # 1970-01-01 was a Thursday


@dataclass(frozen=True)
class Moment:
    """A moment on a machine, in the arrays of an episode that begins and ends with it.

    Attributes:
        arrays: Memory, and the buffers of the last observation.
        now: The moment on the clock of the state, s.
        names: Ids of the waiting jobs; job `first + i` of the memory is names[i].
        first: Number of the first waiting job in the memory.
        heads: Id of the job with the reservation by pool, as far as it is known; pool 0 is that of
            a machine without pools. `take` enters the job that it gives the reservation.
        machine: The machine of the settings.
        units: Units of each resource in the memory, (K,); (1,) on a machine of processors.
    """

    arrays: EpisodeArrays
    now: int
    names: tuple[str | int, ...]
    first: int
    heads: dict[int, str | int | None]
    machine: Machine
    units: Ints


@compiled(types.void(INTS, FLOATS, INTS, INTS, INTS))
def _remember_all(ints, floats, users, keys, seconds):  # type: ignore[no-untyped-def]
    """Enter completed runs into the histories, in this order."""
    for i in range(len(users)):
        kernel.remember(ints, floats, users[i], keys[i], seconds[i])


def read_moment(state: Any, config: QueueConfig, where: str = "state") -> Moment:
    """Return the moment of a state.

    Args:
        state: The state, as json.loads returns it.
        config: Settings; `allow_wait`, `reserve` and `visible` matter.
        where: File and line, for messages.

    Returns:
        The moment, before its first decision.

    Raises:
        InputError: The state is not valid. The message names the key and what was expected.
    """
    if type(state) is not dict:
        fail(where, f"the state is {kind_of(state)}, expected an object with the key 'now'")
    machine = machine_of(config)
    more_keys, of_jobs = (OF_SEVERAL, JOB_OF_SEVERAL) if machine.is_several else ((), ())
    check_keys([state], (*STATE, *LISTS, *OTHERS, *more_keys), where, "")
    state = with_processors(state, machine)
    now, processors = read_number(state, "now", where), read_number(state, "processors", where)
    assert now is not None
    assert processors is not None
    waiting, running = (read_jobs(state, name, where, of_jobs) for name in ("waiting", "running"))
    completed = read_jobs(state, "completed", where)
    columns = {
        (name, key): np.array(read_values(jobs, key, limits, where, name), np.int64)
        for name, jobs in (("waiting", waiting), ("running", running))
        for key, limits in LISTS[name].items()
        if limits is not None
    }
    submit, started = columns["waiting", "submitted"], columns["running", "started"]
    names = read_names(waiting, where)
    check_jobs(columns, names, now, processors, where)
    n, r, w = len(running) + len(waiting), len(running), len(waiting)
    more = int(read_flag(state, "expects_arrivals", where))  # the job that never arrives
    require_memory(config, n + len(completed))

    cpu, requested = (
        np.concatenate([columns["running", k], columns["waiting", k], np.ones(more, np.int64)])
        for k in ("processors", "requested")
    )
    several, units, free = None, np.ones(1, np.int64), None
    if machine.is_several:
        several, units, free = read_several(state, machine, [*running, *waiting], r, more, where)
    user, key, numbers, keys = _users(running, waiting, cpu.tolist(), requested.tolist(), where)
    users, similar, seconds = _runs(completed, numbers, keys, where)
    elapsed = now - started
    run = requested.copy()
    run[:r] = np.maximum(requested[:r], elapsed + 1)  # a running job ends after now
    logged = np.full(n + more, m.NEVER)
    logged[:r] = -elapsed
    first = read_number(state, "first_submitted", where)
    if first is None:
        first = int(submit[0]) if w else now
    elif w and first > submit[0]:
        fail(where, f"first_submitted is {first}, after waiting[0].submitted {submit[0]}")
    arrivals = read_number(state, "arrivals", where)
    if arrivals is None:
        arrivals = int((submit > now - 3600).sum())
    clock = read_number(state, "clock_s", where)
    ints, floats = lay_jobs(config, OBJECTIVES[0], Beginning(
        processors=processors,
        clock_s=(now + _THURSDAY_S) % WEEK_S if clock is None else clock,
        first_submit=first - now, running=r, carried=w, counted=w,
        submit=np.concatenate([-elapsed, submit - now, np.full(more, m.LATER)]),
        cpu=cpu, run=run, requested=requested,
        user=np.concatenate([user, np.full(more, -1)]),
        **_run_times(completed, numbers, np.append(user, np.full(more, -1)), cpu, requested)
        if config.run_times else {},
        key=np.concatenate([key, np.full(more, -1)]),
        queue=np.concatenate([np.zeros(r, np.int64), columns["waiting", "queue"],
                              np.zeros(more, np.int64)]),
        logged=logged, hour=np.zeros(arrivals, np.int64),
        last=np.full(len(numbers), -1), before=np.full(len(numbers), -1),
        similar=np.full(len(keys) + 1, -1), several=several,
    ))  # fmt: skip
    settle(several_of(ints), ints, floats, len(numbers), r)
    _remember_all(ints, floats, users, similar, seconds)
    if several is None:
        _set_free(ints, read_number(state, "free", where), where)
    elif free is not None:
        set_free(ints, free, machine, where)
    rows = w + 1 if machine.has_pools else min(w, int(ints[m.VISIBLE])) + 1
    arrays = begin_episode(spec(config, OBJECTIVES[0]), Instance(ints, floats, rows))
    moment = Moment(arrays, now, names, r, {}, machine, units)
    kept = state.get("reservation")
    for each in kept if machine.has_pools and type(kept) is list else (kept,):
        _reserve(moment, each, where)
    open_for_decisions(moment)  # lists the rows
    return moment


def set_aside(state: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return a state without the waiting jobs that no decision can be about, and these.

    Such a job has no requested time, say, an unknown key, or more processors than the machine. Each
    is returned with its `id` and the `reason`. What is wrong with the state as a whole, or with all
    waiting jobs, is left for `read_moment`.
    """
    jobs = state.get("waiting") if type(state) is dict else None
    if type(jobs) is not list:
        return state, []
    faults = [_fault_of(job, state.get("now"), state.get("processors")) for job in jobs]
    aside = [
        {"id": job.get("id") if type(job) is dict else None, "reason": fault}
        for job, fault in zip(jobs, faults, strict=True)
        if fault
    ]
    kept = [job for job, fault in zip(jobs, faults, strict=True) if not fault]
    return ({**state, "waiting": kept}, aside) if kept else (state, [])


def _fault_of(job: Any, now: Any, processors: Any) -> str:
    """Return what is wrong with a waiting job, "" if nothing is."""
    name = "waiting"
    try:
        jobs = read_jobs({name: [job]}, name, "")
        columns = {
            (name, key): np.array(read_values(jobs, key, limits, "", name), np.int64)
            for key, limits in LISTS[name].items()
            if limits is not None
        }
        names = read_names(jobs, "")
        _users([], jobs, [1], [1], "")
        if type(now) is int and type(processors) is int:
            nobody = {("running", key): np.zeros(0, np.int64) for key in ("started", "processors")}
            check_jobs({**columns, **nobody}, names, now, processors, "")
    except InputError as error:
        return str(error).removeprefix(f": {name}[0]").lstrip(". ")
    return ""


def open_for_decisions(moment: Moment) -> bool:
    """Return whether a visible job can start now."""
    return bool(kernel.can_start(several_of(moment.arrays.ints), moment.arrays.ints))


def observe_moment(moment: Moment) -> int:
    """Fill the buffers of the moment as in training; return the number of rows."""
    return int(observe(*moment.arrays))


def name_of_row(moment: Moment, row: int) -> str | int | None:
    """Return the id of the job of a row, None for the row that waits."""
    ints = moment.arrays.ints
    if row >= int(kernel.shown(ints)):
        return None
    return moment.names[int(kernel.job_of(ints, row)) - moment.first]


def waited_s(moment: Moment) -> Ints:
    """Return the seconds that the visible jobs have waited, in order of arrival."""
    ints = moment.arrays.ints
    at = int(ints[m.ROWS_AT if is_several(ints) else m.WAITING_AT])
    jobs = ints[at : at + int(kernel.shown(ints))]
    return -ints[int(ints[m.SUBMIT_AT]) + jobs]


def take(moment: Moment, row: int) -> str:
    """Start the job of a feasible row, or give it the reservation; return "start" or "reserve".

    The row that waits changes nothing and returns "wait".
    """
    ints, floats = moment.arrays.ints, moment.arrays.floats
    if row >= int(kernel.shown(ints)):
        return "wait"
    job = int(kernel.job_of(ints, row))
    if kernel.is_safe(several_of(ints), ints, job):
        kernel.start_row(several_of(ints), ints, floats, row)
        return "start"
    kernel.reserve(several_of(ints), ints, job)
    moment.heads[_pool_of(ints, job)] = moment.names[job - moment.first]
    return "reserve"


def reservation(moment: Moment) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return id, start and spare processors of the reservation, None in the open phase.

    The start is None if the job would not fit even when all running jobs have ended. With several
    resources `spare` has an amount of each. With pools there is a list of reservations, each with
    its `pool`.
    """
    ints, machine = moment.arrays.ints, moment.machine
    if ints[m.CLOSED] == 0:
        return None
    if not machine.is_several:
        start = None if ints[m.SHADOW] == m.LATER else moment.now + int(ints[m.SHADOW])
        return {"id": moment.heads.get(0), "start": start, "spare": int(ints[m.SPARE])}
    found = []
    for pool, shadow, keys in reservations_in(ints, moment.units, machine):
        start = None if shadow == m.LATER else moment.now + shadow
        found.append({"id": moment.heads.get(pool), "start": start, **keys})
    return found if machine.has_pools else found[0]


def _users(
    running: Sequence[Mapping[str, Any]],
    waiting: Sequence[Mapping[str, Any]],
    cpu: Sequence[int],
    requested: Sequence[int],
    where: str,
) -> tuple[Ints, Ints, dict[Any, int], dict[tuple[int, int, int], int]]:
    """Return user and key of all jobs, the numbers of the users, and the numbers of the keys."""
    names = [job.get("user") for jobs in (running, waiting) for job in jobs]
    if not set(map(type, names)) <= {str, int, type(None)}:
        i = next(i for i, name in enumerate(names) if type(name) not in {str, int, type(None)})
        at = f"running[{i}]" if i < len(running) else f"waiting[{i - len(running)}]"
        fail(where, f"{at}.user is {shown(names[i])}, expected a text, a whole number or null")
    distinct = [name for name in dict.fromkeys(names) if name is not None]
    numbers = {name: i for i, name in enumerate(distinct)}
    user = [-1 if name is None else numbers[name] for name in names]
    keys: dict[tuple[int, int, int], int] = {}
    key = [
        -1 if u < 0 else keys.setdefault((u, n, s), len(keys))
        for u, n, s in zip(user, cpu, requested, strict=False)
    ]
    return np.array(user, np.int64), np.array(key, np.int64), numbers, keys


def _runs(
    completed: Sequence[Mapping[str, Any]],
    numbers: Mapping[Any, int],
    keys: Mapping[tuple[int, int, int], int],
    where: str,
) -> tuple[Ints, Ints, Ints]:
    """Return user, key and seconds of the completed runs of users that have jobs here.

    A run whose key is that of no job has the key behind all others.
    """
    columns = {
        name: read_values(completed, name, limits, where, "completed")
        for name, limits in COMPLETED.items()
        if limits is not None
    }
    names = [run.get("user") for run in completed]
    if not set(map(type, names)) <= {str, int, type(None)}:
        i = next(i for i, name in enumerate(names) if type(name) not in {str, int, type(None)})
        fail(where, f"completed[{i}].user is {shown(names[i])}, expected a text or a whole number")
    users, similar, seconds, other_key = list[int](), list[int](), list[int](), len(keys)
    for name, cpu, requested, run in zip(
        names, columns["processors"], columns["requested"], columns["run"], strict=True
    ):
        if name in numbers:
            user = numbers[name]
            users.append(user)
            similar.append(keys.get((user, cpu, requested), other_key))
            seconds.append(run)
    return np.array(users, np.int64), np.array(similar, np.int64), np.array(seconds, np.int64)


def _run_times(
    completed: Sequence[Mapping[str, Any]], numbers: Mapping[Any, int],
    user: Ints, cpu: Ints, requested: Ints,
) -> dict[str, Any]:  # fmt: skip
    """Return the learned run times of a beginning with these jobs, (N,) each.

    A completed run without its requested time says nothing. They have been checked.
    """
    past = [run for run in completed if run.get("requested") is not None]
    runs, times, cpus = (
        np.array([run.get(name) or 0 for run in past], np.int64)
        for name in ("run", "requested", "processors")
    )
    users = np.array([numbers.get(run.get("user"), -1) for run in past], np.int64)
    known = contexts_of(user, cpu, requested)
    contexts = known.empty()
    learn_all(known.places(users, cpus, times), contexts, 0, runs, times)
    places = known.places(user, cpu, requested)
    return {"row": np.arange(len(user)), "places": places, "contexts": contexts}


def _set_free(ints: Ints, free: int | None, where: str) -> None:
    """Set the free processors if the state gives them: fewer where some are down."""
    largest = int(ints[m.FREE])
    if free is None:
        return
    if free > largest:
        in_use = int(ints[m.PROCESSORS]) - largest
        fail(
            where,
            f"free is {free}, but running jobs hold {in_use} of {ints[m.PROCESSORS]} processors; "
            f"expected at most {largest}",
        )
    ints[m.FREE] = free


def _reserve(moment: Moment, value: Any, where: str) -> None:
    """Close the phase if the state has a reservation, and enter its job."""
    ints, names, now = moment.arrays.ints, moment.names, moment.now
    machine = moment.machine
    if value is None:
        return
    if type(value) is not dict:
        fail(where, f"reservation is {kind_of(value)}, expected an object or null")
    known = (*RESERVATION, "pool") if machine.has_pools else tuple(RESERVATION)
    unknown = sorted(value.keys() - set(known))
    if unknown:
        close = nearest(unknown[0], known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
        fail(where, f"reservation has an unknown key {unknown[0]!r}; {hint}")
    amounts = None
    if machine.is_several and type(value.get("spare")) is dict:
        amounts = read_amounts(value["spare"], machine.names, "reservation.spare", where)
        value = {**value, "spare": 0}
    start, spare = (
        read_number(value, name, where, RESERVATION[name], "reservation.")
        for name in ("start", "spare")
    )
    head: str | int | None = value.get("id")
    if head is not None and head not in names:
        close = nearest(str(head), map(str, names))
        hint = f"; did you mean {close!r}?" if close else ""
        fail(where, f"reservation.id is {shown(head)}, expected the id of a waiting job{hint}")
    if (start is None) != (spare is None) or (start is None and head is None):
        fail(where, "reservation needs start and spare, or id alone, from which both follow")
    if start is None or spare is None:
        assert head is not None
        job = moment.first + names.index(head)
        if kernel.is_safe(several_of(ints), ints, job):
            fail(where, f"reservation.id is {shown(head)}, but this job fits now; leave it out")
        kernel.reserve(several_of(ints), ints, job)
        moment.heads[_pool_of(ints, job)] = head
        return
    if start < now:
        fail(where, f"reservation.start is {start}, expected at least now, {now}")
    pool = 0
    if machine.has_pools:
        if value.get("pool") not in machine.pools:
            pools = ", ".join(machine.pools)
            fail(where, f"reservation.pool is {shown(value.get('pool'))}, expected one of {pools}")
        pool = machine.pools.index(value["pool"])
    moment.heads[pool] = head
    if machine.is_several:
        amounts = amounts or {machine.names[0]: float(spare)}
        set_reservation(ints, pool, start - now, amounts, moment.units, machine)
    else:
        ints[m.CLOSED], ints[m.SHADOW], ints[m.SPARE] = 1, start - now, spare


def _pool_of(ints: Ints, job: int) -> int:
    """Return the pool of a job, 0 on a machine without pools."""
    return int(ints[int(ints[m.POOL_AT]) + job]) if is_several(ints) else 0
