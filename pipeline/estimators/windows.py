"""Estimators that compare episodes of one window; returns differ far more between windows.

    B_w           mean return of the logged episodes of window w
    paired IS     mean over episodes of rho * (G - B of the window's other episodes) + B
    paired SNIS   mean of B_w + sum of rho * (G - B_w) / sum of rho
    tempered      mean over windows of the mean of G with weights rho^a / sum of rho^a

Paired IS is IS with a control variate per window. An episode is left out of its own baseline, which
keeps the estimate unbiased: E[rho * B] = E[B], since the other episodes are independent of rho. If
the weights are those of the mixture of a window's behaviours, they average one over the window
only, and B is the mean of the whole window. The bias is then the covariance of B and the window's
mean weight; it vanishes as the window's episodes grow in number, and is zero if the mean weight is
one.

Tempered weights are for episodes so long that every product is either zero or rare and huge. The
exponent `a` of a window is the largest one, at most 1, that leaves `Settings.tempered` of its
episodes effective: 1 is self-normalised sampling inside the window, 0 the log's own mean. In
between, the estimate is the mean return of those episodes of the window that the policy agrees with
most. It is biased towards the log's mean and has bounded variance, so it suits ranking more than
valuing. (Weights to a power are known from adaptive importance sampling: Korba & Portier 2022.)
"""

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Settings, exp_weights
from hindcast.pipeline.estimators.importance import ratio, ratio_draft

Array = NDArray[np.float64]


def paired_importance_sampling(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return importance sampling with the mean of the window's other episodes as the baseline."""
    sums, sizes = _windows(e)
    of_window = sizes[e.units]
    if e.mixture:
        others = (sums / sizes)[e.units]
    elif of_window.min() < 2:
        raise InputError("paired estimators need at least two episodes of every window")
    else:
        others = (sums[e.units] - e.returns) / (of_window - 1.0)
    contributions = exp_weights(e.log_weights) * (e.returns - others) + others
    return Draft(float(contributions.mean()), contributions, e.log_weights)


def paired_self_normalised(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return self-normalised importance sampling of differences from the window's mean."""
    sums, sizes = _windows(e)
    baseline = (sums / sizes)[e.units]
    draft = ratio_draft(e, e.log_weights, e.returns - baseline)
    gain = draft.replicate
    if gain is None:
        return draft
    return Draft(
        draft.value + float(baseline.mean()),
        draft.contributions + baseline,
        e.log_weights,
        lambda counts: gain(counts) + (counts @ sums) / (counts @ sizes),
    )


def tempered(e: LoggedEpisodes, settings: Settings) -> Draft:
    """Return self-normalised importance sampling in each window, with weights to a power."""
    _sums, sizes = _windows(e)
    order = np.argsort(e.units, kind="stable")
    means, effective = np.empty(len(sizes)), np.empty(len(sizes))
    lost = 0
    for unit, members in enumerate(np.split(order, np.cumsum(sizes.astype(np.int64))[:-1])):
        log_weights = e.log_weights[members]
        if np.isneginf(log_weights.max()):
            means[unit], effective[unit] = e.returns[members].mean(), 0.0
            lost += 1
            continue
        weights = _tempered(log_weights, settings.tempered * len(members))
        means[unit] = weights @ e.returns[members]
        effective[unit] = 1.0 / (weights**2).sum()
    contributions = means[e.units]
    warnings = []
    if lost:
        warnings.append(
            f"in {lost} of {len(sizes)} windows every weight is zero; the log's mean is used there"
        )
    if effective.sum() < settings.fewest:
        warnings.append(f"the weights leave {effective.sum():.1f} episodes")
    totals = means * sizes
    return Draft(
        float(totals.sum() / sizes.sum()), contributions, None,
        lambda counts: ratio(counts @ totals, counts @ sizes),
        ess=float(effective.sum()), warnings=tuple(warnings),
    )  # fmt: skip


def _tempered(log_weights: Array, least: float) -> Array:
    """Return weights (n,) to the largest power, at most 1, that keeps `least` effective."""
    shifted = log_weights - log_weights.max()

    def weights(power: float) -> Array:
        powers = np.full(len(shifted), -np.inf)  # 0 times minus infinity is not a number
        np.multiply(power, shifted, out=powers, where=~np.isneginf(shifted))
        raw = np.exp(powers)
        return np.asarray(raw / raw.sum(), np.float64)

    def enough(power: float) -> bool:
        return bool(1.0 / (weights(power) ** 2).sum() >= least)

    if enough(1.0):
        return weights(1.0)
    # The effective size falls as the power rises; if it is too small at any power, 0 is used.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return weights(low)


def _windows(e: LoggedEpisodes) -> tuple[Array, Array]:
    """Return the sums of returns and the numbers of episodes by window, both (G,)."""
    if e.group is None:
        raise InputError("this estimator needs the window of every episode (group), which is None")
    return e.by_unit(e.returns), e.sizes
