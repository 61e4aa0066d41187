"""Compiled columns of `queue` with several resources, or with pools.

They stand behind the other columns, and replace those that depend on more than processors. The
profile is that of hindcast.pipeline.scenarios.queue.observation with a vector per group, one pool
after the other.
"""

import math

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.features import CLOSED, EQUIVALENT, MOMENT, ROW
from hindcast.pipeline.scenarios.queue.fitting import NOWHERE, place, take
from hindcast.pipeline.scenarios.queue.several.transition import (
    asks_of,
    fit_of,
    placement_of,
    shape_in,
)
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, MASK, ROWS, compiled

_HOUR_S = 3_600
_MOMENTS = len(MOMENT)
_UNKNOWN = -1.0  # a logarithm that has not been computed


@compiled(types.void(INTS, FLOATS))
def _make_profiles(ints, floats):  # type: ignore[no-untyped-def]
    """Fill the profile of every pool."""
    shape, now, group = shape_in(ints), ints[m.NOW], 0
    ends, lns = ints[m.PROFILE_END_AT], ints[m.PROFILE_LN_AT]
    for pool in range(ints[m.POOLS]):
        ints[ints[m.GROUPS_AT] + pool] = begin = group
        before = ints[m.FREE_AT] + shape.resources * pool
        for i in range(ints[m.RUNNING]):
            job = ints[ints[m.BY_REQUEST_AT] + i]
            if ints[ints[m.POOL_AT] + job] != pool:
                continue
            end = max(ints[ints[m.START_AT] + job] + ints[ints[m.REQUESTED_AT] + job], now)
            if group == begin or floats[ends + group - 1] < end:
                at = ints[m.PROFILE_AT] + shape.resources * group
                for k in range(shape.resources):
                    ints[at + k] = ints[before + k]
                floats[ends + group], floats[lns + group] = end, _UNKNOWN
                before = at
                group += 1
            placed = ints[ints[m.PLACED_AT] + job]
            take(ints, before, ints, asks_of(ints, job), shape, placed, -1)
    ints[ints[m.GROUPS_AT] + ints[m.POOLS]] = group


@compiled(types.void(INTS, FLOATS))
def _write_moment(ints, context):  # type: ignore[no-untyped-def]
    """Write the features of the moment, sums over the pools."""
    resources, pools = ints[m.RESOURCES], ints[m.POOLS]
    capacity, free = np.zeros(resources), np.zeros(resources)
    for pool in range(pools):
        for k in range(resources):
            capacity[k] += ints[ints[m.CAPACITY_AT] + resources * pool + k]
            free[k] += ints[ints[m.FREE_AT] + resources * pool + k]
    closed = ints[m.CLOSED] > 0
    alone = closed and ints[m.HAS_POOLS] == 0
    area = ints[m.WAITING_AREA] / 1000.0
    context[MOMENT.free] = max(free[0], 0.0) / capacity[0]
    context[MOMENT.waiting_area] = math.log(1.0 + area / capacity[0] / _HOUR_S)
    context[MOMENT.closed] = ints[m.CLOSED] / pools
    context[MOMENT.shadow_in] = context[MOMENT.spare] = 0.0
    if alone:
        context[MOMENT.shadow_in] = math.log(1.0 + ints[ints[m.SHADOW_AT]] - ints[m.NOW])
        context[MOMENT.spare] = max(ints[ints[m.SPARE_AT]], 0) / capacity[0]
    at = _MOMENTS
    for k in range(1, resources):
        context[at] = max(free[k], 0.0) / capacity[k]
        spare = ints[ints[m.SPARE_AT] + k] if alone else 0
        context[at + resources - 1] = max(spare, 0) / capacity[k]
        at += 1
    at += resources - 1
    for k in range(resources):
        context[at] = max(-free[k], 0.0) / capacity[k]
        area = float(ints[ints[m.ASKED_AT] + k])
        context[at + resources] = math.log(1.0 + area / capacity[k] / _HOUR_S)
        at += 1


@compiled(types.int64(INTS, types.int64))
def _first_group(ints, job):  # type: ignore[no-untyped-def]
    """Return the first group of the profile in which a job that does not fit has what it needs.

    That is the last one if running jobs do not release enough, and -1 if none run.
    """
    shape, pool = shape_in(ints), ints[ints[m.POOL_AT] + job]
    low, high = ints[ints[m.GROUPS_AT] + pool], ints[ints[m.GROUPS_AT] + pool + 1] - 1
    if high < low:
        return -1
    while low < high:
        middle = (low + high) // 2
        at = ints[m.PROFILE_AT] + shape.resources * middle
        if place(ints, at, ints, asks_of(ints, job), shape) == NOWHERE:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(types.boolean(INTS, types.int64, types.int64))
def _fits_in_types(ints, job, free):  # type: ignore[no-untyped-def]
    """Return whether the GPUs that a job asks for are free, those of any type in one type."""
    shape, asks = shape_in(ints), asks_of(ints, job)
    for kind in range(shape.first_type, shape.last_type):
        enough = True
        for k in range(shape.first_type, shape.last_type):
            ask = ints[asks + k]
            if k == kind:
                ask += ints[asks + shape.resources]
            enough = enough and (ask == 0 or ask <= ints[free + k])
        if enough:
            return True
    return False


