"""Compiled columns of `slots` with `foresight`: the delays that the choice of a row causes.

    delays           to visible jobs: urgency x time steps by which the earliest window moves back
    delays_shorter   the same for the jobs that are shorter than the job of the row
    cpu_wait, ...    to later jobs: time steps until d slots are free, mean of d = r/2 .. r

All columns describe the state after the job of the row has started. A row that cannot start now,
and the row that moves on, describe the present state. The grid is changed and restored; slots are
whole numbers, so the restored values are exact.
"""

from numba import types

from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.dynamics import earliest
from hindcast.pipeline.scenarios.slots.features import ROW
from hindcast.pipeline.scenarios.slots.layout import U
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, ROWS, compiled


@compiled(types.float64(INTS, FLOATS, types.int64))
def _wait(ints, floats, resource):  # type: ignore[no-untyped-def]
    """Return the time steps until d slots of a resource are free, mean over d = r/2 .. r."""
    slots, horizon = ints[m.SLOTS], ints[m.HORIZON]
    least = (slots + 1) // 2
    total, demand = 0, least
    for row in range(horizon):
        free = floats[U(m.GRID + m.COLUMNS * row + resource)]
        while demand <= slots and demand <= free:
            total += row
            demand += 1
        if demand > slots:
            break
    total += (slots + 1 - demand) * horizon
    return total / (slots + 1 - least)


@compiled(types.void(FLOATS, types.int64, types.float64, types.float64))
def _take(floats, rows, cpu, memory):  # type: ignore[no-untyped-def]
    """Take slots from the first rows of the grid."""
    for row in range(rows):
        cell = U(m.GRID + m.COLUMNS * row)
        floats[cell] -= cpu
        floats[cell + U(1)] -= memory


@compiled(types.void(INTS, FLOATS, ROWS))
def write_delays(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Fill the four columns of every row."""
    queue, horizon = ints[m.QUEUE], ints[m.HORIZON]
    jobs, offsets, lengths = ints[m.JOB_AT], ints[m.OFFSET_AT], ints[m.LENGTH_AT]
    cpu_wait, memory_wait = _wait(ints, floats, 0), _wait(ints, floats, 1)
    for i in range(queue + 1):
        row = U(i)
        candidates[row, ROW.delays] = candidates[row, ROW.delays_shorter] = 0.0
        candidates[row, ROW.cpu_wait], candidates[row, ROW.memory_wait] = cpu_wait, memory_wait
        if i == queue or ints[U(offsets + i)] != 0:
            continue
        job = ints[U(jobs + i)]
        length = ints[U(lengths + job)]
        cpu, memory = float(ints[U(ints[m.CPU_AT] + job)]), float(ints[U(ints[m.MEMORY_AT] + job)])
        _take(floats, length, cpu, memory)
        for slot in range(queue):
            at = ints[U(offsets + slot)]
            if slot == i or at < 0 or at >= length:
                continue
            other = ints[U(jobs + slot)]
            later = earliest(ints, floats, other, at)
            if later < 0:
                later = horizon
            delay = (later - at) * floats[U(ints[m.INVERSE_AT] + other)]
            candidates[row, ROW.delays] += delay
            if ints[U(lengths + other)] < length:
                candidates[row, ROW.delays_shorter] += delay
        candidates[row, ROW.cpu_wait] = _wait(ints, floats, 0)
        candidates[row, ROW.memory_wait] = _wait(ints, floats, 1)
        _take(floats, length, -cpu, -memory)
