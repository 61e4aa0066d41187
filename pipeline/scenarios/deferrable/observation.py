"""Observations of `deferrable`: the rows of all submitted jobs, written anew or brought up to date.

row   0 .. R-1        running jobs, in the order of their starts
      R .. R+S-1      startable jobs, ascending
      R+S .. R+S+F-1  future jobs, ascending
      R+S+F           closes the slot
"""

from typing import Final

from numba import types

from pipeline.scenarios.deferrable.layout import (
    CAPACITY_AT,
    CORES_AT,
    DURATION_AT,
    EARLIEST_AT,
    FREED_AT,
    FUTURE_AT,
    FUTURE_CORES,
    FUTURE_JOBS,
    FUTURE_SLOTS,
    HORIZON,
    LAGS,
    LATEST_AT,
    LOOKAHEAD,
    MOVED,
    NOTHING,
    ONE,
    RUNNING_AT,
    RUNNING_CORES,
    RUNNING_JOBS,
    SHOWN_DELAY_WEIGHT,
    SLOT,
    START_AT,
    STARTABLE_AT,
    STARTABLE_CORES,
    STARTABLE_JOBS,
    STARTABLE_SLOTS,
    SUBMITTED_AT,
    U,
)
from pipeline.simulation.kernel import FLOATS, FRESH, INTS, MASK, OBSERVE, ROWS, compiled

COLUMNS: Final = 11  # of a candidate; the order is that of the spec
REMAINING: Final = 5
IS_RUNNING: Final = 6
IS_STARTABLE: Final = 7
IS_FUTURE: Final = 8
CLOSES: Final = 9
JOB: Final = 10


@compiled(types.uint64(INTS, ROWS, types.uint64, types.int64, types.int64, types.int64))
def _write_jobs(ints, candidates, row, list_at, jobs_at, kind):  # type: ignore[no-untyped-def]
    """Write the rows of a list from `row` on; return the row after them."""
    now = ints[SLOT]
    cores_at, duration_at = U(ints[CORES_AT]), U(ints[DURATION_AT])
    earliest_at, latest_at = U(ints[EARLIEST_AT]), U(ints[LATEST_AT])
    submitted_at, start_at = U(ints[SUBMITTED_AT]), U(ints[START_AT])
    first = U(ints[list_at])
    running = 1.0 if kind == IS_RUNNING else 0.0
    startable = 1.0 if kind == IS_STARTABLE else 0.0
    future = 1.0 if kind == IS_FUTURE else 0.0
    for i in range(first, first + U(ints[jobs_at])):
        job = U(ints[i])
        left = ints[duration_at + job]
        candidates[row, 0] = ints[cores_at + job]
        candidates[row, 1] = left
        candidates[row, 2] = ints[earliest_at + job] - now
        candidates[row, 3] = ints[latest_at + job] - now
        candidates[row, 4] = now - ints[submitted_at + job]
        if kind == IS_RUNNING:
            left += ints[start_at + job] - now
        candidates[row, 5] = left
        candidates[row, 6] = running
        candidates[row, 7] = startable
        candidates[row, 8] = future
        candidates[row, 9] = 0.0
        candidates[row, 10] = ints[i]
        row += ONE
    return row


