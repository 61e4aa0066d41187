"""Compiled transition of `binpack`. The problem is described in pipeline.scenarios.binpack."""

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.binpack import layout as m
from hindcast.pipeline.scenarios.binpack.features import OUT, TERM
from hindcast.pipeline.scenarios.binpack.layout import U
from hindcast.pipeline.scenarios.binpack.running import begin_instance, end_oldest, next_release
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, FORGET, INTS, OUTCOME, STEP, compiled


@compiled(types.void(INTS, FLOATS))
def _release(ints, floats):  # type: ignore[no-untyped-def]
    """Return the resources of the instances that end at or before the clock."""
    now = floats[k.TIME]
    while ints[m.RUNNING_TASKS] > 0 and next_release(ints, floats) <= now:
        task = U(ints[U(ints[m.HEAP_AT])])
        machine = U(ints[U(ints[m.MACHINE_AT]) + U(ints[U(ints[m.OLDEST_AT]) + task])])
        end_oldest(ints, floats)
        floats[U(ints[m.FREE_CORES_AT]) + machine] += floats[U(ints[m.CORES_AT]) + task]
        floats[U(ints[m.FREE_MEMORY_AT]) + machine] += floats[U(ints[m.MEMORY_AT]) + task]
        running = U(ints[m.RUNNING_AT]) + task
        ints[running] -= 1
        if ints[running] == 0 and ints[U(ints[m.UNPLACED_AT]) + task] == 0:
            ints[U(ints[m.FINISH_AT]) + task] = int(now)
            ints[m.OPEN] -= 1
            floats[m.OPEN_RATE] -= 1.0 / floats[U(ints[m.DURATION_AT]) + task]


@compiled(types.void(INTS, FLOATS))
def arrive(ints, floats):  # type: ignore[no-untyped-def]
    """Admit the tasks seen at or before the clock."""
    task = ints[m.ARRIVED]
    while task < ints[m.TASKS] and ints[ints[m.SEEN_AT] + task] <= floats[k.TIME]:
        ints[ints[m.WAITING_AT] + ints[m.WAITING]] = task
        ints[m.WAITING] += 1
        ints[m.OPEN] += 1
        ints[m.UNPLACED_TOTAL] += ints[ints[m.TOTAL_AT] + task]
        floats[m.OPEN_RATE] += 1.0 / floats[ints[m.DURATION_AT] + task]
        task += 1
    ints[m.ARRIVED] = task


@compiled(FORGET)
def forget(ints, floats):  # type: ignore[no-untyped-def]
    """Remove the tasks that have not been seen; return the time at which the first would be.

    The bounds and the work of the window, which only `outcome` reads, still cover all tasks.
    """
    arrived = ints[m.ARRIVED]
    if arrived == ints[m.TASKS]:
        return np.inf
    ints[m.TASKS] = arrived
    return float(ints[ints[m.SEEN_AT] + arrived])


@compiled(types.boolean(INTS, FLOATS))
def anything_fits(ints, floats):  # type: ignore[no-untyped-def]
    """Return whether any pair of a machine and a waiting task fits."""
    cores, memory, waiting = U(ints[m.CORES_AT]), U(ints[m.MEMORY_AT]), U(ints[m.WAITING_AT])
    for machine in range(ints[m.MACHINES]):
        free_cores = floats[U(ints[m.FREE_CORES_AT] + machine)]
        free_memory = floats[U(ints[m.FREE_MEMORY_AT] + machine)]
        for i in range(ints[m.WAITING]):
            task = U(ints[waiting + U(i)])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                return True
    return False


@compiled(types.int64(INTS, FLOATS, FLOATS))
def advance(ints, floats, passed):  # type: ignore[no-untyped-def]
    """Let time pass to the next decision or the end; return the status.

    Adds to passed[0:3]: ticks, the sum of open tasks over these ticks, and the same sum weighted
    by 1 / duration.
    """
    while True:
        arrives = ints[m.ARRIVED] < ints[m.TASKS]
        if not arrives and ints[m.RUNNING_TASKS] == 0:
            return k.TERMINATED
        event = np.inf
        if arrives:
            event = float(ints[ints[m.SEEN_AT] + ints[m.ARRIVED]])
        if ints[m.RUNNING_TASKS] > 0:
            event = min(event, next_release(ints, floats))
        ticks = event - floats[k.TIME]
        passed[TERM.makespan] += ticks
        passed[TERM.completion] += ticks * ints[m.OPEN]
        passed[TERM.slowdown] += ticks * floats[m.OPEN_RATE]
        floats[k.TIME] = event
        _release(ints, floats)
        arrive(ints, floats)
        if anything_fits(ints, floats):
            return k.RUNNING


