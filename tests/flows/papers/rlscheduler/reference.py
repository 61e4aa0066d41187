"""A plain event loop of RLScheduler's simulator, with the sorts of its lists carried out.

Written from the description of its behaviour; slow, and without any memory layout.
"""

import math
from dataclasses import dataclass

NOT_STARTED = -1


@dataclass(eq=False)
class Job:
    submit: int
    cpu: int
    run: int
    requested: int
    start: int = NOT_STARTED

    @property
    def end(self) -> int:
        return self.start + self.run

    @property
    def requested_end(self) -> int:
        return self.start + self.requested


def sort_key(rule: str, job: Job, now: int):
    s, r, n = job.submit, job.requested, job.cpu
    waited = now - s if rule in {"wfp3", "unicef"} else -1 - s
    return {
        "fcfs": lambda: s,
        "sjf": lambda: (r, s),
        "smallest": lambda: (n, s),
        "saf": lambda: r * n,
        "f1": lambda: math.log10(r if r > 0 else 0.1) * n + 870 * math.log10(s),
        "f2": lambda: math.sqrt(r) * n + 25600 * math.log10(s),
        "f3": lambda: r * n + 6860000 * math.log10(s),
        "f4": lambda: r * math.sqrt(n) + 530000 * math.log10(s),
        "wfp": lambda: -((waited / r) ** 3) * n,
        "uni": lambda: -(waited + 1e-15) / (math.log2(n + 1e-15) * r),
        "wfp3": lambda: -((waited / max(r, 1)) ** 3) * n,
        "unicef": lambda: -(waited + 1e-15) / (max(math.log2(n), 1) * max(r, 1)),
    }[rule]()


def play(jobs: list[Job], processors: int, rule: str, *, backfill: bool) -> None:
    """Fill the start of every job."""
    coming, queue, running = list(jobs), [], []
    now, free = jobs[0].submit, processors

    def start(job: Job) -> None:
        nonlocal free
        assert 0 < job.cpu <= free
        job.start, free = now, free - job.cpu
        running.append(job)

    def pass_event() -> None:
        nonlocal now, free
        running.sort(key=lambda job: job.end)
        if coming and (not running or coming[0].submit <= running[0].end):
            queue.append(coming.pop(0))
            now = max(now, queue[-1].submit)
        else:
            ended = running.pop(0)
            now, free = max(now, ended.end), free + ended.cpu

    queue.append(coming.pop(0))
    while queue:
        at = now
        queue.sort(key=lambda job: sort_key(rule, job, at))
        chosen = queue[0]
        if chosen.cpu > free and backfill:
            running.sort(key=lambda job: job.requested_end)
            total, estimated = free, now
            for job in running:
                total, estimated = total + job.cpu, job.requested_end
                if total >= chosen.cpu:
                    break
        while chosen.cpu > free:
            if backfill:
                queue.sort(key=lambda job: job.submit)
                for job in list(queue):
                    if job.cpu <= free and now + job.requested < estimated:
                        start(job)
                        queue.remove(job)
            pass_event()
        start(chosen)
        queue.remove(chosen)
        while not queue and coming:
            pass_event()
