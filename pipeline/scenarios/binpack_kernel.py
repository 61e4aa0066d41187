"""Compiled transition of `binpack`; the problem is told in pipeline.scenarios.binpack.

    ints    header | seen ticks total unplaced running first_start finish (T each, per task)
            | waiting, oldest, newest, heap (T each) | pairs (M*T)
            | first rows (M+1) | start order, machine, next (H each)
    floats  header | cores memory duration, cores and memory as features (T each)
            | free cores, free memory (M each) | end (H)

Requests and free resources are float64. Outside `compat` they hold whole milli-cores and
1e-9ths of memory, so that sums are exact; in `compat` they hold cores and fractions, and drift as
the reference drifts. floats[CORE_UNIT] and floats[MEMORY_UNIT] turn them into features.

A running instance is a node (end, start order, machine). All instances of a task run equally
long, so those of one task end in the order of their starts: each task has a linked list from its
`oldest` to its `newest` node, and a heap of the tasks that run orders the oldest nodes by
(end, start order). `next` also links the unused nodes.
"""

from typing import Final

import numpy as np
from numba import njit, types

from pipeline.kernel import (
    ELAPSED,
    FLOATS,
    FRESH,
    INFEASIBLE,
    INTS,
    OBSERVE,
    OUTCOME,
    REWARD,
    ROWS,
    RUNNING,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
)

# ints: header (0 is FRESH)
MACHINES: Final = 1
TASKS: Final = 2
EXTENDED: Final = 3  # 1: total, running and finished instances are features too
WAIT_ROW: Final = 4  # 1: a last candidate lets time pass
OBJECTIVE: Final = 5  # which reward term is the reward
ARRIVED: Final = 6  # tasks 0..ARRIVED-1 have been seen
WAITING: Final = 7  # length of the waiting list
RUNNING_TASKS: Final = 8  # length of the heap
OPEN: Final = 9  # arrived and unfinished tasks
STARTS: Final = 10  # placements so far
PAIRS: Final = 11  # candidates of the last observation, without the wait row
PLACED: Final = 12  # the pair placed since the last observation; -1: time has passed
UNPLACED_TOTAL: Final = 13
RUNNING_TOTAL: Final = 14
UNUSED: Final = 15  # first unused node
# ints: where the blocks begin
SEEN_AT: Final = 16
TICKS_AT: Final = 17
TOTAL_AT: Final = 18
UNPLACED_AT: Final = 19
RUNNING_AT: Final = 20
FIRST_START_AT: Final = 21
FINISH_AT: Final = 22
WAITING_AT: Final = 23
OLDEST_AT: Final = 24
NEWEST_AT: Final = 25
HEAP_AT: Final = 26
PAIRS_AT: Final = 27  # task * machines + machine of every row
ROWS_AT: Final = 28  # first row of every machine, and their number
START_AT: Final = 29
MACHINE_AT: Final = 30
NEXT_AT: Final = 31
# floats: where the blocks begin
CORES_AT: Final = 32
MEMORY_AT: Final = 33
DURATION_AT: Final = 34
SHOWN_CORES_AT: Final = 35
SHOWN_MEMORY_AT: Final = 36
FREE_CORES_AT: Final = 37
FREE_MEMORY_AT: Final = 38
END_AT: Final = 39
INT_HEADER: Final = 40

# floats: header (0 is TIME)
CORE_UNIT: Final = 1
MEMORY_UNIT: Final = 2
LARGEST_CORES: Final = 3  # of one machine, as a feature
LARGEST_MEMORY: Final = 4
OPEN_RATE: Final = 5  # sum of 1 / duration over open tasks
CARRIED: Final = 6  # 6..8: ticks, task-ticks and slowdown booked before the first decision
LOWER_BOUND: Final = 9
WORK_BOUND: Final = 10
CORE_USE: Final = 11  # core-seconds of the window / cores of the cluster
MEMORY_USE: Final = 12
FLOAT_HEADER: Final = 13

INT_BLOCKS: Final = 11  # of length T: seen ... heap
FLOAT_BLOCKS: Final = 5  # of length T: cores ... shown memory

_COMPILE: Final = {"cache": True, "nogil": True, "error_model": "numpy"}

# Indices are unsigned where they are computed: numba then leaves out the test for a negative
# index, which more than halves the time of an observation.
_U: Final = np.uint64
_ONE: Final = np.uint64(1)


