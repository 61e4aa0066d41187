"""The published action of `deferrable`: a score per startable job, and the prefix that fits.

    scores        .9   .7   .4   .1        startable jobs, highest score first
    cores          4    2    8    1
    free           10 -> 6 -> 4   (8 do not fit: stop, although the last job would fit)
    started        x    x

Ties go to the job with the lower number. `stop_at_misfit` converts these scores to scores of single
decisions. With those, choosing "the feasible row with the highest score" starts the same jobs in
the same order and then closes the slot.

Source: Dong et al., section 4.1.2.
"""

from numba import types

from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.pipeline.simulation.kernel import FLOATS, MASK, ROWS, compiled


@compiled(types.void(ROWS, MASK, FLOATS), forceinline=True)
def stop_at_misfit(candidates, feasible, scores):  # type: ignore[no-untyped-def]
    """Set the close row's score so that the slot ends at the first job that does not fit.

    On entry, scores (N,) hold the action's scores in the startable rows. The close row, which is
    the last, is set above all of them if the best job does not fit, and below them otherwise. All
    other rows are set below them.
    """
    best, lowest = -1, 0.0
    for i in range(len(scores)):
        if candidates[i, ROW.is_startable] == 1.0:
            lowest = scores[i] if best < 0 else min(lowest, scores[i])
            if best < 0 or scores[i] > scores[best]:
                best = i
    other_score = lowest - 1.0
    for i in range(len(scores)):
        scores[i] = other_score if candidates[i, ROW.is_startable] == 0.0 else scores[i]
    if best >= 0 and not feasible[best]:
        scores[len(scores) - 1] = scores[best] + 1.0
