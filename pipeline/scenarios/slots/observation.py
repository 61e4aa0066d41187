"""Compiled observation of `slots`; the layouts are drawn in pipeline.scenarios.slots.

The image is kept from one observation to the next. In every row of it a job takes the first empty
cells, so that cells fill from the left in the order of placement; a placement draws one job, a
time step moves the machine up by one row. A new image is drawn from the running jobs, in the same
order.
"""

from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.slots.dynamics import (
    BACKLOG,
    CHANGES,
    COLUMNS,
    CPU_AT,
    ENTER_AT,
    FINISH_AT,
    FORESIGHT,
    GRID,
    HORIZON,
    IN_MACHINE,
    INVERSE_AT,
    JOB_AT,
    LAST_ARRIVAL,
    LENGTH_AT,
    MEMORY_AT,
    NOW,
    OFFSET_AT,
    PLACED,
    QUEUE,
    RUNNING_AT,
    SHOWN_AT,
    SHOWN_GAP,
    SHOWN_WAITING,
    SLOTS,
    TIES,
    VISIBLE,
    WAITING,
)
from pipeline.scenarios.slots.foresight import write_delays
from pipeline.simulation.kernel import FLOATS, FRESH, IMAGE, INTS, OBSERVE, ROWS, compiled

# columns of a candidate
LENGTH: Final = 0
CPU: Final = 1
MEMORY: Final = 2
WAITED: Final = 3
OFFSET: Final = 4
FITS_NOW: Final = 5
MOVE_ON: Final = 6
TIE: Final = 7
URGENCY: Final = 8
SHORTER: Final = 9
CROWDED_OUT: Final = 10
QUIET: Final = 11
QUEUED: Final = 12
FREE_CPU: Final = 13
FREE_MEMORY: Final = 14
RUNNING_NOW: Final = 15

FULL: Final = 255  # a cell of a waiting job
GAP_LIMIT: Final = 10  # time steps since the last arrival at which the time column is full
_TINTS: Final = 40  # grey levels of running jobs: 255, 250, ... 60


_U: Final = np.uint64
_GRID: Final = np.uint64(GRID)


