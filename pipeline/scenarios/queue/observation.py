"""Compiled observation of `queue`: the waiting jobs in order of arrival, then the row that waits.

Logarithms are computed once per job, or once per change: those of processors, requested time and
area when the instance is made, those of predictions when a run completes, that of the waiting time
once per moment.

The profile lists the distinct estimated ends of the running jobs from now on, the processors that
are free from each of them on, and the logarithm of the time until then:

    end     40   40   95   300            estimated ends; one that is over counts as now
    group   0         1    2
    free    8         12   64             with `free` processors before the first
"""

import math

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.dynamics import can_wait, job_of, shown
from hindcast.pipeline.scenarios.queue.features import MOMENT, ROW
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, expect, version_of
from hindcast.pipeline.scenarios.queue.several.columns import write_several
from hindcast.pipeline.scenarios.queue.several.transition import is_several
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OBSERVE, ROWS, compiled

_DAY_S = 86_400
_HOUR_S = 3_600
_LN_LEAST = math.log(10.0)  # least prediction, 10 s
_UNKNOWN = -1.0  # a logarithm that has not been computed


@compiled(types.int64(INTS, FLOATS))
def make_profile(ints, floats):  # type: ignore[no-untyped-def]
    """Fill the profile and the mean requested remainder; return the number of groups."""
    now, free, groups = ints[m.NOW], ints[m.FREE], 0
    ends, frees, lns = ints[m.PROFILE_END_AT], ints[m.PROFILE_FREE_AT], ints[m.PROFILE_LN_AT]
    remainders = 0
    for i in range(ints[m.RUNNING]):
        job = ints[ints[m.BY_REQUEST_AT] + i]
        end = max(ints[ints[m.START_AT] + job] + ints[ints[m.REQUESTED_AT] + job], now)
        remainders += end - now
        free += ints[ints[m.CPU_AT] + job]
        if groups == 0 or floats[ends + groups - 1] < end:
            floats[ends + groups] = end
            floats[lns + groups] = _UNKNOWN
            groups += 1
        floats[frees + groups - 1] = free
    floats[m.REMAINDER] = remainders / max(ints[m.RUNNING], 1)
    return groups


@compiled(types.void(INTS, FLOATS))
def _update_clock(ints, floats):  # type: ignore[no-untyped-def]
    """Update the time of day and of the week, and the arrivals of the last hour."""
    now = ints[m.NOW]
    clock = ints[m.CLOCK] + now
    day = 2.0 * math.pi * (clock % _DAY_S) / _DAY_S
    week = 2.0 * math.pi * (clock % (7 * _DAY_S)) / (7 * _DAY_S)
    floats[m.DAY_SIN], floats[m.DAY_COS] = math.sin(day), math.cos(day)
    floats[m.WEEK_SIN], floats[m.WEEK_COS] = math.sin(week), math.cos(week)
    first, last = ints[m.HOUR_FIRST], ints[m.HOUR_LAST]
    stop = ints[m.HOUR_AT] + ints[m.HOURS]
    while last < stop and ints[last] <= now:
        last += 1
    while first < last and ints[first] <= now - _HOUR_S:
        first += 1
    ints[m.HOUR_FIRST], ints[m.HOUR_LAST] = first, last


@compiled(types.void(INTS, FLOATS, FLOATS))
def _write_context(ints, floats, context):  # type: ignore[no-untyped-def]
    """Write the features of the moment."""
    processors = float(ints[m.PROCESSORS])
    closed = ints[m.CLOSED] == 1
    context[MOMENT.free] = max(ints[m.FREE], 0) / processors
    context[MOMENT.running] = math.log(1.0 + ints[m.RUNNING])
    context[MOMENT.waiting] = math.log(1.0 + ints[m.WAITING])
    context[MOMENT.waiting_area] = math.log(1.0 + ints[m.WAITING_AREA] / processors / _HOUR_S)
    context[MOMENT.closed] = closed
    context[MOMENT.shadow_in] = math.log(1.0 + ints[m.SHADOW] - ints[m.NOW]) if closed else 0.0
    context[MOMENT.spare] = ints[m.SPARE] / processors if closed else 0.0
    context[MOMENT.remainder] = math.log(1.0 + floats[m.REMAINDER])
    context[MOMENT.arrivals] = math.log(1.0 + ints[m.HOUR_LAST] - ints[m.HOUR_FIRST])
    context[MOMENT.day_sin], context[MOMENT.day_cos] = floats[m.DAY_SIN], floats[m.DAY_COS]
    context[MOMENT.week_sin], context[MOMENT.week_cos] = floats[m.WEEK_SIN], floats[m.WEEK_COS]


