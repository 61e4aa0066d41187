"""Compiled knapsack of `deferrable` over job values with learned prices.

The formulas are those of policies.papers.prices.network.
"""

from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.deferrable.features import MOMENT, ROW
from pipeline.scenarios.deferrable.layout import LAGS, LOOKAHEAD
from pipeline.simulation.kernel import FLOATS, INTS, ROWS, SCORE, compiled
from policies.heuristics.deferrable import choose_set

AHEAD: Final = 8  # slots whose prices are learned
DEAREST: Final = 1.2  # maximal price of a core-slot: a little more than a job pays for it
PRICE_INPUTS: Final = 5
# Positions in the parameters.
_LEVEL: Final = 0
_PRICE: Final = 1  # bias, then weights
_WAIT: Final = _PRICE + 1 + PRICE_INPUTS

_SETS: Final = types.Array(types.float64, 3, "C")
_MASKS: Final = types.Array(types.boolean, 2, "C")


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
    n = len(scores)
    demand, price = np.empty(AHEAD + 1), np.empty(AHEAD + 1)
    waiting = fill_prices(context, candidates, parameters, demand, price)
    level, p = parameters[_LEVEL], parameters[_WAIT:]
    free, weight = context[MOMENT.free_cores], context[MOMENT.delay_weight]
    until = np.zeros(AHEAD + 2)  # sum of prices before so many slots ahead
    for ahead in range(1, AHEAD + 1):
        until[ahead + 1] = until[ahead] + price[ahead]
    gains = np.zeros(n)
    for i in range(n - 1):
        if not feasible[i]:
            continue
        row = candidates[i]
        cores, length = row[ROW.cores], min(int(row[ROW.duration]), AHEAD)
        pays = cores * row[ROW.duration] + weight * min(row[ROW.until_earliest], 0.0)
        gains[i] = pays - cores * until[length]
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
            gains[i] -= share * max(later, 0.0)
    choose_set(max(0, int(free)), candidates, feasible, gains, scores)


@compiled(types.float64(ROWS, _SETS, INTS, _MASKS, ROWS, FLOATS))
def shared(context, candidates, sizes, feasible, shown, parameters):  # type: ignore[no-untyped-def]
    """Return the mean over B decisions of the probability that `shown` gives to the knapsack's set.

    The set is the jobs that the knapsack would still start in the slot, in any order, or the close
    if it would start none. context is (B, C). candidates is (B, K, F), of which the first `sizes`
    (B,) are rows of the observation and the last of these is the close row. feasible and shown are
    (B, K).
    """
    total = 0.0
    for b in range(len(context)):
        n = sizes[b]
        scores = np.empty(n)
        score_by_prices(context[b], candidates[b][:n], feasible[b][:n], parameters, scores)
        some = False
        for i in range(n - 1):
            if scores[i] > 0.0:
                some = True
                total += shown[b, i]
        if not some:
            total += shown[b, n - 1]
    return total / len(context)