@compiled(types.void(INTS, FLOATS, types.int64, ROWS, INTS))
def _write_asks(ints, floats, row, candidates, left):  # type: ignore[no-untyped-def]
    """Write the columns of one job. `left` (K,) is overwritten."""
    shape, job = shape_in(ints), ints[ints[m.ROWS_AT] + row]
    resources, pool, asks = shape.resources, ints[ints[m.POOL_AT] + job], asks_of(ints, job)
    capacity = ints[m.CAPACITY_AT] + resources * pool
    free = ints[m.FREE_AT] + resources * pool
    processors = float(ints[capacity])
    closed = ints[ints[m.CLOSED_AT] + pool] == 1
    fit, placed = fit_of(ints, job), placement_of(ints, job)
    of_any, kind = ints[asks + resources], placed
    if kind == NOWHERE:
        kind = max(place(ints, capacity, ints, asks, shape), shape.first_type)
    start_in, group, at = 0.0, -1, free
    if fit == NOWHERE:
        group = _first_group(ints, job)
    if group >= 0:
        at, ln = ints[m.PROFILE_AT] + resources * group, ints[m.PROFILE_LN_AT] + group
        if floats[ln] == _UNKNOWN:
            seconds = floats[ints[m.PROFILE_END_AT] + group] - ints[m.NOW]
            floats[ln] = math.log(1.0 + seconds)
        start_in = floats[ln]
    for k in range(resources):
        left[k] = ints[at + k]
    then = place(ints, at, ints, asks, shape)
    take(left, 0, ints, asks, shape, max(then, 0), 1)
    share_of_free = held = 0.0
    user = ints[ints[m.USER_AT] + job]
    for k in range(resources):
        ask = ints[asks + k] + (of_any if k == kind else 0)
        if ask > 0:
            share_of_free = max(share_of_free, ask / max(ints[free + k], 1))
        if user >= 0:
            of_user = ints[m.HOLDS_AT] + resources * (ints[m.POOLS] * user + pool)
            held = max(held, ints[of_user + k] / ints[capacity + k])
    equivalent = ints[ints[m.EQUIVALENT_AT] + job]
    candidates[row, ROW.fits] = fit != NOWHERE
    candidates[row, ROW.share_of_free] = min(share_of_free, 2.0)
    candidates[row, ROW.share_of_machine] = ints[asks] / processors
    candidates[row, ROW.safe] = placed != NOWHERE
    candidates[row, ROW.start_in] = start_in
    candidates[row, ROW.spare_after] = left[0] / processors
    candidates[row, ROW.user_running] = held
    candidates[row, EQUIVALENT - 1] = equivalent / (1000.0 * processors)
    candidates[row, EQUIVALENT] = math.log(equivalent / 1000.0)
    column = EQUIVALENT + 1
    if ints[m.HAS_POOLS] == 1:
        shadow = ints[ints[m.SHADOW_AT] + pool] - ints[m.NOW]
        candidates[row, CLOSED] = closed
        candidates[row, CLOSED + 1] = math.log(1.0 + shadow) if closed else 0.0
        column += 2
    for k in range(1, resources):
        ask = ints[asks + k] + (of_any if k == kind else 0)
        candidates[row, column] = ask / ints[capacity + k]
        column += 1
    in_types = _fits_in_types(ints, job, free) if of_any > 0 else False
    for k in range(resources):
        enough = ints[asks + k] == 0 or ints[asks + k] <= ints[free + k]
        if of_any > 0 and shape.first_type <= k < shape.last_type:
            enough = in_types
        candidates[row, column] = enough
        column += 1
    if shape.first_type < shape.last_type:
        candidates[row, column] = of_any > 0
        column += 1
    if ints[m.HAS_POOLS] == 1:
        for k in range(1, resources):
            candidates[row, column] = max(ints[free + k], 0) / ints[capacity + k]
            column += 1
    for k in range(1, resources):
        candidates[row, column] = max(left[k], 0) / ints[capacity + k]
        column += 1


@compiled(types.void(INTS, types.int64, ROWS))
def _write_ranks(ints, rows, candidates):  # type: ignore[no-untyped-def]
    """Write the place of every job among the waiting jobs of its pool."""
    waiting, before = np.zeros(ints[m.POOLS]), np.zeros(ints[m.POOLS])
    for i in range(ints[m.WAITING]):
        waiting[ints[ints[m.POOL_AT] + ints[ints[m.WAITING_AT] + i]]] += 1.0
    for i in range(rows):  # the oldest jobs of a pool that has rows are all there
        pool = ints[ints[m.POOL_AT] + ints[ints[m.ROWS_AT] + i]]
        candidates[i, ROW.oldest] = before[pool] == 0.0
        candidates[i, ROW.age_rank] = before[pool] / waiting[pool]
        before[pool] += 1.0


@compiled(types.void(INTS, FLOATS, types.int64, FLOATS, ROWS, MASK))
def write_several(ints, floats, rows, context, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the columns and features that depend on resources or pools, and what is feasible."""
    _make_profiles(ints, floats)
    _write_moment(ints, context)
    left = np.empty(ints[m.RESOURCES], np.int64)
    for i in range(rows):
        _write_asks(ints, floats, i, candidates, left)
        pool = ints[ints[m.POOL_AT] + ints[ints[m.ROWS_AT] + i]]
        reserving = ints[m.RESERVE] == 1 and ints[ints[m.CLOSED_AT] + pool] == 0
        feasible[i] = candidates[i, ROW.safe] > 0.0 or reserving
    _write_ranks(ints, rows, candidates)
