"""Compiled slots of waiting jobs that all have reservations, such as in conservative backfilling.

The profile lists the processors that are free from each time on::

    time    0    40   95   300
    free    2     8   12    64

Every job in turn takes the earliest slot in it that is long enough for its request.
"""

import numpy as np

from hindcast.pipeline.scenarios.queue.fitting import AS_ASKED, suffices
from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.simulation.kernel import Ints, compiled
from hindcast.pipeline.whatif.desk import (
    CHOSEN,
    FREE,
    LIMITS,
    NOW,
    PLACED,
    RUNNING,
    SEGMENTS,
    WORK,
    Desk,
    Running,
    choose,
    first_in_order,
)
from hindcast.pipeline.whatif.resources.several import Many, compiled_for_both, copy, row_of, take
from hindcast.pipeline.whatif.waiting import BLOCKS, DEPTH, RESERVATIONS, SLOTS, Waiting


@compiled(_nrt=False)
def _repeat(many: Many, segment: int) -> None:
    """Let a segment of the profile have what the one before it has."""
    at = many.shape.resources * segment
    copy(many.profile, at - many.shape.resources, many.profile, at, many.shape)


@compiled_for_both(_nrt=False)
def _lay_profile(many: Many | None, running: Running, desk: Desk) -> None:
    """Fill the profile with what the running and the chosen jobs leave free."""
    state, time, free = desk.state, desk.time, desk.free
    time[0], free[0] = state[NOW], state[FREE]
    if many is not None:
        copy(many.left, 0, many.profile, 0, many.shape)
    desk.bounds[:] = state[NOW]
    size, i, j = 1, 0, 0
    while i < state[RUNNING] or j < state[CHOSEN]:
        first = j == state[CHOSEN] or (i < state[RUNNING] and running.end[i] <= desk.ends[j])
        end = max(running.end[i] if first else desk.ends[j], state[NOW] + 1)
        if time[size - 1] < end:
            time[size], free[size] = end, free[size - 1]
            if many is not None:
                _repeat(many, size)
            size += 1
        if many is not None:
            of = many.estimated[i] if first else many.chosen[j]
            at = many.shape.resources * (size - 1)
            take(many, of, many.profile, at, many.kind[of], -1)
        if first:
            free[size - 1] += running.cpu[i]
            i += 1
        else:
            free[size - 1] += desk.cpus[j]
            j += 1
    state[SEGMENTS], state[LIMITS] = size, 0
    state[WORK] += size


