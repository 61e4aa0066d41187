"""The compiled decision of one moment: which of the waiting jobs start now.

The decision changes neither the queue nor the running jobs, and knows no run time that has not
been observed, so it can be asked in any state: that of a simulation, or that of a record::

    waiting = empty_queue(jobs, users)          join(scheme, waiting, job) for each
    running = Running(ends, cpu)                estimated ends, ascending
    count = decide(scheme, waiting, running, count_of_running, now, free, chosen, desk)

`chosen[:count]` are the jobs that start, in the order in which they were taken.
"""

from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.simulation.kernel import Ints, compiled
from hindcast.pipeline.whatif.orders import GREEDY
from hindcast.pipeline.whatif.waiting import (
    BEHIND,
    BLOCKS,
    DEPTH,
    REFRESH,
    RESERVATIONS,
    SLOTS,
    WAITING,
    Waiting,
    bound_of,
    score_of,
)

# Places in Desk.state
NOW, FREE, SPARE, SHADOW, CHOSEN, OPENED, RUNNING, SEGMENTS, WORK = range(9)
STATE: Final = 9


class Running(NamedTuple):
    """The running jobs in the order of their estimated ends, first end first."""

    end: Ints  # (N,) start + request in s; may be over
    cpu: Ints  # (N,)


class Desk(NamedTuple):
    """What a decision writes."""

    chosen: Ints  # (N,) jobs that start, in order
    ends: Ints  # (N,) their estimated ends, ascending
    cpus: Ints  # (N,) processors in the order of `ends`
    time: Ints  # (M,) profile: begin of each segment
    free: Ints  # (M,) processors that nobody holds from there to the next
    state: Ints  # (STATE,)


def empty_desk(jobs: int) -> Desk:
    """Return a desk for so many jobs."""
    chosen, ends, cpus = np.zeros((3, jobs), np.int64)
    time, free = np.zeros((2, 3 * jobs + 4), np.int64)
    return Desk(chosen, ends, cpus, time, free, np.zeros(STATE, np.int64))


@compiled(_nrt=False)
def _may_take(desk: Desk, cpu: int, request: int) -> bool:
    """Return whether a job can start now without delaying the reservation."""
    state = desk.state
    if cpu > state[FREE]:
        return False
    return cpu <= state[SPARE] or state[NOW] + request <= state[SHADOW]  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _rebound(waiting: Waiting, block: int) -> None:
    """Set the bound of a block to its greatest score."""
    begin, bound = block * SLOTS, -np.inf
    for slot in range(begin, begin + waiting.used[block]):
        bound = max(bound, waiting.score[slot])
    waiting.bound[block] = bound


@compiled(_nrt=False)
def _evaluate(scheme: Ints, waiting: Waiting, desk: Desk, block: int, behind: bool) -> None:
    """Compute the scores of a block; behind a reservation, of the jobs that may start beside it."""
    begin, seen = block * SLOTS, desk.state[NOW] // scheme[REFRESH] * scheme[REFRESH]
    for slot in range(begin, begin + waiting.used[block]):
        if behind and not _may_take(desk, waiting.cpu[slot], waiting.request[slot]):
            waiting.score[slot] = -np.inf
        elif behind and scheme[BEHIND] >= 0:
            waiting.score[slot] = -float(waiting.request[slot])
        else:
            waiting.score[slot] = score_of(scheme, waiting, slot, seen)
    if behind and scheme[BEHIND] >= 0:  # those that start already are not to be taken
        for i in range(desk.state[CHOSEN]):
            slot = waiting.place[desk.chosen[i]]
            if slot // SLOTS == block:
                waiting.score[slot] = -np.inf
    _rebound(waiting, block)
    waiting.known[block] = 1
    desk.state[WORK] += SLOTS


@compiled(_nrt=False)
def _next(scheme: Ints, waiting: Waiting, desk: Desk, behind: bool) -> int:
    """Return the slot of the first job in order that has not been taken, -1 if there is none."""
    desk.state[WORK] += waiting.size[BLOCKS]
    while True:
        top, block = -np.inf, -1
        for other in range(waiting.size[BLOCKS]):
            if waiting.bound[other] > top:
                top, block = waiting.bound[other], other
        if block < 0:
            return -1
        if waiting.known[block] == 0:
            _evaluate(scheme, waiting, desk, block, behind)
            continue
        slot = block * SLOTS
        while waiting.score[slot] != top:
            slot += 1
        waiting.score[slot] = -np.inf
        _rebound(waiting, block)
        return slot