@compiled(types.void(INTS, FLOATS, types.int64))
def _place(ints, floats, pair):  # type: ignore[no-untyped-def]
    """Start one instance of the pair now."""
    machines = ints[m.MACHINES]
    task = U(pair // machines)
    machine = U(pair) - task * U(machines)
    floats[U(ints[m.FREE_CORES_AT]) + machine] -= floats[U(ints[m.CORES_AT]) + task]
    floats[U(ints[m.FREE_MEMORY_AT]) + machine] -= floats[U(ints[m.MEMORY_AT]) + task]
    begin_instance(ints, floats, task, machine)
    ints[m.UNPLACED_TOTAL] -= 1
    ints[U(ints[m.RUNNING_AT]) + task] += 1
    unplaced = U(ints[m.UNPLACED_AT]) + task
    if ints[unplaced] == ints[U(ints[m.TOTAL_AT]) + task]:
        ints[U(ints[m.FIRST_START_AT]) + task] = int(floats[k.TIME])
    ints[unplaced] -= 1
    if ints[unplaced] == 0:
        waiting = ints[ints[m.WAITING_AT] : ints[m.WAITING_AT] + ints[m.WAITING]]
        shifting = False
        for i in range(len(waiting) - 1):
            shifting = shifting or U(waiting[i]) == task
            if shifting:
                waiting[i] = waiting[i + 1]
        ints[m.WAITING] -= 1


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Place the pair in row `choice` of the last observation, or wait; time passes if it must."""
    pairs = ints[m.PAIRS]
    waits = choice == pairs and ints[m.WAIT_ROW] == 1 and pairs > 0
    if choice < 0 or choice > pairs or (choice == pairs and not waits):
        return k.INFEASIBLE
    if waits and ints[m.RUNNING_TASKS] == 0 and ints[m.ARRIVED] == ints[m.TASKS]:
        return k.INFEASIBLE
    step_outputs[k.ELAPSED] = floats[m.CARRIED]
    for term in range(len(TERM)):
        step_outputs[k.TERMS + term] = floats[m.CARRIED + term]
        floats[m.CARRIED + term] = 0.0
    status = k.RUNNING
    ints[m.PLACED] = -1
    if not waits:
        ints[m.PLACED] = ints[U(ints[m.PAIRS_AT] + choice)]
        _place(ints, floats, ints[m.PLACED])
    if waits or not anything_fits(ints, floats):
        ints[m.PLACED] = -1
        passed = step_outputs[k.TERMS : k.TERMS + len(TERM)]
        status = advance(ints, floats, passed)
        step_outputs[k.ELAPSED] = passed[TERM.makespan]
    for term in range(k.TERMS, k.TERMS + len(TERM)):
        step_outputs[term] = 0.0 - step_outputs[term]  # unlike -x, this keeps a zero +0.0
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec. Unfinished tasks count up to now.

    A task that has not been seen has waited for 0 s, and one that has not started has run for 0 s.
    An episode with unfinished tasks is at least as long as the lower bound, so that breaking it off
    looks no better than finishing it.
    """
    tasks = ints[m.TASKS]
    now = floats[k.TIME]
    completion = slowdown = started_completion = started_slowdown = 0.0
    unfinished = 0
    for task in range(tasks):
        finish = float(ints[ints[m.FINISH_AT] + task])
        if finish < 0:
            finish = now
            unfinished += 1
        duration = floats[ints[m.DURATION_AT] + task]
        waited = max(finish - ints[ints[m.SEEN_AT] + task], 0.0)
        first_start = ints[ints[m.FIRST_START_AT] + task]
        ran = finish - first_start if first_start >= 0 else 0.0
        completion += waited
        slowdown += waited / duration
        started_completion += ran
        started_slowdown += ran / duration
    length = now if unfinished == 0 else max(now, floats[m.LOWER_BOUND])
    outcomes[OUT.makespan_s] = length
    outcomes[OUT.mean_completion_s] = completion / tasks
    outcomes[OUT.mean_slowdown] = slowdown / tasks
    outcomes[OUT.mean_completion_from_start_s] = started_completion / tasks
    outcomes[OUT.mean_slowdown_from_start] = started_slowdown / tasks
    outcomes[OUT.cpu_utilisation] = floats[m.CORE_USE] / length
    outcomes[OUT.memory_utilisation] = floats[m.MEMORY_USE] / length
    outcomes[OUT.work_lower_bound_s] = floats[m.WORK_BOUND]
    outcomes[OUT.lower_bound_s] = floats[m.LOWER_BOUND]
    outcomes[OUT.optimality_ratio] = length / floats[m.LOWER_BOUND]
    outcomes[OUT.unfinished] = unfinished
