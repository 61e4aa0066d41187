"""Exact 0/1 knapsack of `deferrable`: the jobs to start in a slot, given the value of each."""

from typing import Any, Final

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, MASK, ROWS, compiled
from hindcast.pipeline.simulation.masks import feasible_rows

_ONE: Final = np.uint64(1)
_CORES: Final = np.uint64(ROW.cores)


@compiled(INTS(MASK, FLOATS), forceinline=True)
def feasible_jobs(feasible: Any, scores: Any) -> Any:
    """Return the rows of the feasible jobs, (M,); score the close row 0 and all others -1."""
    jobs = np.uint64(len(scores)) - _ONE  # the mask may be longer
    rows = np.empty(jobs, np.int64)
    count = feasible_rows(feasible, jobs, rows)
    scores[:] = -1.0
    scores[jobs] = 0.0
    return rows[:count]


@compiled(types.void(types.int64, ROWS, INTS, FLOATS), forceinline=True)
def choose_set(free: Any, candidates: Any, rows: Any, scores: Any) -> None:
    """Solve the 0/1 knapsack exactly; score the rows of jobs that are not in the set -1.

    On entry, `rows` (M,) are those of the feasible jobs, and scores (N,) hold their values. Only
    jobs with a value above 0 can be chosen. `rows` is scratch afterwards. Indices are unsigned, as
    in `feasible_rows`.
    """
    k, later_cores = np.uint64(0), 0
    for q in range(np.uint64(len(rows))):
        i = np.uint64(rows[np.uint64(q)])
        if scores[i] > 0.0:
            rows[k] = np.int64(i)
            k += _ONE
            later_cores += int(np.ceil(candidates[i, _CORES]))
        else:
            scores[i] = -1.0
    if later_cores <= free:
        return
    width = np.uint64(free + 1)
    # best[j * width + room]: highest sum of values of the first j jobs in so many cores
    best = np.empty((k + _ONE) * width)
    for unsigned in range(width):
        best[np.uint64(unsigned)] = 0.0
    row = np.uint64(0)
    for j in range(k):
        i = np.uint64(rows[np.uint64(j)])
        cores, worth = int(np.ceil(candidates[i, _CORES])), scores[i]
        later_cores -= cores
        least = max(0, free - later_cores)  # the later jobs take at most `later_cores`
        for unsigned in range(np.uint64(least), np.uint64(min(max(cores, least), free + 1))):
            room = np.uint64(unsigned)
            best[row + width + room] = best[row + room]
        need = np.uint64(cores)
        for unsigned in range(np.uint64(max(cores, least)), width):
            room = np.uint64(unsigned)
            best[row + width + room] = max(best[row + room], best[row + room - need] + worth)
        row += width
    room = width - _ONE
    for j in range(k):
        i = np.uint64(rows[k - _ONE - np.uint64(j)])
        if best[row + room] > best[row - width + room]:
            room -= np.uint64(int(np.ceil(candidates[i, _CORES])))
        else:
            scores[i] = -1.0
        row -= width
