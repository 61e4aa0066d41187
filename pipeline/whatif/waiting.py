"""Compiled queue of waiting jobs that is read in the order of a priority.

The waiting jobs stand in order of arrival, in blocks of 64::

    block    0                     1                2
    slots    0 1 2 3 .. 40 - - -   64 65 66 .. 127  128 129 - - - ..      - is not in use

A block knows the fewest processors and the shortest request of its jobs, and a bound of their
priorities. So the first job in order, or the first one that may start beside a reservation, is
found by computing the priorities of a few blocks, not of all waiting jobs.

Rules whose priority does not change while a job waits have it as the value of a slot. For the
others the priority is c + (w + a)^e g, with the wait w of the job: g is the value.

Rules of learned run times have g from what completed runs of all users say. It is computed again
at moments at which a job may start, for the jobs of which runs with one of their contexts ended.

These functions make no arrays and are compiled without counts of references to arrays
(`_nrt=False`), which took four fifths of the time.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.scenarios.queue.priorities import (
    NUMBER,
    RULES,
    priority,
    priority_of_asks,
)
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, expect, version_of
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.whatif.orders import (
    AGED,
    AGES,
    FIXED,
    GIVEN,
    HANDICAP,
    LEARNING,
    PREDICTING,
)
from hindcast.pipeline.whatif.resources.several import Many, compiled_for_both

SLOTS: Final = 64  # of a block
_LONG: Final = 2.0**20  # s, w + a at which g is computed: the constant c is small beside it
_SLACK: Final = 1.0 + 1e-9  # a bound is computed with other roundings than a priority

# Places in `scheme`: what orders the jobs.
KIND, RULE, BEHIND, REFRESH, FIRST, PREDICTS, RESERVATIONS, DEPTH = range(8)
SCHEME: Final = 8

AGE_OFFSET: Final = np.array([AGES.get(name, (0.0, 1, 0.0))[0] for name in RULES])
AGE_POWER: Final = np.array([AGES.get(name, (0.0, 1, 0.0))[1] for name in RULES])
AGE_CONSTANT: Final = np.array([AGES.get(name, (0.0, 1, 0.0))[2] for name in RULES])
# scheme[PREDICTS]: 0 for rules without predictions, and those from
OF_USER, OF_ALL = 1, 2  # the last runs of the job's user, or contexts of all completed runs
PREDICTS_FROM: Final = {
    **{NUMBER[name]: OF_USER for name in PREDICTING}, **{NUMBER[name]: OF_ALL for name in LEARNING},
}  # fmt: skip

# Places in Waiting.size. STALE: 1 if runs have ended since values were computed from contexts.
BLOCKS, WAITING, STALE = range(3)


class Jobs(NamedTuple):
    """Facts that the scheduler knows about the N jobs of a run, and their users' histories."""

    arrive: Ints  # (N,) moment at which the job joins the queue
    cpu: Ints  # (N,)
    request: Ints  # (N,) seconds with which the scheduler reckons
    user: Ints  # (N,)
    key: Ints  # (N,)
    number: Floats  # (N,) priority or handicap, else (0,)
    last: Ints  # (U,) last completed run of the user, -1 if there is none
    before: Ints  # (U,) the run before it
    similar: Ints  # (K,) last completed run of the key
    places: Ints  # (4 N,) contexts of the job, see pipeline.scenarios.queue.run_times; else (0,)
    sums: Floats  # the contexts


class Waiting(NamedTuple):
    """The waiting jobs in S slots, B blocks."""

    job: Ints  # (S,)
    cpu: Ints  # (S,)
    request: Ints  # (S,)
    arrive: Ints  # (S,)
    predicted: Floats  # (S,) predicted run time p in s, if the rule uses it; or e
    similar: Floats  # (S,) run time u of the last similar job in s; or v
    version: Floats  # (S,) that of the contexts from which e and v are
    value: Floats  # (S,) see the module
    score: Floats  # (S,) priority at this moment; -inf for a job that is not to be taken
    used: Ints  # (B,) slots in use
    first: Ints  # (B,) arrival of its first job
    least_cpu: Ints  # (B,)
    least_request: Ints  # (B,)
    highest: Floats  # (B,) greatest value
    bound: Floats  # (B,) no job of the block that may be taken has a greater priority
    known: Ints  # (B,) 1 if `score` is filled and the bound is the greatest score
    order: Ints  # (S,) slots of the block in order of their scores, where all jobs reserve
    turn: Ints  # (B,) how many of them have been taken, less 1
    place: Ints  # (N,) slot of each waiting job
    after: Ints  # (N,) waiting job of the same user that came before it, -1 if none did
    ahead: Ints  # (N,) the one that came after it
    newest: Ints  # (U,) waiting job of the user that came last
    size: Ints  # (3,)