@compiled(_nrt=False)
def _choose(waiting: Waiting, desk: Desk, slot: int) -> None:
    """Let the job in a slot start."""
    state = desk.state
    at = state[CHOSEN]
    desk.chosen[at] = waiting.job[slot]
    end = state[NOW] + waiting.request[slot]
    while at > 0 and desk.ends[at - 1] > end:
        desk.ends[at], desk.cpus[at] = desk.ends[at - 1], desk.cpus[at - 1]
        at -= 1
    desk.ends[at], desk.cpus[at] = end, waiting.cpu[slot]
    state[CHOSEN] += 1
    state[FREE] -= waiting.cpu[slot]


@compiled(_nrt=False)
def _reserve(running: Running, desk: Desk, cpu: int) -> None:
    """Set the shadow time and the spare processors of a job that does not fit."""
    state = desk.state
    free, shadow, i, j = state[FREE], LATER, 0, 0
    while i < state[RUNNING] or j < state[CHOSEN]:
        first = j == state[CHOSEN] or (i < state[RUNNING] and running.end[i] <= desk.ends[j])
        end = max(running.end[i] if first else desk.ends[j], state[NOW])
        if free >= cpu and end > shadow:
            break
        if first:
            free += running.cpu[i]
            i += 1
        else:
            free += desk.cpus[j]
            j += 1
        if free >= cpu and shadow == LATER:
            shadow = end
    state[SHADOW], state[SPARE] = shadow, free - cpu
    state[WORK] += i + j


@compiled(_nrt=False)
def _number(scheme: Ints, waiting: Waiting, desk: Desk, taken: int) -> int:
    """Return the number of the job in a slot among those that are tested; the head is number 1."""
    now = desk.state[NOW]
    seen = now // scheme[REFRESH] * scheme[REFRESH]
    score, before = score_of(scheme, waiting, taken, seen), 0
    for block in range(waiting.size[BLOCKS]):
        begin = block * SLOTS
        if bound_of(scheme, waiting, block, seen) < score:
            continue
        for slot in range(begin, begin + waiting.used[block]):
            other = score_of(scheme, waiting, slot, seen)
            before += other > score or (other == score and slot < taken)
        desk.state[WORK] += SLOTS
    return before - desk.state[OPENED] + 1  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _restrict(waiting: Waiting, desk: Desk, block: int) -> None:
    """Leave out jobs of a block that may no longer start."""
    begin = block * SLOTS
    for slot in range(begin, begin + waiting.used[block]):
        if not _may_take(desk, waiting.cpu[slot], waiting.request[slot]):
            waiting.score[slot] = -np.inf
    _rebound(waiting, block)
    desk.state[WORK] += SLOTS


