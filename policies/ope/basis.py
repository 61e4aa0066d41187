"""Linear features of logged choices and of a policy's next choices, for marginalised weights.

    phi     1 | candidate, expanded and standardised | context, standardised

The features include squares and products of the candidate's columns if there are fewer than 120
candidate features with them. The limit keeps the linear system small, which is solved for every
policy.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.features import FeatureMap, expanded_size, fit_map
from hindcast.policies.ope.episodes import WholeEpisodes

Array = NDArray[np.float64]

_MOST: Final = 120
_FITTED: Final = 4096  # decisions that features are standardised on
_CHUNK: Final = 1 << 13


@dataclass(frozen=True)
class Basis:
    """Feature maps of the linear features.

    Attributes:
        candidates: Map of a candidate's columns.
        context: Map of the context's columns.
    """

    candidates: FeatureMap
    context: FeatureMap

    @property
    def size(self) -> int:
        """Length d of a feature vector."""
        return 1 + self.candidates.size + self.context.size


def fit_basis(log: WholeEpisodes, spec: Spec) -> Basis:
    """Return feature maps, standardised on feasible candidates of evenly spaced decisions."""
    at = np.linspace(0, log.decisions - 1, min(_FITTED, log.decisions)).astype(np.int64)
    feasible = np.concatenate([np.arange(log.rows[d], log.rows[d + 1]) for d in at])
    feasible = feasible[log.feasible[feasible]]
    columns = spec.learned_candidates
    quadratic = expanded_size(spec.candidates, columns, quadratic=True) < _MOST
    return Basis(
        fit_map(spec.candidates, columns, quadratic, log.candidates[feasible]),
        fit_map(
            spec.context, tuple(range(len(spec.context))), quadratic=False, rows=log.context[at]
        ),
    )


def linear_features(basis: Basis, log: WholeEpisodes, probabilities: Array) -> dict[str, Array]:
    """Return features of the logged choices, and expected features under probabilities (V,).

    The result holds features (D, d), next_features (D, d) and initial_features (E, d) of
    LoggedEpisodes, by name.
    """
    width = basis.candidates.size
    features = np.ones((log.decisions, basis.size))
    features[:, 1 + width :] = basis.context.expand(log.context)
    expected = features.copy()
    features[:, 1 : 1 + width] = basis.candidates.expand(log.candidates[log.chosen])
    for at in range(0, log.decisions, _CHUNK):
        end = min(at + _CHUNK, log.decisions)
        first, last = log.rows[at], log.rows[end]
        weights = probabilities[first:last]
        expanded = basis.candidates.expand(log.candidates[first:last]).astype(np.float64)
        expanded *= weights[:, None]
        expected[at:end, 1 : 1 + width] = np.add.reduceat(expanded, log.rows[at:end] - first)
    following = np.zeros_like(expected)
    following[:-1] = expected[1:]
    following[log.last] = 0.0
    start = expected[log.offsets[:-1]]
    return {"features": features, "next_features": following, "initial_features": start}
