"""Exact 0/1 knapsack of `deferrable`: the jobs to start in a slot, given the value of each."""

import numpy as np
from numba import types

from pipeline.scenarios.deferrable.features import ROW
from pipeline.simulation.kernel import FLOATS, MASK, ROWS, compiled


@compiled(types.void(types.int64, ROWS, MASK, FLOATS, FLOATS))
def choose_set(free, candidates, feasible, gains, scores):  # type: ignore[no-untyped-def]
    """Solve the 0/1 knapsack exactly; score its rows by gain, the close row 0 and the others -1.

    gains (N,) are the values of the rows; only feasible rows with a gain above 0 can be chosen.
    """
    n = len(scores)
    items = np.empty(n, np.int64)
    k = 0
    for i in range(n - 1):
        scores[i] = -1.0
        if feasible[i] and gains[i] > 0.0:
            items[k] = i
            k += 1
    scores[n - 1] = 0.0
    best = np.zeros(free + 1)  # highest sum of gains of the items so far, by cores used
    taken = np.zeros((k, free + 1), np.bool_)
    for j in range(k):
        cores = int(np.ceil(candidates[items[j], ROW.cores]))
        for room in range(free, cores - 1, -1):
            value = best[room - cores] + gains[items[j]]
            if value > best[room]:
                best[room] = value
                taken[j, room] = True
    room = free
    for j in range(k - 1, -1, -1):
        if taken[j, room]:
            scores[items[j]] = gains[items[j]]
            room -= int(np.ceil(candidates[items[j], ROW.cores]))
