"""Memory of a compiled decision: the running jobs, the order, and the jobs that start."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.fitting import AS_ASKED, NOWHERE
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.whatif.resources.several import (
    Many,
    compiled_for_both,
    place,
    place_safely,
    take,
)
from hindcast.pipeline.whatif.waiting import (
    BEHIND,
    BLOCKS,
    REFRESH,
    RESERVATIONS,
    SLOTS,
    Jobs,
    Waiting,
    score_of,
)

# Places in Desk.state
(
    NOW, FREE, SPARE, SHADOW, CHOSEN, OPENED, RUNNING, SEGMENTS, LIMITS, BLOCK, WORK, PLACED,
) = range(12)  # fmt: skip
_STATE: Final = 12
_STEPS: Final = 32  # of a table of lower bounds, in each direction


class Running(NamedTuple):
    """The running jobs in the order of their estimated ends, first end first."""

    end: Ints  # (N,) start + request in s; may be over
    cpu: Ints  # (N,)


class Desk(NamedTuple):
    """Memory that a decision writes."""

    chosen: Ints  # (N,) jobs that start, in order
    ends: Ints  # (N,) their estimated ends, ascending
    cpus: Ints  # (N,) processors in the order of `ends`
    deferred: Ints  # (N,) slots of jobs that are planned later
    time: Ints  # (M,) profile: begin of each segment
    free: Ints  # (M,) processors that nobody holds from there to the next
    level: Ints  # (M,) least free processors from now to ..
    until: Ints  # (M,) .. this time, descending levels
    cpu_steps: Ints  # (C,) ascending
    request_steps: Ints  # (R,) ascending
    bounds: Ints  # (C R,) earliest begin of jobs that need so much or more
    state: Ints  # (12,)
    rest: Floats  # (1,) greatest bound of the other blocks


def empty_desk(jobs: Jobs) -> Desk:
    """Return a desk for a queue of these jobs."""
    size = len(jobs.cpu)
    rows, profile = np.zeros((4, size), np.int64), np.zeros((4, 3 * size + 4), np.int64)
    cpu, request = _steps(jobs.cpu), _steps(jobs.request)
    return Desk(
        chosen=rows[0], ends=rows[1], cpus=rows[2], deferred=rows[3], time=profile[0],
        free=profile[1], level=profile[2], until=profile[3], cpu_steps=cpu, request_steps=request,
        bounds=np.zeros(len(cpu) * len(request), np.int64), state=np.zeros(_STATE, np.int64),
        rest=np.zeros(1),
    )  # fmt: skip


def _steps(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most 32 of the values, ascending: the least, the greatest and frequent ones."""
    if not len(values):
        return np.zeros(1, np.int64)
    shares = np.linspace(0.0, 1.0, _STEPS)
    return np.unique(np.quantile(values, shares, method="lower"))


@compiled(_nrt=False)
def may_take(desk: Desk, cpu: int, request: int) -> bool:
    """Return whether there are processors for a job that does not delay the reservation."""
    state = desk.state
    if cpu > state[FREE]:
        return False
    return cpu <= state[SPARE] or state[NOW] + request <= state[SHADOW]  # type: ignore[no-any-return]


@compiled_for_both(_nrt=False)
def place_now(many: Many | None, waiting: Waiting, desk: Desk, slot: int) -> int:
    """Return the placement with which the job in a slot fits now, or NOWHERE."""
    if waiting.cpu[slot] > desk.state[FREE]:
        return NOWHERE
    return AS_ASKED if many is None else place(many, waiting.job[slot], many.left)


@compiled_for_both(_nrt=False)
def place_beside(many: Many | None, waiting: Waiting, desk: Desk, slot: int) -> int:
    """Return the placement with which a job does not delay the reservation, or NOWHERE."""
    state, request = desk.state, waiting.request[slot]
    if not may_take(desk, waiting.cpu[slot], request):
        return NOWHERE
    if many is None:
        return AS_ASKED
    return place_safely(many, waiting.job[slot], state[NOW] + request <= state[SHADOW])


@compiled(_nrt=False)
def rebound(waiting: Waiting, block: int) -> None:
    """Set the bound of a block to its greatest score."""
    begin, bound = block * SLOTS, -np.inf
    for slot in range(begin, begin + waiting.used[block]):
        bound = max(bound, waiting.score[slot])
    waiting.bound[block] = bound