@compiled(_nrt=False)
def _backfill(scheme: Ints, waiting: Waiting, desk: Desk, least: int) -> None:
    """Let jobs start in order that do not delay the reservation."""
    state, resort = desk.state, scheme[BEHIND] >= 0
    for block in range(waiting.size[BLOCKS]):
        if not _may_take(desk, waiting.least_cpu[block], waiting.least_request[block]):
            waiting.bound[block] = -np.inf
        elif resort:
            waiting.known[block] = 0
            waiting.bound[block] = -float(waiting.least_request[block])
        elif waiting.known[block] == 1:
            _restrict(waiting, desk, block)
    while state[FREE] >= least:
        slot = _next(scheme, waiting, desk, True)  # noqa: FBT003
        if slot < 0:
            return
        cpu = waiting.cpu[slot]
        if not _may_take(desk, cpu, waiting.request[slot]):
            _restrict(waiting, desk, slot // SLOTS)
            continue
        if (
            scheme[DEPTH] < waiting.size[WAITING]
            and _number(scheme, waiting, desk, slot) > scheme[DEPTH]
        ):
            if resort:
                continue
            return
        _choose(waiting, desk, slot)
        if state[NOW] + waiting.request[slot] > state[SHADOW]:
            state[SPARE] -= cpu


@compiled(_nrt=False)
def _lay_profile(running: Running, desk: Desk) -> None:
    """Fill the profile with what the running and the chosen jobs leave free."""
    state, time, free = desk.state, desk.time, desk.free
    time[0], free[0] = state[NOW], state[FREE]
    size, i, j = 1, 0, 0
    while i < state[RUNNING] or j < state[CHOSEN]:
        first = j == state[CHOSEN] or (i < state[RUNNING] and running.end[i] <= desk.ends[j])
        end = max(running.end[i] if first else desk.ends[j], state[NOW] + 1)
        if time[size - 1] < end:
            time[size], free[size] = end, free[size - 1]
            size += 1
        if first:
            free[size - 1] += running.cpu[i]
            i += 1
        else:
            free[size - 1] += desk.cpus[j]
            j += 1
    state[SEGMENTS] = size
    state[WORK] += size


@compiled(_nrt=False)
def _earliest(desk: Desk, cpu: int, request: int) -> int:
    """Return the segment at whose begin a job finds its processors for its whole request."""
    size, first, at = desk.state[SEGMENTS], 0, 0
    while at < size and desk.time[at] < desk.time[first] + request:
        if desk.free[at] < cpu:
            first = at + 1
            while first < size and desk.free[first] < cpu:
                first += 1
            at = first
        at += 1
    desk.state[WORK] += at
    return first


@compiled(_nrt=False)
def _occupy(desk: Desk, first: int, cpu: int, request: int) -> None:
    """Take processors out of the profile from the begin of a segment for a request."""
    time, free, size = desk.time, desk.free, desk.state[SEGMENTS]
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
        time[low], free[low] = end, free[low - 1]
        desk.state[SEGMENTS] = size + 1
    for i in range(first, low):
        free[i] -= cpu


@compiled(_nrt=False)
def _fits_whole(desk: Desk, cpu: int, request: int) -> bool:
    """Return whether a job finds its processors from now on for its whole request."""
    at, until = 0, desk.state[NOW] + request
    while at < desk.state[SEGMENTS] and desk.time[at] < until:
        if desk.free[at] < cpu:
            return False
        at += 1
    desk.state[WORK] += at
    return True


@compiled(_nrt=False)
def _witness(waiting: Waiting, desk: Desk) -> int:
    """Return the slot of a job that could start now if no slot were given any more, -1 if none."""
    for block in range(waiting.size[BLOCKS]):
        if waiting.least_cpu[block] > desk.state[FREE]:
            continue
        begin = block * SLOTS
        for slot in range(begin, begin + waiting.used[block]):
            taken = waiting.known[block] == 1 and waiting.score[slot] == -np.inf
            if not taken and _fits_whole(desk, waiting.cpu[slot], waiting.request[slot]):
                return slot
        desk.state[WORK] += SLOTS
    return -1


@compiled(_nrt=False)
def _plan(scheme: Ints, waiting: Waiting, running: Running, desk: Desk, slot: int) -> None:
    """Give the head and the jobs behind it their earliest slots; those whose slot is now start."""
    _lay_profile(running, desk)
    given, tested, witness, begun = 0, 0, -1, desk.state[NOW]
    while slot >= 0:
        tested += 1
        cpu, request = waiting.cpu[slot], waiting.request[slot]
        if given < scheme[RESERVATIONS] or _fits_whole(desk, cpu, request):
            first = _earliest(desk, cpu, request)
            _occupy(desk, first, cpu, request)
            if desk.time[first] == begun:
                _choose(waiting, desk, slot)
            else:
                given += 1
        if tested >= scheme[DEPTH]:
            return
        if witness >= 0:
            block = witness // SLOTS
            taken = waiting.known[block] == 1 and waiting.score[witness] == -np.inf
            if taken or not _fits_whole(desk, waiting.cpu[witness], waiting.request[witness]):
                witness = -1
        if witness < 0:
            witness = _witness(waiting, desk)
            if witness < 0:
                return
        slot = _next(scheme, waiting, desk, False)  # noqa: FBT003


@compiled(_nrt=False)
def decide(
    scheme: Ints, waiting: Waiting, running: Running, desk: Desk,
    now: int, free: int, running_jobs: int,
) -> int:  # fmt: skip
    """Return the number of waiting jobs that start at a moment; they are in desk.chosen.

    `free` processors are not held; it may be below 0.
    """
    state = desk.state
    state[NOW], state[FREE], state[CHOSEN], state[RUNNING] = now, free, 0, running_jobs
    state[WORK] += waiting.size[BLOCKS]
    least = LATER
    for block in range(waiting.size[BLOCKS]):
        least = min(least, waiting.least_cpu[block])
    if least > free:
        return 0
    seen = now // scheme[REFRESH] * scheme[REFRESH]
    for block in range(waiting.size[BLOCKS]):
        waiting.bound[block] = bound_of(scheme, waiting, block, seen)
        waiting.known[block] = 0
    head = -1
    while head < 0:
        slot = _next(scheme, waiting, desk, False)  # noqa: FBT003
        if slot < 0:
            return state[CHOSEN]  # type: ignore[no-any-return]
        if waiting.cpu[slot] <= state[FREE]:
            _choose(waiting, desk, slot)
            if state[FREE] < least:
                return state[CHOSEN]  # type: ignore[no-any-return]
        else:
            head = slot
    state[OPENED] = state[CHOSEN]
    if scheme[RESERVATIONS] == 0 or scheme[DEPTH] <= 1:
        return state[CHOSEN]  # type: ignore[no-any-return]
    if scheme[RESERVATIONS] > 1:
        _plan(scheme, waiting, running, desk, head)
        return state[CHOSEN]  # type: ignore[no-any-return]
    if scheme[RESERVATIONS] == GREEDY:
        state[SHADOW], state[SPARE] = LATER, LATER
    else:
        _reserve(running, desk, waiting.cpu[head])
    _backfill(scheme, waiting, desk, least)
    return state[CHOSEN]  # type: ignore[no-any-return]
