"""Compiled columns of `multicluster` with `foresight`: the quantities that strong rules derive.

`category` is one number, so a linear score cannot rank time-critical before regular before
streaming applications. Slack matters only near 0. These columns state both directly, and the cost
of a choice for the others in the pool:

    slack        steps that the application can wait and still meet its deadline
    tight        there is a D such that D + 1 applications must go within steps 0 .. D, this one
                 among them: whatever loses a step causes a miss
    others_late  applications that would miss their deadline if this one goes now: one of the others
                 is deployed per step, the nearest deadline first, and those that would be late are
                 passed over; for unit jobs no other order has fewer late ones (Moore, 1968)
    room         free executors less queued tasks of the row's cluster

`slack`, `tight` and `others_late` assume enough executors: they count steps in the pool alone.
"""

import math

from numba import types

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.features import ROW
from hindcast.pipeline.scenarios.multicluster.instances import CRITICAL, STREAMING
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, ROWS, compiled

MOST_SLACK = 5.0  # steps; a longer slack, and none at all, count as this
_NO_STEP = -1  # the last step of an application without a deadline, or of one that is late


@compiled(types.float64(INTS, FLOATS, types.int64))
def _slack(ints, floats, application):  # type: ignore[no-untyped-def]
    """Return the steps that an application can wait; infinite without a deadline."""
    age = ints[m.NOW] - ints[ints[m.ARRIVAL_AT] + application]
    least_run_time = ints[ints[m.EXECUTION_AT] + application] + age
    return floats[ints[m.DEADLINE_AT] + application] - least_run_time


@compiled(types.int64(types.float64, types.int64))
def _last_step(slack, pool):  # type: ignore[no-untyped-def]
    """Return the last step from now that meets a deadline, at most `pool`, or _NO_STEP."""
    if slack < 0.0 or math.isinf(slack):
        return _NO_STEP
    return int(min(math.floor(slack), float(pool)))


@compiled(types.int64(INTS, types.int64, types.int64))
def _tight(ints, pool, last):  # type: ignore[no-untyped-def]
    """Return 1 if some D from `last` on has D + 1 or more applications due within steps 0 .. D."""
    due = 0
    for step in range(pool):
        due += ints[ints[m.LAST_STEPS_AT] + step]
        if step >= last and due > step:
            return 1
    return 0


@compiled(types.int64(INTS, types.int64, types.int64))
def _others_late(ints, pool, last):  # type: ignore[no-untyped-def]
    """Return the number of others that cannot meet their deadline in steps 1, 2, ..."""
    late = deployed = 0
    for step in range(pool):  # all that are due at `pool` or later have enough steps
        due = ints[ints[m.LAST_STEPS_AT] + step] - (1 if step == last else 0)
        in_time = min(due, step - deployed)
        deployed += in_time
        late += due - in_time
    return late


@compiled(types.void(INTS, FLOATS, ROWS))
def write_foresight(ints, floats, candidates):  # type: ignore[no-untyped-def]
    """Fill the columns of every pair of the pool."""
    clusters, pool = ints[m.CLUSTERS], ints[m.POOL]
    for step in range(pool + 1):
        ints[ints[m.LAST_STEPS_AT] + step] = 0
    for position in range(pool):
        application = ints[ints[m.POOLED_AT] + position]
        last = _last_step(_slack(ints, floats, application), pool)
        if last != _NO_STEP:
            ints[ints[m.LAST_STEPS_AT] + last] += 1
    best = ints[ints[m.FREE_AT]] - ints[ints[m.QUEUED_AT]]
    for cluster in range(1, clusters):
        best = max(best, ints[ints[m.FREE_AT] + cluster] - ints[ints[m.QUEUED_AT] + cluster])
    for position in range(pool):
        application = ints[ints[m.POOLED_AT] + position]
        first = position * clusters
        category, execution = candidates[first, ROW.category], candidates[first, ROW.execution]
        critical, streaming = category == CRITICAL, category == STREAMING
        slack = _slack(ints, floats, application)
        last = _last_step(slack, pool)
        tight = _tight(ints, pool, last) if last != _NO_STEP else 0
        late = _others_late(ints, pool, last)
        shorter = 0
        for other in range(pool):
            row = other * clusters
            shorter += (
                candidates[row, ROW.category] != STREAMING
                and candidates[row, ROW.execution] < execution
            )
        tasks = round(100.0 * candidates[first, ROW.tasks])
        for cluster in range(clusters):
            row = first + cluster
            room = ints[ints[m.FREE_AT] + cluster] - ints[ints[m.QUEUED_AT] + cluster]
            candidates[row, ROW.critical] = critical
            candidates[row, ROW.streaming] = streaming
            candidates[row, ROW.due_now] = 0.0 <= slack < 1.0
            candidates[row, ROW.late] = slack < 0.0
            candidates[row, ROW.slack] = min(max(slack, 0.0), MOST_SLACK)
            candidates[row, ROW.tight_critical] = tight * critical
            candidates[row, ROW.tight_streaming] = tight * streaming
            candidates[row, ROW.others_late] = late
            candidates[row, ROW.shorter] = shorter
            candidates[row, ROW.execution_streaming] = (
                execution - floats[m.MIDDLE_EXECUTION] if streaming else 0.0
            )
            candidates[row, ROW.duration_streaming] = (
                candidates[row, ROW.duration] if streaming else 0.0
            )
            candidates[row, ROW.room_behind] = (best - room) / 1000.0
            candidates[row, ROW.spare] = max(room - tasks, 0) / 1000.0
            candidates[row, ROW.short] = max(tasks - room, 0) / 1000.0
