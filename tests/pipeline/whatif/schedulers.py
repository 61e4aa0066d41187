"""A plain scheduler that makes records: any order, none to all reservations, cycles and faults."""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hindcast.pipeline.whatif.record import Record

ALL = 10**9

# Sort keys, least first: functions of the wait w, the request r and the processors n.
ORDERS: dict[str, Callable] = {
    "fcfs": lambda w, r, n: -w,
    "sjf": lambda w, r, n: r,
    "saf": lambda w, r, n: r * n,
    "lxf": lambda w, r, n: -((w + r) / r),
    "wfp3": lambda w, r, n: -((w / r) ** 3 * n),
    "unicef": lambda w, r, n: -(w / (r * np.log2(np.maximum(n, 2)))),
}


class Multifactor:
    """Slurm's priority of age, size and the decayed usage of the user, for sort keys."""

    def __init__(self, jobs: Record, processors: int, weights: tuple[float, float, float]) -> None:
        self.jobs, self.processors, self.weights = jobs, processors, weights
        users, self.user = np.unique(jobs.user, return_inverse=True)
        self.usage, self.held, self.seen = np.zeros(len(users)), np.zeros(len(users)), 0

    def _decay(self, now: int) -> None:
        half = 7 * 86_400
        left = 2.0 ** (-(now - self.seen) / half)
        self.usage = self.usage * left + self.held * half / np.log(2) * (1 - left)
        self.seen = now

    def used(self, job: int, now: int, sign: int) -> None:
        self._decay(now)
        self.held[self.user[job]] += sign * self.jobs.cpu[job]

    def key(self, now: int, waiting: np.ndarray) -> np.ndarray:
        self._decay(now)
        age, size, fair = self.weights
        share = self.usage[self.user[waiting]] / max(self.usage.sum(), 1.0)
        waited = np.minimum((now - self.jobs.arrive[waiting]) / (7 * 86_400), 1)
        small = 1 - self.jobs.cpu[waiting] / self.processors
        return -np.floor(age * waited + size * small + fair * 2 ** (-share * len(self.usage)))


@dataclass
class Scheduler:
    """A scheduler of one machine.

    Attributes:
        order: Name in ORDERS, or what has `key` and `used` as a Multifactor.
        reservations: 0, 1 (EASY) or more.
        depth: Number of jobs that are tested, the head included.
        cycle: Jobs start at multiples of so many seconds only.
        closed: Begin and end of a reservation of the machine that is known in advance.
    """

    order: Any = "fcfs"
    reservations: int = 1
    cycle: int = 1
    closed: tuple[int, int] | None = None
    depth: int = ALL

    def starts(self, jobs: Record, processors: int, hold: np.ndarray | int = 0) -> np.ndarray:
        """Return the start of each job, none less than its hold in s after its arrival."""
        ready = jobs.arrive + hold
        come, starts = np.argsort(ready, kind="stable").tolist(), np.full(len(ready), -1)
        running: list[tuple[int, int]] = []  # end and job, the first end first
        waiting: list[int] = []
        came, free = 0, processors
        while came < len(come) or waiting:
            events = [running[0][0]] if running else []
            events += [int(ready[come[came]])] if came < len(come) else []
            if not events:  # the closed time is what they wait for
                assert self.closed
                events = [self.closed[1]]
            now = -(-min(events) // self.cycle) * self.cycle
            if self.closed and waiting and starts.max() < self.closed[1] <= now:
                now = self.closed[1]
            while running and running[0][0] <= now:
                end, job = running.pop(0)
                free += jobs.cpu[job]
                self._tell(job, end, -1)
            while came < len(come) and ready[come[came]] <= now:
                insort(waiting, come[came])
                came += 1
            for job in self._chosen(jobs, now, free, running, waiting):
                starts[job] = now
                waiting.remove(job)
                insort(running, (now + int(jobs.run[job]), job))
                free -= jobs.cpu[job]
                self._tell(job, now, 1)
        return starts

    def _tell(self, job, now, sign):
        if not isinstance(self.order, str):
            self.order.used(job, now, sign)

    def _ordered(self, jobs, now, waiting):
        at = np.array(waiting)
        if not isinstance(self.order, str):
            key = self.order.key(now, at)
        else:
            wait, request, cpu = now - jobs.arrive[at], jobs.requested[at], jobs.cpu[at]
            key = ORDERS[self.order](wait.astype(float), request.astype(float), cpu.astype(float))
        order = at[np.argsort(key, kind="stable")].tolist()
        if self.closed and now < self.closed[1]:
            order = [j for j in order if now + jobs.requested[j] <= self.closed[0]]
        return order

    def _chosen(self, jobs, now, free, running, waiting):
        if not waiting or jobs.cpu[waiting].min() > free:
            return []
        order, chosen = self._ordered(jobs, now, waiting), []
        while order and jobs.cpu[order[0]] <= free:
            free -= jobs.cpu[order[0]]
            chosen.append(order.pop(0))
        order = order[: self.depth]
        if not order or self.reservations == 0:
            return chosen
        ends = [(end - jobs.run[job] + jobs.requested[job], job) for end, job in running]
        ends += [(now + jobs.requested[job], job) for job in chosen]
        if self.reservations == 1:
            return chosen + _beside_the_head(jobs, now, free, ends, order)
        return chosen + _with_slots(jobs, now, free, ends, order, self.reservations)


def _beside_the_head(jobs, now, free, ends, order):
    """Return the jobs that EASY starts behind the first one of the order."""
    released = {}
    for end, job in ends:
        released[max(end, now)] = released.get(max(end, now), 0) + jobs.cpu[job]
    then, shadow = free, None
    for moment in sorted(released):
        then += released[moment]
        if then >= jobs.cpu[order[0]]:
            shadow = moment
            break
    spare, found = then - jobs.cpu[order[0]], []
    for job in order[1:]:
        over = shadow is not None and now + jobs.requested[job] > shadow
        if jobs.cpu[job] <= free and (not over or jobs.cpu[job] <= spare):
            found.append(job)
            free -= jobs.cpu[job]
            spare -= jobs.cpu[job] * over
    return found


def _with_slots(jobs, now, free, ends, order, most):
    """Return the jobs whose slot is now, where `most` jobs get the earliest slot."""
    changes = {now: int(free)}
    for end, job in ends:
        changes[max(end, now + 1)] = changes.get(max(end, now + 1), 0) + int(jobs.cpu[job])
    found, given = [], 0
    for job in order:
        cpu, request = int(jobs.cpu[job]), int(jobs.requested[job])
        level, start = 0, None
        for moment in sorted(changes):
            if start is not None and moment >= start + request:
                break
            level += changes[moment]
            if level < cpu:
                start = None
            elif start is None:
                start = moment
        if start == now:
            found.append(job)
        elif given == most:
            continue
        else:
            given += 1
        changes[start] -= cpu
        changes[start + request] = changes.get(start + request, 0) + cpu
    return found


def served(jobs: Record, starts: np.ndarray, processors: int | None = None) -> Record:
    """Return the record of jobs with these starts on a machine that its header says."""
    return replace(jobs, start=starts, processors=processors or jobs.processors)


def slice_of(record: Record, first: int, size: int) -> Record:
    """Return jobs of a record as a log of its own whose clock begins with its first job."""
    jobs = record.take(np.arange(first, first + size))
    since = int(jobs.arrive[0])
    return replace(
        jobs, row=np.arange(size), submit=jobs.submit - since, arrive=jobs.arrive - since
    )
