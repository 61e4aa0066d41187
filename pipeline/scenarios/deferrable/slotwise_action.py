"""The published action of `deferrable`: a score per startable job, and the prefix that fits.

    scores        .9   .7   .4   .1        startable jobs, highest score first
    cores          4    2    8    1
    free           10 -> 6 -> 4   (8 do not fit: stop, although the last job would fit)
    started        x    x

Ties go to the job with the lower number. It is stated twice: `prefix` decides a slot at once,
`stop_at_misfit` turns the same scores into scores of single decisions, with which "the feasible
row with the highest score" starts the same jobs in the same order and then closes the slot.

Source: Dong et al., section 4.1.2.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.scenarios.deferrable.features import ROW
from pipeline.simulation.kernel import FLOATS, MASK, ROWS, compiled


def prefix(
    scores: NDArray[np.float64], cores: NDArray[np.float64], free_cores: float
) -> NDArray[np.int64]:
    """Which of K startable jobs to start, in this order: the longest prefix by score that fits.

    scores (K,), higher first; cores (K,); returns (k,) indices, k <= K.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    fits = np.cumsum(np.asarray(cores, np.float64)[order]) <= free_cores
    return order[: int(np.argmin(fits)) if not fits.all() else len(order)].astype(np.int64)


@compiled(types.void(ROWS, MASK, FLOATS))
def stop_at_misfit(candidates, feasible, scores):  # type: ignore[no-untyped-def]
    """Set the close row's score so that the slot ends at the first job that does not fit.

    scores (N,) hold the action's scores in the startable rows. The close row, which is the last,
    is set above all of them where the best one does not fit, else below; so are all other rows.
    """
    best, lowest = -1, 0.0
    for i in range(len(scores)):
        if candidates[i, ROW.is_startable] == 1.0:
            lowest = scores[i] if best < 0 else min(lowest, scores[i])
            if best < 0 or scores[i] > scores[best]:
                best = i
    for i in range(len(scores)):
        if candidates[i, ROW.is_startable] == 0.0:
            scores[i] = lowest - 1.0
    if best >= 0 and not feasible[best]:
        scores[len(scores) - 1] = scores[best] + 1.0
