"""Compiled transition of `deferrable`. The problem is described in its package."""

from numba import types

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.features import OUT, TERM
from hindcast.pipeline.scenarios.deferrable.layout import ONE, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.void(INTS))
def _submit(ints):  # type: ignore[no-untyped-def]
    """Insert the jobs submitted at or before the slot into the ordered list of future jobs."""
    future = U(ints[m.FUTURE_AT])
    while ints[m.SUBMITTED] < ints[m.JOBS]:
        job = ints[U(ints[m.BY_SUBMISSION_AT] + ints[m.SUBMITTED])]
        if ints[U(ints[m.SUBMITTED_AT] + job)] > ints[m.SLOT]:
            return
        ints[m.SUBMITTED] += 1
        i = U(ints[m.FUTURE_JOBS])
        while i > 0 and ints[future + i - ONE] > job:
            ints[future + i] = ints[future + i - ONE]
            i -= ONE
        ints[future + i] = job
        ints[m.FUTURE_JOBS] += 1
        ints[m.FUTURE_CORES] += ints[U(ints[m.CORES_AT] + job)]
        ints[m.FUTURE_SLOTS] += ints[U(ints[m.DURATION_AT] + job)]


@compiled(types.void(INTS))
def end_jobs(ints):  # type: ignore[no-untyped-def]
    """Remove the jobs that have ended from the running jobs."""
    now = ints[m.SLOT]
    ints[m.RUNNING_CORES] -= ints[U(ints[m.FREED_AT] + now)]
    running = U(ints[m.RUNNING_AT])
    end = running
    for i in range(running, running + U(ints[m.RUNNING_JOBS])):
        job = ints[i]
        if ints[U(ints[m.START_AT] + job)] + ints[U(ints[m.DURATION_AT] + job)] > now:
            ints[end] = job
            end += ONE
    ints[m.RUNNING_JOBS] = end - running


@compiled(types.void(INTS))
def _expire(ints):  # type: ignore[no-untyped-def]
    """Drop the startable jobs whose latest start has passed."""
    now = ints[m.SLOT]
    startable = U(ints[m.STARTABLE_AT])
    end = startable
    for i in range(startable, startable + U(ints[m.STARTABLE_JOBS])):
        job = ints[i]
        if ints[U(ints[m.LATEST_AT] + job)] < now and ints[m.OBJECTIVE] < m.GRID:
            ints[m.EXPIRED] += 1
            ints[m.STARTABLE_CORES] -= ints[U(ints[m.CORES_AT] + job)]
            ints[m.STARTABLE_SLOTS] -= ints[U(ints[m.DURATION_AT] + job)]
        else:
            ints[end] = job
            end += ONE
    ints[m.STARTABLE_JOBS] = end - startable


@compiled(types.void(INTS))
def _become_startable(ints):  # type: ignore[no-untyped-def]
    """Move the jobs whose earliest start has come from the future list, its first ones."""
    now = ints[m.SLOT]
    future, startable = U(ints[m.FUTURE_AT]), U(ints[m.STARTABLE_AT])
    n = U(ints[m.FUTURE_JOBS])
    due = U(0)
    while due < n and ints[U(ints[m.EARLIEST_AT]) + U(ints[future + due])] <= now:
        job = ints[future + due]
        cores, duration = ints[U(ints[m.CORES_AT] + job)], ints[U(ints[m.DURATION_AT] + job)]
        ints[startable + U(ints[m.STARTABLE_JOBS])] = job
        ints[m.STARTABLE_JOBS] += 1
        ints[m.STARTABLE_CORES] += cores
        ints[m.STARTABLE_SLOTS] += duration
        ints[m.FUTURE_CORES] -= cores
        ints[m.FUTURE_SLOTS] -= duration
        due += ONE
    if due > 0:
        for i in range(due, n):
            ints[future + i - due] = ints[future + i]
        ints[m.FUTURE_JOBS] = n - due


@compiled(types.void(INTS))
def begin_slot(ints):  # type: ignore[no-untyped-def]
    """Update the lists for the slot ints[SLOT]: submissions, ends, expiries, startable jobs."""
    _submit(ints)
    end_jobs(ints)
    _expire(ints)
    _become_startable(ints)
    ints[m.MOVED] = m.EVERYTHING


@compiled(types.void(INTS, types.uint64))
def start_job(ints, place):  # type: ignore[no-untyped-def]
    """Start the job at index `place` of the startable list."""
    startable = U(ints[m.STARTABLE_AT])
    job = ints[startable + place]
    cores, duration = ints[U(ints[m.CORES_AT] + job)], ints[U(ints[m.DURATION_AT] + job)]
    for i in range(startable + place + ONE, startable + U(ints[m.STARTABLE_JOBS])):
        ints[i - ONE] = ints[i]
    ints[m.STARTABLE_JOBS] -= 1
    ints[m.STARTABLE_CORES] -= cores
    ints[m.STARTABLE_SLOTS] -= duration
    ints[U(ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS])] = job
    ints[m.RUNNING_JOBS] += 1
    ints[m.RUNNING_CORES] += cores
    ints[U(ints[m.START_AT] + job)] = ints[m.SLOT]
    ints[U(ints[m.FREED_AT] + ints[m.SLOT] + duration)] += cores
    ints[m.STARTED] += 1
    ints[m.WORK] += cores * duration
    ints[m.DELAY] += ints[m.SLOT] - ints[U(ints[m.EARLIEST_AT] + job)]
    # Rows can be updated after one start; after two starts without observation they are rewritten.
    if ints[m.MOVED] == m.NOTHING:
        ints[m.MOVED] = place
    else:
        ints[m.MOVED] = m.EVERYTHING


