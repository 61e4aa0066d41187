"""Compiled knapsack of `deferrable` over job values with prices of coming slots.

    pays     c d - w1 (t - e)                          as in the other knapsacks
    price_a  1.2 sigmoid(b + w x_a)                    of a core, a = 1, 2, ... slots ahead
    worth    pays - c (price_1 + ... + price_d-1)      minus the price of the cores it occupies
    later    pays - w1 - c (price_1 + ... + price_d)   worth of the same job one slot later
    value    worth - share max(0, later)               of a job that can wait; share = sigmoid(...)

x_a contains the known demand of slot a above its capacity, the trend of the capacity, a, the
capacity, and the cores of jobs that can wait. share reads how long the job can wait, the demand of
the next slot, the job's cores, the cores of all jobs that can wait, and how long the job has
waited.

With all weights at zero a later slot costs .6 and share is 1/2, which is nearly the rule
knapsack_patient. `random_prices` draws the weights once per episode, so the outcomes of its
episodes show which prices are better. The agents price_evolution and price_surface learn them.
"""

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.layout import LAGS, LOOKAHEAD
from hindcast.pipeline.simulation.kernel import FLOATS, ROWS, SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.heuristics.knapsack import choose_set, feasible_jobs

AHEAD: Final = 8  # slots whose prices are learned
DEAREST: Final = 1.2  # maximal price of a core-slot: a little more than a job pays for it
PRICE_INPUTS: Final = 5
WAIT_INPUTS: Final = 5
WEIGHTS: Final = 2 + PRICE_INPUTS + WAIT_INPUTS  # with a bias each
STEP: Final = 0.5  # standard deviation of a drawn weight
# Positions in the parameters.
_LEVEL: Final = 0
_PRICE: Final = 1  # bias, then weights
_WAIT: Final = _PRICE + 1 + PRICE_INPUTS


@compiled(types.float64(types.float64))
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + np.exp(-x))


@compiled(types.float64(FLOATS, ROWS, FLOATS, FLOATS, FLOATS))
def fill_prices(context, candidates, parameters, demand, price):  # type: ignore[no-untyped-def]
    """Fill the cores that become startable in each coming slot, and the price of a core there.

    demand and price are (AHEAD + 1,), and price[0] is 0. Returns the cores of startable jobs that
    can wait.
    """
    demand[:] = 0.0
    price[:] = 0.0
    waiting = 0.0
    for i in range(len(candidates) - 1):
        if candidates[i, ROW.is_future] == 1.0:
            ahead = int(candidates[i, ROW.until_earliest])
            if ahead <= AHEAD:
                demand[ahead] += candidates[i, ROW.cores]
        elif candidates[i, ROW.is_startable] == 1.0 and candidates[i, ROW.until_latest] > 0.0:
            waiting += candidates[i, ROW.cores]
    level, p = parameters[_LEVEL], parameters[_PRICE:]
    capacity, running = context[MOMENT.capacity], context[MOMENT.running_cores]
    trend = (capacity - context[MOMENT.capacity + LAGS]) / LAGS
    for ahead in range(1, AHEAD + 1):
        if ahead >= context[MOMENT.slots_left]:
            break  # cores that are occupied after the end cost nothing
        if ahead <= LOOKAHEAD:
            running -= context[MOMENT.freed_in_1 + ahead - 1]
        price[ahead] = DEAREST * _sigmoid(
            p[0]
            + p[1] * (demand[ahead] + running - capacity) / level
            + p[2] * trend * ahead / level
            + p[3] * (ahead - 2) / 4.0
            + p[4] * (capacity / level - 1.0)
            + p[5] * waiting / level
        )
    return waiting


@compiled(SCORE)
def score_by_prices(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Fill the scores of the exact knapsack: the values of its jobs, close row 0, all others -1."""
    demand, price = np.empty(AHEAD + 1), np.empty(AHEAD + 1)
    waiting = fill_prices(context, candidates, parameters, demand, price)
    level, p = parameters[_LEVEL], parameters[_WAIT:]
    free, weight = context[MOMENT.free_cores], context[MOMENT.delay_weight]
    until = np.zeros(AHEAD + 2)  # sum of prices before so many slots ahead
    for ahead in range(1, AHEAD + 1):
        until[ahead + 1] = until[ahead] + price[ahead]
    jobs = feasible_jobs(feasible, scores)
    for i in jobs:
        row = candidates[i]
        cores, length = row[ROW.cores], min(int(row[ROW.duration]), AHEAD)
        pays = cores * row[ROW.duration] + weight * min(row[ROW.until_earliest], 0.0)
        worth = pays - cores * until[length]
        if row[ROW.until_latest] > 0.0 and context[MOMENT.slots_left] > 1.0:
            later = pays - weight - cores * until[length + 1]
            share = _sigmoid(
                p[0]
                + p[1] * (row[ROW.until_latest] - 5.0) / 5.0
                + p[2] * (demand[1] - free) / level
                + p[3] * (cores - 2.0) / 2.0
                + p[4] * waiting / level
                + p[5] * row[ROW.until_earliest] / 5.0
            )
            worth -= share * max(later, 0.0)
        scores[i] = worth
    choose_set(max(0, int(free)), candidates, jobs, scores)


def draw_prices(spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the parameters (1 + WEIGHTS,) of one episode: the mean capacity, and drawn weights."""
    level = next(feature.scale for feature in spec.context if feature.name == "capacity")
    return np.concatenate([[level], STEP * rng.standard_normal(WEIGHTS)])


RANDOM_PRICES: Final = Heuristic(
    "random_prices", score_by_prices, draw_prices,
    description="knapsack at prices of coming slots, with weights drawn once per episode",
    formula=f"as knapsack, less what later slots cost; w ~ normal(0, {STEP})",
)  # fmt: skip
