"""Measurements of a record that do not depend on the order that its scheduler keeps.

    over      processor-seconds beyond the machine / processor-seconds held
    open      waiting in job-seconds while every waiting job fits into the free processors / all
              waiting; the first D s of each such stretch are free
    passed    pairs of equal jobs of one user of which the later one started first / such pairs
    odd       starts out of nothing / starts after a wait
    reaction  median wait in s of jobs that came when nobody waited and that fitted then
    D         min(600, max(60, 2 x reaction)) s, which absorbs the cycle of a scheduler

The first four are 0 for every scheduler that decides at submissions and ends and keeps an order,
with no, one or all reservations. A stretch in which every waiting job fits has no job for which the
others could wait. A start is out of nothing if nothing ended or came in that second, nothing had
happened for more than D s, and the job had fitted all the time.

Events of one second are ends, then submissions, then starts. Integrals run from the first moment to
the last start, over the state after the starts. Jobs of unknown wait are left out.

With several resources, `over` is that of the resource of which most is held beyond the machine, a
job fits if all that it asks for is free, and equal jobs are so in every ask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import Ints, Ints2, compiled
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.resources.several import (
    Many,
    compiled_for_both,
    copy,
    lay_many,
    place_recorded,
    row_of,
    take,
)

LEAST_ALONE: Final = 30  # jobs that came when nobody waited, below which reaction is not used
LEAST_DELTA: Final = 60.0  # s
MOST_DELTA: Final = 600.0  # s

_OPEN, _WAITING, _FITTING, _ODD, _STARTS, _ALONE = range(6)


class _Moments(NamedTuple):
    """Jobs with known starts in order of arrival, and their order by start and by end, (K,)."""

    arrive: Ints
    start: Ints
    end: Ints
    cpu: Ints
    size: Ints  # rank of cpu among the sizes of jobs
    sizes: Ints  # (S,), ascending
    by_start: Ints
    by_end: Ints
    listed: Ints  # the waiting jobs, with several resources
    place: Ints  # (K,) place of each in `listed`


@dataclass(frozen=True)
class Measures:
    """Sums of the measurements of one record, which pools add up.

    Attributes:
        over: Amount-seconds of each resource beyond the machine, (K,). If a job takes GPUs of any
            type, all types are summed as one, in the place of the first.
        held: Amount-seconds held, (K,), likewise.
        open: Job-seconds waited while every waiting job fitted, without the first D s.
        waiting: Job-seconds waited.
        fitting: Job-seconds waited while the job itself fitted.
        odd: Starts out of nothing.
        starts: Starts after a wait.
        passed: Pairs of equal jobs of which the later one started first.
        twins: Pairs of equal jobs of one user that waited at the same time.
        alone: Waits in s of jobs that came when nobody waited and that fitted then, (A,).
        delta: D in s.
        stretches: Begin, end and job-seconds waited of each stretch in which every waiting job
            fitted, (3, M), the first D s included.
        stopped: Job-seconds waited by the resource that alone kept the job from starting, (K + 2,):
            by resource, by no GPU type having enough for any type, by several of them.
    """

    over: NDArray[np.int64]
    held: NDArray[np.int64]
    open: int
    waiting: int
    fitting: int
    odd: int
    starts: int
    passed: int
    twins: int
    alone: NDArray[np.int64]
    delta: float
    stretches: NDArray[np.int64]
    stopped: NDArray[np.int64]

    @property
    def reaction(self) -> float:
        """Median wait in s of the jobs that came alone, 0 if there are too few of them."""
        return reaction(self.alone)


def reaction(alone: NDArray[np.int64]) -> float:
    """Return the median of waits in s of jobs that came alone, 0 for less than 30."""
    return float(np.median(alone)) if len(alone) >= LEAST_ALONE else 0.0


def delta_of(alone: NDArray[np.int64]) -> float:
    """Return D in s from the waits of jobs that came alone."""
    return min(MOST_DELTA, max(LEAST_DELTA, 2 * reaction(alone)))


def measure(record: Record, least: float = LEAST_DELTA) -> Measures:
    """Measure a record, with a D of at least `least` s. Jobs of unknown start are left out."""
    known = np.flatnonzero(record.known)
    jobs = _moments(record, known)
    sums, alone = np.zeros(6, np.int64), np.zeros(len(known), np.int64)
    stretches = np.zeros((3, 3 * len(known)), np.int64)
    many = lay_many(record.resources, record.asks[known], alone.copy())
    size = 1 if record.resources is None else len(record.resources.names)
    over, held, stopped = (np.zeros(size + more, np.int64) for more in (0, 0, 2))
    delta = least
    while True:
        sums[:] = over[:] = held[:] = stopped[:] = 0
        count = _sweep(
            many, jobs, record.processors, int(delta), sums, alone, stretches, over, held, stopped
        )
        came_alone = alone[: sums[_ALONE]]
        wanted = max(least, delta_of(came_alone))
        if delta == wanted:
            break
        delta = wanted
    passed, twins = _twins(record, known)
    return Measures(
        over=over, held=held, open=int(sums[_OPEN]),
        waiting=int(sums[_WAITING]), fitting=int(sums[_FITTING]), odd=int(sums[_ODD]),
        starts=int(sums[_STARTS]), passed=passed, twins=twins, alone=came_alone, delta=delta,
        stretches=stretches[:, :count].copy(), stopped=stopped,
    )  # fmt: skip


def cycle_of(machines: Sequence[Record]) -> int:
    """Return the greatest c in s so that all starts after a wait are whole multiples of c apart.

    It is 1, or the resolution of the log, unless the scheduler acts at fixed moments. 0 means that
    at most one moment has such starts.
    """
    starts = [one.start[one.known & (one.start > one.arrive)] for one in machines]
    return int(np.gcd.reduce(np.diff(np.unique(np.concatenate(starts)))))


def pooled(measures: Sequence[Measures]) -> Measures:
    """Return the sums over pools, D by the reaction of all of them."""
    alone = np.concatenate([one.alone for one in measures])

    def total(name: str) -> int:
        return sum(getattr(one, name) for one in measures)

    return Measures(
        over=np.sum([one.over for one in measures], axis=0),
        held=np.sum([one.held for one in measures], axis=0), open=total("open"),
        waiting=total("waiting"), fitting=total("fitting"), odd=total("odd"),
        starts=total("starts"), passed=total("passed"), twins=total("twins"), alone=alone,
        delta=delta_of(alone),
        stretches=np.concatenate([one.stretches for one in measures], axis=1),
        stopped=np.sum([one.stopped for one in measures], axis=0),
    )  # fmt: skip


def _moments(record: Record, known: NDArray[np.int64]) -> _Moments:
    arrive, start, cpu = (
        np.ascontiguousarray(of[known]) for of in (record.arrive, record.start, record.cpu)
    )
    end = start + record.run[known]
    sizes, size = np.unique(cpu, return_inverse=True)
    return _Moments(
        arrive, start, end, cpu, size.reshape(-1).astype(np.int64), sizes,
        np.argsort(start, kind="stable"), np.argsort(end, kind="stable"),
        *np.zeros((2, 0 if record.resources is None else len(known)), np.int64),
    )  # fmt: skip


@compiled(_nrt=False)
def _stopping(many: Many, job: int, have: Ints) -> int:
    """Return what alone keeps a job from starting, as in Measures.stopped; -1 if nothing does."""
    shape, row, found = many.shape, row_of(many, job), -1
    for k in range(shape.resources):
        ask = many.asks[row + k]
        if ask > have[k] and ask > 0:
            if found >= 0:
                return shape.resources + 1
            found = k
    any_gpus = many.asks[row + shape.resources]
    if any_gpus > 0:
        for kind in range(shape.first_type, shape.last_type):
            if many.asks[row + kind] + any_gpus <= have[kind]:
                return found
        return shape.resources if found < 0 else shape.resources + 1
    return found


@compiled_for_both(_nrt=False)
def _fits(many: Many | None, jobs: _Moments, job: int, free: int, before: bool) -> bool:
    """Return whether a job fits into what is free now, or was `before` the starts of a moment."""
    if jobs.cpu[job] > free:
        return False
    return many is None or _stopping(many, job, many.left if before else many.free) < 0


@compiled(_nrt=False)
def _count_stopped(many: Many, jobs: _Moments, waiting: int, counts: Ints) -> int:
    """Count the waiting jobs by what keeps them from starting; return the number that fit."""
    fitting = 0
    for reason in range(len(counts)):
        counts[reason] = 0
    for i in range(waiting):
        reason = _stopping(many, jobs.listed[i], many.free)
        if reason < 0:
            fitting += 1
        else:
            counts[reason] += 1
    return fitting


@compiled(_nrt=False)
def _integrate(
    many: Many, capacity: Ints, seconds: int, first: int, last: int, over: Ints, held: Ints,
    counts: Ints, stopped: Ints,
) -> None:  # fmt: skip
    """Add some seconds of a state to the sums over the resources.

    Those from `first` to before `last` are summed as one, in the place of the first.
    """
    free = 0
    for k in range(len(over)):
        at = first if first <= k < last else k
        free = many.free[k] if k == at else free + many.free[k]
        held[at] += seconds * (capacity[k] - many.free[k])
        if k < first or k + 1 >= last:
            over[at] += seconds * max(-free, 0)
    for reason in range(len(counts)):
        stopped[reason] += seconds * counts[reason]


@compiled_for_both()
def _sweep(
    many: Many | None, jobs: _Moments, processors: int, delta: int, sums: Ints, alone: Ints,
    stretches: Ints2, over: Ints, held: Ints, stopped: Ints,
) -> int:  # fmt: skip
    """Fill the sums, the waits of jobs that came alone, and the stretches; return their number."""
    count, fitting, counts = len(jobs.arrive), 0, np.zeros(len(stopped), np.int64)
    if many is not None:
        capacity = many.free.copy()
        # The record does not say which type a job of any type took.
        one_from = one_to = 0
        for job in range(count):
            if many.asks[row_of(many, job) + many.shape.resources] > 0:
                one_from, one_to = many.shape.first_type, many.shape.last_type
    waiting_of = np.zeros(len(jobs.sizes), np.int64)  # waiting jobs of each size
    largest, waiting, free = -1, 0, processors  # largest: rank of the widest waiting job
    came, started, ended, found = 0, 0, 0, 0
    since, before = np.int64(0), np.int64(0)  # begin of the open stretch; the moment before
    is_open, first = False, True
    while started < count:
        moment = jobs.start[jobs.by_start[started]]
        if came < count:
            moment = min(moment, jobs.arrive[came])
        if ended < count:
            moment = min(moment, jobs.end[jobs.by_end[ended]])
        if not first:
            seconds = moment - before
            sums[_WAITING] += seconds * waiting
            if many is not None:
                sums[_FITTING] += seconds * fitting
                _integrate(many, capacity, seconds, one_from, one_to, over, held, counts, stopped)
            else:
                for size in range(largest + 1):
                    if jobs.sizes[size] > free:
                        break
                    sums[_FITTING] += seconds * waiting_of[size]
                held[0] += seconds * (processors - free)
                if free < 0:
                    over[0] -= seconds * free
            if is_open:
                stretches[2, found] += seconds * waiting
                sums[_OPEN] += max(0, min(seconds, moment - since - delta)) * waiting
        silence = moment - before
        quiet = not first and silence > delta
        while ended < count and jobs.end[jobs.by_end[ended]] == moment:
            job = jobs.by_end[ended]
            free += jobs.cpu[job]
            if many is not None:
                take(many, job, many.free, 0, many.kind[job], -1)
            ended += 1
            quiet = False
        while came < count and jobs.arrive[came] == moment:
            quiet = False
            if waiting == 0 and _fits(many, jobs, came, free, False):  # noqa: FBT003
                alone[sums[_ALONE]] = jobs.start[came] - moment
                sums[_ALONE] += 1
            waiting_of[jobs.size[came]] += 1
            largest = max(largest, jobs.size[came])
            if many is not None:
                jobs.listed[waiting], jobs.place[came] = came, waiting
            waiting += 1
            came += 1
        had = free
        if many is not None:
            copy(many.free, 0, many.left, 0, many.shape)
        while started < count and jobs.start[jobs.by_start[started]] == moment:
            job = jobs.by_start[started]
            if jobs.arrive[job] < moment:
                sums[_STARTS] += 1
                if quiet and _fits(many, jobs, job, had, True):  # noqa: FBT003
                    sums[_ODD] += 1
            free -= jobs.cpu[job]
            waiting_of[jobs.size[job]] -= 1
            waiting -= 1
            started += 1
            if many is not None:
                place_recorded(many, job)
                take(many, job, many.free, 0, many.kind[job], 1)
                last = jobs.listed[waiting]
                jobs.listed[jobs.place[job]], jobs.place[last] = last, jobs.place[job]
        while largest >= 0 and waiting_of[largest] == 0:
            largest -= 1
        now_open = waiting > 0 and jobs.sizes[largest] <= free
        if many is not None:
            fitting = _count_stopped(many, jobs, waiting, counts)
            now_open = waiting > 0 and fitting == waiting
        if is_open and not now_open:
            stretches[0, found], stretches[1, found] = since, moment
            found += 1
        if now_open and not is_open:
            since = moment
            stretches[2, found] = 0
        is_open = now_open
        before, first = moment, False
    if many is not None:
        copy(capacity, 0, many.free, 0, many.shape)
    return found


def _twins(record: Record, known: NDArray[np.int64]) -> tuple[int, int]:
    """Return the pairs of equal jobs of which the later one started first, and all pairs."""
    jobs = known[record.user[known] >= 0]
    alike = [record.user, record.queue, record.partition, record.cpu, record.requested]
    alike += list(record.asks.T)
    order = jobs[np.lexsort([of[jobs] for of in (record.row, record.arrive, *alike)])]
    older, younger = order[:-1], order[1:]
    pair = record.start[older] > record.arrive[younger]
    for of in alike:
        pair &= of[older] == of[younger]
    return int((pair & (record.start[younger] < record.start[older])).sum()), int(pair.sum())
