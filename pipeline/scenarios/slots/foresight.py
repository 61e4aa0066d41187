"""Compiled columns of `slots` with `foresight`: what the choice of a row puts off.

    delays           what is visible: urgency x time steps by which its earliest window moves back
    delays_shorter   the same of the jobs that are shorter than the one of the row
    cpu_wait, ...    what is still to come: time steps until d slots are free, mean of d = r/2 .. r

All of it after the job of the row has started; on a row that cannot start now, and on the one that
moves on, as things are. The grid is written to and put back: slots are whole numbers, so that
nothing is lost.
"""

from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.slots.dynamics import (
    COLUMNS,
    CPU_AT,
    GRID,
    HORIZON,
    INVERSE_AT,
    JOB_AT,
    LENGTH_AT,
    MEMORY_AT,
    OFFSET_AT,
    QUEUE,
    SLOTS,
    earliest,
)
from pipeline.simulation.kernel import FLOATS, INTS, ROWS, compiled

# columns of a candidate, after those of pipeline.scenarios.slots.observation
DELAYS: Final = 16
DELAYS_SHORTER: Final = 17
CPU_WAIT: Final = 18
MEMORY_WAIT: Final = 19

_U: Final = np.uint64


@compiled(types.float64(INTS, FLOATS, types.int64))
def _wait(ints, floats, resource):  # type: ignore[no-untyped-def]
    """Time steps until d slots of a resource are free, mean over d = r/2 .. r."""
    slots, horizon = ints[SLOTS], ints[HORIZON]
    least = (slots + 1) // 2
    total, demand = 0, least
    for row in range(horizon):
        free = floats[_U(GRID + COLUMNS * row + resource)]
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
        cell = _U(GRID + COLUMNS * row)
        floats[cell] -= cpu
        floats[cell + _U(1)] -= memory


@compiled(types.void(INTS, FLOATS, ROWS))
def write_delays(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Fill the four columns of every row."""
    queue, horizon = ints[QUEUE], ints[HORIZON]
    jobs, offsets, lengths = ints[JOB_AT], ints[OFFSET_AT], ints[LENGTH_AT]
    cpu_wait, memory_wait = _wait(ints, floats, 0), _wait(ints, floats, 1)
    for i in range(queue + 1):
        row = _U(i)
        candidates[row, DELAYS] = candidates[row, DELAYS_SHORTER] = 0.0
        candidates[row, CPU_WAIT], candidates[row, MEMORY_WAIT] = cpu_wait, memory_wait
        if i == queue or ints[_U(offsets + i)] != 0:
            continue
        job = ints[_U(jobs + i)]
        length = ints[_U(lengths + job)]
        cpu, memory = float(ints[_U(ints[CPU_AT] + job)]), float(ints[_U(ints[MEMORY_AT] + job)])
        _take(floats, length, cpu, memory)
        for slot in range(queue):
            at = ints[_U(offsets + slot)]
            if slot == i or at < 0 or at >= length:
                continue
            other = ints[_U(jobs + slot)]
            later = earliest(ints, floats, other, at)
            if later < 0:
                later = horizon
            delay = (later - at) * floats[_U(ints[INVERSE_AT] + other)]
            candidates[row, DELAYS] += delay
            if ints[_U(lengths + other)] < length:
                candidates[row, DELAYS_SHORTER] += delay
        candidates[row, CPU_WAIT] = _wait(ints, floats, 0)
        candidates[row, MEMORY_WAIT] = _wait(ints, floats, 1)
        _take(floats, length, -cpu, -memory)