@compiled(_nrt=False)
def _sort(waiting: Waiting, block: int) -> None:
    """Sort the slots of a block by their scores; none has been taken."""
    begin, order = block * SLOTS, waiting.order
    for i in range(begin, begin + waiting.used[block]):
        at = i
        while at > begin and waiting.score[order[at - 1]] < waiting.score[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    waiting.turn[block] = -1


@compiled_for_both(_nrt=False)
def _evaluate(
    many: Many | None, scheme: Ints, waiting: Waiting, desk: Desk, block: int, behind: bool
) -> None:
    """Compute the scores of a block; behind a reservation, of the jobs that may start beside it."""
    begin, seen = block * SLOTS, desk.state[NOW] // scheme[REFRESH] * scheme[REFRESH]
    for slot in range(begin, begin + waiting.used[block]):
        if behind and place_beside(many, waiting, desk, slot) == NOWHERE:
            waiting.score[slot] = -np.inf
        elif behind and scheme[BEHIND] >= 0:
            waiting.score[slot] = -float(waiting.request[slot])
        else:
            waiting.score[slot] = score_of(many, scheme, waiting, slot, seen)
    if behind and scheme[BEHIND] >= 0:  # those that start already are not to be taken
        for i in range(desk.state[CHOSEN]):
            slot = waiting.place[desk.chosen[i]]
            if slot // SLOTS == block:
                waiting.score[slot] = -np.inf
    rebound(waiting, block)
    waiting.known[block] = 1
    if scheme[RESERVATIONS] > 1:
        _sort(waiting, block)
    desk.state[WORK] += SLOTS


@compiled_for_both(_nrt=False)
def first_in_order(
    many: Many | None, scheme: Ints, waiting: Waiting, desk: Desk, behind: bool
) -> int:
    """Return the slot of the first job in order that has not been taken, -1 if there is none."""
    state = desk.state
    while True:
        block = state[BLOCK]
        if block < 0 or waiting.bound[block] <= desk.rest[0]:
            top, rest, block = -np.inf, -np.inf, -1
            for other in range(waiting.size[BLOCKS]):
                bound = waiting.bound[other]
                if bound > top:
                    top, rest, block = bound, top, other
                elif bound > rest:
                    rest = bound
            state[WORK] += waiting.size[BLOCKS]
            if block < 0:
                return -1
            state[BLOCK], desk.rest[0] = block, rest
        if waiting.known[block] == 0:
            _evaluate(many, scheme, waiting, desk, block, behind)
            continue
        begin = block * SLOTS
        if scheme[RESERVATIONS] > 1:
            waiting.turn[block] += 1
            found, bound = waiting.order[begin + waiting.turn[block]], -np.inf
            after = waiting.turn[block] + 1
            if after < waiting.used[block]:
                bound = waiting.score[waiting.order[begin + after]]
            waiting.score[found], waiting.bound[block] = -np.inf, bound
            return found  # type: ignore[no-any-return]
        top, bound, found = waiting.bound[block], -np.inf, -1
        for slot in range(begin, begin + waiting.used[block]):
            score = waiting.score[slot]
            if score == top and found < 0:
                found = slot
            elif score > bound:
                bound = score
        waiting.score[found], waiting.bound[block] = -np.inf, bound
        return found


@compiled_for_both(_nrt=False)
def choose(many: Many | None, waiting: Waiting, desk: Desk, slot: int, kind: int) -> None:
    """Let the job in a slot start with a placement."""
    state = desk.state
    at = state[CHOSEN]
    desk.chosen[at] = waiting.job[slot]
    end = state[NOW] + waiting.request[slot]
    while at > 0 and desk.ends[at - 1] > end:
        desk.ends[at], desk.cpus[at] = desk.ends[at - 1], desk.cpus[at - 1]
        if many is not None:
            many.chosen[at] = many.chosen[at - 1]
        at -= 1
    desk.ends[at], desk.cpus[at] = end, waiting.cpu[slot]
    if many is not None:
        many.chosen[at], many.kind[waiting.job[slot]] = waiting.job[slot], kind
        take(many, waiting.job[slot], many.left, 0, kind, 1)
    state[CHOSEN] += 1
    state[FREE] -= waiting.cpu[slot]
