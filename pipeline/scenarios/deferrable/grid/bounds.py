"""Costs on a grid that no policy is below, which know all hours and lengths.

On any number of cores jobs are separate: the best start of each, or its cheapest hours if it may
pause. On limited cores the bound is Lagrangian: for prices u_t >= 0 of a core in slot t,

    sum_i min over the plans of job i (cost + cores x sum of u_t in its slots)  -  sum_t u_t C_t

A plan is a start or, with pauses, the slots that the job runs in: all of them whole but the last
one. In the last slot of all there is no limit, since all that wait run to their ends then. Jobs may
be late.
"""

from collections.abc import Callable
from heapq import heappush, heapreplace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.grids.starts import Work, between, bound, integral
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.traces.hourly.series import HOUR_S

_STEPS: Final = 80


def bounds(
    config: DeferrableConfig, jobs: Jobs, work: Work, y: NDArray[np.float64],
    energy: NDArray[np.floating[Any]], submit: NDArray[np.float64], capacity: NDArray[np.int64],
) -> tuple[float, float]:  # fmt: skip
    """Return costs that no policy is below: of starts on any number of cores, and as played.

    `energy` is the kW of each job, (J,); `submit` its submission in hours after slot 0, (J,).
    """
    slot_h, slots = config.slot_s / HOUR_S, len(capacity)
    waited = config.waiting_weight * (jobs.earliest * slot_h - submit) * jobs.cores
    unlimited = config.grid_capacity == "unlimited"
    start_bound = float(bound(work, y) @ energy / 1e3 + waited.sum())
    if config.pausable:
        # On limited cores jobs may be late, and so may those that pause longer than known.
        known_slots = np.maximum(np.ceil(np.maximum(work.known, work.run) / slot_h - 1e-9), 1)
        late = (work.known < work.run) & (config.resume_h > 0) | (not unlimited)
        due = jobs.latest + known_slots.astype(np.int64)
        end = np.where(late, slots + work.run / slot_h, due)
        end = f.HISTORY + end * slot_h
        least = float(_cheapest_hours(y, work.submit, end, work.run) @ energy / 1e3 + waited.sum())
        if not unlimited:
            power = np.asarray(energy / 1e3, np.float64)
            pieces = _Pieces(jobs.earliest, work.run, power, jobs.cores, due, submit)
            weights = (config.waiting_weight, config.late_weight)
            least = max(least, _least_pieces(pieces, y, capacity, slot_h, weights))
        if config.resume_h > 0:  # work that pauses add may earn money
            earned = integral(np.minimum(y, 0.0), work.submit, end)
            least += float(earned @ energy / 1e3)
        return start_bound, least
    if unlimited:
        return start_bound, start_bound
    later = (slot_h * np.arange(slots)).astype(np.float64)
    at_slot = f.HISTORY + later
    costs_of = integral(y, at_slot, at_slot + work.run[:, None]) * (energy[:, None] / 1e3)
    delay = later - jobs.earliest[:, None] * slot_h
    costs_of += config.waiting_weight * jobs.cores[:, None] * delay + waited[:, None]
    costs_of[delay < 0] = np.inf
    return start_bound, _least_starts(jobs, capacity, costs_of)