@compiled(types.int64(INTS))
def backlog_columns(ints):  # type: ignore[no-untyped-def]
    """Columns of the image that the backlog takes."""
    return -(-ints[BACKLOG] // ints[HORIZON])


@compiled(types.int64(INTS))
def _width(ints):  # type: ignore[no-untyped-def]
    """Columns of the image."""
    return 2 * ints[SLOTS] * (1 + ints[QUEUE]) + backlog_columns(ints) + 1


@compiled(types.void(INTS, IMAGE, types.int64, types.int64, types.int64))
def _draw_waiting(ints, image, slot, job, value):  # type: ignore[no-untyped-def]
    """Fill the cells of a job in its slot: its length down, its demands across."""
    width = _width(ints)
    slots = ints[SLOTS]
    length = ints[ints[LENGTH_AT] + job]
    left = slots + slot * slots
    for resource in range(2):
        block = ints[CPU_AT] if resource == 0 else ints[MEMORY_AT]
        demand = ints[block + job]
        for row in range(length):
            first = _U(row * width + left)
            for column in range(_U(demand)):
                image[first + column] = value
        left += slots * (1 + ints[QUEUE])


@compiled(types.void(INTS, FLOATS, IMAGE, types.int64, types.boolean))
def _draw_running(ints, floats, image, job, newest):  # type: ignore[no-untyped-def]
    """Draw what is left of a job's window into the machine.

    The cells of the `newest` job end where the free ones begin; those of others begin at the
    first empty cell of a picture that is being drawn in order of placement.
    """
    width = _width(ints)
    tint = np.uint8(FULL - 5 * (job % _TINTS))
    end = ints[ints[FINISH_AT] + job] - ints[NOW]
    start = max(end - ints[ints[LENGTH_AT] + job], 0)
    left = 0
    for resource in range(2):
        demand = ints[(ints[CPU_AT] if resource == 0 else ints[MEMORY_AT]) + job]
        for row in range(start, end):
            first = row * width + left
            if newest:
                free = floats[_U(GRID + COLUMNS * row + resource)]
                first += ints[SLOTS] - demand - int(free)
            else:
                for _ in range(ints[SLOTS] - demand):
                    if image[_U(first)] == 0:
                        break
                    first += 1
            for column in range(_U(demand)):
                image[_U(first) + column] = tint
        left += ints[SLOTS] * (1 + ints[QUEUE])


@compiled(types.void(INTS, FLOATS, IMAGE))
def _shift_running(ints, floats, image):  # type: ignore[no-untyped-def]
    """Move the machine up by one row; beyond the cells in use before and after all is empty."""
    width = _width(ints)
    slots = ints[SLOTS]
    left = 0
    for resource in range(2):
        before = slots
        for row in range(ints[HORIZON]):
            after = slots - int(floats[_U(GRID + COLUMNS * row + resource)])
            first = _U(row * width + left)
            below = first + _U(width)
            for column in range(_U(after)):
                image[first + column] = image[below + column]
            for column in range(_U(after), _U(max(before, after))):
                image[first + column] = 0
            before = after
        left += slots * (1 + ints[QUEUE])


@compiled(types.void(INTS, IMAGE))
def _draw_margin(ints, image):  # type: ignore[no-untyped-def]
    """Bring the backlog (row by row) and the time column up to date."""
    width = _width(ints)
    columns = backlog_columns(ints)
    left = width - 1 - columns
    waiting, shown = ints[WAITING], ints[SHOWN_WAITING]
    value = FULL if waiting > shown else 0
    for i in range(min(waiting, shown), max(waiting, shown)):
        image[i // columns * width + left + i % columns] = value
    ints[SHOWN_WAITING] = waiting
    gap = min(ints[NOW] - ints[LAST_ARRIVAL], GAP_LIMIT) * FULL // GAP_LIMIT
    if gap != ints[SHOWN_GAP]:
        for row in range(ints[HORIZON]):
            image[_U((row + 1) * width - 1)] = gap
        ints[SHOWN_GAP] = gap


@compiled(types.void(INTS, FLOATS, IMAGE, types.boolean))
def _draw(ints, floats, image, fresh):  # type: ignore[no-untyped-def]
    """Bring the image up to date, or draw it anew."""
    if not fresh:
        image[:] = 0
        ints[SHOWN_WAITING] = ints[SHOWN_GAP] = 0
        for i in range(ints[IN_MACHINE]):
            _draw_running(ints, floats, image, ints[ints[RUNNING_AT] + i], False)  # noqa: FBT003
    elif ints[CHANGES] == 1 and ints[PLACED] >= 0:
        _draw_running(ints, floats, image, ints[PLACED], True)  # noqa: FBT003
    elif ints[CHANGES] == 1:
        _shift_running(ints, floats, image)
    for slot in range(ints[QUEUE]):
        job, shown = ints[_U(ints[JOB_AT] + slot)], ints[_U(ints[SHOWN_AT] + slot)]
        if fresh and job == shown:
            continue
        if fresh and shown >= 0:
            _draw_waiting(ints, image, slot, shown, 0)
        if job >= 0:
            _draw_waiting(ints, image, slot, job, FULL)
    _draw_margin(ints, image)


@compiled(types.void(INTS, FLOATS, FLOATS, ROWS, types.int64))
def _write_job(ints, floats, context, candidates, slot):  # type: ignore[no-untyped-def]
    """Write what does not change while a job, or none, is in a slot."""
    job = ints[_U(ints[JOB_AT] + slot)]
    row = _U(slot)
    length = cpu = memory = 0
    if job >= 0:
        length = ints[_U(ints[LENGTH_AT] + job)]
        cpu = ints[_U(ints[CPU_AT] + job)]
        memory = ints[_U(ints[MEMORY_AT] + job)]
    at = _U(COLUMNS * (ints[HORIZON] + slot))
    context[at] = cpu
    context[at + _U(1)] = memory
    context[at + _U(2)] = length
    candidates[row, LENGTH] = length
    candidates[row, CPU] = cpu
    candidates[row, MEMORY] = memory
    candidates[row, WAITED] = 0.0
    candidates[row, OFFSET] = 0.0
    candidates[row, FITS_NOW] = 0.0
    candidates[row, MOVE_ON] = 0.0
    candidates[row, TIE] = ints[TIES] * (cpu + memory)
    candidates[row, URGENCY] = floats[_U(ints[INVERSE_AT] + job)] if job >= 0 else 0.0
    candidates[row, SHORTER] = 0.0
    candidates[row, CROWDED_OUT] = 0.0
    ints[_U(ints[SHOWN_AT] + slot)] = job


@compiled(types.void(FLOATS, ROWS, types.int64))
def _compare(free, candidates, queue):  # type: ignore[no-untyped-def]
    """What the visible jobs are to each other: which is shorter, which leaves no room for which."""
    cpu, memory = free[_GRID], free[_GRID + _U(1)]
    for slot in range(queue):
        row = _U(slot)
        candidates[row, SHORTER] = 0.0
        candidates[row, CROWDED_OUT] = 0.0
        length, fits = candidates[row, LENGTH], candidates[row, FITS_NOW]
        if length == 0.0:
            continue
        for before in range(slot):
            other = _U(before)
            length_too = candidates[other, LENGTH]
            if length_too == 0.0:
                continue
            if length < length_too:
                candidates[other, SHORTER] += 1.0
            elif length > length_too:
                candidates[row, SHORTER] += 1.0
            if fits == 0.0 or candidates[other, FITS_NOW] == 0.0:
                continue
            if (
                candidates[row, CPU] + candidates[other, CPU] > cpu
                or candidates[row, MEMORY] + candidates[other, MEMORY] > memory
            ):
                candidates[row, CROWDED_OUT] += candidates[other, URGENCY]
                candidates[other, CROWDED_OUT] += candidates[row, URGENCY]


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """The slots of the queue in order, then the row that moves on."""
    fresh = ints[FRESH] == 1 and ints[CHANGES] <= 1
    queue, horizon, now = ints[QUEUE], ints[HORIZON], ints[NOW]
    if len(image) > 0:
        _draw(ints, floats, image, fresh)
    for cell in range(_U(COLUMNS * horizon)):
        context[cell] = floats[_GRID + cell]
    context[_U(COLUMNS * (horizon + queue))] = ints[WAITING]
    for slot in range(queue):
        job = ints[_U(ints[JOB_AT] + slot)]
        if not fresh or job != ints[_U(ints[SHOWN_AT] + slot)]:
            _write_job(ints, floats, context, candidates, slot)
        row = _U(slot)
        offset = ints[_U(ints[OFFSET_AT] + slot)]
        feasible[row] = offset >= 0
        if job >= 0:
            candidates[row, WAITED] = now - ints[_U(ints[ENTER_AT] + job)]
            candidates[row, OFFSET] = offset if offset >= 0 else horizon
            candidates[row, FITS_NOW] = offset == 0
    row = _U(queue)
    if not fresh:
        candidates[row, :] = 0.0
        candidates[row, MOVE_ON] = 1.0
        if len(image) > 0:
            for i in range(queue + 1):
                candidates[i, -1] = i  # its place
        feasible[row] = True
    if ints[VISIBLE] > 0:
        _compare(floats, candidates, queue)
    quiet, queued = now - ints[LAST_ARRIVAL], ints[VISIBLE] + ints[WAITING]
    for i in range(queue + 1):
        row = _U(i)
        candidates[row, QUIET] = quiet
        candidates[row, QUEUED] = queued
        candidates[row, FREE_CPU] = floats[_GRID]
        candidates[row, FREE_MEMORY] = floats[_GRID + _U(1)]
        candidates[row, RUNNING_NOW] = floats[_GRID + _U(2)]
    if ints[FORESIGHT] == 1:
        write_delays(ints, floats, candidates)
    ints[FRESH] = 1
    ints[CHANGES] = 0
    return queue + 1
