"""Rules of `queue` over the memory of an episode with several resources, or with pools.

They are those of hindcast.policies.heuristics.queue for machines of processors alone, pool by pool.
A rule chooses the GPU type too, where a job takes any: that by which it delays no other.
"""

from typing import Any, Final

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.fitting import (
    AS_ASKED,
    NOWHERE,
    place_safely,
    suffices,
    take,
)
from hindcast.pipeline.scenarios.queue.priorities import priority_of_asks
from hindcast.pipeline.scenarios.queue.several.transition import (
    asks_of,
    fit_of,
    next_event_in,
    running_in,
    shadow_of,
    shape_in,
)
from hindcast.pipeline.simulation.kernel import INTS, compiled

_SLOT: Final[Any] = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


@compiled(types.int64(INTS, types.int64, types.int64, types.int64))
def _start(ints, row, job, placed):  # type: ignore[no-untyped-def]
    """Return the row of a job that starts with a placement."""
    ints[m.WISHING], ints[m.WISHED] = job, placed
    return row


@compiled(types.int64(INTS, types.int64, types.boolean))
def choose_easy_in_pools(ints, rule, clairvoyant):  # type: ignore[no-untyped-def]
    """Return the row that a rule with EASY backfilling chooses, -1 if nobody starts.

    Each pool has a reservation as in `choose_easy` of hindcast.policies.heuristics.queue; the first
    pool in which a job can start decides.
    """
    now, rows, shape = ints[m.NOW], ints[m.ROWS], shape_in(ints)
    times_at = ints[m.RUN_AT] if clairvoyant else ints[m.REQUESTED_AT]
    spare = np.empty(shape.resources, np.int64)
    for pool in range(ints[m.POOLS]):
        free, shadow = ints[m.FREE_AT] + shape.resources * pool, m.LATER
        for attempt in range(2):
            best, highest, chosen = -1, -np.inf, NOWHERE
            for i in range(rows):
                job = ints[ints[m.ROWS_AT] + i]
                if ints[ints[m.POOL_AT] + job] != pool:
                    continue
                time, submit = ints[times_at + job], ints[ints[m.SUBMIT_AT] + job]
                placed = fit_of(ints, job)
                if attempt == 1:
                    placed = place_safely(
                        ints, free, spare, 0, ints, asks_of(ints, job), shape, now + time <= shadow
                    )
                    if placed == NOWHERE:
                        continue
                predicted = float(max(time, 10))
                score = priority_of_asks(
                    rule, now - submit, time, ints[ints[m.CPU_AT] + job],
                    ints[ints[m.EQUIVALENT_AT] + job], 1 + submit - ints[m.FIRST_SUBMIT],
                    predicted, predicted,
                )  # fmt: skip
                if score > highest:
                    best, highest, chosen = i, score, placed
            if best < 0:
                break
            job = ints[ints[m.ROWS_AT] + best]
            if chosen != NOWHERE:
                return _start(ints, best, job, chosen)
            shadow = shadow_of(ints, job, clairvoyant, spare, 0)
    return -1


@compiled(_SLOT(INTS, INTS, INTS, types.int64, types.int64, types.int64))
def _slot(ints, times, free, size, job, kind):  # type: ignore[no-untyped-def]
    """Return the segments at whose beginning a job starts and before which it has ended."""
    shape, requested = shape_in(ints), ints[ints[m.REQUESTED_AT] + job]
    first = at = 0
    while at < size and times[at] < times[first] + requested:
        has = shape.resources * at
        if not suffices(free, has, free, has, ints, asks_of(ints, job), shape, kind):
            first = at + 1
        at += 1
    return first, at


@compiled(types.int64(INTS, types.int64, INTS))
def _first_planned_in(ints, pool, order):  # type: ignore[no-untyped-def]
    """Return the first row of a pool whose slot is now, -1 if there is none."""
    shape, rows = shape_in(ints), ints[m.ROWS]
    running, ends = running_in(ints, pool, False)  # noqa: FBT003
    width = shape.resources
    times = np.empty(len(running) + 2 * rows + 2, np.int64)
    free = np.empty(len(times) * width, np.int64)
    times[0], size = ints[m.NOW], 1
    for k in range(width):
        free[k] = ints[ints[m.FREE_AT] + width * pool + k]
    for i in range(len(running)):
        end = max(ends[i], ints[m.NOW] + 1)
        if times[size - 1] < end:
            times[size] = end
            free[width * size : width * (size + 1)] = free[width * (size - 1) : width * size]
            size += 1
        placed = ints[ints[m.PLACED_AT] + running[i]]
        take(free, width * (size - 1), ints, asks_of(ints, running[i]), shape, placed, -1)
    for row in order:
        job = ints[ints[m.ROWS_AT] + row]
        if ints[ints[m.POOL_AT] + job] != pool:
            continue
        placed, asks = AS_ASKED, asks_of(ints, job)
        if ints[asks + width] > 0:
            placed = shape.first_type
        first, at = _slot(ints, times, free, size, job, placed)
        if placed != AS_ASKED:
            for kind in range(shape.first_type + 1, shape.last_type):
                other, until = _slot(ints, times, free, size, job, kind)
                if other < first:
                    first, at, placed = other, until, kind
        if first == 0:
            return _start(ints, row, job, placed)
        end = times[first] + ints[ints[m.REQUESTED_AT] + job]
        if at == size or times[at] > end:
            for j in range(size, at, -1):
                times[j] = times[j - 1]
                free[width * j : width * (j + 1)] = free[width * (j - 1) : width * j]
            times[at] = end
            free[width * at : width * (at + 1)] = free[width * (at - 1) : width * at]
            size += 1
        for j in range(first, at):
            take(free, width * j, ints, asks, shape, placed, 1)
    return -1


@compiled(types.int64(INTS, INTS))
def first_planned_in_pools(ints, order):  # type: ignore[no-untyped-def]
    """Return the first row, in an order, whose slot is now, pool by pool; -1 if there is none."""
    for pool in range(ints[m.POOLS]):
        row = _first_planned_in(ints, pool, order)
        if row >= 0:
            return row
    return -1


@compiled(types.int64(INTS))
def recorded_in_pools(ints):  # type: ignore[no-untyped-def]
    """Return the row that fits with the least start in the log, -1 if none is due in its pool."""
    until = np.empty(ints[m.POOLS], np.int64)
    for pool in range(ints[m.POOLS]):
        until[pool] = next_event_in(ints, pool)
    best, least = -1, m.LATER
    for i in range(ints[m.ROWS]):
        job = ints[ints[m.ROWS_AT] + i]
        start = ints[ints[m.LOGGED_AT] + job]
        due = start < until[ints[ints[m.POOL_AT] + job]]
        if due and start < least and fit_of(ints, job) != NOWHERE:
            best, least = i, start
    return best
