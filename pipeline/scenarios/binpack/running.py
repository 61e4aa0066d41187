"""Running instances of `binpack`: a linked list per task, and a heap of the running tasks."""

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.binpack import layout as m
from hindcast.pipeline.scenarios.binpack.layout import ONE, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled


@compiled(types.boolean(INTS, FLOATS, types.uint64, types.uint64))
def _ends_before(ints, floats, a, b):  # type: ignore[no-untyped-def]
    """Return whether the oldest instance of task `a` ends before that of task `b`."""
    node_a = U(ints[U(ints[m.OLDEST_AT]) + a])
    node_b = U(ints[U(ints[m.OLDEST_AT]) + b])
    end_a, end_b = floats[U(ints[m.END_AT]) + node_a], floats[U(ints[m.END_AT]) + node_b]
    if end_a != end_b:
        return end_a < end_b
    return ints[U(ints[m.START_AT]) + node_a] < ints[U(ints[m.START_AT]) + node_b]


@compiled(types.void(INTS, FLOATS, types.uint64, types.uint64))
def begin_instance(ints, floats, task, machine):  # type: ignore[no-untyped-def]
    """Add a node for an instance that starts now."""
    node = ints[m.UNUSED]
    at = U(node)
    ints[m.UNUSED] = ints[U(ints[m.NEXT_AT]) + at]
    floats[U(ints[m.END_AT]) + at] = floats[k.TIME] + floats[U(ints[m.DURATION_AT]) + task]
    ints[U(ints[m.START_AT]) + at] = ints[m.STARTS]
    ints[U(ints[m.MACHINE_AT]) + at] = machine
    ints[U(ints[m.NEXT_AT]) + at] = -1
    ints[m.STARTS] += 1
    ints[m.RUNNING_TOTAL] += 1
    newest = U(ints[m.NEWEST_AT]) + task
    if ints[U(ints[m.OLDEST_AT]) + task] >= 0:
        ints[U(ints[m.NEXT_AT]) + U(ints[newest])] = node
        ints[newest] = node
        return
    ints[newest] = node
    ints[U(ints[m.OLDEST_AT]) + task] = node
    heap = U(ints[m.HEAP_AT])
    i = U(ints[m.RUNNING_TASKS])
    ints[m.RUNNING_TASKS] += 1
    while i > 0:
        parent = (i - ONE) >> ONE
        above = ints[heap + parent]
        if _ends_before(ints, floats, U(above), task):
            break
        ints[heap + i] = above
        i = parent
    ints[heap + i] = task


@compiled(types.void(INTS, FLOATS))
def end_oldest(ints, floats):  # type: ignore[no-untyped-def]
    """Remove the oldest node of the task on top of the heap; restore the heap's order."""
    heap, oldest, following = U(ints[m.HEAP_AT]), U(ints[m.OLDEST_AT]), U(ints[m.NEXT_AT])
    task = U(ints[heap])
    node = ints[oldest + task]
    ints[oldest + task] = ints[following + U(node)]
    ints[following + U(node)] = ints[m.UNUSED]
    ints[m.UNUSED] = node
    ints[m.RUNNING_TOTAL] -= 1
    if ints[oldest + task] < 0:
        ints[m.RUNNING_TASKS] -= 1
        task = U(ints[heap + U(ints[m.RUNNING_TASKS])])
    size = U(ints[m.RUNNING_TASKS])
    i = U(0)
    while True:
        child = i + i + ONE
        if child >= size:
            break
        if child + ONE < size and _ends_before(
            ints, floats, U(ints[heap + child + ONE]), U(ints[heap + child])
        ):
            child += ONE
        below = ints[heap + child]
        if _ends_before(ints, floats, task, U(below)):
            break
        ints[heap + i] = below
        i = child
    ints[heap + i] = task


@compiled(types.float64(INTS, FLOATS))
def next_release(ints, floats):  # type: ignore[no-untyped-def]
    """Return the tick at which the next instance to end releases its resources.

    That is the first tick at or after its end. `ticks` differs from the rounded-up duration only
    in `compat`, for a duration of exactly 1 s (two ticks).
    """
    task = U(ints[U(ints[m.HEAP_AT])])
    end = floats[U(ints[m.END_AT]) + U(ints[U(ints[m.OLDEST_AT]) + task])]
    if ints[U(ints[m.TICKS_AT]) + task] == 2 and floats[U(ints[m.DURATION_AT]) + task] == 1.0:
        return end + 1.0
    return np.ceil(end)
