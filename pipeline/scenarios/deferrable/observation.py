"""Observations of `deferrable`: the rows of all submitted jobs, rewritten or updated in place.

row   0 .. R-1        running jobs, in the order of their starts
      R .. R+S-1      startable jobs, ascending
      R+S .. R+S+F-1  future jobs, ascending
      R+S+F           closes the slot
"""

from numba import types

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.layout import ONE, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, MASK, OBSERVE, ROWS, compiled


@compiled(types.uint64(INTS, ROWS, types.uint64, types.uint64, types.uint64, types.int64))
def _write_jobs(ints, candidates, row, first, stop, kind):  # type: ignore[no-untyped-def]
    """Write the jobs of ints[first:stop], beginning at `row`; return the row after them."""
    now = ints[m.SLOT]
    cores_at, duration_at = U(ints[m.CORES_AT]), U(ints[m.DURATION_AT])
    earliest_at, latest_at = U(ints[m.EARLIEST_AT]), U(ints[m.LATEST_AT])
    submitted_at, start_at = U(ints[m.SUBMITTED_AT]), U(ints[m.START_AT])
    running = 1.0 if kind == ROW.is_running else 0.0
    startable = 1.0 if kind == ROW.is_startable else 0.0
    future = 1.0 if kind == ROW.is_future else 0.0
    for i in range(first, stop):
        job = U(ints[i])
        remaining = ints[duration_at + job]
        candidates[row, ROW.cores] = ints[cores_at + job]
        candidates[row, ROW.duration] = remaining
        candidates[row, ROW.until_earliest] = ints[earliest_at + job] - now
        candidates[row, ROW.until_latest] = ints[latest_at + job] - now
        candidates[row, ROW.since_submission] = now - ints[submitted_at + job]
        if kind == ROW.is_running:
            remaining += ints[start_at + job] - now
        candidates[row, ROW.remaining] = remaining
        candidates[row, ROW.is_running] = running
        candidates[row, ROW.is_startable] = startable
        candidates[row, ROW.is_future] = future
        candidates[row, ROW.closes] = 0.0
        candidates[row, ROW.job] = ints[i]
        row += ONE
    return row


@compiled(types.void(INTS, ROWS, MASK))
def _write_rows(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write all rows. `_mark` fills the mask of the startable rows."""
    row = U(0)
    for list_at, jobs_at, kind in (
        (m.RUNNING_AT, m.RUNNING_JOBS, ROW.is_running),
        (m.STARTABLE_AT, m.STARTABLE_JOBS, ROW.is_startable),
        (m.FUTURE_AT, m.FUTURE_JOBS, ROW.is_future),
    ):
        first = U(ints[list_at])
        row = _write_jobs(ints, candidates, row, first, first + U(ints[jobs_at]), kind)
    for i in range(row):
        feasible[i] = False
    for column in range(len(ROW)):
        candidates[row, column] = 0.0
    candidates[row, ROW.closes] = 1.0
    candidates[row, ROW.job] = -1.0
    feasible[row] = True


@compiled(types.void(INTS, ROWS, MASK))
def _move_started(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Move the row of the job just started to the end of the running rows."""
    row = U(ints[m.RUNNING_JOBS]) - ONE
    for i in range(row + U(ints[m.MOVED]), row, -1):
        for column in range(len(ROW)):
            candidates[U(i), U(column)] = candidates[U(i) - ONE, U(column)]
    started = U(ints[m.RUNNING_AT]) + row
    _write_jobs(ints, candidates, row, started, started + ONE, ROW.is_running)
    feasible[row] = False


@compiled(types.void(INTS, FLOATS, FLOATS))
def write_context(ints, floats, context):  # type: ignore[no-untyped-def]
    """Fill the context. The capacity before the first slot is that of the first slot."""
    now = min(ints[m.SLOT], ints[m.HORIZON] - 1)
    capacity = ints[m.CAPACITY_AT]
    for lag in range(m.LAGS + 1):
        context[U(MOMENT.capacity + lag)] = ints[U(capacity + max(now - lag, 0))]
    context[MOMENT.running_cores] = ints[m.RUNNING_CORES]
    context[MOMENT.free_cores] = context[MOMENT.capacity] - ints[m.RUNNING_CORES]
    freed = ints[m.FREED_AT] + ints[m.SLOT] + 1
    for ahead in range(m.LOOKAHEAD):
        context[U(MOMENT.freed_in_1 + ahead)] = ints[U(freed + ahead)]
    startable, future = ints[m.STARTABLE_JOBS], ints[m.FUTURE_JOBS]
    n_startable, n_future = max(startable, 1), max(future, 1)
    context[MOMENT.startable] = startable
    context[MOMENT.startable_mean_cores] = ints[m.STARTABLE_CORES] / n_startable
    context[MOMENT.startable_mean_duration] = ints[m.STARTABLE_SLOTS] / n_startable
    context[MOMENT.future] = future
    context[MOMENT.future_mean_cores] = ints[m.FUTURE_CORES] / n_future
    context[MOMENT.future_mean_duration] = ints[m.FUTURE_SLOTS] / n_future
    context[MOMENT.slots_left] = ints[m.HORIZON] - ints[m.SLOT]
    context[MOMENT.delay_weight] = floats[m.SHOWN_DELAY_WEIGHT]


@compiled(types.void(INTS, ROWS, MASK))
def _mark(ints, candidates, feasible):  # type: ignore[no-untyped-def]
    """Mark the startable jobs that fit the free capacity as feasible."""
    free = float(ints[U(ints[m.CAPACITY_AT] + ints[m.SLOT])] - ints[m.RUNNING_CORES])
    first = U(ints[m.RUNNING_JOBS])
    for row in range(first, first + U(ints[m.STARTABLE_JOBS])):
        feasible[row] = candidates[row, ROW.cores] <= free


@compiled(OBSERVE, forceinline=True)  # into that of the grid: a call with arrays takes time
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write all submitted jobs and the close row; no rows when the episode is over."""
    write_context(ints, floats, context)
    if ints[m.SLOT] >= ints[m.HORIZON]:
        return 0
    if ints[k.FRESH] == 1 and ints[m.MOVED] >= 0:
        _move_started(ints, candidates, feasible)
    elif ints[k.FRESH] == 0 or ints[m.MOVED] != m.NOTHING:
        _write_rows(ints, candidates, feasible)
    _mark(ints, candidates, feasible)
    ints[k.FRESH] = 1
    ints[m.MOVED] = m.NOTHING
    return ints[m.RUNNING_JOBS] + ints[m.STARTABLE_JOBS] + ints[m.FUTURE_JOBS] + 1
