"""Conditional logit of choices among candidates, by maximum likelihood.

    P(c | candidates) = exp(x_c' b) / sum over the candidates of exp(x' b)

Features are standardised over all candidates of the fitted choices, and a small ridge keeps columns
apart that say nearly the same. Intervals come from the sandwich of the scores summed by cluster
(White 1982; Liang & Zeger 1986), since choices of one day or episode resemble each other, with a
quantile of Student's t for one degree of freedom less than there are clusters. A single
cluster has no interval.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.statistics.distributions import t_quantile
from hindcast.pipeline.statistics.intervals import LEVEL
from hindcast.policies.ope.behaviour.choice_sets import ChoiceSets

Array = NDArray[np.float64]

_RIDGE: Final = 1e-3
_STEPS: Final = 50
_TOLERANCE: Final = 1e-8


@dataclass(frozen=True)
class Logit:
    """A fitted conditional logit.

    Attributes:
        names: Names of the F features.
        mean: Mean of each feature over the candidates it was fitted on, (F,).
        scale: Standard deviation, 1 for a constant feature, (F,).
        weights: Coefficients of the standardised features, (F,).
        low: Lower ends of their 95 % intervals, (F,); NaN for a single cluster.
        high: Upper ends, (F,).
    """

    names: tuple[str, ...]
    mean: Array
    scale: Array
    weights: Array
    low: Array
    high: Array

    def utilities(self, sets: ChoiceSets) -> Array:
        """Return x' b of every candidate, (V,). Raises InputError for other features."""
        if sets.names != self.names:
            raise InputError(
                f"the behaviour model reads {', '.join(self.names)}; these choices have "
                f"{', '.join(sets.names)}"
            )
        return np.asarray((sets.rows - self.mean) / self.scale @ self.weights, np.float64)


def log_probabilities(utilities: Array, sets: ChoiceSets) -> Array:
    """Return the log-probability of every candidate (V,) from utilities (V,)."""
    first, sizes = sets.offsets[:-1], np.diff(sets.offsets)
    shifted = utilities - np.repeat(np.maximum.reduceat(utilities, first), sizes)
    totals = np.log(np.add.reduceat(np.exp(shifted), first))
    return np.asarray(shifted - np.repeat(totals, sizes), np.float64)


def fit_logit(sets: ChoiceSets) -> Logit:
    """Fit a conditional logit by Newton's method.

    Raises InputError for fewer choices than features, or if the likelihood has no maximum.
    """
    if len(sets) <= len(sets.names):
        raise InputError(
            f"{len(sets)} choices with two or more candidates are too few for a behaviour model of "
            f"{len(sets.names)} features; give a longer log"
        )
    mean, scale = sets.rows.mean(axis=0), sets.rows.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    rows = (sets.rows - mean) / scale
    first, sizes = sets.offsets[:-1], np.diff(sets.offsets)
    weights = np.zeros(rows.shape[1])
    value = -np.inf
    for _ in range(_STEPS):
        logs = log_probabilities(rows @ weights, sets)
        weighted = np.exp(logs)[:, None] * rows
        means = np.add.reduceat(weighted, first)
        gradient = (rows[sets.chosen] - means).sum(axis=0) - _RIDGE * weights
        hessian = weighted.T @ rows - means.T @ means + _RIDGE * np.eye(len(weights))
        before, value = value, float(logs[sets.chosen].sum() - _RIDGE / 2 * weights @ weights)
        if value - before < _TOLERANCE * len(sizes):
            break
        step = np.linalg.solve(hessian, gradient)
        weights = weights + _damped(step, rows, weights, sets, value)
    else:
        raise InputError("the behaviour model did not converge; a feature may decide every choice")
    scores = rows[sets.chosen] - means
    _, number = np.unique(sets.cluster, return_inverse=True)
    clusters = int(number.max()) + 1
    sums = np.zeros((clusters, len(weights)))
    np.add.at(sums, number.reshape(-1), scores)
    inverse = np.linalg.inv(hessian)
    covariance = inverse @ (sums.T @ sums) @ inverse * clusters / max(clusters - 1, 1)
    quantile = t_quantile(0.5 + LEVEL / 2.0, clusters - 1.0) if clusters > 1 else np.nan
    margin = quantile * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return Logit(sets.names, mean, scale, weights, weights - margin, weights + margin)


def _damped(step: Array, rows: Array, weights: Array, sets: ChoiceSets, value: float) -> Array:
    """Return the step, halved until the likelihood does not fall."""
    for _ in range(_STEPS):
        moved = weights + step
        logs = log_probabilities(rows @ moved, sets)
        if float(logs[sets.chosen].sum() - _RIDGE / 2 * moved @ moved) >= value:
            return step
        step = step / 2
    return step
