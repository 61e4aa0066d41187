"""Compiled transition of `deferrable`; the problem is told in pipeline.scenarios.deferrable."""

from numba import types

from pipeline.scenarios.deferrable.layout import (
    BY_SUBMISSION_AT,
    CAPACITY_AT,
    CORES_AT,
    DELAY,
    DELAY_WEIGHT,
    DURATION_AT,
    EARLIEST_AT,
    EVERYTHING,
    EXPIRED,
    FREED_AT,
    FUTURE_AT,
    FUTURE_CORES,
    FUTURE_JOBS,
    FUTURE_SLOTS,
    HORIZON,
    JOBS,
    LATEST_AT,
    MOVED,
    NOTHING,
    OBJECTIVE,
    ONE,
    RUNNING_AT,
    RUNNING_CORES,
    RUNNING_JOBS,
    SLOT,
    SLOT_S,
    START_AT,
    STARTABLE_AT,
    STARTABLE_CORES,
    STARTABLE_JOBS,
    STARTABLE_SLOTS,
    STARTED,
    SUBMITTED,
    SUBMITTED_AT,
    UPPER_BOUND,
    USED,
    VIOLATION,
    VIOLATION_WEIGHT,
    WORK,
    U,
)
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
    compiled,
)


@compiled(types.void(INTS))
def _submit(ints):  # type: ignore[no-untyped-def]
    """Let in the jobs submitted at or before the slot, each at its place among the future ones."""
    future = U(ints[FUTURE_AT])
    while ints[SUBMITTED] < ints[JOBS]:
        job = ints[U(ints[BY_SUBMISSION_AT] + ints[SUBMITTED])]
        if ints[U(ints[SUBMITTED_AT] + job)] > ints[SLOT]:
            return
        ints[SUBMITTED] += 1
        i = U(ints[FUTURE_JOBS])
        while i > 0 and ints[future + i - ONE] > job:
            ints[future + i] = ints[future + i - ONE]
            i -= ONE
        ints[future + i] = job
        ints[FUTURE_JOBS] += 1
        ints[FUTURE_CORES] += ints[U(ints[CORES_AT] + job)]
        ints[FUTURE_SLOTS] += ints[U(ints[DURATION_AT] + job)]


@compiled(types.void(INTS))
def _finish(ints):  # type: ignore[no-untyped-def]
    """Take what has ended from the running jobs."""
    now = ints[SLOT]
    ints[RUNNING_CORES] -= ints[U(ints[FREED_AT] + now)]
    running = U(ints[RUNNING_AT])
    kept = running
    for i in range(running, running + U(ints[RUNNING_JOBS])):
        job = ints[i]
        if ints[U(ints[START_AT] + job)] + ints[U(ints[DURATION_AT] + job)] > now:
            ints[kept] = job
            kept += ONE
    ints[RUNNING_JOBS] = kept - running


@compiled(types.void(INTS))
def _expire(ints):  # type: ignore[no-untyped-def]
    """Drop the startable jobs whose latest start has passed."""
    now = ints[SLOT]
    startable = U(ints[STARTABLE_AT])
    kept = startable
    for i in range(startable, startable + U(ints[STARTABLE_JOBS])):
        job = ints[i]
        if ints[U(ints[LATEST_AT] + job)] < now:
            ints[EXPIRED] += 1
            ints[STARTABLE_CORES] -= ints[U(ints[CORES_AT] + job)]
            ints[STARTABLE_SLOTS] -= ints[U(ints[DURATION_AT] + job)]
        else:
            ints[kept] = job
            kept += ONE
    ints[STARTABLE_JOBS] = kept - startable


@compiled(types.void(INTS))
def _become_startable(ints):  # type: ignore[no-untyped-def]
    """Move the jobs whose earliest start has come: the first ones of the future list."""
    now = ints[SLOT]
    future, startable = U(ints[FUTURE_AT]), U(ints[STARTABLE_AT])
    n = U(ints[FUTURE_JOBS])
    due = U(0)
    while due < n and ints[U(ints[EARLIEST_AT]) + U(ints[future + due])] <= now:
        job = ints[future + due]
        cores, duration = ints[U(ints[CORES_AT] + job)], ints[U(ints[DURATION_AT] + job)]
        ints[startable + U(ints[STARTABLE_JOBS])] = job
        ints[STARTABLE_JOBS] += 1
        ints[STARTABLE_CORES] += cores
        ints[STARTABLE_SLOTS] += duration
        ints[FUTURE_CORES] -= cores
        ints[FUTURE_SLOTS] -= duration
        due += ONE
    if due > 0:
        for i in range(due, n):
            ints[future + i - due] = ints[future + i]
        ints[FUTURE_JOBS] = n - due


@compiled(types.void(INTS))
def begin_slot(ints):  # type: ignore[no-untyped-def]
    """Bring the lists to the slot of ints[SLOT]: submissions, ends, expiries."""
    _submit(ints)
    _finish(ints)
    _expire(ints)
    _become_startable(ints)
    ints[MOVED] = EVERYTHING