def empty_queue(jobs: int, users: int) -> Waiting:
    """Return a queue without jobs, for a run of `jobs` jobs by `users` users."""
    blocks = 2 * (jobs // SLOTS) + 4  # one more than there can be after `_close_gaps` and `join`
    slots = blocks * SLOTS
    whole, numbers = np.zeros((5, slots), np.int64), np.zeros((5, slots))
    of_blocks, bounds = np.zeros((6, blocks), np.int64), np.zeros((2, blocks))
    links = np.full((3, jobs), -1)
    return Waiting(
        job=whole[0], cpu=whole[1], request=whole[2], arrive=whole[3], order=whole[4],
        predicted=numbers[0], similar=numbers[1], value=numbers[2], score=numbers[3],
        version=numbers[4], used=of_blocks[0], first=of_blocks[1], least_cpu=of_blocks[2],
        least_request=of_blocks[3], known=of_blocks[4], turn=of_blocks[5], highest=bounds[0],
        bound=bounds[1], place=links[0], after=links[1], ahead=links[2],
        newest=np.full(users, -1), size=np.zeros(3, np.int64),
    )  # fmt: skip


@compiled(_nrt=False)
def predicted(jobs: Jobs, job: int) -> float:
    """Return the predicted run time p of a job in s, at least 10."""
    request, user = float(jobs.request[job]), jobs.user[job]
    if user < 0 or jobs.last[user] < 0:
        return max(request, 10.0)
    mean = float(jobs.last[user])
    if jobs.before[user] >= 0:
        mean = (jobs.before[user] + jobs.last[user]) / 2.0
    return max(min(mean, request), 10.0)


@compiled(_nrt=False)
def similar_run(jobs: Jobs, job: int) -> float:
    """Return the run time u of the last similar job in s, at least 10; p if there is none."""
    key = jobs.key[job]
    if key < 0 or jobs.similar[key] < 0:
        return predicted(jobs, job)
    return max(min(float(jobs.similar[key]), float(jobs.request[job])), 10.0)


@compiled_for_both(_nrt=False)
def of_rule(many: Many | None, scheme: Ints, waiting: Waiting, slot: int, wait: float) -> float:
    """Return the priority of the job in a slot under the rule of a scheme after a wait."""
    since = 1 + waiting.arrive[slot] - scheme[FIRST]
    if many is not None:
        return priority_of_asks(  # type: ignore[no-any-return]
            scheme[RULE], wait, waiting.request[slot], waiting.cpu[slot],
            many.milli[waiting.job[slot]], since, waiting.predicted[slot], waiting.similar[slot],
        )  # fmt: skip
    return priority(  # type: ignore[no-any-return]
        scheme[RULE], wait, float(waiting.request[slot]), float(waiting.cpu[slot]),
        float(since), waiting.predicted[slot], waiting.similar[slot],
    )  # fmt: skip


@compiled_for_both(_nrt=False)
def _set_value(many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, slot: int) -> None:
    """Set the value of the job in a slot, see the module, and the predictions that it is made of.

    For rules that age it is g: at a wait as long as _LONG the priority is c + (w + a)^e g.
    """
    kind, rule, job, value = scheme[KIND], scheme[RULE], waiting.job[slot], 0.0
    if scheme[PREDICTS] == OF_USER:
        waiting.predicted[slot] = predicted(jobs, job)
        waiting.similar[slot] = similar_run(jobs, job)
    elif scheme[PREDICTS] == OF_ALL:
        at = CONTEXTS * job
        waiting.version[slot] = version_of(jobs.places, at, jobs.sums, 0)
        # A policy of the scenario reads logarithms too, so that both have the same roundings.
        ln_v, ln_e = expect(jobs.places, at, jobs.sums, 0, jobs.request[job])
        waiting.similar[slot], waiting.predicted[slot] = math.exp(ln_v), math.exp(ln_e)
    if kind == FIXED:
        value = of_rule(many, scheme, waiting, slot, 0.0)
    elif kind == AGED:
        priority_then = of_rule(many, scheme, waiting, slot, _LONG - AGE_OFFSET[rule])
        value = (priority_then - AGE_CONSTANT[rule]) / _LONG ** AGE_POWER[rule]
    elif kind == GIVEN:
        value = jobs.number[job]
    elif kind == HANDICAP:
        value = -(jobs.arrive[job] + jobs.number[job])
    waiting.value[slot] = value


@compiled_for_both(_nrt=False)
def score_of(many: Many | None, scheme: Ints, waiting: Waiting, slot: int, seen: int) -> float:
    """Return the priority of the job in a slot at a time."""
    if scheme[KIND] == AGED:
        return of_rule(many, scheme, waiting, slot, float(max(seen - waiting.arrive[slot], 0)))
    return waiting.value[slot]  # type: ignore[no-any-return]


@compiled(_nrt=False)
def bound_of(scheme: Ints, waiting: Waiting, block: int, seen: int) -> float:
    """Return a number that no priority of a block exceeds at a time; -inf for an empty block."""
    if waiting.used[block] == 0 or scheme[KIND] != AGED:
        return waiting.highest[block]  # type: ignore[no-any-return]
    rule = scheme[RULE]
    age = max(seen - waiting.first[block], 0) + AGE_OFFSET[rule]
    grown = waiting.highest[block] * age
    if AGE_POWER[rule] == 3:
        grown = grown * age * age
    return (AGE_CONSTANT[rule] + grown) * _SLACK  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _summarise(waiting: Waiting, block: int) -> None:
    """Update what a block knows about its jobs."""
    begin = block * SLOTS
    cpu, request, highest = LATER, LATER, -np.inf
    for slot in range(begin, begin + waiting.used[block]):
        cpu = min(cpu, waiting.cpu[slot])
        request = min(request, waiting.request[slot])
        highest = max(highest, waiting.value[slot])
    waiting.least_cpu[block], waiting.least_request[block] = cpu, request
    waiting.highest[block] = highest
    if waiting.used[block] > 0:
        waiting.first[block] = waiting.arrive[begin]


@compiled(_nrt=False)
def _copy(waiting: Waiting, slot: int, to: int) -> None:
    """Copy the job of a slot to another one."""
    waiting.job[to], waiting.cpu[to] = waiting.job[slot], waiting.cpu[slot]
    waiting.request[to], waiting.arrive[to] = waiting.request[slot], waiting.arrive[slot]
    waiting.predicted[to], waiting.similar[to] = waiting.predicted[slot], waiting.similar[slot]
    waiting.value[to], waiting.version[to] = waiting.value[slot], waiting.version[slot]
    waiting.place[waiting.job[to]] = to


@compiled(_nrt=False)
def _next_slot(waiting: Waiting) -> int:
    """Return the slot behind the last one, which is in use from now on."""
    block = waiting.size[BLOCKS] - 1
    if block < 0 or waiting.used[block] == SLOTS:
        block += 1
        waiting.size[BLOCKS] += 1
        waiting.used[block] = 0
    waiting.used[block] += 1
    return block * SLOTS + waiting.used[block] - 1  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _close_gaps(waiting: Waiting) -> None:
    """Move the jobs into the first blocks, in their order, if most slots are not in use."""
    blocks = waiting.size[BLOCKS]
    if blocks <= 2 * (waiting.size[WAITING] // SLOTS) + 2:
        return
    waiting.size[BLOCKS] = 0
    for block in range(blocks):
        begin, used = block * SLOTS, waiting.used[block]
        for slot in range(begin, begin + used):  # never before the slot that is written
            _copy(waiting, slot, _next_slot(waiting))
    for block in range(waiting.size[BLOCKS]):
        _summarise(waiting, block)


@compiled_for_both(_nrt=False)
def join(many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, job: int) -> None:
    """Put a job that arrives at the end of the queue."""
    _close_gaps(waiting)
    slot = _next_slot(waiting)
    block = slot // SLOTS
    waiting.job[slot], waiting.place[job] = job, slot
    waiting.cpu[slot], waiting.request[slot] = jobs.cpu[job], jobs.request[job]
    waiting.arrive[slot] = jobs.arrive[job]
    _set_value(many, scheme, jobs, waiting, slot)
    _summarise(waiting, block)
    waiting.size[WAITING] += 1
    user = jobs.user[job]
    if scheme[PREDICTS] == OF_USER and user >= 0:
        other = waiting.newest[user]
        waiting.after[job], waiting.ahead[job], waiting.newest[user] = other, -1, job
        if other >= 0:
            waiting.ahead[other] = job


@compiled(_nrt=False)
def leave(scheme: Ints, jobs: Jobs, waiting: Waiting, job: int) -> None:
    """Remove a job from the queue."""
    slot = waiting.place[job]
    block = slot // SLOTS
    waiting.used[block] -= 1
    for at in range(slot, block * SLOTS + waiting.used[block]):
        _copy(waiting, at + 1, at)
    _summarise(waiting, block)
    waiting.size[WAITING] -= 1
    user = jobs.user[job]
    if scheme[PREDICTS] == OF_USER and user >= 0:
        after, ahead = waiting.after[job], waiting.ahead[job]
        if after >= 0:
            waiting.ahead[after] = ahead
        if ahead >= 0:
            waiting.after[ahead] = after
        else:
            waiting.newest[user] = after


@compiled_for_both(_nrt=False)
def complete(
    many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, job: int, run: int
) -> None:
    """Enter a completed run into the histories; compute the values that depend on them again."""
    user = jobs.user[job]
    if user < 0:
        return
    jobs.before[user], jobs.last[user] = jobs.last[user], run
    jobs.similar[jobs.key[job]] = run
    if scheme[PREDICTS] != OF_USER:
        return
    other, stale = waiting.newest[user], -1
    while other >= 0:
        slot = waiting.place[other]
        if stale >= 0 and stale != slot // SLOTS:
            _summarise(waiting, stale)
            stale = -1
        p, u = waiting.predicted[slot], waiting.similar[slot]
        if predicted(jobs, other) != p or similar_run(jobs, other) != u:
            _set_value(many, scheme, jobs, waiting, slot)
            stale = slot // SLOTS
        other = waiting.after[other]
    if stale >= 0:
        _summarise(waiting, stale)


@compiled_for_both(_nrt=False)
def expect_again(many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, free: int) -> None:
    """Compute values from contexts in which runs ended again, if a job may start."""
    blocks, least = waiting.size[BLOCKS], LATER
    if waiting.size[STALE] == 0:
        return
    for block in range(blocks):
        least = min(least, waiting.least_cpu[block])
    if least > free:
        return
    waiting.size[STALE] = 0
    for block in range(blocks):
        begin, stale = block * SLOTS, False
        for slot in range(begin, begin + waiting.used[block]):
            at = CONTEXTS * waiting.job[slot]
            if version_of(jobs.places, at, jobs.sums, 0) != waiting.version[slot]:
                _set_value(many, scheme, jobs, waiting, slot)
                stale = True
        if stale:
            _summarise(waiting, block)


@compiled(_nrt=False)
def set_values(waiting: Waiting, values: Floats) -> None:
    """Give every waiting job its value, (W,) in order of arrival."""
    i = 0
    for block in range(waiting.size[BLOCKS]):
        begin = block * SLOTS
        for slot in range(begin, begin + waiting.used[block]):
            waiting.value[slot] = values[i]
            i += 1
        _summarise(waiting, block)


@compiled(_nrt=False)
def list_waiting(waiting: Waiting, found: Ints) -> int:
    """Fill `found` with the waiting jobs in order of arrival; return their number."""
    i = 0
    for block in range(waiting.size[BLOCKS]):
        begin = block * SLOTS
        for slot in range(begin, begin + waiting.used[block]):
            found[i] = waiting.job[slot]
            i += 1
    return i
