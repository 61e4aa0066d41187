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
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import Ints, Ints2, compiled
from hindcast.pipeline.whatif.record import Record

LEAST_ALONE: Final = 30  # jobs that came when nobody waited, below which reaction is not used
LEAST_DELTA: Final = 60.0  # s
MOST_DELTA: Final = 600.0  # s

_OVER, _HELD, _OPEN, _WAITING, _FITTING, _ODD, _STARTS, _ALONE = range(8)


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


@dataclass(frozen=True)
class Measures:
    """Sums of the measurements of one record, which pools add up.

    Attributes:
        over: Processor-seconds beyond the machine.
        held: Processor-seconds held.
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
    """

    over: int
    held: int
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
    """Measure a record, with a D of at least so many s. Jobs of unknown start are left out."""
    known = np.flatnonzero(record.known)
    jobs = _moments(record, known)
    sums, alone = np.zeros(8, np.int64), np.zeros(len(known), np.int64)
    stretches = np.zeros((3, 3 * len(known)), np.int64)
    delta = least
    while True:
        sums[:] = 0
        count = _sweep(jobs, record.processors, int(delta), sums, alone, stretches)
        came_alone = alone[: sums[_ALONE]]
        wanted = max(least, delta_of(came_alone))
        if delta == wanted:
            break
        delta = wanted
    passed, twins = _twins(record, known)
    return Measures(
        over=int(sums[_OVER]), held=int(sums[_HELD]), open=int(sums[_OPEN]),
        waiting=int(sums[_WAITING]), fitting=int(sums[_FITTING]), odd=int(sums[_ODD]),
        starts=int(sums[_STARTS]), passed=passed, twins=twins, alone=came_alone, delta=delta,
        stretches=stretches[:, :count].copy(),
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
        over=total("over"), held=total("held"), open=total("open"), waiting=total("waiting"),
        fitting=total("fitting"), odd=total("odd"), starts=total("starts"),
        passed=total("passed"), twins=total("twins"), alone=alone, delta=delta_of(alone),
        stretches=np.concatenate([one.stretches for one in measures], axis=1),
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
    )  # fmt: skip


@compiled()
def _sweep(
    jobs: _Moments, processors: int, delta: int, sums: Ints, alone: Ints, stretches: Ints2
) -> int:
    """Fill the sums, the waits of jobs that came alone, and the stretches; return their number."""
    count = len(jobs.arrive)
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
            for size in range(largest + 1):
                if jobs.sizes[size] > free:
                    break
                sums[_FITTING] += seconds * waiting_of[size]
            sums[_HELD] += seconds * (processors - free)
            if free < 0:
                sums[_OVER] -= seconds * free
            if is_open:
                stretches[2, found] += seconds * waiting
                sums[_OPEN] += max(0, min(seconds, moment - since - delta)) * waiting
        silence = moment - before
        quiet = not first and silence > delta
        while ended < count and jobs.end[jobs.by_end[ended]] == moment:
            free += jobs.cpu[jobs.by_end[ended]]
            ended += 1
            quiet = False
        while came < count and jobs.arrive[came] == moment:
            quiet = False
            if waiting == 0 and jobs.cpu[came] <= free:
                alone[sums[_ALONE]] = jobs.start[came] - moment
                sums[_ALONE] += 1
            waiting_of[jobs.size[came]] += 1
            largest = max(largest, jobs.size[came])
            waiting += 1
            came += 1
        had = free
        while started < count and jobs.start[jobs.by_start[started]] == moment:
            job = jobs.by_start[started]
            if jobs.arrive[job] < moment:
                sums[_STARTS] += 1
                if quiet and jobs.cpu[job] <= had:
                    sums[_ODD] += 1
            free -= jobs.cpu[job]
            waiting_of[jobs.size[job]] -= 1
            waiting -= 1
            started += 1
        while largest >= 0 and waiting_of[largest] == 0:
            largest -= 1
        now_open = waiting > 0 and jobs.sizes[largest] <= free
        if is_open and not now_open:
            stretches[0, found], stretches[1, found] = since, moment
            found += 1
        if now_open and not is_open:
            since = moment
            stretches[2, found] = 0
        is_open = now_open
        before, first = moment, False
    return found


def _twins(record: Record, known: NDArray[np.int64]) -> tuple[int, int]:
    """Return the pairs of equal jobs of which the later one started first, and all pairs."""
    jobs = known[record.user[known] >= 0]
    alike = [record.user, record.queue, record.partition, record.cpu, record.requested]
    order = jobs[np.lexsort([of[jobs] for of in (record.row, record.arrive, *alike)])]
    older, younger = order[:-1], order[1:]
    pair = record.start[older] > record.arrive[younger]
    for of in alike:
        pair &= of[older] == of[younger]
    return int((pair & (record.start[younger] < record.start[older])).sum()), int(pair.sum())
