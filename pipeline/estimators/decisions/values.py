"""Values of a policy from single logged decisions, with their errors by unit.

    name   value                                        z, of mean 0
    is     sum s w r / S                                w r - V
    snis   sum s w r / sum s w                          w (r - V) S / sum s w
    dm     sum s v / S, v = sum over a of pi(a) q(a)    v - V
    dr     sum s (v + w (r - q(A))) / S                 v + w (r - q(A)) - V
    sndr   mean v + sum s w (r - q(A)) / sum s w        linearised

w = pi(A) / p, s is the weight of the record and S the sum of s. Over G units the error is
se = sqrt(G / (G - 1) * sum over g of (sum of s z in g)^2) / S, that of a ratio by linearisation.

`clipped` and `switch` bound or leave out large weights, so they are biased. Their threshold is the
one with the least variance plus squared bound of the bias (Wang, Agarwal & Dudik 2017; Su et al.
2020).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import (
    Array,
    Ints,
    LoggedDecisions,
    units_of,
    weights,
)

_THRESHOLDS: Final = 20  # of clipped and switch, quantiles of the weights


@dataclass(frozen=True)
class Value:
    """A value of a policy.

    Attributes:
        name: Name of the estimator.
        value: The estimate.
        se: Its standard error by unit; NaN for one unit.
        z: (D,) contributions of the decisions, of weighted mean 0.
        parts: Numerators and denominators (D,), the sums of whose ratios of sums the value is.
    """

    name: str
    value: float
    se: float
    z: Array
    parts: tuple[tuple[Array, Array], ...] = ()


def standard_error(e: LoggedDecisions, z: Array) -> float:
    """Return the standard error of a weighted mean with contributions z, by unit."""
    return clustered_error(e.weight, z, e.unit, e.units)


def clustered_error(weight: Array, z: Array, unit: Ints, units: int | None = None) -> float:
    """Return the standard error of a mean with weights and contributions z, by unit."""
    sums = np.bincount(unit, weight * z)
    units = units_of(unit) if units is None else units
    if units < 2:
        return float("nan")
    return float(np.sqrt(units / (units - 1) * (sums**2).sum()) / weight.sum())


def _made(
    name: str, e: LoggedDecisions, value: float, z: Array, parts: tuple[tuple[Array, Array], ...]
) -> Value:
    return Value(name, float(value), standard_error(e, z), z, parts)


def _mean_of(name: str, e: LoggedDecisions, terms: Array) -> Value:
    """Return the estimate that is the weighted mean of terms."""
    value = weighted_mean(e, terms)
    return _made(name, e, value, terms - value, ((e.weight * terms, e.weight),))


def logged_mean(e: LoggedDecisions) -> Value:
    """Return the mean reward of the log itself."""
    return _mean_of("logged", e, e.reward)


def importance_sampling(e: LoggedDecisions, target: Array) -> Value:
    """Return `is`: unbiased, and of high variance."""
    return _mean_of("is", e, weights(e, target) * e.reward)


def self_normalised(e: LoggedDecisions, target: Array) -> Value:
    """Return `snis`; NaN if no decision has weight."""
    w = weights(e, target)
    total = float((e.weight * w).sum())
    if total <= 0.0:
        return Value("snis", float("nan"), float("nan"), np.full(len(e), np.nan))
    value = float((e.weight * w * e.reward).sum()) / total
    z = w * (e.reward - value) * e.weight.sum() / total
    return _made("snis", e, value, z, ((e.weight * w * e.reward, e.weight * w),))


def direct_method(e: LoggedDecisions, target: Array, q: Array) -> Value:
    """Return `dm`, the mean value of a model q (C,); its error misses that of the model."""
    return _mean_of("dm", e, _expected(e, target, q))


def doubly_robust(e: LoggedDecisions, target: Array, q: Array) -> Value:
    """Return `dr`: a cross-fitted model q (C,), corrected by weighted errors."""
    w = weights(e, target)
    return _mean_of("dr", e, _expected(e, target, q) + w * (e.reward - q[e.taken]))


def self_normalised_doubly_robust(e: LoggedDecisions, target: Array, q: Array) -> Value:
    """Return `sndr`: as `dr`, with weights that sum to one."""
    w, v, error = weights(e, target), _expected(e, target, q), e.reward - q[e.taken]
    total = float((e.weight * w).sum())
    if total <= 0.0:
        return Value("sndr", float("nan"), float("nan"), np.full(len(e), np.nan))
    correction = float((e.weight * w * error).sum()) / total
    middle = weighted_mean(e, v)
    z = v - middle + w * (error - correction) * e.weight.sum() / total
    parts = (e.weight * v, e.weight), (e.weight * w * error, e.weight * w)
    return _made("sndr", e, middle + correction, z, parts)


def clipped(e: LoggedDecisions, target: Array, q: Array | None = None) -> Value:
    """Return `clipped`: weights of at most the threshold, in `is` or around a model q."""
    w, around = weights(e, target), _around(e, target, q)
    return _least(
        e, w, lambda t: around(np.minimum(w, t)),
        lambda t: np.maximum(w - t, 0.0), "clipped",
    )  # fmt: skip


def switch(e: LoggedDecisions, target: Array, q: Array) -> Value:
    """Return `switch`: the model q alone where the weight is above the threshold."""
    w, around = weights(e, target), _around(e, target, q)
    return _least(
        e, w, lambda t: around(np.where(w > t, 0.0, w)),
        lambda t: np.where(w > t, w, 0.0), "switch",
    )  # fmt: skip


def _around(e: LoggedDecisions, target: Array, q: Array | None) -> Callable[[Array], Array]:
    """Return the terms of `is` or `dr` as a function of the weights."""
    if q is None:
        return lambda w: w * e.reward
    expected, error = _expected(e, target, q), e.reward - q[e.taken]
    return lambda w: expected + w * error


def _least(
    e: LoggedDecisions,
    w: Array,
    terms: Callable[[float], Array],
    lost: Callable[[float], Array],
    name: str,
) -> Value:
    """Return the estimate of the threshold with the least variance and squared bound of bias."""
    span = float(np.abs(e.reward).max())
    least, best = math.inf, w
    quantiles = np.quantile(w[w > 0], np.linspace(0.5, 1.0, _THRESHOLDS)) if w.any() else [0.0]
    for t in np.unique(quantiles):
        x = terms(float(t))
        error = standard_error(e, x - weighted_mean(e, x))
        bias = span * weighted_mean(e, lost(float(t)))
        if (loss := float(np.nan_to_num(error**2)) + bias**2) < least:
            least, best = loss, x
    return _mean_of(name, e, best)


def weighted_mean(e: LoggedDecisions, terms: Array) -> float:
    """Return the mean of terms (D,), weighted by their records."""
    return float((e.weight * terms).sum() / e.weight.sum())


def _expected(e: LoggedDecisions, target: Array, q: Array) -> Array:
    """Return the mean of q under the policy, by decision."""
    return np.asarray(np.bincount(e.owner, np.where(e.feasible, target * q, 0.0), len(e)))


def values(e: LoggedDecisions, target: Array, q: Array | None = None) -> Mapping[str, Value]:
    """Return the estimates of a policy by name; those of a model only if there is one."""
    found = [importance_sampling(e, target), self_normalised(e, target)]
    if q is not None:
        modelled = (direct_method, doubly_robust, self_normalised_doubly_robust, clipped, switch)
        found += [estimator(e, target, q) for estimator in modelled]
    return {value.name: value for value in found}
