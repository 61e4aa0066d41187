"""An upper bound of the total reward of `deferrable`, valid for every policy.

Without its capacity constraints, the offline problem (all jobs and capacities known) separates into
one small problem per job. For prices u_t >= 0 per core-slot, at most the violation weight,

    bound(u) = sum_t u_t C_t
             + sum_i max(0, max over starts s of  c d - w1 (s - e) - c (u_s + ... + u_{s+d-1}))

is at least the optimum. Subgradient steps search for prices with a low bound; with the best prices
the bound is the value of the linear relaxation. Only slots before the end of the horizon are
charged, because a violation is counted only there.

Source: Lagrangian relaxation; step length by Polyak, "Minimization of Unsmooth Functionals", 1969.
"""

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled

ITERATIONS: Final = 150
_FIRST_GAP: Final = 0.02  # distance of the first target below the best bound found, relative
_PATIENCE: Final = 5  # iterations without a better bound after which the gap is halved


@compiled(types.float64(INTS, INTS, INTS, INTS, INTS, types.float64, FLOATS, FLOATS, FLOATS))
def _relaxed(  # type: ignore[no-untyped-def]
    cores, duration, earliest, latest, capacity, delay_weight, price, paid, slack
):
    """Return the value of the relaxed problem at these prices and fill its subgradient.

    `slack` (T,) is the subgradient: the capacity that the relaxed solution leaves in every slot,
    below 0 if it takes too much. `paid` (T + 1,) is scratch: the price of all slots before t.
    """
    horizon = len(capacity)
    value = 0.0
    paid[0] = 0.0
    for t in range(horizon):
        value += price[t] * capacity[t]
        paid[t + 1] = paid[t] + price[t]
        slack[t] = 0.0  # at first the change at t, by starts and ends
    for job in range(len(cores)):
        best, start = 0.0, -1
        for s in range(earliest[job], min(latest[job], horizon - 1) + 1):
            price_paid = paid[min(s + duration[job], horizon)] - paid[s]
            gain = cores[job] * (duration[job] - price_paid)
            gain -= delay_weight * (s - earliest[job])
            if gain > best:
                best, start = gain, s
        if start >= 0:
            value += best
            slack[start] -= cores[job]
            if start + duration[job] < horizon:
                slack[start + duration[job]] += cores[job]
    balance = 0.0
    for t in range(horizon):
        balance += slack[t]
        slack[t] = capacity[t] + balance
    return value


@compiled(
    types.float64(INTS, INTS, INTS, INTS, INTS, types.float64, types.float64, types.int64, FLOATS)
)
def _lowest(  # type: ignore[no-untyped-def]
    cores, duration, earliest, latest, capacity, delay_weight, violation_weight, iterations, price
):
    """Return the lowest bound found from the given prices, which are overwritten."""
    horizon = len(capacity)
    paid, slack = np.empty(horizon + 1), np.empty(horizon)
    best, gap, since = np.inf, _FIRST_GAP, 0
    for _ in range(iterations):
        value = _relaxed(
            cores, duration, earliest, latest, capacity, delay_weight, price, paid, slack
        )
        since += 1
        if value < best - 1e-4 * gap * abs(value):
            since = 0
        best = min(best, value)
        if since >= _PATIENCE:
            gap, since = gap / 2.0, 0
        norm = 0.0
        for t in range(horizon):
            # A price at 0 whose step would make it negative does not count.
            if not (price[t] <= 0.0 and slack[t] > 0.0):
                norm += slack[t] * slack[t]
        if norm == 0.0:
            return best
        length = (value - best * (1.0 - gap)) / norm
        for t in range(horizon):
            price[t] = min(max(price[t] - length * slack[t], 0.0), violation_weight)
    return best


def upper_bound(
    jobs: Jobs,
    capacity: NDArray[np.int64],
    delay_weight: float,
    violation_weight: float,
    iterations: int = ITERATIONS,
) -> float:
    """Return the bound for these jobs and this capacity (T,), in the unit of the total reward."""
    # Only prices up to the violation weight give a bound: above it, a violation would be cheaper.
    price = np.full(len(capacity), min(0.5, violation_weight))
    lowest = _lowest(
        jobs.cores, jobs.duration, jobs.earliest, jobs.latest, capacity,
        delay_weight, violation_weight, iterations, price,
    )  # fmt: skip
    return min(
        float(lowest), float(jobs.cores @ jobs.duration)
    )  # with all prices 0, all jobs start