@compiled(types.void(INTS, ROWS, MASK))
def _write_rows(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write all rows; the mask of the startable ones is left to `_mark`."""
    row = _write_jobs(ints, candidates, U(0), RUNNING_AT, RUNNING_JOBS, IS_RUNNING)
    row = _write_jobs(ints, candidates, row, STARTABLE_AT, STARTABLE_JOBS, IS_STARTABLE)
    row = _write_jobs(ints, candidates, row, FUTURE_AT, FUTURE_JOBS, IS_FUTURE)
    for i in range(row):
        feasible[i] = False
    for column in range(COLUMNS):
        candidates[row, column] = 0.0
    candidates[row, CLOSES] = 1.0
    candidates[row, JOB] = -1.0
    feasible[row] = True


@compiled(types.void(INTS, ROWS, MASK))
def _move_started(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Move the row of the job just started to the end of the running ones."""
    row = U(ints[RUNNING_JOBS]) - ONE
    job = candidates[row + U(ints[MOVED]), JOB]
    for i in range(row + U(ints[MOVED]), row, -1):
        for column in range(COLUMNS):
            candidates[U(i), U(column)] = candidates[U(i) - ONE, U(column)]
    started = U(int(job))
    now = ints[SLOT]
    candidates[row, 0] = ints[U(ints[CORES_AT]) + started]
    candidates[row, 1] = ints[U(ints[DURATION_AT]) + started]
    candidates[row, 2] = ints[U(ints[EARLIEST_AT]) + started] - now
    candidates[row, 3] = ints[U(ints[LATEST_AT]) + started] - now
    candidates[row, 4] = now - ints[U(ints[SUBMITTED_AT]) + started]
    candidates[row, REMAINING] = candidates[row, 1]
    candidates[row, IS_RUNNING] = 1.0
    candidates[row, IS_STARTABLE] = 0.0
    candidates[row, IS_FUTURE] = 0.0
    candidates[row, CLOSES] = 0.0
    candidates[row, JOB] = job
    feasible[row] = False


@compiled(types.void(INTS, FLOATS, FLOATS))
def _write_context(ints, floats, context):  # type: ignore[no-untyped-def]
    """Fill the context; before the first slot the capacity was what it is in the first one."""
    now = min(ints[SLOT], ints[HORIZON] - 1)
    capacity = ints[CAPACITY_AT]
    for lag in range(LAGS + 1):
        context[U(lag)] = ints[U(capacity + max(now - lag, 0))]
    at = LAGS + 1
    context[U(at)] = ints[RUNNING_CORES]
    context[U(at + 1)] = context[0] - ints[RUNNING_CORES]
    at += 2
    freed = ints[FREED_AT] + ints[SLOT] + 1
    for ahead in range(LOOKAHEAD):
        context[U(at + ahead)] = ints[U(freed + ahead)]
    at += LOOKAHEAD
    startable, future = ints[STARTABLE_JOBS], ints[FUTURE_JOBS]
    context[U(at)] = startable
    context[U(at + 1)] = ints[STARTABLE_CORES] / startable if startable > 0 else 0.0
    context[U(at + 2)] = ints[STARTABLE_SLOTS] / startable if startable > 0 else 0.0
    context[U(at + 3)] = future
    context[U(at + 4)] = ints[FUTURE_CORES] / future if future > 0 else 0.0
    context[U(at + 5)] = ints[FUTURE_SLOTS] / future if future > 0 else 0.0
    context[U(at + 6)] = ints[HORIZON] - ints[SLOT]
    context[U(at + 7)] = floats[SHOWN_DELAY_WEIGHT]


@compiled(types.void(INTS, ROWS, MASK))
def _mark(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Mark the startable jobs that fit what is left of the capacity."""
    free = float(ints[U(ints[CAPACITY_AT] + ints[SLOT])] - ints[RUNNING_CORES])
    first = U(ints[RUNNING_JOBS])
    for row in range(first, first + U(ints[STARTABLE_JOBS])):
        feasible[row] = candidates[row, 0] <= free


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """All submitted jobs and the row that closes the slot; no rows when the episode is over."""
    _write_context(ints, floats, context)
    if ints[SLOT] >= ints[HORIZON]:
        return 0
    if ints[FRESH] == 1 and ints[MOVED] >= 0:
        _move_started(ints, candidates, feasible)
    elif ints[FRESH] == 0 or ints[MOVED] != NOTHING:
        _write_rows(ints, candidates, feasible)
    _mark(ints, candidates, feasible)
    ints[FRESH] = 1
    ints[MOVED] = NOTHING
    return ints[RUNNING_JOBS] + ints[STARTABLE_JOBS] + ints[FUTURE_JOBS] + 1
