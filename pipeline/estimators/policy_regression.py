"""Regression over policies: the return of a policy from those of similar policies of the log.

    score   sum over logged episodes of weight * score       see `logged_policies`
    value   mean over windows of the return that has this score in the window

No weight is a product over decisions, so the length of episodes does not matter, and no value is
fitted to single decisions. The estimate is biased towards the log's mean for a policy that no
logged policy resembles. It needs a log of several policies: each draw of `random_linear` is one.
A regression over policies by the similarity of their choices is the idea of Konyushkova et al.,
"Active Offline Policy Selection", NeurIPS 2021.

Between the scores of a window's episodes, returns are interpolated. Outside, the line goes on with
the slope between the median and the end. So a better score has a higher value, unless all returns
of every window are equal.

The bootstrap draws windows. It moves the weighted sum of scores to first order and does not fit the
regression again, so the interval leaves out the error of the similarity itself.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Settings
from hindcast.pipeline.estimators.logged_policies import normal_scores
from hindcast.pipeline.estimators.selection import ranks

Array = NDArray[np.float64]

_FEW: Final = 10  # distinct policies
_FAR: Final = 0.5  # similarity
_REACH: Final = 10.0  # scores beyond the ends that still have a value


def policy_regression(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return the regression of returns on the similarity of policies (GP)."""
    if e.policies is None or e.to_policies is None or e.group is None:
        raise InputError("the regression over policies needs policies, to_policies and group")
    logged = e.policies
    weights, nearest = logged.weights(e.to_policies)
    score = float(weights @ logged.scores)
    windows = np.unique(e.group)
    curves = [_curve(e.returns[e.group == window]) for window in windows]
    values = np.array([np.interp(score, *curve) for curve in curves])
    # Derivative of the score by the count of each window.
    pulls = weights * (logged.scores - score)
    pull = np.array([pulls[logged.window == window].sum() for window in windows])

    def replicate(counts: Array) -> Array:
        scores = score + (counts - 1.0) @ pull
        sizes = counts * e.sizes
        values_of_draws = np.column_stack([np.interp(scores, *curve) for curve in curves])
        return np.asarray((sizes * values_of_draws).sum(axis=1) / sizes.sum(axis=1), np.float64)

    warnings = []
    if len(logged.counts) < _FEW:
        warnings.append(f"the log has {len(logged.counts)} different policies, too few to compare")
    if nearest < _FAR:
        warnings.append(
            f"the most similar policy of the log has a similarity of {nearest:.2f}: the estimate "
            "is drawn to the log's mean"
        )
    return Draft(
        float((e.sizes * values).sum() / e.sizes.sum()), values[e.units], None, replicate,
        warnings=tuple(warnings),
    )  # fmt: skip


def _curve(returns: Array) -> tuple[Array, Array]:
    """Return scores and returns of a window's episodes in order, with a far point at both ends."""
    ordered, first = np.unique(returns, return_index=True)
    scores = normal_scores(ranks(returns))[first]
    middle = float(np.median(returns))
    slopes = [
        (ordered[end] - middle) / scores[end] if scores[end] != 0.0 else 0.0 for end in (0, -1)
    ]
    return (
        np.concatenate([[scores[0] - _REACH], scores, [scores[-1] + _REACH]]),
        np.concatenate([
            [ordered[0] - _REACH * slopes[0]], ordered, [ordered[-1] + _REACH * slopes[1]],
        ]),
    )  # fmt: skip
