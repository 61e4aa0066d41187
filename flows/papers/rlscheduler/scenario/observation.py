"""Observations of `rlscheduler`: one row per waiting job, or the 128 rows of the program."""

import numpy as np
from numba import types

from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.features import LONGEST_WAIT_S, MOMENT, ROOM, ROW
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OBSERVE, ROWS, compiled


@compiled(types.void(INTS, FLOATS, ROWS, types.int64, types.int64))
def _fill_row(ints, floats, candidates, row, job):  # type: ignore[no-untyped-def]
    now, submit = ints[m.NOW], ints[ints[m.SUBMIT_AT] + job]
    cpu = ints[ints[m.CPU_AT] + job]
    candidates[row, ROW.wait] = min((now - submit) / LONGEST_WAIT_S, 1.0 - ROOM)
    fixed = m.FLOAT_HEADER + m.FIXED * job
    for i in range(m.FIXED):
        candidates[row, ROW.requested + i] = floats[fixed + i]
    candidates[row, ROW.can_start] = 1.0 - ROOM if cpu <= ints[m.FREE] else ROOM
    candidates[row, ROW.submit_s] = submit
    candidates[row, ROW.requested_s] = ints[ints[m.REQUESTED_AT] + job]
    candidates[row, ROW.cpu] = cpu
    candidates[row, ROW.waited_s] = now - submit


@compiled(types.void(INTS))
def _choose_shown(ints):  # type: ignore[no-untyped-def]
    """Fill `shown` with 128 of the waiting jobs: the shortest request, the fewest processors, ...

    Both orders take turns, and a job that is shown already is passed over.
    """
    waiting, shown = ints[m.WAITING_AT], ints[m.SHOWN_AT]
    n = ints[m.WAITING]
    requested, cpu = np.empty((2, n), np.int64)
    for i in range(n):
        requested[i] = ints[ints[m.REQUESTED_AT] + ints[waiting + i]]
        cpu[i] = ints[ints[m.CPU_AT] + ints[waiting + i]]
    by_request, by_cpu = np.argsort(requested, kind="mergesort"), np.argsort(cpu, kind="mergesort")
    taken = np.zeros(n, np.bool_)
    found = 0
    for i in range(n):
        for place in (by_request[i], by_cpu[i]):
            if found < m.ROWS_SHOWN and not taken[place]:
                taken[place] = True
                ints[shown + found] = place
                found += 1


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Fill the observation of a decision; return the number of rows."""
    waiting = ints[m.WAITING]
    context[MOMENT.free] = ints[m.FREE] / ints[m.PROCESSORS]
    context[MOMENT.waiting] = waiting
    context[MOMENT.running] = ints[m.RUNNING]
    if ints[m.PUBLISHED] == 0:
        for row in range(waiting):
            _fill_row(ints, floats, candidates, row, ints[ints[m.WAITING_AT] + row])
            feasible[row] = True
        return waiting
    rows = min(waiting, m.ROWS_SHOWN)
    if waiting <= m.ROWS_SHOWN:
        for row in range(rows):
            ints[ints[m.SHOWN_AT] + row] = row
    else:
        _choose_shown(ints)
    ints[m.SHOWN] = rows
    for row in range(m.ROWS_SHOWN):
        feasible[row] = row < rows
        if row < rows:
            place = ints[ints[m.SHOWN_AT] + row]
            _fill_row(ints, floats, candidates, row, ints[ints[m.WAITING_AT] + place])
        else:
            candidates[row, :] = 0.0
            for i in range(ROW.requested, ROW.can_start):
                candidates[row, i] = 1.0
    return m.ROWS_SHOWN
