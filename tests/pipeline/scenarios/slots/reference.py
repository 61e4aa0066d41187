"""A slow, plain implementation of `slots` to compare the compiled scenario and rules with."""

import numpy as np

from hindcast.pipeline.scenarios.slots.config import SlotsConfig, sizes_of
from hindcast.pipeline.scenarios.slots.instances import Jobs


class Plain:
    """An episode that searches every window again."""

    def __init__(self, config: SlotsConfig, given: Jobs) -> None:
        self.config, self.sizes, self.jobs = config, sizes_of(config), given
        self.demand = list(zip(given.cpu.tolist(), given.memory.tolist(), strict=True))
        self.now, self.next = 0, 0
        self.queue = [-1] * config.queue
        self.backlog, self.running, self.dropped = [], [], 0
        self.start, self.enter = {}, {}
        self.arrive()

    def arrive(self):
        while self.next < len(self.demand) and self.jobs.arrive[self.next] <= self.now:
            job, self.next = self.next, self.next + 1
            if -1 in self.queue:
                self.queue[self.queue.index(-1)] = job
            elif len(self.backlog) < self.config.backlog:
                self.backlog.append(job)
            else:
                self.dropped += 1
                continue
            self.enter[job] = self.now

    def free(self, time: int) -> list[int]:
        left = [self.sizes.slots_per_resource] * 2
        for job, start in self.start.items():
            if start <= time < start + self.jobs.length[job]:
                left = [a - b for a, b in zip(left, self.demand[job], strict=True)]
        return left

    def offset(self, job: int) -> int | None:
        length = int(self.jobs.length[job])
        for at in range(self.sizes.horizon - length + (not self.config.compat)):
            rows = [self.free(self.now + at + i) for i in range(length)]
            if all(a >= b for row in rows for a, b in zip(row, self.demand[job], strict=True)):
                return at
        return None

    def compared(self, job: int) -> list[float]:
        """Return urgency, shorter visible jobs, and urgency of those that no longer fit."""
        length, others = self.jobs.length, [j for j in self.queue if j not in (-1, job)]
        crowded = 0.0
        for other in others:
            both = [a + b for a, b in zip(self.demand[job], self.demand[other], strict=True)]
            beside = all(a <= b for a, b in zip(both, self.free(self.now), strict=True))
            if self.offset(job) == self.offset(other) == 0 and not beside:
                crowded += 1 / length[other]
        return [1 / length[job], sum(length[j] < length[job] for j in others), crowded]

    def put_off(self, job: int) -> dict[int, int]:
        """Return the steps by which this job delays the earliest windows of visible jobs."""
        others = [j for j in self.queue if j not in (-1, job) and self.offset(j) is not None]
        before = {j: self.offset(j) for j in others}
        self.start[job] = self.now + self.offset(job)
        after = {j: self.offset(j) for j in others}
        del self.start[job]
        horizon = self.sizes.horizon
        return {j: (horizon if after[j] is None else after[j]) - before[j] for j in others}

    def waits(self, job: int | None = None) -> list[float]:
        """Return the mean time until d slots of each resource are free, d = r/2 .. r."""
        if job is not None:
            self.start[job] = self.now + self.offset(job)
        rows = [self.free(self.now + h) for h in range(self.sizes.horizon)]
        if job is not None:
            del self.start[job]
        slots = self.sizes.slots_per_resource
        demands = range(-(-slots // 2), slots + 1)
        until = [
            [next((h for h, free in enumerate(rows) if free[k] >= d), len(rows)) for d in demands]
            for k in range(2)
        ]
        return [float(np.mean(one)) for one in until]

    def foresight(self, job: int) -> list[float]:
        """Return the four columns of a row that describe the delays its choice causes."""
        if job < 0 or self.offset(job) != 0:
            return [0.0, 0.0, *self.waits()]
        length, off = self.jobs.length, self.put_off(job)
        shorter = sum(d / length[j] for j, d in off.items() if length[j] < length[job])
        return [sum(d / length[j] for j, d in off.items()), shorter, *self.waits(job)]

    def backfill(self, quiet_steps: int) -> int:
        """Return the choice of a hold_Q_backfill."""
        length, demand = self.jobs.length, self.demand
        visible = {job: slot for slot, job in enumerate(self.queue) if job >= 0}
        quiet = self.now - max([t for t in self.jobs.arrive if t <= self.now], default=0)
        waited = quiet >= quiet_steps or len(visible) == len(self.queue)

        def short(job: int) -> bool:
            return length[job] <= self.sizes.horizon / 4

        def may(job: int) -> bool:
            moved = any(d > 0 for j, d in self.put_off(job).items() if short(j))
            return short(job) or (waited and not moved)

        able = [job for job in visible if self.offset(job) == 0 and may(job)]
        if not able:
            return len(self.queue)
        return visible[min(able, key=lambda job: (length[job], -sum(demand[job]), visible[job]))]

    def step(self, choice: int) -> float:
        if choice < self.config.queue:
            job = self.queue[choice]
            self.start[job] = self.now + self.offset(job)
            self.running.append(job)
            self.queue[choice] = self.backlog.pop(0) if self.backlog else -1
            return 0.0
        self.now += 1
        i = 0
        while i < len(self.running):
            job = self.running[i]
            if self.start[job] + self.jobs.length[job] <= self.now:
                del self.running[i]
                i += bool(self.config.compat)
            else:
                i += 1
        self.arrive()
        present = [*self.running, *self.backlog, *(job for job in self.queue if job >= 0)]
        return -sum(1 / self.jobs.length[job] for job in present)
