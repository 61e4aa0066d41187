"""Compiled transition of `slots`. The problem is described in hindcast.pipeline.scenarios.slots.

The earliest window of every visible job is stored. It is cheap to update, because resources are
only taken: a window moves back when a job is placed on it, and one row forward when time passes:

    offset before   after one time step
    3               2       the same window
    0               0 ...   searched from row 0 on
    none            the window that ends in the new last row, or none
"""

from numba import types

from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.features import OUT, TERM
from hindcast.pipeline.scenarios.slots.layout import ONE, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.int64(INTS, FLOATS, types.int64, types.int64))
def earliest(ints, floats, job, first):  # type: ignore[no-untyped-def]
    """Return the first offset from `first` on at which the job fits for its whole length, or -1."""
    at = U(job)
    length = ints[U(ints[m.LENGTH_AT]) + at]
    cpu = float(ints[U(ints[m.CPU_AT]) + at])
    memory = float(ints[U(ints[m.MEMORY_AT]) + at])
    last = ints[m.HORIZON] - length - ints[m.COMPAT]  # the published range excludes its end
    start = first
    row = first
    cell = m.FIRST_CELL + m.ROW_CELLS * U(first)
    while start <= last:
        row += 1
        if floats[cell] < cpu or floats[cell + ONE] < memory:
            start = row
        elif row - start == length:
            return start
        cell += m.ROW_CELLS
    return -1


@compiled(types.void(INTS, FLOATS, types.int64, types.int64))
def _show(ints, floats, slot, job):  # type: ignore[no-untyped-def]
    """Put a job, or none (-1), into a slot of the queue."""
    ints[U(ints[m.JOB_AT] + slot)] = job
    offset = -1
    if job >= 0:
        offset = earliest(ints, floats, job, 0)
    ints[U(ints[m.OFFSET_AT] + slot)] = offset


@compiled(types.void(INTS, FLOATS))
def arrive(ints, floats):  # type: ignore[no-untyped-def]
    """Admit the jobs of this time step: to the lowest empty slot, else the backlog, else drop."""
    now = ints[m.NOW]
    while ints[m.NEXT] < ints[m.JOBS] and ints[ints[m.ARRIVE_AT] + ints[m.NEXT]] <= now:
        job = ints[m.NEXT]
        ints[m.NEXT] += 1
        ints[m.LAST_ARRIVAL] = now
        if ints[m.VISIBLE] < ints[m.QUEUE]:
            slot = 0
            while ints[ints[m.JOB_AT] + slot] >= 0:
                slot += 1
            ints[m.VISIBLE] += 1
            _show(ints, floats, slot, job)
        elif ints[m.WAITING] < ints[m.BACKLOG]:
            ints[ints[m.RING_AT] + (ints[m.HEAD] + ints[m.WAITING]) % ints[m.BACKLOG]] = job
            ints[m.WAITING] += 1
        else:
            ints[m.DROPPED] += 1
            continue
        ints[ints[m.ENTER_AT] + job] = now
        floats[m.OPEN_RATE] += floats[ints[m.INVERSE_AT] + job]


@compiled(types.void(INTS, FLOATS, types.int64))
def _place(ints, floats, chosen):  # type: ignore[no-untyped-def]
    """Reserve the earliest window of the job in a slot and refill the slot from the backlog."""
    job = ints[U(ints[m.JOB_AT] + chosen)]
    offset = ints[U(ints[m.OFFSET_AT] + chosen)]
    end = offset + ints[U(ints[m.LENGTH_AT] + job)]
    cpu = float(ints[U(ints[m.CPU_AT] + job)])
    memory = float(ints[U(ints[m.MEMORY_AT] + job)])
    for row in range(U(offset), U(end)):
        cell = m.FIRST_CELL + m.ROW_CELLS * row
        floats[cell] -= cpu
        floats[cell + ONE] -= memory
        floats[cell + ONE + ONE] += 1.0
    ints[U(ints[m.FINISH_AT] + job)] = ints[m.NOW] + end
    ints[U(ints[m.RUNNING_AT] + ints[m.IN_MACHINE])] = job
    ints[m.IN_MACHINE] += 1
    ints[m.PLACED] = job
    refill = -1
    if ints[m.WAITING] > 0:
        refill = ints[U(ints[m.RING_AT] + ints[m.HEAD])]
        ints[m.HEAD] = ints[m.HEAD] + 1 if ints[m.HEAD] + 1 < ints[m.BACKLOG] else 0
        ints[m.WAITING] -= 1
    else:
        ints[m.VISIBLE] -= 1
    jobs, offsets = U(ints[m.JOB_AT]), U(ints[m.OFFSET_AT])
    ints[jobs + U(chosen)] = -1
    for i in range(ints[m.QUEUE]):
        slot = U(i)
        other, at = ints[jobs + slot], ints[offsets + slot]
        if other >= 0 and 0 <= at < end and at + ints[U(ints[m.LENGTH_AT] + other)] > offset:
            ints[offsets + slot] = earliest(ints, floats, other, at)
    _show(ints, floats, chosen, refill)


@compiled(types.void(INTS, FLOATS))
def _shift(ints, floats):  # type: ignore[no-untyped-def]
    """Let the first row of the grid pass and update the earliest windows."""
    last = m.FIRST_CELL + m.ROW_CELLS * U(ints[m.HORIZON] - 1)
    for cell in range(m.FIRST_CELL, last):
        floats[cell] = floats[cell + m.ROW_CELLS]
    floats[last] = floats[last + ONE] = ints[m.SLOTS]
    floats[last + ONE + ONE] = 0.0
    for i in range(ints[m.QUEUE]):
        job = ints[U(ints[m.JOB_AT] + i)]
        at = U(ints[m.OFFSET_AT] + i)
        if job < 0:
            continue
        if ints[at] > 0:
            ints[at] -= 1
        elif ints[at] == 0:
            ints[at] = earliest(ints, floats, job, 0)
        else:
            new = ints[m.HORIZON] - ints[U(ints[m.LENGTH_AT] + job)] - ints[m.COMPAT]
            if new >= 0:
                ints[at] = earliest(ints, floats, job, new)