@compiled(_nrt=False)
def _step(steps: Ints, value: int, above: bool) -> int:
    """Return the last step that is not above a value; or the first one that is not below it."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if steps[middle] < value or (not above and steps[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low if above else low - 1


@compiled(_nrt=False)
def _not_before(desk: Desk, cpu: int, request: int) -> int:
    """Return a time before which a job cannot begin: one that needs less could not."""
    row, column = _step(desk.cpu_steps, cpu, False), _step(desk.request_steps, request, False)  # noqa: FBT003
    return desk.bounds[row * len(desk.request_steps) + column]  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _remember(desk: Desk, cpu: int, request: int, begin: int) -> None:
    """Enter the earliest begin of a job: none that needs as much or more begins before."""
    first, width = _step(desk.request_steps, request, True), len(desk.request_steps)  # noqa: FBT003
    for row in range(_step(desk.cpu_steps, cpu, True), len(desk.cpu_steps)):  # noqa: FBT003
        if first == width or desk.bounds[row * width + first] >= begin:
            break
        for place in range(row * width + first, (row + 1) * width):
            if desk.bounds[place] >= begin:
                break
            desk.bounds[place] = begin


@compiled(_nrt=False)
def _earliest(desk: Desk, cpu: int, request: int) -> int:
    """Return the segment at whose begin a job finds its processors for its whole request."""
    size, since, low, high = desk.state[SEGMENTS], _not_before(desk, cpu, request), 0, 0
    high = size - 1
    while low < high:
        middle = (low + high) // 2
        if desk.time[middle] < since:
            low = middle + 1
        else:
            high = middle
    first = at = low
    while at < size and desk.time[at] < desk.time[first] + request:
        if desk.free[at] < cpu:
            first = at + 1
            while first < size and desk.free[first] < cpu:
                first += 1
            at = first
        at += 1
    desk.state[WORK] += at - low
    _remember(desk, cpu, request, desk.time[first])
    return first


@compiled(_nrt=False)
def _is_free(many: Many, job: int, kind: int, segment: int) -> bool:
    """Return whether a segment of the profile suffices for a job with a placement."""
    have, at, row = many.profile, many.shape.resources * segment, row_of(many, job)
    return suffices(have, at, have, at, many.asks, row, many.shape, kind)


@compiled(_nrt=False)
def _earliest_of(many: Many, desk: Desk, job: int, request: int, most: int) -> int:
    """Return the first of `most` segments from which on a job finds all for its whole request.

    It is `most` if there is none; else the placement is in desk.state[PLACED].
    """
    shape, size, found = many.shape, desk.state[SEGMENTS], most
    kind, last = AS_ASKED, AS_ASKED + 1
    if many.asks[row_of(many, job) + shape.resources] > 0:
        kind, last = shape.first_type, shape.last_type
    while kind < last:
        first = at = 0
        while at < size and first < found and desk.time[at] < desk.time[first] + request:
            if not _is_free(many, job, kind, at):
                first = at + 1
            at += 1
        desk.state[WORK] += at
        if first < found:
            found, desk.state[PLACED] = first, kind
        kind += 1
    return found


@compiled_for_both(_nrt=False)
def _begin_of(many: Many | None, waiting: Waiting, desk: Desk, slot: int) -> int:
    """Return the segment at whose begin the job in a slot finds all for its whole request."""
    cpu, request = waiting.cpu[slot], waiting.request[slot]
    if many is None:
        return _earliest(desk, cpu, request)
    return _earliest_of(many, desk, waiting.job[slot], request, desk.state[SEGMENTS])


@compiled_for_both(_nrt=False)
def _occupy(many: Many | None, waiting: Waiting, desk: Desk, slot: int, first: int) -> None:
    """Take what a job needs out of the profile from the begin of a segment for its request."""
    time, free, size = desk.time, desk.free, desk.state[SEGMENTS]
    cpu, request = waiting.cpu[slot], waiting.request[slot]
    end, low, high = time[first] + request, first, size
    while low < high:
        middle = (low + high) // 2
        if time[middle] < end:
            low = middle + 1
        else:
            high = middle
    if low == size or time[low] > end:
        for i in range(size, low, -1):
            time[i], free[i] = time[i - 1], free[i - 1]
            if many is not None:
                _repeat(many, i)
        time[low], free[low] = end, free[low - 1]
        if many is not None:
            _repeat(many, low)
        desk.state[SEGMENTS] = size + 1
    for i in range(first, low):
        free[i] -= cpu
        if many is not None:
            at = many.shape.resources * i
            take(many, waiting.job[slot], many.profile, at, desk.state[PLACED], 1)
    desk.state[LIMITS] = 0


@compiled(_nrt=False)
def _lay_limits(desk: Desk) -> None:
    """Fill `level` and `until`: how long each number of processors is free from now on."""
    level, until, size = desk.level, desk.until, 1
    level[0], until[0] = desk.free[0], LATER
    for at in range(1, desk.state[SEGMENTS]):
        if desk.free[at] < level[size - 1]:
            until[size - 1] = desk.time[at]
            level[size], until[size] = desk.free[at], LATER
            size += 1
            if desk.free[at] <= 0:
                break
    desk.state[LIMITS] = size
    desk.state[WORK] += size


@compiled_for_both(_nrt=False)
def _fits_whole(many: Many | None, waiting: Waiting, desk: Desk, slot: int) -> bool:
    """Return whether a job finds all it needs from now on for its whole request."""
    cpu, request = waiting.cpu[slot], waiting.request[slot]
    if desk.state[LIMITS] == 0:
        _lay_limits(desk)
    low, high = 0, desk.state[LIMITS]
    while low < high:
        middle = (low + high) // 2
        if desk.level[middle] >= cpu:
            low = middle + 1
        else:
            high = middle
    if low == 0 or desk.state[NOW] + request > desk.until[low - 1]:
        return False
    return many is None or _earliest_of(many, desk, waiting.job[slot], request, 1) == 0


@compiled(_nrt=False)
def _is_taken(waiting: Waiting, slot: int) -> bool:
    """Return whether a job has had its turn."""
    return waiting.known[slot // SLOTS] == 1 and waiting.score[slot] == -np.inf  # type: ignore[no-any-return]


@compiled_for_both(_nrt=False)
def _longest(many: Many | None, waiting: Waiting, desk: Desk) -> int:
    """Return the slot of the longest job that could start now, as far as is planned; -1: none."""
    found, request = -1, 0
    for block in range(waiting.size[BLOCKS]):
        if waiting.least_cpu[block] > desk.state[FREE]:
            continue
        begin = block * SLOTS
        for slot in range(begin, begin + waiting.used[block]):
            if (
                waiting.cpu[slot] <= desk.state[FREE]
                and waiting.request[slot] > request
                and not _is_taken(waiting, slot)
                and _fits_whole(many, waiting, desk, slot)
            ):
                found, request = slot, waiting.request[slot]
        desk.state[WORK] += SLOTS
    return found


@compiled_for_both(_nrt=False)
def _give(many: Many | None, waiting: Waiting, desk: Desk, slot: int) -> int:
    """Give a job its earliest slot; return its begin."""
    first = _begin_of(many, waiting, desk, slot)
    _occupy(many, waiting, desk, slot, first)
    return desk.time[first]  # type: ignore[no-any-return]


@compiled_for_both(_nrt=False)
def plan(
    many: Many | None, scheme: Ints, waiting: Waiting, running: Running, desk: Desk, slot: int
) -> None:
    """Give the head and the jobs behind it their earliest slots; those whose slot is now start.

    The slot of the head is given as `slot`. Planning stops when no other job could start now even
    without further slots. Every job that could would end before the horizon. A job that cannot
    begin before the horizon is deferred: it is planned when one comes that might overlap with it.
    """
    _lay_profile(many, running, desk)
    given, tested, longest, deferred = 0, 0, -1, 0
    now = horizon = desk.state[NOW]
    while slot >= 0:
        tested += 1
        cpu, request = waiting.cpu[slot], waiting.request[slot]
        if given < scheme[RESERVATIONS] or _fits_whole(many, waiting, desk, slot):
            begin = now if many is not None else _not_before(desk, cpu, request)
            if tested == 1 or begin < horizon:
                begin = desk.time[_begin_of(many, waiting, desk, slot)]
            if tested > 1 and begin >= horizon:
                desk.deferred[deferred] = slot
                deferred += 1
                given += 1
            else:
                if begin + request > horizon:
                    for i in range(deferred):
                        _give(many, waiting, desk, desk.deferred[i])
                    deferred = 0
                begin = _give(many, waiting, desk, slot)
                if begin == now:
                    choose(many, waiting, desk, slot, desk.state[PLACED])
                else:
                    given += 1
        if tested >= scheme[DEPTH]:
            return
        if longest >= 0 and (
            _is_taken(waiting, longest) or not _fits_whole(many, waiting, desk, longest)
        ):
            longest = -1
        if longest < 0:
            longest = _longest(many, waiting, desk)
            if longest < 0:
                return
            horizon = now + waiting.request[longest]
        slot = first_in_order(many, scheme, waiting, desk, False)  # noqa: FBT003