@compiled(types.void(INTS, FLOATS, types.int64, ROWS))
def _write_run_times(ints, floats, rows, candidates):  # type: ignore[no-untyped-def]
    """Write the learned run times of the visible jobs into the last two columns."""
    versions, weights, expected = ints[m.VERSION_AT], ints[m.LN_WEIGHT_AT], ints[m.LN_EXPECTED_AT]
    column = candidates.shape[1] - 2
    for i in range(rows):
        job = job_of(ints, i)
        at = ints[m.PLACES_AT] + CONTEXTS * job
        version = version_of(ints, at, floats, ints[m.SUMS_AT])
        if floats[versions + job] != version:
            floats[versions + job] = version
            requested = ints[ints[m.REQUESTED_AT] + job]
            ln = expect(ints, at, floats, ints[m.SUMS_AT], requested)
            floats[weights + job], floats[expected + job] = ln
        candidates[i, column] = floats[weights + job]
        candidates[i, column + 1] = floats[expected + job]


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the visible jobs, and with `allow_wait` the row that waits for the next event."""
    ints[k.FRESH] = 1
    now, free, processors = ints[m.NOW], ints[m.FREE], float(ints[m.PROCESSORS])
    several = is_several(ints)
    if several:  # what depends on free processors is written afterwards
        free = m.LATER
    if ints[m.TOLD] != now:
        _update_clock(ints, floats)
        ints[m.TOLD] = now
    groups = make_profile(ints, floats)
    _write_context(ints, floats, context)
    rows, closed = shown(ints), ints[m.CLOSED] == 1
    waiting, stamps = ints[m.ROWS_AT if several else m.WAITING_AT], ints[m.STAMP_AT]
    ends, frees, lns = ints[m.PROFILE_END_AT], ints[m.PROFILE_FREE_AT], ints[m.PROFILE_LN_AT]
    submits, cpus, requests = ints[m.SUBMIT_AT], ints[m.CPU_AT], ints[m.REQUESTED_AT]
    users, keys, queues = ints[m.USER_AT], ints[m.KEY_AT], ints[m.QUEUE_AT]
    ln_cpu, ln_requested, ln_area = ints[m.LN_CPU_AT], ints[m.LN_REQUESTED_AT], ints[m.LN_AREA_AT]
    ln_waited, ln_predicted = ints[m.LN_WAITED_AT], ints[m.LN_PREDICTED_AT]
    ln_similar, ln_user_waiting = ints[m.LN_SIMILAR_AT], ints[m.LN_USER_WAITING_AT]
    helds, user_stamps = ints[m.HELD_AT], ints[m.USER_STAMP_AT]
    first_submit, spare_beside, shadow = ints[m.FIRST_SUBMIT], ints[m.SPARE], ints[m.SHADOW]
    reserving = ints[m.RESERVE] == 1 and not closed
    ints[m.OBSERVATIONS] += 1
    mark = ints[m.OBSERVATIONS]
    per_free, per_waiting = 1.0 / max(free, 1), 1.0 / max(ints[m.WAITING], 1)
    for i in range(rows):
        job = ints[waiting + i]
        row = np.uint64(i)
        cpu, user = ints[cpus + job], ints[users + job]
        requested = floats[ln_requested + job]
        if ints[stamps + job] != now:
            ints[stamps + job] = now
            waited = now - ints[submits + job]
            floats[ln_waited + job] = math.log(60.0 + waited)
        candidates[row, ROW.log_waited] = floats[ln_waited + job]
        candidates[row, ROW.log_requested] = requested
        candidates[row, ROW.log_processors] = floats[ln_cpu + job]
        candidates[row, ROW.log_area] = floats[ln_area + job]
        predicted = similar = requested
        held = user_waiting = first = 0.0
        if user >= 0:
            predicted = min(floats[ln_predicted + user], requested)
            similar = floats[ln_similar + ints[keys + job]]
            similar = min(similar, requested) if similar < np.inf else predicted
            held = ints[helds + user] / processors
            user_waiting = floats[ln_user_waiting + user]
            if ints[user_stamps + user] != mark:
                ints[user_stamps + user] = mark
                first = 1.0
        candidates[row, ROW.log_predicted] = max(predicted, _LN_LEAST)
        candidates[row, ROW.log_similar] = max(similar, _LN_LEAST)
        fits = cpu <= free
        safe = fits
        start_in, spare = 0.0, free - cpu
        if fits:
            if closed and cpu > spare_beside:
                safe = now + ints[requests + job] <= shadow
        else:
            low, high = 0, groups - 1
            while low < high:
                middle = (low + high) // 2
                if floats[frees + middle] < cpu:
                    low = middle + 1
                else:
                    high = middle
            if floats[lns + low] == _UNKNOWN:
                floats[lns + low] = math.log(1.0 + (floats[ends + low] - now))
            start_in, spare = floats[lns + low], floats[frees + low] - cpu
        candidates[row, ROW.fits] = fits
        candidates[row, ROW.share_of_free] = min(cpu * per_free, 2.0)
        candidates[row, ROW.share_of_machine] = cpu / processors
        candidates[row, ROW.safe] = safe
        candidates[row, ROW.start_in] = start_in
        candidates[row, ROW.spare_after] = spare / processors
        candidates[row, ROW.user_running] = held
        candidates[row, ROW.user_waiting] = user_waiting
        candidates[row, ROW.first_of_user] = first
        candidates[row, ROW.oldest] = i == 0
        candidates[row, ROW.age_rank] = i * per_waiting
        candidates[row, ROW.queue] = ints[queues + job]
        submitted = 1 + ints[submits + job] - first_submit
        candidates[row, ROW.submitted] = submitted
        feasible[row] = safe or reserving
    if several:
        write_several(ints, floats, rows, context, candidates, feasible)
    if ints[m.RUN_TIMES] == 1:
        _write_run_times(ints, floats, rows, candidates)
    if ints[m.ALLOW_WAIT] == 1:
        is_wait = candidates.shape[1] - 1 - 2 * ints[m.RUN_TIMES]
        for i in range(rows):
            candidates[i, is_wait] = 0.0
        candidates[rows, :] = 0.0
        candidates[rows, is_wait] = 1.0
        feasible[rows] = can_wait(ints)
        rows += 1
    return rows
