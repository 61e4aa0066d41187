"""Costs on a grid that no policy is below, which know all hours and lengths.

On any number of cores jobs are separate: the best start of each, or its cheapest hours if it may
pause. On limited cores the bound is Lagrangian: for prices u_t >= 0 of a core in slot t,

    sum_i min over the plans of job i (cost + cores x sum of u_t in its slots)  -  sum_t u_t C_t

A plan is a start or, with pauses, the slots that the job runs in: all of them whole but the last
one. In the last slot of all there is no limit, since all that wait run to their ends then. Jobs may
be late.
"""

from heapq import heappush, heapreplace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.grids.starts import Rule, Work, between, bound, integral, paused
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.traces.hourly.series import HOUR_S

_STEPS: Final = 80


class _Jobs(NamedTuple):
    """Jobs, (J,) each, and hours.

    Attributes:
        first: First slot in which a job can run.
        run: Hours of work.
        power: kW / 1000.
        cores: Cores.
        due: Slot at whose beginning it must have ended.
        submit: Submission in hours after slot 0.
        y: Hours in the unit of the objective, (H,), and `paid` their integral to each, (H + 1,).
        paid: See above.
        slot_h: Hours of a slot.
        waiting: Cost of a core-hour of waiting.
        late: Cost of a late job.
    """

    first: Ints
    run: Floats
    power: Floats
    cores: Ints
    due: Ints
    submit: Floats
    y: Floats
    paid: Floats
    slot_h: float
    waiting: float
    late: float


def bounds(
    config: DeferrableConfig, work: Work, y: NDArray[np.float64], first: NDArray[np.int64],
    due: NDArray[np.int64], submit: NDArray[np.float64], capacity: NDArray[np.int64],
) -> tuple[float, float]:  # fmt: skip
    """Return costs that no policy is below: of starts on any number of cores, and as played.

    `first` is the slot from which a job can run and `due` that before which it should have ended,
    `submit` its submission in hours after slot 0, (J,) each.
    """
    slot_h, slots = config.slot_s / HOUR_S, len(capacity)
    power = work.cores * np.float64(config.watts_per_core) * config.pue / 1e6
    waited = config.waiting_weight * float((first * slot_h - submit) @ work.cores)
    starts = float(bound(work, y) @ power) + waited
    unlimited = config.grid_capacity == "unlimited"
    paid = np.concatenate([[0.0], np.cumsum(y)])
    jobs = _Jobs(first, work.run, power, work.cores, due, submit, y, paid, slot_h,
                 config.waiting_weight, config.late_weight)  # fmt: skip
    if not config.pausable:
        return starts, starts if unlimited else _ascend(jobs, capacity, pausable=False)
    # On limited cores jobs may be late, and so may those that pause longer than known.
    late = (work.known < work.run) & (config.resume_h > 0) | (not unlimited)
    end = f.HISTORY + np.where(late, slots * slot_h + work.run, due * slot_h)
    if unlimited:
        window = work._replace(known=work.run, wait=end - work.submit - work.run)
        least = float(paused(window, y, Rule("now", "perfect"))[0] @ power) + waited
    else:
        least = _ascend(jobs, capacity, pausable=True)
    if config.resume_h > 0:  # work that pauses add may earn money
        least += float(integral(np.minimum(y, 0.0), work.submit, end) @ power)
    return starts, least


def _ascend(jobs: _Jobs, capacity: NDArray[np.int64], *, pausable: bool) -> float:
    """Return the best Lagrangian bound of some steps along the cores that are missing."""
    price, used = np.zeros((2, len(capacity)))
    best = scale = -np.inf
    for step in range(_STEPS):
        cost = _plans(jobs, pausable, capacity, price, used)
        scale = cost if step == 0 else scale
        best = max(best, float(cost - price @ capacity))
        over = used - capacity
        over[-1] = 0.0
        norm = float(over[(price > 0) | (over > 0)] @ over[(price > 0) | (over > 0)])
        if norm == 0.0:
            break
        length = 0.2 * abs(scale) / norm / (1.0 + 0.1 * step)
        price = np.maximum(price + length * over, 0.0)
    return best


