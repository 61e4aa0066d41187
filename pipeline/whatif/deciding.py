"""The compiled decision of one moment: which of the waiting jobs start now.

The decision changes neither the queue nor the running jobs, and knows no run time that has not
been observed, so it can be asked in any state: that of a simulation, or that of a record::

    waiting, desk = empty_queue(N, users), empty_desk(jobs)
    join(many, scheme, jobs, waiting, job)                    for each waiting job
    running = Running(estimated ends, ascending, processors)
    count = decide(many, scheme, waiting, running, desk, now, free, number of running jobs)

`desk.chosen[:count]` are the jobs that start, in the order in which they were taken.
"""

import numpy as np

from hindcast.pipeline.scenarios.queue.fitting import AS_ASKED, NOWHERE
from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.simulation.kernel import Ints
from hindcast.pipeline.whatif.desk import (
    BLOCK,
    CHOSEN,
    FREE,
    NOW,
    OPENED,
    RUNNING,
    SHADOW,
    SPARE,
    WORK,
    Desk,
    Running,
    choose,
    first_in_order,
    may_take,
    place_beside,
    place_now,
    rebound,
)
from hindcast.pipeline.whatif.orders import GREEDY
from hindcast.pipeline.whatif.resources.several import Many, compiled_for_both, copy, place, take
from hindcast.pipeline.whatif.slots import plan
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


@compiled_for_both(_nrt=False)
def _reserve(many: Many | None, waiting: Waiting, running: Running, desk: Desk, slot: int) -> None:
    """Reserve for the job in a slot, which does not fit now.

    Its shadow is the first moment at which it fits, by the estimated ends of the running jobs and
    of those that were chosen now. What it leaves free at that moment is spare.
    """
    state, job, cpu = desk.state, waiting.job[slot], waiting.cpu[slot]
    free, shadow, i, j = state[FREE], LATER, 0, 0  # i running and j chosen jobs have ended
    if many is not None:
        copy(many.left, 0, many.spare, 0, many.shape)
    while i < state[RUNNING] or j < state[CHOSEN]:
        is_running = j == state[CHOSEN] or (i < state[RUNNING] and running.end[i] <= desk.ends[j])
        end = max(running.end[i] if is_running else desk.ends[j], state[NOW])
        if end > shadow:
            break
        if many is not None:
            other = many.estimated[i] if is_running else many.chosen[j]
            take(many, other, many.spare, 0, many.kind[other], -1)
        if is_running:
            free += running.cpu[i]
            i += 1
        else:
            free += desk.cpus[j]
            j += 1
        if (
            shadow == LATER
            and free >= cpu
            and (many is None or place(many, job, many.spare) != NOWHERE)
        ):
            shadow = end
    state[SHADOW], state[SPARE] = shadow, free - cpu
    if many is not None:
        take(many, job, many.spare, 0, max(place(many, job, many.spare), AS_ASKED), 1)
    state[WORK] += i + j


@compiled_for_both(_nrt=False)
def _number(many: Many | None, scheme: Ints, waiting: Waiting, desk: Desk, taken: int) -> int:
    """Return which of the jobs that are tested the job in a slot is; the first that waits is 1.

    `taken` is the slot. Jobs that started at this moment before a job had to wait do not count.
    """
    now = desk.state[NOW]
    seen = now // scheme[REFRESH] * scheme[REFRESH]  # priorities are those of this moment
    score, before = score_of(many, scheme, waiting, taken, seen), 0
    for block in range(waiting.size[BLOCKS]):
        begin = block * SLOTS
        if bound_of(scheme, waiting, block, seen) < score:
            continue
        for slot in range(begin, begin + waiting.used[block]):
            other = score_of(many, scheme, waiting, slot, seen)
            before += other > score or (other == score and slot < taken)
        desk.state[WORK] += SLOTS
    return before - desk.state[OPENED] + 1  # type: ignore[no-any-return]


@compiled_for_both(_nrt=False)
def _restrict(many: Many | None, waiting: Waiting, desk: Desk, block: int) -> None:
    """Set the scores of jobs of a block that may no longer start to -inf, so that none is taken."""
    begin = block * SLOTS
    for slot in range(begin, begin + waiting.used[block]):
        if place_beside(many, waiting, desk, slot) == NOWHERE:
            waiting.score[slot] = -np.inf
    rebound(waiting, block)
    desk.state[WORK] += SLOTS


@compiled_for_both(_nrt=False)
def _backfill(many: Many | None, scheme: Ints, waiting: Waiting, desk: Desk, least: int) -> None:
    """Let jobs start, in order, that do not delay the reservation.

    `least` are the fewest processors that a waiting job needs.
    """
    state, resort = desk.state, scheme[BEHIND] >= 0
    state[BLOCK] = -1
    for block in range(waiting.size[BLOCKS]):
        if not may_take(desk, waiting.least_cpu[block], waiting.least_request[block]):
            waiting.bound[block] = -np.inf
        elif resort:
            waiting.known[block] = 0
            waiting.bound[block] = -float(waiting.least_request[block])
        elif waiting.known[block] == 1:
            _restrict(many, waiting, desk, block)
    while state[FREE] >= least:
        slot = first_in_order(many, scheme, waiting, desk, True)  # noqa: FBT003
        if slot < 0:
            return
        kind = place_beside(many, waiting, desk, slot)
        if kind == NOWHERE:
            _restrict(many, waiting, desk, slot // SLOTS)
            continue
        if (
            scheme[DEPTH] < waiting.size[WAITING]
            and _number(many, scheme, waiting, desk, slot) > scheme[DEPTH]
        ):
            if resort:
                continue
            return
        choose(many, waiting, desk, slot, kind)
        if state[NOW] + waiting.request[slot] > state[SHADOW]:
            state[SPARE] -= waiting.cpu[slot]
            if many is not None:
                take(many, waiting.job[slot], many.spare, 0, kind, 1)


@compiled_for_both(_nrt=False)
def decide(
    many: Many | None, scheme: Ints, waiting: Waiting, running: Running, desk: Desk,
    now: int, free: int, running_jobs: int,
) -> int:  # fmt: skip
    """Return the number of waiting jobs that start at a moment; they are in desk.chosen.

    `free` processors are not held; it may be below 0.
    """
    state = desk.state
    state[NOW], state[FREE], state[CHOSEN], state[RUNNING] = now, free, 0, running_jobs
    if many is not None:
        copy(many.free, 0, many.left, 0, many.shape)
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
    head = state[BLOCK] = -1
    while head < 0:
        slot = first_in_order(many, scheme, waiting, desk, False)  # noqa: FBT003
        if slot < 0:
            return state[CHOSEN]  # type: ignore[no-any-return]
        kind = place_now(many, waiting, desk, slot)
        if kind != NOWHERE:
            choose(many, waiting, desk, slot, kind)
            if state[FREE] < least:
                return state[CHOSEN]  # type: ignore[no-any-return]
        else:
            head = slot
    state[OPENED] = state[CHOSEN]
    if scheme[RESERVATIONS] == 0 or scheme[DEPTH] <= 1:
        return state[CHOSEN]  # type: ignore[no-any-return]
    if scheme[RESERVATIONS] > 1:
        plan(many, scheme, waiting, running, desk, head)
        return state[CHOSEN]  # type: ignore[no-any-return]
    if scheme[RESERVATIONS] == GREEDY:
        state[SHADOW], state[SPARE] = LATER, LATER
    else:
        _reserve(many, waiting, running, desk, head)
    _backfill(many, scheme, waiting, desk, least)
    return state[CHOSEN]  # type: ignore[no-any-return]
