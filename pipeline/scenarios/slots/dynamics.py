"""Compiled transition of `slots`; the problem is told in pipeline.scenarios.slots.

    ints    header | arrive, length, cpu, memory, enter, finish (J each, per job)
            | running (J) | backlog, a ring (B) | job, offset, shown (M each, per slot)
    floats  header | grid (H rows of: free cpu, free memory, jobs) | 1 / length (J)

Row h of the grid is time step t + h. Row, slot and job numbers start at 0; -1 is "none".

The earliest window of every visible job is kept. It is cheap to keep: resources are only taken,
so a window moves back when something is placed on it, and moves one row forward when time passes:

    offset before   after one time step
    3               2       the same window
    0               0 ...   sought from row 0 on
    none            the window that ends in the row that came into sight, or none
"""

from typing import Final

import numpy as np
from numba import types

from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    INFEASIBLE,
    INTS,
    OUTCOME,
    REWARD,
    RUNNING,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
    TRUNCATED,
    compiled,
)

# The header of ints; 0 is FRESH.
JOBS: Final = 1
QUEUE: Final = 2  # visible jobs at most, M
BACKLOG: Final = 3  # jobs behind them at most, B
HORIZON: Final = 4
SLOTS: Final = 5  # slots of each resource
COMPAT: Final = 6
OBJECTIVE: Final = 7  # which reward term is the reward
LAST_STEP: Final = 8  # nothing arrives later
MAX_STEPS: Final = 9
NOW: Final = 10  # time steps so far
NEXT: Final = 11  # the next job to arrive
VISIBLE: Final = 12  # jobs in the queue
WAITING: Final = 13  # jobs in the backlog
HEAD: Final = 14  # first of the ring
IN_MACHINE: Final = 15  # length of the running list
DROPPED: Final = 16
ACTIONS: Final = 17
LAST_ARRIVAL: Final = 18  # time step
CHANGES: Final = 19  # steps since the last observation
PLACED: Final = 20  # job of the last step; -1: time passed
SHOWN_WAITING: Final = 21  # backlog in the image
SHOWN_GAP: Final = 22  # brightness of the time column in the image
LEFT_OUT: Final = 23
TIES: Final = 24  # 1: ties go to the larger demand, 0: to the lowest slot
# Where the blocks begin, in ints.
ARRIVE_AT: Final = 25
LENGTH_AT: Final = 26
CPU_AT: Final = 27
MEMORY_AT: Final = 28
ENTER_AT: Final = 29
FINISH_AT: Final = 30
RUNNING_AT: Final = 31
RING_AT: Final = 32
JOB_AT: Final = 33
OFFSET_AT: Final = 34
SHOWN_AT: Final = 35  # the job that the last observation showed in the slot
INVERSE_AT: Final = 36  # of floats
FORESIGHT: Final = 37  # 1: rows tell what their choice puts off
INT_HEADER: Final = 38

# The header of floats; 0 is TIME.
STEP_S: Final = 1
OPEN_RATE: Final = 2  # sum of 1 / length over the jobs in the system
CARRIED_RATE: Final = 3  # the same at time step 0, booked with the first move_on
CARRIED_JOBS: Final = 4
USED: Final = 5  # sum over time steps of the mean fraction in use
REPORT_LOAD: Final = 6  # sum over time steps of queue fraction + machine fraction
EXPECTED_LOAD: Final = 7
OFFERED_LOAD: Final = 8
CAPACITY: Final = 9  # slots of the resources that are asked for at all
GRID: Final = 10
COLUMNS: Final = 3  # of the grid: free cpu, free memory, jobs


# Unsigned indices: numba then leaves out the test for a negative index.
_U: Final = np.uint64
_GRID: Final = np.uint64(GRID)
_COLUMNS: Final = np.uint64(COLUMNS)
_ONE: Final = np.uint64(1)


@compiled(types.int64(INTS, FLOATS, types.int64, types.int64))
def earliest(ints, floats, job, first):  # type: ignore[no-untyped-def]
    """The first offset from `first` on at which the job fits for its whole length, or -1."""
    at = _U(job)
    length = ints[_U(ints[LENGTH_AT]) + at]
    cpu = float(ints[_U(ints[CPU_AT]) + at])
    memory = float(ints[_U(ints[MEMORY_AT]) + at])
    last = ints[HORIZON] - length - ints[COMPAT]  # the published range leaves out its end
    start = first
    row = first
    cell = _GRID + _COLUMNS * _U(first)
    while start <= last:
        row += 1
        if floats[cell] < cpu or floats[cell + _ONE] < memory:
            start = row
        elif row - start == length:
            return start
        cell += _COLUMNS
    return -1


