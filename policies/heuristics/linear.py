"""`random_linear`: a linear priority over the candidate's features, drawn once per episode.

The exploration of an episode has one direction, so that outcomes differ between episodes. Weights
drawn at every decision average out: all episodes of a window have nearly the same outcome.

    score = sum over columns of w * t(x)      t(x) = log1p(x) where heavy-tailed, else x / scale
    w     ~ normal(0, 1)

A heavy-tailed column is not divided, because its logarithm is of order one. Columns and scales come
from the spec alone; identifiers are left out.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.spec import Spec

_TERM: Final = 3  # numbers per term: column, 1 where its log is taken, weight


@compiled(SCORE)
def linear(
    context: Any,
    candidates: Any,
    feasible: Any,
    parameters: Any,
    scores: Any,
) -> None:
    """Fill scores (N,) from parameters [column, log, weight, column, log, weight, ...]."""
    for i in range(len(scores)):
        scores[i] = 0.0
    for at in range(0, len(parameters), 3):
        column, weight = int(parameters[at]), parameters[at + 2]
        for i in range(len(scores)):
            x = candidates[i, column]
            if parameters[at + 1] > 0.0:
                x = np.log1p(x) if x >= 0.0 else -np.log1p(-x)
            scores[i] += weight * x


def draw_weights(spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the parameters (3 * columns,) of one episode, drawn from `rng`."""
    parameters = np.zeros((len(spec.learned_candidates), _TERM))
    for term, column in zip(parameters, spec.learned_candidates, strict=True):
        feature = spec.candidates[column]
        weight = rng.standard_normal() / (1.0 if feature.heavy_tailed else feature.scale)
        term[:] = column, feature.heavy_tailed, weight
    return parameters.ravel()


RANDOM_LINEAR: Final = Heuristic(
    "random_linear", linear, draw_weights,
    description="the highest linear priority of the features, with weights drawn once per episode",
    formula="sum of w * t(x); w ~ normal(0, 1), t(x) = log1p(x) if heavy-tailed, else x / scale",
)  # fmt: skip