@compiled(types.void(INTS, types.uint64))
def _start(ints, place):  # type: ignore[no-untyped-def]
    """Start the job at a place of the startable list."""
    startable = U(ints[STARTABLE_AT])
    job = ints[startable + place]
    cores, duration = ints[U(ints[CORES_AT] + job)], ints[U(ints[DURATION_AT] + job)]
    for i in range(startable + place + ONE, startable + U(ints[STARTABLE_JOBS])):
        ints[i - ONE] = ints[i]
    ints[STARTABLE_JOBS] -= 1
    ints[STARTABLE_CORES] -= cores
    ints[STARTABLE_SLOTS] -= duration
    ints[U(ints[RUNNING_AT] + ints[RUNNING_JOBS])] = job
    ints[RUNNING_JOBS] += 1
    ints[RUNNING_CORES] += cores
    ints[U(ints[START_AT] + job)] = ints[SLOT]
    ints[U(ints[FREED_AT] + ints[SLOT] + duration)] += cores
    ints[STARTED] += 1
    ints[WORK] += cores * duration
    ints[DELAY] += ints[SLOT] - ints[U(ints[EARLIEST_AT] + job)]
    # Rows can be brought up to date after one start; after two unseen ones they are written anew.
    if ints[MOVED] == NOTHING:
        ints[MOVED] = place
    else:
        ints[MOVED] = EVERYTHING


@compiled(types.int64(INTS, FLOATS))
def _close(ints, floats):  # type: ignore[no-untyped-def]
    """End the slot and begin the next one; the status of the episode."""
    over = ints[RUNNING_CORES] - ints[U(ints[CAPACITY_AT] + ints[SLOT])]
    if over > 0:
        ints[VIOLATION] += over
    ints[USED] += ints[RUNNING_CORES]
    ints[SLOT] += 1
    floats[TIME] = ints[SLOT] * floats[SLOT_S]
    if ints[SLOT] < ints[HORIZON]:
        begin_slot(ints)
        return RUNNING
    ints[MOVED] = EVERYTHING
    return TERMINATED


@compiled(STEP)
def step(ints, floats, choice, booked):  # type: ignore[no-untyped-def]
    """Start the job in row `choice` of the last observation, or close the slot (the last row)."""
    place = choice - ints[RUNNING_JOBS]
    close = place == ints[STARTABLE_JOBS] + ints[FUTURE_JOBS]
    if ints[SLOT] >= ints[HORIZON] or place < 0 or (place >= ints[STARTABLE_JOBS] and not close):
        return INFEASIBLE
    if not close:
        cores = ints[U(ints[CORES_AT]) + U(ints[U(ints[STARTABLE_AT] + place)])]
        free = ints[U(ints[CAPACITY_AT] + ints[SLOT])] - ints[RUNNING_CORES]
        if cores > free:
            return INFEASIBLE
    work, delay, violation = ints[WORK], ints[DELAY], ints[VIOLATION]
    status = RUNNING
    booked[ELAPSED] = 0.0
    if close:
        status = _close(ints, floats)
        booked[ELAPSED] = floats[SLOT_S]
    else:
        _start(ints, U(place))
    # 0.0 - x: a zero stays +0.0
    booked[TERMS + 1] = ints[WORK] - work
    booked[TERMS + 2] = 0.0 - floats[DELAY_WEIGHT] * (ints[DELAY] - delay)
    booked[TERMS + 3] = 0.0 - floats[VIOLATION_WEIGHT] * (ints[VIOLATION] - violation)
    booked[TERMS] = booked[TERMS + 1] + booked[TERMS + 2] + booked[TERMS + 3]
    booked[REWARD] = booked[TERMS + ints[OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec."""
    capacity = offered = 0
    for slot in range(ints[HORIZON]):
        capacity += max(0, ints[ints[CAPACITY_AT] + slot])
    for job in range(ints[JOBS]):
        offered += ints[ints[CORES_AT] + job] * ints[ints[DURATION_AT] + job]
    jobs, started = ints[JOBS], ints[STARTED]
    delay = 0.0 - floats[DELAY_WEIGHT] * ints[DELAY]
    violation = 0.0 - floats[VIOLATION_WEIGHT] * ints[VIOLATION]
    outcomes[0] = ints[WORK] + delay + violation
    outcomes[1] = ints[WORK]
    outcomes[2] = delay
    outcomes[3] = violation
    outcomes[4] = ints[DELAY] / started if started > 0 else 0.0
    outcomes[5] = ints[VIOLATION]
    outcomes[6] = jobs
    outcomes[7] = started
    outcomes[8] = ints[EXPIRED]
    outcomes[9] = jobs - started - ints[EXPIRED]
    outcomes[10] = offered
    outcomes[11] = capacity
    outcomes[12] = ints[USED] / capacity if capacity > 0 else 0.0
    outcomes[13] = floats[UPPER_BOUND]
    outcomes[14] = outcomes[0] / floats[UPPER_BOUND] if floats[UPPER_BOUND] > 0 else 0.0
