"""Compiled observation of `slots`. The layouts are drawn in hindcast.pipeline.scenarios.slots.

The image is kept from one observation to the next. In every row a job takes the first empty cells,
so cells fill from the left in the order of placement. A placement draws one job; a time step moves
the machine up by one row. A new image is drawn from the running jobs, in the same order.
"""

from typing import Final

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.features import ROW, SLOT, STEP
from hindcast.pipeline.scenarios.slots.foresight import write_delays
from hindcast.pipeline.scenarios.slots.layout import U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, IMAGE, INTS, OBSERVE, ROWS, compiled

FULL: Final = 255  # value of a cell of a waiting job
GAP_LIMIT: Final = 10  # time steps since the last arrival at which the time column is full
_TINTS: Final = 40  # grey levels of running jobs: 255, 250, ... 60


@compiled(types.int64(INTS))
def backlog_columns(ints):  # type: ignore[no-untyped-def]
    """Return the number of image columns for the backlog."""
    return -(-ints[m.BACKLOG] // ints[m.HORIZON])


@compiled(types.int64(INTS))
def _width(ints):  # type: ignore[no-untyped-def]
    """Return the number of image columns."""
    return 2 * ints[m.SLOTS] * (1 + ints[m.QUEUE]) + backlog_columns(ints) + 1


@compiled(types.void(INTS, IMAGE, types.int64, types.int64, types.int64))
def _draw_waiting(ints, image, slot, job, value):  # type: ignore[no-untyped-def]
    """Fill the cells of a job in its slot: its length down, its demands across."""
    width = _width(ints)
    slots = ints[m.SLOTS]
    length = ints[ints[m.LENGTH_AT] + job]
    left = slots + slot * slots
    for resource in range(2):
        block = ints[m.CPU_AT] if resource == 0 else ints[m.MEMORY_AT]
        demand = ints[block + job]
        for row in range(length):
            first = U(row * width + left)
            for column in range(U(demand)):
                image[first + column] = value
        left += slots * (1 + ints[m.QUEUE])


@compiled(types.void(INTS, FLOATS, IMAGE, types.int64, types.boolean))
def _draw_running(ints, floats, image, job, newest):  # type: ignore[no-untyped-def]
    """Draw the rest of a job's window into the machine.

    The cells of the `newest` job end where the free cells begin. The cells of another job begin at
    the first empty cell of an image that is being drawn in order of placement.
    """
    width = _width(ints)
    tint = np.uint8(FULL - 5 * (job % _TINTS))
    end = ints[ints[m.FINISH_AT] + job] - ints[m.NOW]
    start = max(end - ints[ints[m.LENGTH_AT] + job], 0)
    left = 0
    for resource in range(2):
        demand = ints[(ints[m.CPU_AT] if resource == 0 else ints[m.MEMORY_AT]) + job]
        for row in range(start, end):
            first = row * width + left
            if newest:
                free = floats[U(m.GRID + m.COLUMNS * row + resource)]
                first += ints[m.SLOTS] - demand - int(free)
            else:
                for _ in range(ints[m.SLOTS] - demand):
                    if image[U(first)] == 0:
                        break
                    first += 1
            for column in range(U(demand)):
                image[U(first) + column] = tint
        left += ints[m.SLOTS] * (1 + ints[m.QUEUE])


@compiled(types.void(INTS, FLOATS, IMAGE))
def _shift_running(ints, floats, image):  # type: ignore[no-untyped-def]
    """Move the machine up by one row. Cells used neither before nor after stay empty."""
    width = _width(ints)
    slots = ints[m.SLOTS]
    left = 0
    for resource in range(2):
        before = slots
        for row in range(ints[m.HORIZON]):
            after = slots - int(floats[U(m.GRID + m.COLUMNS * row + resource)])
            first = U(row * width + left)
            below = first + U(width)
            for column in range(U(after)):
                image[first + column] = image[below + column]
            for column in range(U(after), U(max(before, after))):
                image[first + column] = 0
            before = after
        left += slots * (1 + ints[m.QUEUE])


@compiled(types.void(INTS, IMAGE))
def _draw_margin(ints, image):  # type: ignore[no-untyped-def]
    """Update the backlog (row by row) and the time column."""
    width = _width(ints)
    columns = backlog_columns(ints)
    left = width - 1 - columns
    waiting, shown = ints[m.WAITING], ints[m.SHOWN_WAITING]
    value = FULL if waiting > shown else 0
    for i in range(min(waiting, shown), max(waiting, shown)):
        image[i // columns * width + left + i % columns] = value
    ints[m.SHOWN_WAITING] = waiting
    gap = min(ints[m.NOW] - ints[m.LAST_ARRIVAL], GAP_LIMIT) * FULL // GAP_LIMIT
    if gap != ints[m.SHOWN_GAP]:
        for row in range(ints[m.HORIZON]):
            image[U((row + 1) * width - 1)] = gap
        ints[m.SHOWN_GAP] = gap


@compiled(types.void(INTS, FLOATS, IMAGE, types.boolean))
def _draw(ints, floats, image, fresh):  # type: ignore[no-untyped-def]
    """Update the image, or redraw it."""
    if not fresh:
        image[:] = 0
        ints[m.SHOWN_WAITING] = ints[m.SHOWN_GAP] = 0
        for i in range(ints[m.IN_MACHINE]):
            _draw_running(ints, floats, image, ints[ints[m.RUNNING_AT] + i], False)  # noqa: FBT003
    elif ints[m.CHANGES] == 1 and ints[m.PLACED] >= 0:
        _draw_running(ints, floats, image, ints[m.PLACED], True)  # noqa: FBT003
    elif ints[m.CHANGES] == 1:
        _shift_running(ints, floats, image)
    for slot in range(ints[m.QUEUE]):
        job, shown = ints[U(ints[m.JOB_AT] + slot)], ints[U(ints[m.SHOWN_AT] + slot)]
        if fresh and job == shown:
            continue
        if fresh and shown >= 0:
            _draw_waiting(ints, image, slot, shown, 0)
        if job >= 0:
            _draw_waiting(ints, image, slot, job, FULL)
    _draw_margin(ints, image)


@compiled(types.void(INTS, FLOATS, FLOATS, ROWS, types.int64))
def _write_job(ints, floats, context, candidates, slot):  # type: ignore[no-untyped-def]
    """Write the values that stay the same while a job, or none, is in a slot."""
    job = ints[U(ints[m.JOB_AT] + slot)]
    row = U(slot)
    length = cpu = memory = 0
    if job >= 0:
        length = ints[U(ints[m.LENGTH_AT] + job)]
        cpu = ints[U(ints[m.CPU_AT] + job)]
        memory = ints[U(ints[m.MEMORY_AT] + job)]
    at = U(len(STEP) * ints[m.HORIZON] + len(SLOT) * slot)
    context[at + U(SLOT.cpu)] = cpu
    context[at + U(SLOT.memory)] = memory
    context[at + U(SLOT.length)] = length
    candidates[row, ROW.length] = length
    candidates[row, ROW.cpu] = cpu
    candidates[row, ROW.memory] = memory
    candidates[row, ROW.waited] = 0.0
    candidates[row, ROW.offset] = 0.0
    candidates[row, ROW.fits_now] = 0.0
    candidates[row, ROW.move_on] = 0.0
    candidates[row, ROW.tie] = ints[m.TIES] * (cpu + memory)
    candidates[row, ROW.urgency] = floats[U(ints[m.INVERSE_AT] + job)] if job >= 0 else 0.0
    candidates[row, ROW.shorter] = 0.0
    candidates[row, ROW.crowded_out] = 0.0
    ints[U(ints[m.SHOWN_AT] + slot)] = job


@compiled(types.void(FLOATS, ROWS, types.int64))
def _compare(free, candidates, queue):  # type: ignore[no-untyped-def]
    """Compare the visible jobs: count shorter jobs, and sum those that would lose their room."""
    cpu, memory = free[m.FIRST_CELL], free[m.FIRST_CELL + U(1)]
    for slot in range(queue):
        row = U(slot)
        candidates[row, ROW.shorter] = 0.0
        candidates[row, ROW.crowded_out] = 0.0
        length, fits = candidates[row, ROW.length], candidates[row, ROW.fits_now]
        if length == 0.0:
            continue
        for before in range(slot):
            other = U(before)
            length_too = candidates[other, ROW.length]
            if length_too == 0.0:
                continue
            if length < length_too:
                candidates[other, ROW.shorter] += 1.0
            elif length > length_too:
                candidates[row, ROW.shorter] += 1.0
            if fits == 0.0 or candidates[other, ROW.fits_now] == 0.0:
                continue
            if (
                candidates[row, ROW.cpu] + candidates[other, ROW.cpu] > cpu
                or candidates[row, ROW.memory] + candidates[other, ROW.memory] > memory
            ):
                candidates[row, ROW.crowded_out] += candidates[other, ROW.urgency]
                candidates[other, ROW.crowded_out] += candidates[row, ROW.urgency]


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the slots of the queue in order, then the row that moves on."""
    fresh = ints[k.FRESH] == 1 and ints[m.CHANGES] <= 1
    queue, horizon, now = ints[m.QUEUE], ints[m.HORIZON], ints[m.NOW]
    if len(image) > 0:
        _draw(ints, floats, image, fresh)
    for cell in range(U(len(STEP) * horizon)):
        context[cell] = floats[m.FIRST_CELL + cell]
    context[U(len(STEP) * horizon + len(SLOT) * queue)] = ints[m.WAITING]
    for slot in range(queue):
        job = ints[U(ints[m.JOB_AT] + slot)]
        if not fresh or job != ints[U(ints[m.SHOWN_AT] + slot)]:
            _write_job(ints, floats, context, candidates, slot)
        row = U(slot)
        offset = ints[U(ints[m.OFFSET_AT] + slot)]
        feasible[row] = offset >= 0
        if job >= 0:
            candidates[row, ROW.waited] = now - ints[U(ints[m.ENTER_AT] + job)]
            candidates[row, ROW.offset] = offset if offset >= 0 else horizon
            candidates[row, ROW.fits_now] = offset == 0
    row = U(queue)
    if not fresh:
        candidates[row, :] = 0.0
        candidates[row, ROW.move_on] = 1.0
        if len(image) > 0:
            for i in range(queue + 1):
                candidates[i, -1] = i  # the column `place`
        feasible[row] = True
    if ints[m.VISIBLE] > 0:
        _compare(floats, candidates, queue)
    quiet, queued = now - ints[m.LAST_ARRIVAL], ints[m.VISIBLE] + ints[m.WAITING]
    for i in range(queue + 1):
        row = U(i)
        candidates[row, ROW.quiet] = quiet
        candidates[row, ROW.queued] = queued
        candidates[row, ROW.free_cpu] = floats[m.FIRST_CELL]
        candidates[row, ROW.free_memory] = floats[m.FIRST_CELL + U(1)]
        candidates[row, ROW.running] = floats[m.FIRST_CELL + U(2)]
    if ints[m.FORESIGHT] == 1:
        write_delays(ints, floats, candidates)
    ints[k.FRESH] = 1
    ints[m.CHANGES] = 0
    return queue + 1