@njit(types.boolean(INTS, FLOATS, types.uint64, types.uint64), **_COMPILE)
def _ends_before(ints, floats, a, b):  # type: ignore[no-untyped-def]
    """Whether the oldest instance of task `a` ends before that of task `b`."""
    node_a = _U(ints[_U(ints[OLDEST_AT]) + a])
    node_b = _U(ints[_U(ints[OLDEST_AT]) + b])
    end_a, end_b = floats[_U(ints[END_AT]) + node_a], floats[_U(ints[END_AT]) + node_b]
    if end_a != end_b:
        return end_a < end_b
    return ints[_U(ints[START_AT]) + node_a] < ints[_U(ints[START_AT]) + node_b]


@njit(types.void(INTS, FLOATS, types.uint64, types.uint64), **_COMPILE)
def _begin(ints, floats, task, machine):  # type: ignore[no-untyped-def]
    """Add a node for an instance that starts now."""
    node = ints[UNUSED]
    at = _U(node)
    ints[UNUSED] = ints[_U(ints[NEXT_AT]) + at]
    floats[_U(ints[END_AT]) + at] = floats[TIME] + floats[_U(ints[DURATION_AT]) + task]
    ints[_U(ints[START_AT]) + at] = ints[STARTS]
    ints[_U(ints[MACHINE_AT]) + at] = machine
    ints[_U(ints[NEXT_AT]) + at] = -1
    ints[STARTS] += 1
    ints[RUNNING_TOTAL] += 1
    newest = _U(ints[NEWEST_AT]) + task
    if ints[_U(ints[OLDEST_AT]) + task] >= 0:
        ints[_U(ints[NEXT_AT]) + _U(ints[newest])] = node
        ints[newest] = node
        return
    ints[newest] = node
    ints[_U(ints[OLDEST_AT]) + task] = node
    heap = _U(ints[HEAP_AT])
    i = _U(ints[RUNNING_TASKS])
    ints[RUNNING_TASKS] += 1
    while i > 0:
        parent = (i - _ONE) >> _ONE
        above = ints[heap + parent]
        if _ends_before(ints, floats, _U(above), task):
            break
        ints[heap + i] = above
        i = parent
    ints[heap + i] = task


@njit(types.void(INTS, FLOATS), **_COMPILE)
def _end_oldest(ints, floats):  # type: ignore[no-untyped-def]
    """Remove the oldest node of the task on top of the heap and restore the heap's order."""
    heap, oldest, following = _U(ints[HEAP_AT]), _U(ints[OLDEST_AT]), _U(ints[NEXT_AT])
    task = _U(ints[heap])
    node = ints[oldest + task]
    ints[oldest + task] = ints[following + _U(node)]
    ints[following + _U(node)] = ints[UNUSED]
    ints[UNUSED] = node
    ints[RUNNING_TOTAL] -= 1
    if ints[oldest + task] < 0:
        ints[RUNNING_TASKS] -= 1
        task = _U(ints[heap + _U(ints[RUNNING_TASKS])])
    size = _U(ints[RUNNING_TASKS])
    i = _U(0)
    while True:
        child = i + i + _ONE
        if child >= size:
            break
        if child + _ONE < size and _ends_before(
            ints, floats, _U(ints[heap + child + _ONE]), _U(ints[heap + child])
        ):
            child += _ONE
        below = ints[heap + child]
        if _ends_before(ints, floats, task, _U(below)):
            break
        ints[heap + i] = below
        i = child
    ints[heap + i] = task


@njit(types.float64(INTS, FLOATS), **_COMPILE)
def _next_release(ints, floats):  # type: ignore[no-untyped-def]
    """The tick at which the instance that ends first gives its resources back.

    That is the first tick at or after its end; `ticks` differs from the rounded-up duration only
    in `compat`, for a duration of exactly 1 s (two ticks).
    """
    task = _U(ints[_U(ints[HEAP_AT])])
    end = floats[_U(ints[END_AT]) + _U(ints[_U(ints[OLDEST_AT]) + task])]
    if ints[_U(ints[TICKS_AT]) + task] == 2 and floats[_U(ints[DURATION_AT]) + task] == 1.0:
        return end + 1.0
    return np.ceil(end)


@njit(types.void(INTS, FLOATS), **_COMPILE)
def _release(ints, floats):  # type: ignore[no-untyped-def]
    """Give back what ends at or before the clock."""
    now = floats[TIME]
    while ints[RUNNING_TASKS] > 0 and _next_release(ints, floats) <= now:
        task = _U(ints[_U(ints[HEAP_AT])])
        machine = _U(ints[_U(ints[MACHINE_AT]) + _U(ints[_U(ints[OLDEST_AT]) + task])])
        _end_oldest(ints, floats)
        floats[_U(ints[FREE_CORES_AT]) + machine] += floats[_U(ints[CORES_AT]) + task]
        floats[_U(ints[FREE_MEMORY_AT]) + machine] += floats[_U(ints[MEMORY_AT]) + task]
        running = _U(ints[RUNNING_AT]) + task
        ints[running] -= 1
        if ints[running] == 0 and ints[_U(ints[UNPLACED_AT]) + task] == 0:
            ints[_U(ints[FINISH_AT]) + task] = int(now)
            ints[OPEN] -= 1
            floats[OPEN_RATE] -= 1.0 / floats[_U(ints[DURATION_AT]) + task]


