"""Exact 0/1 knapsack of `deferrable`: the jobs to start in a slot, given the value of each."""

import numpy as np
from numba import types

from pipeline.scenarios.deferrable.features import ROW
from pipeline.simulation.kernel import FLOATS, MASK, ROWS, compiled


@compiled(types.void(types.int64, ROWS, MASK, FLOATS), forceinline=True)
def choose_set(free, candidates, feasible, scores):  # type: ignore[no-untyped-def]
    """Solve the 0/1 knapsack exactly; score its rows by value, the close row 0 and the others -1.

    On entry, scores (N,) hold the values of the feasible rows. Only those above 0 can be chosen.
    """
    n = len(scores)
    items = np.empty(n, np.int64)
    k, wanted = 0, 0
    for i in range(n - 1):
        if feasible[i] and scores[i] > 0.0:
            items[k] = i
            k += 1
            wanted += int(np.ceil(candidates[i, ROW.cores]))
        else:
            scores[i] = -1.0
    scores[n - 1] = 0.0
    if wanted <= free:
        return
    best = np.zeros((k + 1, free + 1))  # highest sum of values of the first items in so many cores
    for j in range(k):
        cores, worth = int(np.ceil(candidates[items[j], ROW.cores])), scores[items[j]]
        wanted -= cores
        least = max(0, free - wanted)  # the later items take at most `wanted` cores
        best[j + 1, least:cores] = best[j, least:cores]
        for room in range(max(least, cores), free + 1):
            best[j + 1, room] = max(best[j, room], best[j, room - cores] + worth)
    room = free
    for j in range(k - 1, -1, -1):
        if best[j + 1, room] > best[j, room]:
            room -= int(np.ceil(candidates[items[j], ROW.cores]))
        else:
            scores[items[j]] = -1.0