def _cheapest_hours(
    y: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64],
    run: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the least cost of `run` hours of work between two times, in pieces, (J,)."""
    least = np.zeros(len(run))
    for job, (first, last) in enumerate(zip(begin, end, strict=True)):
        hours = y[int(first) : int(np.ceil(last))]
        amount = np.ones(len(hours))
        amount[0] -= first % 1
        amount[-1] -= -last % 1
        order = np.argsort(hours)
        taken = np.minimum(np.cumsum(amount[order]), run[job])
        least[job] = np.diff(taken, prepend=0.0) @ hours[order]
    return least


def _ascend(
    capacity: NDArray[np.int64], scale: float,
    relaxed: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
) -> float:  # fmt: skip
    """Return the best bound of some steps along the cores that are missing.

    `relaxed` gives for prices (T,) the least cost of all jobs and the cores they use, (T,).
    """
    price, best = np.zeros(len(capacity)), -np.inf
    for step in range(_STEPS):
        cost, used = relaxed(price)
        best = max(best, float(cost - price @ capacity))
        over = used - capacity
        over[-1] = 0.0
        norm = float(over[(price > 0) | (over > 0)] @ over[(price > 0) | (over > 0)])
        if norm == 0.0:
            break
        length = 0.2 * abs(scale) / norm / (1.0 + 0.1 * step)
        price = np.maximum(price + length * over, 0.0)
    return best


def _least_starts(jobs: Jobs, capacity: NDArray[np.int64], costs: NDArray[np.float64]) -> float:
    """Return the bound of jobs without pauses, given the cost of each start, (J, T)."""
    slots = len(capacity)
    number, start = np.arange(len(costs)), np.arange(slots)
    ends = np.minimum(start + jobs.duration[:, None], slots)

    def relaxed(price: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        paid = np.concatenate([[0.0], np.cumsum(price)])
        priced = paid.take(ends)
        priced -= paid[:-1]
        priced *= jobs.cores[:, None]
        priced += costs
        chosen = priced.argmin(axis=1)
        change = np.bincount(chosen, jobs.cores, slots + 1)
        change -= np.bincount(ends[number, chosen], jobs.cores, slots + 1)
        return float(priced[number, chosen].sum()), np.cumsum(change)[:slots].astype(np.float64)

    return _ascend(capacity, float(np.min(costs, axis=1).sum()), relaxed)


class _Pieces(NamedTuple):
    """Jobs that may pause, (J,) each.

    Attributes:
        first: First slot in which it can run.
        run: Hours of work.
        power: kW / 1000.
        cores: Cores.
        due: Slot before which it is not late.
        submit: Submission in hours after slot 0.
    """

    first: Ints
    run: Floats
    power: Floats
    cores: Ints
    due: Ints
    submit: Floats


@compiled()
def _plan(
    jobs: _Pieces, job: int, slot_h: float, waiting: float, late: float, paid: Floats, y: Floats,
    whole: Floats, capacity: Ints, price: Floats, used: Floats,
) -> float:  # fmt: skip
    """Return the least cost of a job's work in pieces, and add the cores of its plan to `used`.

    `whole` is the integral of y over each slot.
    """
    first, run, power, cores = jobs.first[job], jobs.run[job], jobs.power[job], jobs.cores[job]
    last = len(price) - 1
    before = max(int(np.ceil(run / slot_h - 1e-9)), 1) - 1  # whole slots before the last piece
    rest = run - before * slot_h
    allowed = capacity[first:last] >= cores
    costs = np.where(allowed, power * whole[first:last] + cores * price[first:last], np.inf)
    best, at, taken = np.inf, last, 0  # the slot of the last piece
    total, heap = 0.0, [0.0 for _ in range(0)]
    for t in range(first, last):
        cost = costs[t - first]
        if cost == np.inf:
            continue
        if len(heap) == before:
            begin = f.HISTORY + t * slot_h
            value = total + power * between(paid, y, begin, begin + rest) + cores * price[t]
            value += waiting * cores * (t * slot_h + rest - run - jobs.submit[job])
            value += late * (t + 1 > jobs.due[job])
            if value < best:
                best, at, taken = value, t, before
        if len(heap) < before:
            heappush(heap, -cost)
            total += cost
        elif before > 0 and -heap[0] > cost:
            total += cost + heap[0]
            heapreplace(heap, -cost)
    order = np.argsort(costs)
    total, begin = 0.0, f.HISTORY + last * slot_h
    for k in range(min(before, len(costs)) + 1):  # the last piece in the last slot of all
        left = run - k * slot_h
        value = total + power * between(paid, y, begin, begin + left)
        value += waiting * cores * (last * slot_h + left - run - jobs.submit[job])
        value += late * (last + np.ceil(left / slot_h - 1e-9) > jobs.due[job])
        if value < best:
            best, at, taken = value, last, k
        if k < len(costs):
            total += costs[order[k]]
    used[at] += cores
    for place in np.argsort(costs[: at - first])[:taken]:
        used[first + place] += cores
    return float(best)


@compiled()
def _plans(
    jobs: _Pieces, slot_h: float, waiting: float, late: float, paid: Floats, y: Floats,
    whole: Floats, capacity: Ints, price: Floats, used: Floats,
) -> float:  # fmt: skip
    """Return the sum of the least costs of all jobs, and fill the cores that they use, (T,)."""
    used[:] = 0.0
    total = 0.0
    for job in range(len(jobs.run)):
        total += _plan(
            jobs, job, slot_h, waiting, late, paid, y, whole, capacity, price, used
        )  # fmt: skip
    return total


def _least_pieces(
    jobs: _Pieces, y: NDArray[np.float64], capacity: NDArray[np.int64], slot_h: float,
    weights: tuple[float, float],
) -> float:  # fmt: skip
    """Return the bound of jobs that may pause; `weights` are of waiting and of late jobs."""
    begin = np.asarray(f.HISTORY + slot_h * np.arange(len(capacity)), np.float64)
    whole = integral(y, begin, begin + slot_h)
    paid = np.concatenate([[0.0], np.cumsum(y)])
    used = np.empty(len(capacity))

    def relaxed(price: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        cost = _plans(jobs, slot_h, *weights, paid, y, whole, capacity, price, used)
        return cost, used.copy()

    return _ascend(capacity, relaxed(np.zeros(len(capacity)))[0], relaxed)
