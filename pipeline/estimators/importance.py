"""Importance sampling: of whole episodes or per decision, plain or self-normalised.

    rho_t    product of evaluation / behaviour over decisions 0..t
    IS       mean over episodes of rho_T * G
    PDIS     mean over episodes of sum over t of gamma^t * rho_t * r_t
    SNIS     sum of rho_T * G / sum of rho_T
    SNPDIS   sum over t of gamma^t * (sum over episodes of rho_t * r_t) / (sum of rho_t)

In SNPDIS an episode that has ended stays in the denominator with its last weight and a reward of
zero (an absorbing state, as in Thomas 2015, section 3.9). Otherwise later steps would be averaged
over long episodes alone. Sources: Precup, Sutton & Singh 2000 (IS, PDIS and weighted forms);
Thomas, "Safe Reinforcement Learning", 2015.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Settings, exp_weights

Array = NDArray[np.float64]


def importance_sampling(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return trajectory-wise importance sampling (IS)."""
    contributions = exp_weights(e.log_weights) * e.returns
    return Draft(float(contributions.mean()), contributions, e.log_weights)


def per_decision(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return per-decision importance sampling (PDIS)."""
    contributions = per_decision_sums(e, e.reward)
    return Draft(float(contributions.mean()), contributions, e.log_weights)


def per_decision_sums(e: LoggedEpisodes, signal: Array) -> Array:
    """Return, per episode, the sum over t of gamma^t * rho_t * signal_t: (D,) -> (E,)."""
    return e.sums(exp_weights(e.log_weight) * e.discounts * signal)


def self_normalised(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return self-normalised trajectory-wise importance sampling (SNIS, also called WIS)."""
    return ratio_draft(e, e.log_weights, e.returns)


def ratio_draft(e: LoggedEpisodes, log_weights: Array, values: Array) -> Draft:
    """Return the mean of values (E,) with log-weights (E,); NaN if all weights are zero."""
    highest = log_weights.max()
    if np.isneginf(highest):
        return Draft(float("nan"), np.full(len(e), np.nan), log_weights)
    weights = np.exp(log_weights - highest)
    value = float(weights @ values / weights.sum())
    numerator, denominator = e.by_unit(weights * values), e.by_unit(weights)
    contributions = value + weights * (values - value) / weights.mean()
    return Draft(
        value, contributions, log_weights,
        lambda counts: ratio(counts @ numerator, counts @ denominator),
    )  # fmt: skip


def ratio(numerator: Array | float, denominator: Array, otherwise: float = np.nan) -> Array:
    """Divide element by element; the result is `otherwise` where `denominator` is not above 0."""
    result = np.full_like(denominator, otherwise)
    np.divide(numerator, denominator, out=result, where=denominator > 0.0)
    return result


@dataclass(frozen=True)
class StepSums:
    """Numerators and denominators by unit and step, both (G, T), on one scale per step."""

    numerator: Array
    denominator: Array

    def value(self, counts: Array) -> Array:
        """Return the sum over steps of the ratios, for counts of units (R, G).

        A step without weight adds nothing.
        """
        ratios = ratio(counts @ self.numerator, counts @ self.denominator, 0.0)
        return np.asarray(ratios.sum(axis=1))


def step_sums(e: LoggedEpisodes, signal: Array) -> StepSums:
    """Return the sums over each unit's episodes of gamma^t * rho_t * signal_t and of rho_t."""
    steps, units = int(e.lengths.max()), len(e.sizes)
    highest = _highest(e, steps)
    numerator, denominator = np.zeros((units, steps)), np.zeros((units, steps))
    for start, stop, unit in zip(e.offsets[:-1], e.offsets[1:], e.units, strict=True):
        n = stop - start
        weight = np.exp(e.log_weight[start:stop] - highest[:n])
        numerator[unit, :n] += weight * e.discounts[start:stop] * signal[start:stop]
        denominator[unit, :n] += weight
        denominator[unit, n:] += np.exp(e.log_weight[stop - 1] - highest[n:])
    return StepSums(numerator, denominator)


def _highest(e: LoggedEpisodes, steps: int) -> Array:
    """Return the largest log-weight at every step, over running and ended episodes."""
    highest = np.full(steps, -np.inf)
    for start, stop in zip(e.offsets[:-1], e.offsets[1:], strict=True):
        n = stop - start
        highest[:n] = np.maximum(highest[:n], e.log_weight[start:stop])
        highest[n:] = np.maximum(highest[n:], e.log_weight[stop - 1])
    return np.where(np.isneginf(highest), 0.0, highest)


def self_normalised_per_decision(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return self-normalised per-decision importance sampling (SNPDIS)."""
    return step_draft(e, e.reward, np.zeros(len(e)))


def step_draft(e: LoggedEpisodes, signal: Array, start: Array) -> Draft:
    """Return the mean of `start` (E,) plus the self-normalised sums per step of a signal (D,)."""
    sums = step_sums(e, signal)
    start_sums = e.by_unit(start)
    value = float(start.mean() + sums.value(np.ones((1, len(start_sums))))[0])
    lost = sums.denominator.sum(axis=0) <= 0.0
    warnings: tuple[str, ...] = ()
    if lost.any():
        at = int(np.flatnonzero(lost)[0])
        warnings = (f"every weight is zero from decision {at} on: later rewards are not counted",)

    def replicate(counts: Array) -> Array:
        return np.asarray((counts @ start_sums) / (counts @ e.sizes) + sums.value(counts))

    contributions = start + _linear_part(e, signal, sums)
    return Draft(value, contributions, e.log_weights, replicate, warnings=warnings)


def _linear_part(e: LoggedEpisodes, signal: Array, sums: StepSums) -> Array:
    """Return contributions (E,) of a sum of ratios.

    The mean of the contributions is the sum's value; their spread is that of the sum's error.
    """
    weights = sums.denominator.sum(axis=0)
    at_step, inverse = ratio(sums.numerator.sum(axis=0), weights, 0.0), ratio(1.0, weights, 0.0)
    highest = _highest(e, len(weights))
    # `later` is what an ended episode still subtracts at later steps: its last weight stays the
    # same, but is scaled by the largest weight of each step.
    contributions = np.empty(len(e))
    for i, (start, stop) in enumerate(zip(e.offsets[:-1], e.offsets[1:], strict=True)):
        n = stop - start
        weight = np.exp(e.log_weight[start:stop] - highest[:n]) * inverse[:n]
        share = weight @ (e.discounts[start:stop] * signal[start:stop] - at_step[:n])
        later = np.exp(e.log_weight[stop - 1] - highest[n:]) * inverse[n:]
        contributions[i] = share - later @ at_step[n:]
    return np.asarray(at_step.sum() + len(e) * contributions, np.float64)
