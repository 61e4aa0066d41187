"""Futures of a `queue` episode for policies that look ahead: drawn run times, and no arrivals.

A copy of an episode holds the run times of jobs that wait or run, which no scheduler knows. A
future hides the jobs to come, as `forget` of the scenario does, and draws the run times from the
completed runs of the jobs' contexts, given how long a running job has lasted
(hindcast.pipeline.scenarios.queue.drawn.run_times). Runs that have ended in the episode stand
behind those of the log before it. A job has one uniform number in a future: its run times at two
moments are those of two distributions at the same place.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.drawn.run_times import (
    CONTEXTS,
    KEPT,
    MOST,
    Array,
    Runs,
    codes_of,
    contexts_of,
    distribution,
)
from hindcast.pipeline.scenarios.queue.forgetting import hide_arrivals, run_until, set_run
from hindcast.pipeline.scenarios.queue.instances import Jobs, Log
from hindcast.pipeline.simulation.kernel import Floats, Ints, Ints2, compiled

_WIDTH: int = int(KEPT.max())  # runs of a context that are read


@dataclass(frozen=True)
class SampledRuns:
    """A future: run times at drawn places of their distributions; a `Future` of the simulation.

    Attributes:
        runs: Runs that had ended when the window began, by context.
        first: Begin of the runs of each job's contexts, (N, 5).
        last: End of them, (N, 5).
        codes: Numbers of each job's contexts, (N, 5); -1 if it is in none.
        kill: Whether jobs end when their requested time is over.
        uniforms: Uniform numbers of the jobs, (N,).
        capacity: Largest number of candidates of the instance.
    """

    runs: Runs
    first: Array
    last: Array
    codes: Array
    kill: bool
    uniforms: NDArray[np.float64]
    capacity: int
    room: int = 0
    float_room: int = 0

    def replace(self, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
        """Hide the jobs to come and draw the run times of those that wait or run."""
        _sample(
            ints, floats, self.runs, self.first, self.last, self.codes, self.kill, self.uniforms
        )


@dataclass(frozen=True)
class Sampler:
    """The futures of an instance: a function of a generator.

    Attributes:
        log: The log.
        jobs: The jobs of the instance.
        kill: Whether jobs end when their requested time is over.
    """

    log: Log
    jobs: Jobs
    kill: bool

    def __call__(self, rng: np.random.Generator) -> SampledRuns:
        """Draw a future."""
        size = len(self._known.codes)
        drawn = rng.random(size)
        known = self._known
        return SampledRuns(
            known.runs, known.first, known.last, known.codes, self.kill, drawn, size + 1
        )

    @cached_property
    def _known(self) -> SampledRuns:
        """The parts that all futures share, without uniform numbers and capacity."""
        log, jobs = self.log, self.jobs
        chosen = np.concatenate([jobs.running, jobs.carried, jobs.counted, jobs.follow]).astype(int)
        own = log.user[chosen], log.cpu[chosen], log.requested[chosen]
        codes = np.stack(codes_of(*own, np.unique(own[1]), np.unique(own[2])), axis=1)
        past = log.by_end[: np.searchsorted(log.ends, jobs.now)]
        if len(past):
            of = log.user[past], log.cpu[past], log.requested[past], log.run[past]
            contexts = contexts_of(*of, log.start[past] + log.run[past])
            runs, (first, last) = contexts.runs, contexts.spans(*own)
        else:
            runs = Runs(np.zeros(0, np.int64), np.zeros(0))
            first = last = np.zeros((len(chosen), CONTEXTS), np.int64)
        return SampledRuns(runs, first, last, codes, self.kill, np.zeros(0), 0)


@compiled()
def _ended(ints: Ints) -> Ints:
    """Return the jobs that have ended in the episode, in the order of their ends."""
    now, starts, ends = ints[m.NOW], ints[m.START_AT], ints[m.END_AT]
    jobs = np.empty(ints[m.NEXT], np.int64)
    count = 0
    for job in range(ints[m.NEXT]):
        if ints[starts + job] != m.NEVER and ints[ends + job] <= now:
            jobs[count] = job
            count += 1
    found = jobs[:count]
    order = np.argsort(ints[ends : ends + ints[m.NEXT]][found], kind="mergesort")
    return found[order]


@compiled()
def _known_runs(
    ints: Ints, ended: Ints, runs: Runs, first: Ints2, last: Ints2, codes: Ints2, job: int,
    known: Runs, begin: Ints, stop: Ints,
) -> None:  # fmt: skip
    """Fill the last runs of a job's contexts, those of the log before those of the episode."""
    for level in range(CONTEXTS):
        place = _WIDTH * (level + 1)  # filled from the end
        stop[level] = place
        left, code = KEPT[level], codes[job, level]
        for at in range(len(ended) - 1, -1, -1):
            if left == 0 or code < 0:
                break
            other = ended[at]
            if codes[other, level] == code:
                place -= 1
                left -= 1
                seconds = ints[ints[m.RUN_AT] + other]
                known.share[place] = seconds / ints[ints[m.REQUESTED_AT] + other]
        for at in range(
            last[job, level] - 1, max(first[job, level], last[job, level] - left) - 1, -1
        ):
            place -= 1
            known.share[place] = runs.share[at]
        begin[level] = place


@compiled()
def _sample(
    ints: Ints, floats: Floats, runs: Runs, first: Ints2, last: Ints2, codes: Ints2, kill: bool,
    uniforms: Floats,
) -> None:  # fmt: skip
    """Hide the jobs to come and draw the run times of those that wait or run."""
    now, ended = ints[m.NOW], _ended(ints)
    hide_arrivals(ints)
    known = Runs(np.zeros(CONTEXTS * _WIDTH, np.int64), np.zeros(CONTEXTS * _WIDTH))
    known.end[:] = now
    begin, stop = np.zeros(CONTEXTS, np.int64), np.zeros(CONTEXTS, np.int64)
    values, sums = np.empty(MOST), np.empty(MOST)
    waiting, running = ints[m.WAITING], ints[m.RUNNING]
    for i in range(waiting + running):
        if i < waiting:
            job, elapsed = ints[ints[m.WAITING_AT] + i], 0
        else:
            job = ints[ints[m.BY_END_AT] + i - waiting]
            elapsed = now - ints[ints[m.START_AT] + job]
        requested = ints[ints[m.REQUESTED_AT] + job]
        _known_runs(ints, ended, runs, first, last, codes, job, known, begin, stop)
        count = distribution(known, begin, stop, now, requested, elapsed, values, sums)
        at = np.searchsorted(sums[:count], uniforms[job] * sums[count - 1], side="right")
        seconds = int(np.rint(values[min(at, count - 1)]))
        if kill:
            seconds = min(seconds, requested)
        if i < waiting:
            set_run(ints, floats, job, max(seconds, 1))
        else:
            run_until(ints, floats, i - waiting, max(seconds, elapsed + 1))
