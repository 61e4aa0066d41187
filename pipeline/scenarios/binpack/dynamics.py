"""Compiled transition of `binpack`; the problem is told in pipeline.scenarios.binpack."""

import numpy as np
from numba import types

from pipeline.scenarios.binpack.layout import (
    ARRIVED,
    CARRIED,
    CORE_USE,
    CORES_AT,
    DURATION_AT,
    FINISH_AT,
    FIRST_START_AT,
    FREE_CORES_AT,
    FREE_MEMORY_AT,
    HEAP_AT,
    LOWER_BOUND,
    MACHINE_AT,
    MACHINES,
    MEMORY_AT,
    MEMORY_USE,
    OBJECTIVE,
    OLDEST_AT,
    OPEN,
    OPEN_RATE,
    PAIRS,
    PAIRS_AT,
    PLACED,
    RUNNING_AT,
    RUNNING_TASKS,
    SEEN_AT,
    TASKS,
    TOTAL_AT,
    UNPLACED_AT,
    UNPLACED_TOTAL,
    WAIT_ROW,
    WAITING,
    WAITING_AT,
    WORK_BOUND,
    U,
)
from pipeline.scenarios.binpack.running import begin_instance, end_oldest, next_release
from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    FORGET,
    INFEASIBLE,
    INTS,
    OUTCOME,
    REWARD,
    RUNNING,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
    compiled,
)


@compiled(types.void(INTS, FLOATS))
def _release(ints, floats):  # type: ignore[no-untyped-def]
    """Give back what ends at or before the clock."""
    now = floats[TIME]
    while ints[RUNNING_TASKS] > 0 and next_release(ints, floats) <= now:
        task = U(ints[U(ints[HEAP_AT])])
        machine = U(ints[U(ints[MACHINE_AT]) + U(ints[U(ints[OLDEST_AT]) + task])])
        end_oldest(ints, floats)
        floats[U(ints[FREE_CORES_AT]) + machine] += floats[U(ints[CORES_AT]) + task]
        floats[U(ints[FREE_MEMORY_AT]) + machine] += floats[U(ints[MEMORY_AT]) + task]
        running = U(ints[RUNNING_AT]) + task
        ints[running] -= 1
        if ints[running] == 0 and ints[U(ints[UNPLACED_AT]) + task] == 0:
            ints[U(ints[FINISH_AT]) + task] = int(now)
            ints[OPEN] -= 1
            floats[OPEN_RATE] -= 1.0 / floats[U(ints[DURATION_AT]) + task]


@compiled(types.void(INTS, FLOATS))
def arrive(ints, floats):  # type: ignore[no-untyped-def]
    """Let in the tasks seen at or before the clock."""
    task = ints[ARRIVED]
    while task < ints[TASKS] and ints[ints[SEEN_AT] + task] <= floats[TIME]:
        ints[ints[WAITING_AT] + ints[WAITING]] = task
        ints[WAITING] += 1
        ints[OPEN] += 1
        ints[UNPLACED_TOTAL] += ints[ints[TOTAL_AT] + task]
        floats[OPEN_RATE] += 1.0 / floats[ints[DURATION_AT] + task]
        task += 1
    ints[ARRIVED] = task


@compiled(FORGET)
def forget(ints, floats):  # type: ignore[no-untyped-def]
    """Take out the tasks that have not been seen; when the first of them would have been.

    Bounds and the work of the window, which only `outcome` reads, still speak of all tasks.
    """
    arrived = ints[ARRIVED]
    if arrived == ints[TASKS]:
        return np.inf
    ints[TASKS] = arrived
    return float(ints[ints[SEEN_AT] + arrived])


@compiled(types.boolean(INTS, FLOATS))
def anything_fits(ints, floats):  # type: ignore[no-untyped-def]
    """Whether a (machine, waiting task) pair fits."""
    cores, memory, waiting = U(ints[CORES_AT]), U(ints[MEMORY_AT]), U(ints[WAITING_AT])
    for machine in range(ints[MACHINES]):
        free_cores = floats[U(ints[FREE_CORES_AT] + machine)]
        free_memory = floats[U(ints[FREE_MEMORY_AT] + machine)]
        for i in range(ints[WAITING]):
            task = U(ints[waiting + U(i)])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                return True
    return False