@compiled(types.int64(INTS, FLOATS))
def close_slot(ints, floats):  # type: ignore[no-untyped-def]
    """End the slot and begin the next one; return the status of the episode."""
    over = ints[m.RUNNING_CORES] - ints[U(ints[m.CAPACITY_AT] + ints[m.SLOT])]
    if over > 0:
        ints[m.VIOLATION] += over
    ints[m.USED] += ints[m.RUNNING_CORES]
    ints[m.SLOT] += 1
    floats[k.TIME] = ints[m.SLOT] * floats[m.SLOT_S]
    if ints[m.SLOT] < ints[m.HORIZON]:
        begin_slot(ints)
        return k.RUNNING
    ints[m.MOVED] = m.EVERYTHING
    return k.TERMINATED


@compiled(types.int64(INTS, types.int64))
def chosen_place(ints, choice):  # type: ignore[no-untyped-def]
    """Return the place of a choice among the startable jobs; -1 for a choice that is not feasible.

    Rows are those of running, startable and future jobs, then the close row, which ends the slot.
    The place of the close row is the number of startable and future jobs.
    """
    place = choice - ints[m.RUNNING_JOBS]
    if ints[m.SLOT] >= ints[m.HORIZON] or place < 0:
        return -1
    if place >= ints[m.STARTABLE_JOBS]:
        return place if place == ints[m.STARTABLE_JOBS] + ints[m.FUTURE_JOBS] else -1
    cores = ints[U(ints[m.CORES_AT]) + U(ints[U(ints[m.STARTABLE_AT] + place)])]
    free = ints[U(ints[m.CAPACITY_AT] + ints[m.SLOT])] - ints[m.RUNNING_CORES]
    return place if cores <= free else -1


@compiled(STEP, forceinline=True)  # into that of the grid: a call with arrays takes time
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Start the job in row `choice` of the last observation, or close the slot (the last row)."""
    place = chosen_place(ints, choice)
    if place < 0:
        return k.INFEASIBLE
    work, delay, violation = ints[m.WORK], ints[m.DELAY], ints[m.VIOLATION]
    status = k.RUNNING
    step_outputs[k.ELAPSED] = 0.0
    if place < ints[m.STARTABLE_JOBS]:
        start_job(ints, U(place))
    else:
        status = close_slot(ints, floats)
        step_outputs[k.ELAPSED] = floats[m.SLOT_S]
    # unlike -x, 0.0 - x keeps a zero +0.0
    step_outputs[k.TERMS + TERM.utilisation] = ints[m.WORK] - work
    step_outputs[k.TERMS + TERM.delay] = 0.0 - floats[m.DELAY_WEIGHT] * (ints[m.DELAY] - delay)
    step_outputs[k.TERMS + TERM.violation] = 0.0 - floats[m.VIOLATION_WEIGHT] * (
        ints[m.VIOLATION] - violation
    )
    step_outputs[k.TERMS + TERM.revenue] = (
        step_outputs[k.TERMS + TERM.utilisation]
        + step_outputs[k.TERMS + TERM.delay]
        + step_outputs[k.TERMS + TERM.violation]
    )
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec."""
    capacity = offered = 0
    for slot in range(ints[m.HORIZON]):
        capacity += max(0, ints[ints[m.CAPACITY_AT] + slot])
    for job in range(ints[m.JOBS]):
        offered += ints[ints[m.CORES_AT] + job] * ints[ints[m.DURATION_AT] + job]
    jobs, started = ints[m.JOBS], ints[m.STARTED]
    delay = 0.0 - floats[m.DELAY_WEIGHT] * ints[m.DELAY]
    violation = 0.0 - floats[m.VIOLATION_WEIGHT] * ints[m.VIOLATION]
    outcomes[OUT.total_reward] = ints[m.WORK] + delay + violation
    outcomes[OUT.utilisation] = ints[m.WORK]
    outcomes[OUT.delay_penalty] = delay
    outcomes[OUT.violation_penalty] = violation
    outcomes[OUT.mean_delay_slots] = ints[m.DELAY] / started if started > 0 else 0.0
    outcomes[OUT.violation] = ints[m.VIOLATION]
    outcomes[OUT.jobs] = jobs
    outcomes[OUT.started] = started
    outcomes[OUT.expired] = ints[m.EXPIRED]
    outcomes[OUT.waiting_at_end] = jobs - started - ints[m.EXPIRED]
    outcomes[OUT.offered] = offered
    outcomes[OUT.capacity] = capacity
    outcomes[OUT.capacity_used] = ints[m.USED] / capacity if capacity > 0 else 0.0
    outcomes[OUT.upper_bound] = floats[m.UPPER_BOUND]
    outcomes[OUT.optimality_ratio] = (
        outcomes[OUT.total_reward] / floats[m.UPPER_BOUND] if floats[m.UPPER_BOUND] > 0 else 0.0
    )
