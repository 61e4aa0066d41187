"""Weights of linear networks in the raw features, with which anybody can compute their scores.

    score = constant + sum of weight * value

The standardisation of the network's inputs is folded in: the weight of an input is divided by its
deviation, and the mean is in the constant.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindcast.policies.networks.features import FeatureMap, input_names
from hindcast.policies.networks.policy import LearnedPolicy

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Inputs:
    """Weights of the expanded columns of one side, the context or the candidates.

    Attributes:
        names: Names of the expanded columns (E,): features, logarithms, products.
        weights: (E,) weights of their raw values.
        columns: The map from raw rows to them.
    """

    names: tuple[str, ...]
    weights: Array
    columns: FeatureMap

    def values(self, rows: Array) -> Array:
        """Return the raw values (M, E) of rows (M, F), in double precision."""
        own, n = rows[:, self.columns.columns], self.columns.products
        logs = np.sign(own) * np.log1p(np.abs(own))
        heavy = np.asarray(self.columns.heavy)
        base = np.where(heavy, logs, own)
        one, other = np.triu_indices(n)
        return np.hstack([own, logs[:, heavy], base[:, one] * base[:, other]])


@dataclass(frozen=True)
class Linear:
    """A linear score in raw features.

    Attributes:
        constant: Added to every score.
        candidates: Weights of a candidate.
        context: Weights of the decision, which add the same to every candidate.
    """

    constant: float
    candidates: Inputs
    context: Inputs

    def scores(self, context: Array, candidates: Array) -> Array:
        """Return the scores (N,) of a decision with context (C,) and candidates (N, F)."""
        same = self.constant + (self.context.values(context[None]) @ self.context.weights)[0]
        return np.asarray(self.candidates.values(candidates) @ self.candidates.weights + same)


def linear_of(policy: object) -> Linear | None:
    """Return the linear score of a policy; None if its network is not linear in known features."""
    if type(policy) is not LearnedPolicy:
        return None
    network = policy.network
    settings = network.settings
    if (
        settings.hidden or settings.kind != "mlp" or settings.places or settings.image
        or network.outputs != 1 or len(network.rules)
    ):  # fmt: skip
        return None
    layer = policy.weights["layer0.weight"][0].astype(np.float64)
    size, constant = network.candidates.size, float(policy.weights["layer0.bias"][0])
    sides = []
    for part, features, columns in (
        (layer[:size], policy.features_candidates, network.candidates),
        (layer[size:], policy.features_context, network.context),
    ):
        weights = part * columns.inverse
        constant -= float(weights @ columns.mean)
        sides.append(Inputs(tuple(input_names(features, columns)), weights, columns))
    return Linear(constant, *sides)
