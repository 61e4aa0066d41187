"""The memory of a `queue` episode before its first decision."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import dynamics as kernel
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.bounds import bounds_by_resource, lower_bounds
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.features import OBJECTIVES, TERMS
from hindcast.pipeline.scenarios.queue.fitting import Shape
from hindcast.pipeline.scenarios.queue.instances import (
    Jobs,
    Log,
    Several,
    histories,
    recent_submissions,
)
from hindcast.pipeline.scenarios.queue.machines import Asked
from hindcast.pipeline.scenarios.queue.run_times import learned
from hindcast.pipeline.scenarios.queue.several.transition import (
    begin_running,
    compiled_for_both,
    several_of,
    wake_pools,
)
from hindcast.pipeline.simulation.kernel import FLOATS, INTS
from hindcast.pipeline.simulation.scenario import Instance, make_memory, require_room

_NUMBERS_PER_JOB = 32  # of memory, at most: blocks per job, per user, per key and of the profile
_NUMBERS_PER_RUN_TIME = 20  # more with learned run times: blocks per job, and contexts


@dataclass(frozen=True)
class Beginning:
    """The state of the machine and the queue at time 0, from which times are seconds.

    Attributes:
        processors: Processors of the machine.
        clock_s: Local time at time 0, in seconds since some Monday, 00:00.
        first_submit: First submission of all jobs.
        running: Number of jobs that run; they come first.
        carried: Number of jobs that wait; they come next.
        counted: Number of counted jobs, from the first carried one on.
        submit: Submission, (N,).
        cpu: Processors, (N,).
        run: Run time in s, (N,).
        requested: Requested time in s, (N,).
        user: Number of the user, -1 if unknown, (N,).
        key: Number of the key, -1 if the user is unknown, (N,).
        queue: Number of the queue, (N,).
        logged: Start in the log, (N,); layout.NEVER if it is unknown.
        hour: Submissions of the hour before time 0 and later, ascending.
        last: Last completed run of every user in s, (U,); -1 if there is none.
        before: The run before it, (U,).
        similar: Last completed run of every key, (K,).
        row: Number in the log, (N,); (0,) without learned run times.
        places: Places of the contexts of every job, (4 N,); (0,) without learned run times.
        contexts: The contexts, see hindcast.pipeline.scenarios.queue.run_times.
        several: What the jobs ask for on a machine of several resources, None on one of processors.
    """

    processors: int
    clock_s: int
    first_submit: int
    running: int
    carried: int
    counted: int
    submit: NDArray[np.int64]
    cpu: NDArray[np.int64]
    run: NDArray[np.int64]
    requested: NDArray[np.int64]
    user: NDArray[np.int64]
    key: NDArray[np.int64]
    queue: NDArray[np.int64]
    logged: NDArray[np.int64]
    hour: NDArray[np.int64]
    last: NDArray[np.int64]
    before: NDArray[np.int64]
    similar: NDArray[np.int64]
    row: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    places: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    contexts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    several: Several | None = None


@compiled_for_both(types.void, INTS, FLOATS, types.int64, types.int64)
def settle(several, ints, floats, users, running):  # type: ignore[no-untyped-def]
    """Compute logarithms, start the running jobs, and queue the waiting ones."""
    by_start = np.arange(running)
    if several is not None:  # what is of any type was taken in order of the starts
        logged = ints[m.LOGGED_AT]
        by_start = np.argsort(ints[logged : logged + running], kind="mergesort")
    for job in range(ints[m.JOBS]):
        cpu, requested = ints[ints[m.CPU_AT] + job], ints[ints[m.REQUESTED_AT] + job]
        floats[ints[m.LN_CPU_AT] + job] = math.log(float(cpu))
        floats[ints[m.LN_REQUESTED_AT] + job] = math.log(float(requested))
        floats[ints[m.LN_AREA_AT] + job] = math.log(float(cpu * requested))
        if several is not None:
            area = float(requested * ints[ints[m.EQUIVALENT_AT] + job]) / 1000.0
            floats[ints[m.LN_AREA_AT] + job] = math.log(area)
    for user in range(users):
        last, before = ints[ints[m.LAST_AT] + user], ints[ints[m.BEFORE_AT] + user]
        if last >= 0:
            mean = float(last) if before < 0 else (before + last) / 2.0
            floats[ints[m.LN_PREDICTED_AT] + user] = math.log(mean)
    for job in by_start:
        if several is not None:
            begin_running(ints, job)
        kernel.run(several, ints, job, ints[ints[m.LOGGED_AT] + job])
    for job in range(running, running + ints[m.CARRIED]):
        kernel.arrive(several, ints, floats, job)
    kernel.happen(several, ints, floats)
    if several is not None:
        wake_pools(ints)


@compiled_for_both(types.void, INTS, FLOATS)
def _pass_to_first_decision(several, ints, floats):  # type: ignore[no-untyped-def]
    """Let time pass until a job can start, unless one can already."""
    if not kernel.can_start(several, ints):
        terms = np.zeros(len(TERMS))
        kernel.pass_time(several, ints, floats, terms)
        floats[m.FIRST_SLOWDOWN], floats[m.FIRST_WAIT] = terms[0], terms[1]
        floats[m.FIRST_ELAPSED] = ints[m.NOW]


def require_memory(config: QueueConfig, jobs: int) -> None:
    """Raise InputError if an episode of that many jobs needs too much memory."""
    per_resource = 3 + max(len(config.pools), 1)  # asks, the profile, and what users hold
    more = config.run_times * _NUMBERS_PER_RUN_TIME + per_resource * len(config.resources)
    require_room(float(_NUMBERS_PER_JOB + more) * jobs)


def lay_jobs(
    config: QueueConfig, objective: str, jobs: Beginning
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return memory with these jobs, of which none runs or waits yet."""
    n, users, several = len(jobs.submit), len(jobs.last), jobs.several
    pools, blocks = (1, ()) if several is None else _blocks(several, n, users)
    ints, floats = make_memory(
        m.INT_HEADER if several is None else m.SEVERAL_HEADER,
        (
            (m.SUBMIT_AT, n, jobs.submit),
            (m.CPU_AT, n, jobs.cpu),
            (m.RUN_AT, n, jobs.run),
            (m.REQUESTED_AT, n, jobs.requested),
            (m.USER_AT, n, jobs.user),
            (m.KEY_AT, n, jobs.key),
            (m.QUEUE_AT, n, jobs.queue),
            (m.LOGGED_AT, n, jobs.logged),
            (m.START_AT, n, m.NEVER),
            (m.END_AT, n, m.NEVER),
            (m.STAMP_AT, n, m.NEVER),
            (m.WAITING_AT, n, -1),
            (m.BY_REQUEST_AT, n, -1),
            (m.BY_END_AT, n, -1),
            (m.HOUR_AT, len(jobs.hour), jobs.hour),
            (m.LAST_AT, users, jobs.last),
            (m.BEFORE_AT, users, jobs.before),
            (m.HELD_AT, users, 0),
            (m.USER_WAITING_AT, users, 0),
            (m.USER_STAMP_AT, users, 0),
            (m.ROW_AT, len(jobs.row), jobs.row),
            (m.PLACES_AT, len(jobs.places), jobs.places),
            *blocks,
        ),
        m.FLOAT_HEADER,
        (
            (m.LN_CPU_AT, n, 0.0),
            (m.LN_REQUESTED_AT, n, 0.0),
            (m.LN_AREA_AT, n, 0.0),
            (m.LN_WAITED_AT, n, 0.0),
            (m.WEIGHT_AT, n, 1.0 / np.maximum(jobs.run, m.TAU)),
            (m.LN_PREDICTED_AT, users, np.inf),
            (m.LN_USER_WAITING_AT, users, 0.0),
            (
                m.LN_SIMILAR_AT,
                len(jobs.similar),
                np.log(np.where(jobs.similar > 0, jobs.similar, np.inf)),
            ),
            (m.PROFILE_END_AT, n + pools, 0.0),
            (m.PROFILE_FREE_AT, n + pools, 0.0),
            (m.PROFILE_LN_AT, n + pools, 0.0),
            (m.SUMS_AT, len(jobs.contexts), jobs.contexts),
            (m.VERSION_AT, len(jobs.row), -1.0),
            (m.LN_WEIGHT_AT, len(jobs.row), 0.0),
            (m.LN_EXPECTED_AT, len(jobs.row), 0.0),
        ),
    )
    ints[m.JOBS], ints[m.PROCESSORS], ints[m.FREE] = n, jobs.processors, jobs.processors
    ints[m.FIRST_COUNTED], ints[m.COUNTED], ints[m.CARRIED] = (
        jobs.running,
        jobs.counted,
        jobs.carried,
    )
    ints[m.NEXT] = jobs.running + jobs.carried
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    ints[m.ALLOW_WAIT], ints[m.RESERVE] = config.allow_wait, config.reserve
    ints[m.VISIBLE] = config.visible or n
    ints[m.CLOCK] = jobs.clock_s
    ints[m.HOURS] = len(jobs.hour)
    ints[m.HOUR_FIRST] = ints[m.HOUR_LAST] = ints[m.HOUR_AT]
    ints[m.TOLD] = m.NEVER
    ints[m.FIRST_SUBMIT] = jobs.first_submit
    ints[m.RUN_TIMES] = config.run_times
    if several is not None:
        ints[m.RESOURCES], ints[m.FIRST_TYPE], ints[m.LAST_TYPE] = several.machine.shape
        ints[m.POOLS], ints[m.HAS_POOLS] = pools, several.machine.has_pools
        ints[m.WISHING] = -1
    return ints, floats