@compiled(types.void(INTS, FLOATS, types.int64, types.int64))
def _show(ints, floats, slot, job):  # type: ignore[no-untyped-def]
    """Put a job, or none (-1), into a slot of the queue."""
    ints[_U(ints[JOB_AT] + slot)] = job
    offset = -1
    if job >= 0:
        offset = earliest(ints, floats, job, 0)
    ints[_U(ints[OFFSET_AT] + slot)] = offset


@compiled(types.void(INTS, FLOATS))
def arrive(ints, floats):  # type: ignore[no-untyped-def]
    """Let in the jobs of this time step: lowest empty slot, else backlog, else dropped."""
    now = ints[NOW]
    while ints[NEXT] < ints[JOBS] and ints[ints[ARRIVE_AT] + ints[NEXT]] <= now:
        job = ints[NEXT]
        ints[NEXT] += 1
        ints[LAST_ARRIVAL] = now
        if ints[VISIBLE] < ints[QUEUE]:
            slot = 0
            while ints[ints[JOB_AT] + slot] >= 0:
                slot += 1
            ints[VISIBLE] += 1
            _show(ints, floats, slot, job)
        elif ints[WAITING] < ints[BACKLOG]:
            ints[ints[RING_AT] + (ints[HEAD] + ints[WAITING]) % ints[BACKLOG]] = job
            ints[WAITING] += 1
        else:
            ints[DROPPED] += 1
            continue
        ints[ints[ENTER_AT] + job] = now
        floats[OPEN_RATE] += floats[ints[INVERSE_AT] + job]


@compiled(types.void(INTS, FLOATS, types.int64))
def _place(ints, floats, chosen):  # type: ignore[no-untyped-def]
    """Reserve the earliest window of the job in a slot and refill the slot from the backlog."""
    job = ints[_U(ints[JOB_AT] + chosen)]
    offset = ints[_U(ints[OFFSET_AT] + chosen)]
    end = offset + ints[_U(ints[LENGTH_AT] + job)]
    cpu = float(ints[_U(ints[CPU_AT] + job)])
    memory = float(ints[_U(ints[MEMORY_AT] + job)])
    for row in range(_U(offset), _U(end)):
        cell = _GRID + _COLUMNS * row
        floats[cell] -= cpu
        floats[cell + _ONE] -= memory
        floats[cell + _ONE + _ONE] += 1.0
    ints[_U(ints[FINISH_AT] + job)] = ints[NOW] + end
    ints[_U(ints[RUNNING_AT] + ints[IN_MACHINE])] = job
    ints[IN_MACHINE] += 1
    ints[PLACED] = job
    refill = -1
    if ints[WAITING] > 0:
        refill = ints[_U(ints[RING_AT] + ints[HEAD])]
        ints[HEAD] = ints[HEAD] + 1 if ints[HEAD] + 1 < ints[BACKLOG] else 0
        ints[WAITING] -= 1
    else:
        ints[VISIBLE] -= 1
    jobs, offsets = _U(ints[JOB_AT]), _U(ints[OFFSET_AT])
    ints[jobs + _U(chosen)] = -1
    for i in range(ints[QUEUE]):
        slot = _U(i)
        other, at = ints[jobs + slot], ints[offsets + slot]
        if other >= 0 and 0 <= at < end and at + ints[_U(ints[LENGTH_AT] + other)] > offset:
            ints[offsets + slot] = earliest(ints, floats, other, at)
    _show(ints, floats, chosen, refill)


@compiled(types.void(INTS, FLOATS))
def _shift(ints, floats):  # type: ignore[no-untyped-def]
    """Let the first row of the grid pass and bring the earliest windows up to date."""
    last = _GRID + _COLUMNS * _U(ints[HORIZON] - 1)
    for cell in range(_GRID, last):
        floats[cell] = floats[cell + _COLUMNS]
    floats[last] = floats[last + _ONE] = ints[SLOTS]
    floats[last + _ONE + _ONE] = 0.0
    for i in range(ints[QUEUE]):
        job = ints[_U(ints[JOB_AT] + i)]
        at = _U(ints[OFFSET_AT] + i)
        if job < 0:
            continue
        if ints[at] > 0:
            ints[at] -= 1
        elif ints[at] == 0:
            ints[at] = earliest(ints, floats, job, 0)
        else:
            new = ints[HORIZON] - ints[_U(ints[LENGTH_AT] + job)] - ints[COMPAT]
            if new >= 0:
                ints[at] = earliest(ints, floats, job, new)