@njit(types.void(INTS, FLOATS), **_COMPILE)
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


@njit(types.boolean(INTS, FLOATS), **_COMPILE)
def anything_fits(ints, floats):  # type: ignore[no-untyped-def]
    """Whether a (machine, waiting task) pair fits."""
    cores, memory, waiting = _U(ints[CORES_AT]), _U(ints[MEMORY_AT]), _U(ints[WAITING_AT])
    for machine in range(ints[MACHINES]):
        free_cores = floats[_U(ints[FREE_CORES_AT] + machine)]
        free_memory = floats[_U(ints[FREE_MEMORY_AT] + machine)]
        for i in range(ints[WAITING]):
            task = _U(ints[waiting + _U(i)])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                return True
    return False


@njit(types.int64(INTS, FLOATS, FLOATS), **_COMPILE)
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
            event = min(event, _next_release(ints, floats))
        ticks = event - floats[TIME]
        passed[0] += ticks
        passed[1] += ticks * ints[OPEN]
        passed[2] += ticks * floats[OPEN_RATE]
        floats[TIME] = event
        _release(ints, floats)
        arrive(ints, floats)
        if anything_fits(ints, floats):
            return RUNNING


@njit(types.void(INTS, FLOATS, ROWS), **_COMPILE)
def _write_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Write the row of every fitting pair."""
    machines = ints[MACHINES]
    cores, memory, duration = _U(ints[CORES_AT]), _U(ints[MEMORY_AT]), _U(ints[DURATION_AT])
    shown_cores, shown_memory = _U(ints[SHOWN_CORES_AT]), _U(ints[SHOWN_MEMORY_AT])
    unplaced, pairs, rows = _U(ints[UNPLACED_AT]), _U(ints[PAIRS_AT]), _U(ints[ROWS_AT])
    first_waiting = _U(ints[WAITING_AT])
    last_waiting = first_waiting + _U(ints[WAITING])
    n = _U(0)
    for machine in range(machines):
        ints[rows + _U(machine)] = n
        free_cores = floats[_U(ints[FREE_CORES_AT] + machine)]
        free_memory = floats[_U(ints[FREE_MEMORY_AT] + machine)]
        free_cores_shown = free_cores / floats[CORE_UNIT]
        free_memory_shown = free_memory / floats[MEMORY_UNIT]
        for i in range(first_waiting, last_waiting):
            task = _U(ints[i])
            if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                candidates[n, 0] = free_cores_shown
                candidates[n, 1] = free_memory_shown
                candidates[n, 2] = floats[shown_cores + task]
                candidates[n, 3] = floats[shown_memory + task]
                candidates[n, 4] = floats[duration + task]
                candidates[n, 5] = ints[unplaced + task]
                candidates[n, 6] = machine
                ints[pairs + n] = ints[i] * machines + machine
                n += _ONE
    ints[rows + _U(machines)] = n
    ints[PAIRS] = n


@njit(types.void(INTS, ROWS, types.uint64, types.uint64), **_COMPILE)
def _move_row(ints, candidates, source, target):  # type: ignore[no-untyped-def]
    """Copy a row and its pair to an earlier place."""
    for column in range(7):
        candidates[target, column] = candidates[source, column]
    pairs = _U(ints[PAIRS_AT])
    ints[pairs + target] = ints[pairs + source]


@njit(types.void(INTS, FLOATS, ROWS), **_COMPILE)
def _update_rows(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Bring the rows up to date after one placement at the same tick.

    Only the rows of its machine (free resources, fits) and of its task (unplaced) can change.
    """
    machines = ints[MACHINES]
    cores, memory = _U(ints[CORES_AT]), _U(ints[MEMORY_AT])
    pairs, rows = _U(ints[PAIRS_AT]), _U(ints[ROWS_AT])
    placed_task = ints[PLACED] // machines
    placed_machine = ints[PLACED] - placed_task * machines
    unplaced = ints[_U(ints[UNPLACED_AT] + placed_task)]
    target = _U(0)
    for machine in range(machines):
        first, stop = _U(ints[rows + _U(machine)]), _U(ints[rows + _U(machine) + _ONE])
        ints[rows + _U(machine)] = target
        pair = placed_task * machines + machine
        if machine == placed_machine:
            free_cores = floats[_U(ints[FREE_CORES_AT] + machine)]
            free_memory = floats[_U(ints[FREE_MEMORY_AT] + machine)]
            free_cores_shown = free_cores / floats[CORE_UNIT]
            free_memory_shown = free_memory / floats[MEMORY_UNIT]
            for row in range(first, stop):
                task = _U(ints[pairs + row] // machines)
                if ints[pairs + row] == pair:
                    if unplaced == 0:
                        continue
                    candidates[row, 5] = unplaced
                if floats[cores + task] <= free_cores and floats[memory + task] <= free_memory:
                    if target != row:
                        _move_row(ints, candidates, row, target)
                    candidates[target, 0] = free_cores_shown
                    candidates[target, 1] = free_memory_shown
                    target += _ONE
        else:
            row = first
            while row < stop and ints[pairs + row] != pair:
                row += _ONE
            if row < stop and unplaced > 0:
                candidates[row, 5] = unplaced
                row = stop
            if target == first:
                target = row
            else:
                for moved in range(first, row):
                    _move_row(ints, candidates, moved, target)
                    target += _ONE
            for moved in range(row + _ONE, stop):
                _move_row(ints, candidates, moved, target)
                target += _ONE
    ints[rows + _U(machines)] = target
    ints[PAIRS] = target


@njit(OBSERVE, **_COMPILE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Every fitting pair, machine-major, task-minor; then the wait row where there is one."""
    if ints[FRESH] == 1 and ints[PLACED] >= 0 and ints[EXTENDED] == 0:
        _update_rows(ints, floats, candidates)
    else:
        _write_rows(ints, floats, candidates)
    ints[FRESH] = 1
    n = ints[PAIRS]
    for i in range(n):
        feasible[i] = True
    if ints[EXTENDED] == 1:
        for i in range(n):
            task = _U(ints[_U(ints[PAIRS_AT] + i)] // ints[MACHINES])
            total = ints[_U(ints[TOTAL_AT]) + task]
            running = ints[_U(ints[RUNNING_AT]) + task]
            candidates[i, 7] = total
            candidates[i, 8] = running
            candidates[i, 9] = total - running - ints[_U(ints[UNPLACED_AT]) + task]
    total_cores = 0.0
    total_memory = 0.0
    for machine in range(ints[MACHINES]):
        total_cores += floats[_U(ints[FREE_CORES_AT] + machine)]
        total_memory += floats[_U(ints[FREE_MEMORY_AT] + machine)]
    context[0] = total_cores / floats[CORE_UNIT]
    context[1] = total_memory / floats[MEMORY_UNIT]
    context[2] = ints[WAITING]
    context[3] = ints[UNPLACED_TOTAL]
    context[4] = ints[RUNNING_TOTAL]
    context[5] = floats[LARGEST_CORES]
    context[6] = floats[LARGEST_MEMORY]
    if ints[WAIT_ROW] == 1 and n > 0:
        candidates[n, :] = 0.0
        candidates[n, 6] = -1.0
        feasible[n] = ints[RUNNING_TASKS] > 0 or ints[ARRIVED] < ints[TASKS]
        n += 1
    return n


@njit(types.void(INTS, FLOATS, types.int64), **_COMPILE)
def _place(ints, floats, pair):  # type: ignore[no-untyped-def]
    """Start one instance of the pair now."""
    machines = ints[MACHINES]
    task = _U(pair // machines)
    machine = _U(pair) - task * _U(machines)
    floats[_U(ints[FREE_CORES_AT]) + machine] -= floats[_U(ints[CORES_AT]) + task]
    floats[_U(ints[FREE_MEMORY_AT]) + machine] -= floats[_U(ints[MEMORY_AT]) + task]
    _begin(ints, floats, task, machine)
    ints[UNPLACED_TOTAL] -= 1
    ints[_U(ints[RUNNING_AT]) + task] += 1
    unplaced = _U(ints[UNPLACED_AT]) + task
    if ints[unplaced] == ints[_U(ints[TOTAL_AT]) + task]:
        ints[_U(ints[FIRST_START_AT]) + task] = int(floats[TIME])
    ints[unplaced] -= 1
    if ints[unplaced] == 0:
        waiting = ints[ints[WAITING_AT] : ints[WAITING_AT] + ints[WAITING]]
        gone = False
        for i in range(len(waiting) - 1):
            gone = gone or _U(waiting[i]) == task
            if gone:
                waiting[i] = waiting[i + 1]
        ints[WAITING] -= 1


@njit(STEP, **_COMPILE)
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
        ints[PLACED] = ints[_U(ints[PAIRS_AT] + choice)]
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


@njit(OUTCOME, **_COMPILE)
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
