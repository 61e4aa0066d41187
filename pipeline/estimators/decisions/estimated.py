"""Propensities of a log that has none, estimated from its choices, and the range of their errors.

A conditional logit over the candidates: p(a) is proportional to exp(x_a beta), cross-fitted by unit
and calibrated by isotonic regression in ten folds. It assumes that everything that the logger
looked at is in the features; no test can show that. So a range stands beside every value: let the
odds of the true propensity lie within a factor of the estimated one, then 1 / p is anywhere in
1 + (1 / p - 1) [1 / factor, factor], and the extremes of `snis` are at a cut through the rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import (
    Array,
    Flags,
    Ints,
    LoggedDecisions,
    highest,
)

FACTORS: Final = (1.25, 1.5, 2.0)
CERTAIN: Final = 0.99
_PENALTY: Final = 1.0
_STEPS: Final = 50
_CLOSE: Final = 1e-8
_BINS: Final = 10
_LEAST: Final = 1e-6
_MOST: Final = 100_000  # decisions that a fold learns from


@dataclass(frozen=True)
class EstimatedPropensities:
    """Estimated probabilities of all candidates, and their fit to the choices.

    Attributes:
        probability: (C,) probabilities that add to 1 over the feasible candidates.
        log_likelihood: Held-out mean log-likelihood of the choices where there was one.
        uniform: The same of the uniform policy.
        most_likely: Share of choices that are the most likely candidate.
        certain: Share of decisions with a choice that are predicted with p > .99.
        rare: Share with p < .01 of the taken candidate.
        reliability: Rows (mean predicted, observed share, candidates) by tenths of the prediction.
    """

    probability: Array
    log_likelihood: float
    uniform: float
    most_likely: float
    certain: float
    rare: float
    reliability: tuple[tuple[float, float, int], ...]

    @property
    def deterministic(self) -> bool:
        """True if most choices are predicted for certain, so that no weight can be trusted."""
        return self.certain > 0.5


def estimate_propensities(
    e: LoggedDecisions, features: Array, folds: Ints, interactions: Array | None = None
) -> EstimatedPropensities:
    """Return cross-fitted probabilities of the log's own choices, calibrated if that helps.

    Args:
        e: The decisions.
        features: (C, F) features of the candidates, finite, with their ids one-hot.
        folds: (D,) fold of each decision's unit.
        interactions: (C, G) products with the context, which are used if the held-out likelihood
            rises.
    """
    found = _cross_fitted(e, features, folds)
    if interactions is not None and interactions.shape[1]:
        more = _cross_fitted(e, np.hstack([features, interactions]), folds)
        if _likelihood(e, more) > _likelihood(e, found):
            found = more
    rng = np.random.default_rng(0)
    tenths = rng.permutation(int(e.unit.max(initial=0)) + 1)[e.unit] % _BINS
    p = max(found, _calibrated(e, found, tenths), key=lambda q: _likelihood(e, q))
    choice = e.several
    taken = p[e.taken][choice]
    most = highest(e, p)
    return EstimatedPropensities(
        probability=p, log_likelihood=_likelihood(e, p),
        uniform=float(-np.log(e.size[choice]).mean()) if choice.any() else 0.0,
        most_likely=float((taken >= most[choice]).mean()) if choice.any() else 1.0,
        certain=float((most[choice] > CERTAIN).mean()) if choice.any() else 1.0,
        rare=float((taken < 0.01).mean()) if choice.any() else 0.0, reliability=_reliability(e, p),
    )  # fmt: skip


def with_propensities(e: LoggedDecisions, probability: Array) -> LoggedDecisions:
    """Return the decisions with estimated propensities."""
    return replace(
        e, propensity=np.maximum(probability[e.taken], _LEAST), probability=probability,
        draws=np.full(len(e), np.nan),
    )  # fmt: skip


def sensitivity(e: LoggedDecisions, target: Array, factor: float) -> tuple[float, float]:
    """Return the extremes of `snis` if the odds of each propensity are off by up to a factor."""
    odds = e.inverse - 1.0
    base = np.where(e.several, target[e.taken], 1.0)
    few = e.weight * base * np.where(e.several, 1.0 + odds / factor, 1.0)
    many = e.weight * base * np.where(e.several, 1.0 + odds * factor, 1.0)
    order = np.argsort(e.reward, kind="stable")
    r, few, many = e.reward[order], few[order], many[order]

    def swept(first: Array, last: Array) -> Array:
        """Return the means with weights `first` up to each cut and `last` behind it."""
        top = np.concatenate([[0.0], np.cumsum(first * r)]) + np.concatenate(
            [np.cumsum((last * r)[::-1])[::-1], [0.0]]
        )
        bottom = np.concatenate([[0.0], np.cumsum(first)]) + np.concatenate(
            [np.cumsum(last[::-1])[::-1], [0.0]]
        )
        return np.asarray(top[bottom > 0] / bottom[bottom > 0])

    low, high = swept(many, few), swept(few, many)
    return (float(low.min()), float(high.max())) if len(low) else (float("nan"), float("nan"))


def _cross_fitted(e: LoggedDecisions, features: Array, folds: Ints) -> Array:
    spread = features.std(axis=0)
    x = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    scores = np.zeros(len(e.owner))
    for fold in np.unique(folds):
        learn = e.several & (folds != fold)
        if learn.any():
            rows = folds[e.owner] == fold
            scores[rows] = x[rows] @ _logit(e, x, learn)
    return softmax(e, scores)


def _logit(e: LoggedDecisions, x: Array, learn: Flags) -> Array:
    """Return the coefficients of the conditional logit, by Newton's method with a ridge."""
    if int(learn.sum()) > _MOST:
        learn = learn & (np.cumsum(learn) <= _MOST)
    part, kept = e.take(learn), x[learn[e.owner]]
    kept, part = kept[part.feasible], _feasible(part)
    beta = np.zeros(kept.shape[1])
    s = part.weight / part.weight.mean()
    observed = (s[:, None] * kept[part.taken]).sum(axis=0)

    def objective(b: Array) -> float:
        p = softmax(part, kept @ b)
        return float((s * np.log(np.maximum(p[part.taken], 1e-300))).sum() - _PENALTY / 2 * b @ b)

    value = objective(beta)
    for _ in range(_STEPS):
        p = softmax(part, kept @ beta) * s[part.owner]
        gradient = observed - p @ kept - _PENALTY * beta
        means = np.zeros((len(part), kept.shape[1]))
        np.add.at(means, part.owner, p[:, None] * kept)
        hessian = (kept * p[:, None]).T @ kept - (means / s[:, None]).T @ means
        step = np.linalg.solve(hessian + _PENALTY * np.eye(len(beta)), gradient)
        size = 1.0
        while (new := objective(beta + size * step)) < value and size > 1e-6:
            size /= 2
        beta, gain, value = beta + size * step, new - value, new
        if gain < _CLOSE * max(1.0, abs(value)):
            break
    return beta