@compiled(types.void(INTS, FLOATS))
def _leave(ints, floats):  # type: ignore[no-untyped-def]
    """Remove finished jobs. In compat the entry after each removal is passed over."""
    now = ints[m.NOW]
    running, finish = U(ints[m.RUNNING_AT]), U(ints[m.FINISH_AT])
    kept = U(0)
    passed_over = False
    for i in range(U(ints[m.IN_MACHINE])):
        job = ints[running + i]
        if ints[finish + U(job)] <= now and not passed_over:
            floats[m.OPEN_RATE] -= floats[U(ints[m.INVERSE_AT] + job)]
            passed_over = ints[m.COMPAT] == 1
        else:
            ints[running + kept] = job
            kept += ONE
            passed_over = False
    ints[m.IN_MACHINE] = kept


@compiled(types.int64(INTS))
def in_system(ints):  # type: ignore[no-untyped-def]
    """Return the number of jobs in machine, queue and backlog."""
    return ints[m.IN_MACHINE] + ints[m.VISIBLE] + ints[m.WAITING]


@compiled(types.int64(INTS, FLOATS, FLOATS))
def _move_on(ints, floats, step_outputs):  # type: ignore[no-untyped-def]
    """Let one time step pass, fill its outputs and return the status."""
    # Of the row that passes: free cpu and memory are its first two cells.
    used = (2.0 * ints[m.SLOTS] - floats[m.GRID] - floats[m.GRID + 1]) / floats[m.CAPACITY]
    floats[m.USED] += used
    floats[m.REPORT_LOAD] += used + ints[m.VISIBLE] / ints[m.QUEUE]
    ints[m.NOW] += 1
    ints[m.PLACED] = -1
    floats[k.TIME] = ints[m.NOW] * floats[m.STEP_S]
    _shift(ints, floats)
    _leave(ints, floats)
    over = ints[m.NOW] >= ints[m.LAST_STEP] and in_system(ints) == 0
    if ints[m.COMPAT] == 0 or not over:  # in compat, the end is tested before jobs arrive
        arrive(ints, floats)
        over = over and in_system(ints) == 0
    jobs = in_system(ints)
    if jobs == 0:
        floats[m.OPEN_RATE] = 0.0  # removes the rounding error
    step_outputs[k.ELAPSED] = floats[m.STEP_S]
    # Unlike -x, 0.0 - x keeps a zero +0.0.
    step_outputs[k.TERMS + TERM.slowdown] = 0.0 - (floats[m.CARRIED_RATE] + floats[m.OPEN_RATE])
    step_outputs[k.TERMS + TERM.completion] = 0.0 - (floats[m.CARRIED_JOBS] + jobs)
    step_outputs[k.TERMS + TERM.utilisation] = used
    floats[m.CARRIED_RATE] = floats[m.CARRIED_JOBS] = 0.0
    if over:
        return k.TERMINATED
    return k.TRUNCATED if ints[m.NOW] >= ints[m.MAX_STEPS] else k.RUNNING


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Place the job in slot `choice`, or move on (the last row), which lets one time step pass."""
    queue = ints[m.QUEUE]
    if choice < 0 or choice > queue:
        return k.INFEASIBLE
    if choice < queue and ints[U(ints[m.OFFSET_AT] + choice)] < 0:  # an empty slot has no window
        return k.INFEASIBLE
    ints[m.ACTIONS] += 1
    ints[m.CHANGES] += 1
    status = k.RUNNING
    if choice < queue:
        _place(ints, floats, choice)
        step_outputs[:] = 0.0
    else:
        status = _move_on(ints, floats, step_outputs)
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec. Unfinished jobs count up to now."""
    now = ints[m.NOW]
    jobs = unfinished = 0
    slowdown = completion = 0.0
    for job in range(ints[m.JOBS]):
        enter, finish = ints[ints[m.ENTER_AT] + job], ints[ints[m.FINISH_AT] + job]
        if enter < 0:
            continue
        if finish < 0 or finish > now:
            unfinished += 1
            if ints[m.COMPAT] == 0:
                finish = now
            elif finish < 0:
                continue  # the reference counts only jobs that it has placed
        jobs += 1
        slowdown += (finish - enter) / ints[ints[m.LENGTH_AT] + job]
        completion += (finish - enter) * floats[m.STEP_S]
    outcomes[OUT.mean_slowdown] = slowdown / max(jobs, 1)
    outcomes[OUT.jobs] = jobs
    outcomes[OUT.slowdown_sum] = slowdown
    outcomes[OUT.mean_completion_s] = completion / max(jobs, 1)
    outcomes[OUT.utilisation] = floats[m.USED] / max(now, 1)
    outcomes[OUT.unfinished] = unfinished
    outcomes[OUT.dropped] = ints[m.DROPPED]
    outcomes[OUT.left_out] = ints[m.LEFT_OUT]
    outcomes[OUT.time_steps] = now
    outcomes[OUT.actions] = ints[m.ACTIONS]
    outcomes[OUT.expected_load] = floats[m.EXPECTED_LOAD]
    outcomes[OUT.offered_load] = floats[m.OFFERED_LOAD]
    outcomes[OUT.report_load] = floats[m.REPORT_LOAD] / max(now, 1)