def _blocks(several: Several, n: int, users: int) -> tuple[int, tuple[tuple[int, int, Any], ...]]:
    """Return the number of pools, and the blocks of ints of a machine of several resources."""
    pools, resources = several.capacity.shape
    asked, amounts = several.asked, pools * resources
    return pools, (
        (m.CAPACITY_AT, amounts, several.capacity.reshape(-1)),
        (m.FREE_AT, amounts, several.capacity.reshape(-1)),
        (m.SPARE_AT, amounts, 0),
        (m.SHADOW_AT, pools, m.LATER),
        *((block, pools, 0) for block in (m.CLOSED_AT, m.AWAKE_AT, m.IN_ROWS_AT, m.SEEN_AT)),
        (m.GROUPS_AT, pools + 1, 0),
        (m.ASK_AT, n * (resources + 1), asked.asks.rows.reshape(-1)),
        (m.PLACED_AT, n, 0),
        (m.EQUIVALENT_AT, n, asked.equivalent),
        (m.POOL_AT, n, asked.pool),
        (m.WIDE_AT, n, asked.wide),
        (m.ROWS_AT, n, -1),
        (m.HOLDS_AT, users * amounts, 0),
        (m.ASKED_AT, resources, 0),
        (m.PROFILE_AT, (n + pools) * resources, 0),
    )