@compiled(types.void(INTS, FLOATS))
def _leave(ints, floats):  # type: ignore[no-untyped-def]
    """Finished jobs leave. In compat the entry after each removal is passed over."""
    now = ints[NOW]
    running, finish = _U(ints[RUNNING_AT]), _U(ints[FINISH_AT])
    kept = _U(0)
    passed_over = False
    for i in range(_U(ints[IN_MACHINE])):
        job = ints[running + i]
        if ints[finish + _U(job)] <= now and not passed_over:
            floats[OPEN_RATE] -= floats[_U(ints[INVERSE_AT] + job)]
            passed_over = ints[COMPAT] == 1
        else:
            ints[running + kept] = job
            kept += _ONE
            passed_over = False
    ints[IN_MACHINE] = kept


@compiled(types.int64(INTS))
def in_system(ints):  # type: ignore[no-untyped-def]
    """Jobs in machine, queue and backlog."""
    return ints[IN_MACHINE] + ints[VISIBLE] + ints[WAITING]


@compiled(types.int64(INTS, FLOATS, FLOATS))
def _move_on(ints, floats, booked):  # type: ignore[no-untyped-def]
    """One time step; books it and gives the status."""
    used = (2.0 * ints[SLOTS] - floats[GRID] - floats[GRID + 1]) / floats[CAPACITY]
    floats[USED] += used
    floats[REPORT_LOAD] += used + ints[VISIBLE] / ints[QUEUE]
    ints[NOW] += 1
    ints[PLACED] = -1
    floats[TIME] = ints[NOW] * floats[STEP_S]
    _shift(ints, floats)
    _leave(ints, floats)
    over = ints[NOW] >= ints[LAST_STEP] and in_system(ints) == 0
    if ints[COMPAT] == 0 or not over:
        arrive(ints, floats)
        over = over and in_system(ints) == 0
    jobs = in_system(ints)
    if jobs == 0:
        floats[OPEN_RATE] = 0.0  # without what rounding left of it
    booked[ELAPSED] = floats[STEP_S]
    booked[TERMS] = 0.0 - (floats[CARRIED_RATE] + floats[OPEN_RATE])
    booked[TERMS + 1] = 0.0 - (floats[CARRIED_JOBS] + jobs)
    booked[TERMS + 2] = used
    floats[CARRIED_RATE] = floats[CARRIED_JOBS] = 0.0
    if over:
        return TERMINATED
    return TRUNCATED if ints[NOW] >= ints[MAX_STEPS] else RUNNING


@compiled(STEP)
def step(ints, floats, choice, booked):  # type: ignore[no-untyped-def]
    """Place the job in slot `choice`, or move on (the last row): one time step passes."""
    queue = ints[QUEUE]
    if choice < 0 or choice > queue:
        return INFEASIBLE
    if choice < queue and ints[_U(ints[OFFSET_AT] + choice)] < 0:  # an empty slot has no window
        return INFEASIBLE
    ints[ACTIONS] += 1
    ints[CHANGES] += 1
    status = RUNNING
    if choice < queue:
        _place(ints, floats, choice)
        booked[ELAPSED] = booked[TERMS] = booked[TERMS + 1] = booked[TERMS + 2] = 0.0
    else:
        status = _move_on(ints, floats, booked)
    booked[REWARD] = booked[TERMS + ints[OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec; unfinished jobs count until now."""
    now = ints[NOW]
    jobs = unfinished = 0
    slowdown = completion = 0.0
    for job in range(ints[JOBS]):
        enter, finish = ints[ints[ENTER_AT] + job], ints[ints[FINISH_AT] + job]
        if enter < 0:
            continue
        if finish < 0 or finish > now:
            unfinished += 1
            if ints[COMPAT] == 0:
                finish = now
            elif finish < 0:
                continue  # the reference counts the jobs that it has placed
        jobs += 1
        slowdown += (finish - enter) / ints[ints[LENGTH_AT] + job]
        completion += (finish - enter) * floats[STEP_S]
    outcomes[0] = slowdown / max(jobs, 1)
    outcomes[1] = jobs
    outcomes[2] = slowdown
    outcomes[3] = completion / max(jobs, 1)
    outcomes[4] = floats[USED] / max(now, 1)
    outcomes[5] = unfinished
    outcomes[6] = ints[DROPPED]
    outcomes[7] = ints[LEFT_OUT]
    outcomes[8] = now
    outcomes[9] = ints[ACTIONS]
    outcomes[10] = floats[EXPECTED_LOAD]
    outcomes[11] = floats[OFFERED_LOAD]
    outcomes[12] = floats[REPORT_LOAD] / max(now, 1)