def _feasible(e: LoggedDecisions) -> LoggedDecisions:
    """Return the decisions without their infeasible candidates."""
    before = np.concatenate([[0], np.cumsum(e.feasible)])
    offsets = before[e.offsets]
    return replace(
        e, offsets=offsets, chosen=before[e.taken] - offsets[:-1], feasible=e.feasible[e.feasible],
        probability=e.probability[e.feasible],
    )  # fmt: skip


def softmax(e: LoggedDecisions, scores: Array) -> Array:
    """Return probabilities (C,) over the feasible candidates that follow from scores."""
    usable = np.where(e.feasible, scores, -np.inf)
    weights = np.where(e.feasible, np.exp(usable - highest(e, usable)[e.owner]), 0.0)
    return np.asarray(weights / np.bincount(e.owner, weights, len(e))[e.owner])


def _likelihood(e: LoggedDecisions, p: Array) -> float:
    taken = p[e.taken][e.several]
    return float(np.log(np.maximum(taken, _LEAST)).mean()) if len(taken) else 0.0


def _calibrated(e: LoggedDecisions, p: Array, folds: Ints) -> Array:
    """Return probabilities mapped by isotonic regression of the other folds' choices."""
    hit = np.zeros(len(p))
    hit[e.taken] = 1.0
    usable = e.feasible & e.several[e.owner]
    result = p.copy()
    for fold in np.unique(folds):
        mine = folds[e.owner] == fold
        learn = usable & ~mine
        if learn.any():
            fitted = isotonic(p[learn], hit[learn])
            result[mine & usable] = fitted(p[mine & usable])
    result = np.where(usable, np.clip(result, 1e-3 * p, 1.0), p)
    return np.asarray(result / np.bincount(e.owner, result, len(e))[e.owner])


def isotonic(x: Array, y: Array) -> Callable[[Array], Array]:
    """Return the non-decreasing function with the least squared error, linear between its levels.

    Pool adjacent violators; the levels stand at the means of the x that they cover.
    """
    order = np.argsort(x, kind="stable")
    means: list[float] = []
    counts: list[float] = []
    places: list[float] = []
    for at, value in zip(x[order].tolist(), y[order].tolist(), strict=True):
        mean, count, place = value, 1.0, at
        while means and means[-1] >= mean:
            n = counts.pop()
            m, q = means.pop(), places.pop()
            mean, place = (
                (mean * count + m * n) / (count + n),
                (place * count + q * n) / (count + n),
            )
            count += n
        means.append(mean)
        counts.append(count)
        places.append(place)
    return lambda values: np.asarray(np.interp(values, places, means))


def _reliability(e: LoggedDecisions, p: Array) -> tuple[tuple[float, float, int], ...]:
    usable = e.feasible & e.several[e.owner]
    hit = np.zeros(len(p))
    hit[e.taken] = 1.0
    bins = np.minimum((p[usable] * _BINS).astype(np.int64), _BINS - 1)
    rows = []
    for k in range(_BINS):
        at = bins == k
        if at.any():
            rows.append((float(p[usable][at].mean()), float(hit[usable][at].mean()), int(at.sum())))
    return tuple(rows)