@compiled(types.int64(INTS, FLOATS, FLOATS))
def advance(ints, floats, passed):  # type: ignore[no-untyped-def]
    """Let time pass to the next decision or the end; add to passed[0:3] and return the status.

    passed: ticks, sum of open tasks over these ticks, the same weighted by 1 / duration.
    """
    while True:
        arrives = ints[ARRIVED] < ints[TASKS]
        if not arrives and ints[RUNNING_TASKS] == 0:
            return TERMINATED
        event = np.inf
        if arrives:
            event = float(ints[ints[SEEN_AT] + ints[ARRIVED]])
        if ints[RUNNING_TASKS] > 0:
            event = min(event, next_release(ints, floats))
        ticks = event - floats[TIME]
        passed[0] += ticks
        passed[1] += ticks * ints[OPEN]
        passed[2] += ticks * floats[OPEN_RATE]
        floats[TIME] = event
        _release(ints, floats)
        arrive(ints, floats)
        if anything_fits(ints, floats):
            return RUNNING


@compiled(types.void(INTS, FLOATS, types.int64))
def _place(ints, floats, pair):  # type: ignore[no-untyped-def]
    """Start one instance of the pair now."""
    machines = ints[MACHINES]
    task = U(pair // machines)
    machine = U(pair) - task * U(machines)
    floats[U(ints[FREE_CORES_AT]) + machine] -= floats[U(ints[CORES_AT]) + task]
    floats[U(ints[FREE_MEMORY_AT]) + machine] -= floats[U(ints[MEMORY_AT]) + task]
    begin_instance(ints, floats, task, machine)
    ints[UNPLACED_TOTAL] -= 1
    ints[U(ints[RUNNING_AT]) + task] += 1
    unplaced = U(ints[UNPLACED_AT]) + task
    if ints[unplaced] == ints[U(ints[TOTAL_AT]) + task]:
        ints[U(ints[FIRST_START_AT]) + task] = int(floats[TIME])
    ints[unplaced] -= 1
    if ints[unplaced] == 0:
        waiting = ints[ints[WAITING_AT] : ints[WAITING_AT] + ints[WAITING]]
        gone = False
        for i in range(len(waiting) - 1):
            gone = gone or U(waiting[i]) == task
            if gone:
                waiting[i] = waiting[i + 1]
        ints[WAITING] -= 1


@compiled(STEP)
def step(ints, floats, choice, booked):  # type: ignore[no-untyped-def]
    """Place the pair in row `choice` of the last observation, or wait; time passes if it must."""
    pairs = ints[PAIRS]
    waits = choice == pairs and ints[WAIT_ROW] == 1 and pairs > 0
    if choice < 0 or choice > pairs or (choice == pairs and not waits):
        return INFEASIBLE
    if waits and ints[RUNNING_TASKS] == 0 and ints[ARRIVED] == ints[TASKS]:
        return INFEASIBLE
    booked[ELAPSED] = floats[CARRIED]
    booked[TERMS] = floats[CARRIED]
    booked[TERMS + 1] = floats[CARRIED + 1]
    booked[TERMS + 2] = floats[CARRIED + 2]
    floats[CARRIED] = floats[CARRIED + 1] = floats[CARRIED + 2] = 0.0
    status = RUNNING
    ints[PLACED] = -1
    if not waits:
        ints[PLACED] = ints[U(ints[PAIRS_AT] + choice)]
        _place(ints, floats, ints[PLACED])
    if waits or not anything_fits(ints, floats):
        ints[PLACED] = -1
        passed = booked[TERMS : TERMS + 3]
        status = advance(ints, floats, passed)
        booked[ELAPSED] = passed[0]
    for term in range(TERMS, TERMS + 3):
        booked[term] = 0.0 - booked[term]  # not -x: a zero stays +0.0
    booked[REWARD] = booked[TERMS + ints[OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec; tasks without a finish count until now."""
    tasks = ints[TASKS]
    now = floats[TIME]
    completion = slowdown = started_completion = started_slowdown = 0.0
    unfinished = 0
    for task in range(tasks):
        finish = float(ints[ints[FINISH_AT] + task])
        if finish < 0:
            finish = now
            unfinished += 1
        duration = floats[ints[DURATION_AT] + task]
        waited = finish - ints[ints[SEEN_AT] + task]
        ran = finish - ints[ints[FIRST_START_AT] + task]
        completion += waited
        slowdown += waited / duration
        started_completion += ran
        started_slowdown += ran / duration
    outcomes[0] = now
    outcomes[1] = completion / tasks
    outcomes[2] = slowdown / tasks
    outcomes[3] = started_completion / tasks
    outcomes[4] = started_slowdown / tasks
    outcomes[5] = floats[CORE_USE] / now
    outcomes[6] = floats[MEMORY_USE] / now
    outcomes[7] = floats[WORK_BOUND]
    outcomes[8] = floats[LOWER_BOUND]
    outcomes[9] = now / floats[LOWER_BOUND]
    outcomes[10] = unfinished
