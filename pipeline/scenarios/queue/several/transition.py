"""Compiled transition of `queue` with several resources, or with pools.

A pool is a machine of its own: it has its own capacities, head, shadow and spare amounts. It is
decided at moments at which something ended or arrived in it. The decisions of all pools at one
moment are one sequence, whose rows are the waiting jobs of the pools in which somebody can start.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.fitting import (
    NOWHERE,
    Shape,
    find_shadow,
    place,
    place_running,
    place_safely,
    take,
)
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, Compiled, compiled, compiled_type

_SHAPE: Any = compiled_type(Shape)
_PAIR: Any = types.UniTuple(INTS, 2)  # type: ignore[no-untyped-call]


@compiled(types.boolean(INTS))
def is_several(ints):  # type: ignore[no-untyped-def]
    """Return whether the memory has several resources or pools: its header is then longer."""
    return ints[m.SUBMIT_AT] > m.INT_HEADER


def several_of(ints: NDArray[np.int64]) -> bool | None:
    """Return the first argument of functions that are compiled for both kinds of memory."""
    return True if is_several(ints) else None


def compiled_for_both(result: Any, *arguments: Any) -> Callable[[Any], Compiled]:
    """Return a decorator that compiles a function for both kinds of memory.

    Its first argument is None for processors alone and True for several resources or pools.
    Branches for the latter are then no part of the code for the former, which most logs run.
    """
    return compiled([result(types.none, *arguments), result(types.boolean, *arguments)])


@compiled(_SHAPE(INTS))
def shape_in(ints):  # type: ignore[no-untyped-def]
    """Return the numbers of the resources."""
    return Shape(ints[m.RESOURCES], ints[m.FIRST_TYPE], ints[m.LAST_TYPE])


@compiled(types.int64(INTS, types.int64))
def asks_of(ints, job):  # type: ignore[no-untyped-def]
    """Return the place of the row of a job's asks."""
    return ints[m.ASK_AT] + (ints[m.RESOURCES] + 1) * job


@compiled(types.int64(INTS, types.int64))
def fit_of(ints, job):  # type: ignore[no-untyped-def]
    """Return the placement with which a job fits, or NOWHERE."""
    free = ints[m.FREE_AT] + ints[m.RESOURCES] * ints[ints[m.POOL_AT] + job]
    return place(ints, free, ints, asks_of(ints, job), shape_in(ints))


@compiled(types.int64(INTS, types.int64))
def placement_of(ints, job):  # type: ignore[no-untyped-def]
    """Return the placement with which a job can start now, or NOWHERE.

    In a closed phase of its pool it must not delay the reservation.
    """
    pool = ints[ints[m.POOL_AT] + job]
    if ints[ints[m.CLOSED_AT] + pool] == 0:
        return fit_of(ints, job)
    at = ints[m.RESOURCES] * pool
    in_time = ints[m.NOW] + ints[ints[m.REQUESTED_AT] + job] <= ints[ints[m.SHADOW_AT] + pool]
    return place_safely(
        ints, ints[m.FREE_AT] + at, ints, ints[m.SPARE_AT] + at, ints, asks_of(ints, job),
        shape_in(ints), in_time,
    )  # fmt: skip


@compiled(types.int64(INTS))
def list_rows(ints):  # type: ignore[no-untyped-def]
    """List the jobs of the next observation; return their number, 0 if no job can start."""
    waiting, pools, visible = ints[m.WAITING_AT], ints[m.POOLS], ints[m.VISIBLE]
    can, seen = ints[m.IN_ROWS_AT], ints[m.SEEN_AT]
    able = 0
    for pool in range(pools):
        ints[can + pool] = ints[seen + pool] = 0
    for i in range(ints[m.WAITING]):
        job = ints[waiting + i]
        pool = ints[ints[m.POOL_AT] + job]
        if ints[can + pool] == 1 or ints[seen + pool] >= visible:
            continue
        ints[seen + pool] += 1
        if ints[ints[m.AWAKE_AT] + pool] == 1 and placement_of(ints, job) != NOWHERE:
            ints[can + pool] = 1
            able += 1
            if able == pools:
                break
    ints[m.ROWS] = 0
    if able == 0:
        return 0
    for pool in range(pools):
        ints[seen + pool] = 0
    for i in range(ints[m.WAITING]):
        job = ints[waiting + i]
        pool = ints[ints[m.POOL_AT] + job]
        if ints[can + pool] == 1 and ints[seen + pool] < visible:
            ints[seen + pool] += 1
            ints[ints[m.ROWS_AT] + ints[m.ROWS]] = job
            ints[m.ROWS] += 1
    return ints[m.ROWS]


