"""Lower bounds of `queue`, from a relaxation without parallel structure.

Let a job of n processors and run time p be fluid: it can be worked on by any number of free
processors at any time after q, its submission or the start of the window, until n p
processor-seconds are done. With M its mean busy time (the mean of the times at which the work is
done), every schedule has M = start + p / 2. The weighted sum of M is least if the free processors
always work on the job of the largest weight / (n p) (Goemans et al., "Single machine scheduling
with release dates", SIAM J. Discrete Math. 2002). Hence, with w = 1 / max(p, 10) for the bounded
slowdown and w = 1 for the wait,

    sum w (start - q) >= min sum w M - sum w p / 2 - sum w q

The free processors are those of the machine less those of the jobs that run when the window begins.

With several resources, the same holds for each of them, of which jobs that ask for none may start
at once; and for all GPU types together. The bound is the largest of these.
"""

import heapq
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.fitting import Shape
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled

Ints = NDArray[np.int64]


@compiled(types.float64(INTS, FLOATS, FLOATS, INTS, INTS))
def _least_busy_time(queued, area, weight, times, free):  # type: ignore[no-untyped-def]
    """Return the least sum over jobs of weight * mean busy time, in s.

    queued (J,) ascending: seconds at which jobs join the queue. area (J,): processor-seconds.
    weight (J,). The machine has free[i] processors from times[i] (s) on; times begin at or before
    the first of `queued`.
    """
    jobs, step, i = len(area), 0, 0
    work_left = area.copy()
    pool = [(0.0, 0)]  # of -weight / area and the job; an entry tells numba the type
    pool.pop()
    now, total = float(queued[0]), 0.0
    while i < jobs or len(pool) > 0:
        if len(pool) == 0:
            now = max(now, float(queued[i]))
        while i < jobs and queued[i] <= now:
            heapq.heappush(pool, (-weight[i] / area[i], i))
            i += 1
        while step + 1 < len(times) and times[step + 1] <= now:
            step += 1
        until = np.inf
        if i < jobs:
            until = float(queued[i])
        if step + 1 < len(times):
            until = min(until, float(times[step + 1]))
        if free[step] <= 0:
            now = until
            continue
        job = pool[0][1]
        seconds = min(work_left[job] / free[step], until - now)
        work = seconds * free[step]
        if until - now > seconds:
            work = work_left[job]  # the job ends, without a rest from rounding
        total += weight[job] * work / area[job] * (now + seconds / 2.0)
        work_left[job] -= work
        now += seconds
        if work_left[job] <= 0.0:
            heapq.heappop(pool)
    return total


_TWO: Final[Any] = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]


@compiled(_TWO(types.int64, INTS, INTS, INTS, INTS, INTS))
def _least_sums(processors, queued, cpu, run, run_ends, run_cpu):  # type: ignore[no-untyped-def]
    """Return the least sums over the jobs of wait / max(run, 10) + run / max(run, 10), and of wait.

    The arguments are those of `lower_bounds`.
    """
    order = np.argsort(run_ends)
    times = np.zeros(len(order) + 1, np.int64)
    free = np.zeros(len(order) + 1, np.int64)
    free[0] = processors - run_cpu.sum()
    for i in range(len(order)):
        times[i + 1] = run_ends[order[i]]
        free[i + 1] = free[i] + run_cpu[order[i]]
    jobs = len(queued)
    area, ones, inverse = np.empty(jobs), np.ones(jobs), np.empty(jobs)
    slowdown = wait = 0.0
    for i in range(jobs):
        area[i] = float(cpu[i]) * run[i]
        inverse[i] = 1.0 / max(run[i], 10)
        slowdown += inverse[i] * (run[i] / 2.0 - queued[i])
        wait -= run[i] / 2.0 + queued[i]
    slowdown += _least_busy_time(queued, area, inverse, times, free)
    wait += _least_busy_time(queued, area, ones, times, free)
    return slowdown, wait


@compiled(_TWO(types.int64, INTS, INTS, INTS, INTS, INTS))
def lower_bounds(processors, queued, cpu, run, run_ends, run_cpu):  # type: ignore[no-untyped-def]
    """Return lower bounds of the mean bounded slowdown and of the mean wait in s.

    queued, cpu, run (J,) of the counted jobs, queued ascending and at least 0; run_ends and run_cpu
    of the jobs that run at time 0.
    """
    slowdown, wait = _least_sums(processors, queued, cpu, run, run_ends, run_cpu)
    return max(slowdown / len(queued), 1.0), max(wait / len(queued), 0.0)


def bounds_by_resource(
    capacity: Ints, queued: Ints, asked: Ints, any_gpus: Ints, run: Ints, run_ends: Ints,
    held: Ints, shape: Shape,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the two lower bounds by each resource, then by all GPU types together, (K + 1, 2).

    Args:
        capacity: Units of each resource, (K,).
        queued, run: As in `lower_bounds`, (J,).
        asked: What the counted jobs ask for by name, (J, K).
        any_gpus: GPUs of any type, (J,).
        run_ends: Ends of the jobs that run at time 0, (R,).
        held: What these hold, (R, K).
        shape: The resources. Without types, the last row is that of no bound.
    """
    of_types = slice(shape.first_type, shape.last_type)
    capacity = np.append(capacity, capacity[of_types].sum())
    asked = np.column_stack([asked, asked[:, of_types].sum(axis=1) + any_gpus])
    held = np.column_stack([held, held[:, of_types].sum(axis=1)])
    jobs, alone = len(queued), run / np.maximum(run, 10)
    bounds = np.empty((len(capacity), 2))
    for k in range(len(capacity)):
        some = asked[:, k] > 0
        slowdown, wait = float(alone[~some].sum()), 0.0
        if some.any():
            least = _least_sums(
                capacity[k], queued[some], asked[some, k], run[some], run_ends, held[:, k].copy()
            )
            slowdown, wait = slowdown + least[0], least[1]
        bounds[k] = max(slowdown / jobs, 1.0), max(wait / jobs, 0.0)
    return bounds
