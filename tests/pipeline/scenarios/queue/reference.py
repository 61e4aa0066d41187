"""EASY backfilling and the event order of `queue` as a plain event loop, written from the text."""

from collections.abc import Callable
from dataclasses import dataclass

Score = Callable[["PlainJob", float], float]


@dataclass
class PlainJob:
    """A job; `start` is None until it starts."""

    number: int
    submit: int
    processors: int
    run: int
    requested: int
    start: int | None = None


def easy(jobs: list[PlainJob], processors: int, score: Score, *, reserve: bool = True) -> None:
    """Start every job: the best one starts or is reserved, then the best safe ones backfill.

    Jobs that have a start already run when the loop begins. Ties go to the first job.
    """
    running = [job for job in jobs if job.start is not None]
    later = [job for job in jobs if job.start is None]
    waiting: list[PlainJob] = []
    times = {max(job.submit, 0) for job in later} | {0}
    while waiting or later:
        now = min(times)
        times.remove(now)
        running = [job for job in running if job.start + job.run > now]
        waiting += [job for job in later if job.submit <= now]
        later = [job for job in later if job.submit > now]
        head = None
        while True:
            free = processors - sum(job.processors for job in running)
            fitting = [job for job in waiting if job.processors <= free]
            if not fitting:
                break
            if head is None and reserve:
                best = max(waiting, key=lambda job: (score(job, now), -job.number))
                if best.processors > free:
                    head = best
                    shadow, spare = reservation(head, running, free, now)
                    continue
            elif head is None:
                best = max(fitting, key=lambda job: (score(job, now), -job.number))
            else:
                safe = [
                    job for job in fitting
                    if now + job.requested <= shadow or job.processors <= spare
                ]  # fmt: skip
                if not safe:
                    break
                best = max(safe, key=lambda job: (score(job, now), -job.number))
                if now + best.requested > shadow:
                    spare -= best.processors
            best.start = now
            waiting.remove(best)
            running.append(best)
            times.add(now + best.run)
        times |= {job.start + job.run for job in running if job.start + job.run > now}


def reservation(head: PlainJob, running: list[PlainJob], free: int, now: int) -> tuple[int, int]:
    """Return the time at which the head can start by requested times, and what is spare then."""
    ends = sorted({max(job.start + job.requested, now) for job in running})
    for end in ends:
        then = free + sum(
            job.processors for job in running if max(job.start + job.requested, now) <= end
        )
        if then >= head.processors:
            return end, then - head.processors
    raise AssertionError("the head is wider than the machine")