@compiled(_PAIR(INTS, types.int64, types.boolean))
def running_in(ints, pool, known):  # type: ignore[no-untyped-def]
    """Return the jobs that run in a pool and their estimated ends, first end first.

    With `known` run times, jobs that ran at the beginning end after their requested time all the
    same.
    """
    jobs, ends, count = np.empty(ints[m.RUNNING], np.int64), np.empty(ints[m.RUNNING], np.int64), 0
    for i in range(ints[m.RUNNING]):
        job = ints[ints[m.BY_REQUEST_AT] + i]
        if ints[ints[m.POOL_AT] + job] != pool:
            continue
        seconds = ints[m.RUN_AT if known and job >= ints[m.FIRST_COUNTED] else m.REQUESTED_AT]
        jobs[count] = job
        ends[count] = max(ints[ints[m.START_AT] + job] + ints[seconds + job], ints[m.NOW])
        count += 1
    jobs, ends = jobs[:count], ends[:count]
    if known:
        order = np.argsort(ends)
        return jobs[order], ends[order]
    return jobs, ends


@compiled(types.int64(INTS, types.int64, types.boolean, INTS, types.int64))
def shadow_of(ints, job, known, have, at):  # type: ignore[no-untyped-def]
    """Return the shadow of a job that does not fit, and fill the spare amounts from have[at] on."""
    shape, pool = shape_in(ints), ints[ints[m.POOL_AT] + job]
    for k in range(shape.resources):
        have[at + k] = ints[ints[m.FREE_AT] + shape.resources * pool + k]
    jobs, ends = running_in(ints, pool, known)
    return find_shadow(
        ints[m.NOW], ends, 0, jobs, 0, len(jobs), ints, ints[m.ASK_AT], ints, ints[m.PLACED_AT],
        have, at, asks_of(ints, job), shape, m.LATER,
    )  # fmt: skip


@compiled(types.void(INTS, types.int64))
def reserve_in_pool(ints, job):  # type: ignore[no-untyped-def]
    """Close the phase of a job's pool: give the reservation to the job, which does not fit."""
    pool = ints[ints[m.POOL_AT] + job]
    spare = ints[m.SPARE_AT] + ints[m.RESOURCES] * pool
    ints[ints[m.SHADOW_AT] + pool] = shadow_of(ints, job, False, ints, spare)  # noqa: FBT003
    ints[ints[m.CLOSED_AT] + pool] = 1
    ints[m.CLOSED] += 1


@compiled(types.void(INTS, types.int64))
def place_job(ints, job):  # type: ignore[no-untyped-def]
    """Fix what a job takes that starts now; it may use up spare amounts."""
    placed, pool = placement_of(ints, job), ints[ints[m.POOL_AT] + job]
    if ints[m.WISHING] == job:
        placed = ints[m.WISHED]
    ints[m.WISHING] = -1
    ints[ints[m.PLACED_AT] + job] = placed
    end = ints[m.NOW] + ints[ints[m.REQUESTED_AT] + job]
    if ints[ints[m.CLOSED_AT] + pool] == 1 and end > ints[ints[m.SHADOW_AT] + pool]:
        shape = shape_in(ints)
        spare = ints[m.SPARE_AT] + shape.resources * pool
        take(ints, spare, ints, asks_of(ints, job), shape, placed, 1)


@compiled(types.int64(INTS, types.int64))
def next_event_in(ints, pool):  # type: ignore[no-untyped-def]
    """Return the time of the next release or arrival in a pool, LATER if there is none."""
    at = m.LATER
    for job in range(ints[m.NEXT], ints[m.JOBS]):
        if ints[ints[m.POOL_AT] + job] == pool:
            at = ints[ints[m.SUBMIT_AT] + job]
            break
    for i in range(ints[m.RUNNING] - 1, -1, -1):
        job = ints[ints[m.BY_END_AT] + i]
        if ints[ints[m.POOL_AT] + job] == pool:
            return min(at, ints[ints[m.END_AT] + job])
    return at