@compiled()
def _cost(jobs: _Jobs, job: int, slot: int, hours: float) -> float:
    """Return the cost of the last hours of a job, from a slot on: those, its wait and lateness."""
    begin = slot * jobs.slot_h
    at, wait = f.HISTORY + begin, begin + hours - jobs.run[job] - jobs.submit[job]
    end = slot + np.ceil(hours / jobs.slot_h - 1e-9)
    return float(
        jobs.power[job] * between(jobs.paid, jobs.y, at, at + hours)
        + jobs.waiting * jobs.cores[job] * wait
        + jobs.late * (end > jobs.due[job])
    )


@compiled()
def _whole_plan(jobs: _Jobs, job: int, prices: Floats, used: Floats, steady: bool) -> float:
    """Return the least cost of a job's start, and add the cores of this plan to `used`.

    `prices` are the sums of the prices of a core before each slot, (T + 1,). Where the capacity is
    not `steady`, a job takes cores of the slot of its start alone: it has to fit into that one, and
    runs on where the capacity falls.
    """
    slots, cores = len(used), jobs.cores[job]
    length = max(int(np.ceil(jobs.run[job] / jobs.slot_h - 1e-9)), 1) if steady else 1
    best, at = np.inf, 0
    for t in range(jobs.first[job], slots):
        value = _cost(jobs, job, t, jobs.run[job])
        value += cores * (prices[min(t + length, slots)] - prices[t])
        if value < best:
            best, at = value, t
    used[at : at + length] += cores
    return float(best)


@compiled()
def _piece_plan(
    jobs: _Jobs, job: int, whole: Floats, capacity: Ints, price: Floats, used: Floats
) -> float:
    """Return the least cost of a job's work in pieces, and add the cores of its plan to `used`.

    `whole` is the integral of y over each slot.
    """
    first, run, cores, last = jobs.first[job], jobs.run[job], jobs.cores[job], len(price) - 1
    before = max(int(np.ceil(run / jobs.slot_h - 1e-9)), 1) - 1  # whole slots before the last piece
    costs = jobs.power[job] * whole[first:last] + cores * price[first:last]
    costs[capacity[first:last] < cores] = np.inf
    best, at, taken = np.inf, last, 0  # the slot of the last piece
    total, heap = 0.0, [0.0 for _ in range(0)]
    for t in range(first, last):
        cost = costs[t - first]
        if cost == np.inf:
            continue
        if len(heap) == before:
            value = total + _cost(jobs, job, t, run - before * jobs.slot_h) + cores * price[t]
            if value < best:
                best, at, taken = value, t, before
        if len(heap) < before:
            heappush(heap, -cost)
            total += cost
        elif before > 0 and -heap[0] > cost:
            total += cost + heapreplace(heap, -cost)
    order = np.argsort(costs)
    total = 0.0
    for k in range(min(before, len(costs)) + 1):  # the last piece in the last slot of all
        value = total + _cost(jobs, job, last, run - k * jobs.slot_h)
        if value < best:
            best, at, taken = value, last, k
        if k < len(costs):
            total += costs[order[k]]
    used[at] += cores
    for place in np.argsort(costs[: at - first])[:taken]:
        used[first + place] += cores
    return float(best)


@compiled()
def _plans(jobs: _Jobs, pausable: bool, capacity: Ints, price: Floats, used: Floats) -> float:
    """Return the sum of the least costs of all jobs, and fill the cores that they use, (T,)."""
    used[:] = 0.0
    whole, prices, total = np.empty(len(price)), np.zeros(len(price) + 1), 0.0
    steady = bool((capacity == capacity[0]).all())
    for t in range(len(price)):
        at = f.HISTORY + t * jobs.slot_h
        whole[t] = between(jobs.paid, jobs.y, at, at + jobs.slot_h)
        prices[t + 1] = prices[t] + price[t]
    for job in range(len(jobs.run)):
        if pausable:
            total += _piece_plan(jobs, job, whole, capacity, price, used)
        else:
            total += _whole_plan(jobs, job, prices, used, steady)
    return total