def lay_out(config: QueueConfig, objective: str, log: Log, jobs: Jobs) -> Instance:
    """Return the memory of an episode with these jobs."""
    chosen = np.concatenate([jobs.running, jobs.carried, jobs.counted, jobs.follow]).astype(int)
    n, running, carried = len(chosen), len(jobs.running), len(jobs.carried)
    require_memory(config, n)
    counted = carried + len(jobs.counted)
    submit, cpu, requested = log.submit[chosen] - jobs.now, log.cpu[chosen], log.requested[chosen]
    run = np.minimum(log.run[chosen], requested) if config.kill else log.run[chosen]
    logged = log.start[chosen]
    logged = np.where(logged == m.NEVER, m.NEVER, logged - jobs.now)
    users, user = _renumbered(log.user[chosen])
    keys, key = _renumbered(log.key[chosen])
    last, before, similar = histories(log, jobs.now, users, keys)
    hour = np.concatenate(
        [recent_submissions(log, jobs.now) - jobs.now, submit[running + carried :]]
    )
    several, of_run_times = log.several, {}
    if config.run_times:
        places, contexts = learned(log, jobs.now, log.user[chosen], cpu, requested)
        of_run_times = {"row": chosen, "places": places, "contexts": contexts}
    ints, floats = lay_jobs(config, objective, Beginning(
        processors=log.processors, clock_s=jobs.now + config.clock_s,
        first_submit=int(submit[running:].min()), running=running, carried=carried,
        counted=counted, submit=submit, cpu=cpu, run=run, requested=requested, user=user, key=key,
        queue=log.queue[chosen], logged=logged, hour=hour, last=last, before=before,
        similar=similar, **of_run_times,
        several=several and replace(several, asked=several.asked.take(chosen)),
    ))  # fmt: skip
    settle(several_of(ints), ints, floats, len(users), running)
    of_counted = slice(running, running + counted)
    if several is None:
        bounds = lower_bounds(
            log.processors, np.maximum(submit[of_counted], 0), cpu[of_counted], run[of_counted],
            (logged + run)[:running], cpu[:running],
        )  # fmt: skip
    else:
        bounds = _bounds_by_pool(ints, several.asked.take(chosen), submit, run, logged)
    floats[m.SLOWDOWN_BOUND], floats[m.WAIT_BOUND] = bounds
    _pass_to_first_decision(several_of(ints), ints, floats)
    rows = int(ints[m.VISIBLE]) * (1 if several is None else int(ints[m.POOLS]))
    return Instance(ints, floats, capacity=min(n - running, rows) + 1)


def _bounds_by_pool(
    ints: NDArray[np.int64], asked: Asked, submit: NDArray[np.int64], run: NDArray[np.int64],
    logged: NDArray[np.int64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the two lower bounds of an episode that has begun: the mean of those of its pools."""
    running, counted = int(ints[m.FIRST_COUNTED]), int(ints[m.COUNTED])
    pools, resources = int(ints[m.POOLS]), int(ints[m.RESOURCES])
    capacity = ints[ints[m.CAPACITY_AT] :][: pools * resources].reshape(pools, resources)
    held = asked.asks.asked[:running].copy()
    placed = ints[ints[m.PLACED_AT] :][:running]
    held[np.arange(running), placed] += asked.asks.any_gpus[:running]
    number, total = np.arange(len(submit)), np.zeros(2)
    for pool in range(pools):
        inside = asked.pool == pool
        jobs = np.flatnonzero(inside & (number >= running) & (number < running + counted))
        if len(jobs):
            runs = np.flatnonzero(inside[:running])
            of_resources = bounds_by_resource(
                capacity[pool], np.maximum(submit[jobs], 0), asked.asks.asked[jobs],
                asked.asks.any_gpus[jobs], run[jobs], (logged + run)[runs], held[runs],
                Shape(*ints[m.RESOURCES : m.LAST_TYPE + 1].tolist()),
            )  # fmt: skip
            total += len(jobs) * of_resources.max(axis=0)
    return total / counted


def _renumbered(
    values: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct known numbers, ascending, and the place of each value in them.

    The place of an unknown number (-1) is -1.
    """
    numbers, places = np.unique(values, return_inverse=True)
    unknown = int(len(numbers) > 0 and numbers[0] < 0)
    return numbers[unknown:], places.reshape(-1) - unknown