@compiled(types.boolean(INTS))
def can_wait_in_pools(ints):  # type: ignore[no-untyped-def]
    """Return whether something is still to come in every pool that has rows."""
    for pool in range(ints[m.POOLS]):
        if ints[ints[m.IN_ROWS_AT] + pool] == 1 and next_event_in(ints, pool) == m.LATER:
            return False
    return True


@compiled(types.void(INTS, types.int64, types.int64))
def hold(ints, job, sign):  # type: ignore[no-untyped-def]
    """Take what a job holds from its pool (sign 1), or give it back (sign -1)."""
    shape, asks = shape_in(ints), asks_of(ints, job)
    pool, placed = ints[ints[m.POOL_AT] + job], ints[ints[m.PLACED_AT] + job]
    take(ints, ints[m.FREE_AT] + shape.resources * pool, ints, asks, shape, placed, sign)
    user = ints[ints[m.USER_AT] + job]
    if user >= 0:
        held = ints[m.HOLDS_AT] + shape.resources * (ints[m.POOLS] * user + pool)
        take(ints, held, ints, asks, shape, placed, -sign)
    if sign < 0:
        ints[ints[m.AWAKE_AT] + pool] = 1


@compiled(types.void(INTS, types.int64, types.int64))
def count_asked(ints, job, sign):  # type: ignore[no-untyped-def]
    """Add the requested area of a job to those of the waiting jobs (sign 1), or subtract it."""
    requested, asks = sign * ints[ints[m.REQUESTED_AT] + job], asks_of(ints, job)
    ints[m.WAITING_AREA] += requested * ints[ints[m.EQUIVALENT_AT] + job]
    for k in range(ints[m.RESOURCES]):
        ints[ints[m.ASKED_AT] + k] += requested * ints[asks + k]
    if sign > 0:
        ints[ints[m.AWAKE_AT] + ints[ints[m.POOL_AT] + job]] = 1


@compiled(types.void(INTS))
def open_pools(ints):  # type: ignore[no-untyped-def]
    """Forget the heads, and let every pool sleep until something ends or arrives in it."""
    for pool in range(ints[m.POOLS]):
        ints[ints[m.CLOSED_AT] + pool] = ints[ints[m.AWAKE_AT] + pool] = 0


@compiled(types.void(INTS))
def wake_pools(ints):  # type: ignore[no-untyped-def]
    """Let every pool be decided now, as at the beginning."""
    for pool in range(ints[m.POOLS]):
        ints[ints[m.AWAKE_AT] + pool] = 1


@compiled(types.void(INTS, types.int64))
def begin_running(ints, job):  # type: ignore[no-untyped-def]
    """Fix what a job took that runs at the beginning: of any type, the first that suffices."""
    free = ints[m.FREE_AT] + ints[m.RESOURCES] * ints[ints[m.POOL_AT] + job]
    placed = place_running(ints, free, ints, asks_of(ints, job), shape_in(ints))
    ints[ints[m.PLACED_AT] + job] = placed


@compiled(types.void(INTS, types.int64, FLOATS))
def fill_utilisations(ints, until, utilisations):  # type: ignore[no-untyped-def]
    """Fill the share of every resource but processors that jobs held from 0 to a time."""
    shape = shape_in(ints)
    held = np.zeros(shape.resources, np.int64)
    for job in range(ints[m.JOBS]):
        start = ints[ints[m.START_AT] + job]
        if start != m.NEVER and start < until:
            seconds = max(min(ints[ints[m.END_AT] + job], until) - max(start, 0), 0)
            placed = ints[ints[m.PLACED_AT] + job]
            take(held, 0, ints, asks_of(ints, job), shape, placed, -seconds)
    for k in range(1, shape.resources):
        offered = 0
        for pool in range(ints[m.POOLS]):
            offered += ints[ints[m.CAPACITY_AT] + shape.resources * pool + k]
        utilisations[k - 1] = held[k] / (offered * max(until, 1))
