"""Marginalised importance sampling: one weight per (state, choice) instead of products of ratios.

A weight is the ratio of how often the policy and the log visit a state and choice. The weights are
found by minimax weight learning (Uehara, Huang & Jiang 2020), with the features phi both for the
weights, w = phi'a, and for the test functions, f = phi'b. For such classes the saddle point is the
solution of a linear system, here in the episodic form with ragged lengths. For all f,

    sum over decisions of w * (f_t - gamma_t * f_(t+1)) = sum over episodes of f_0

with f_(t+1) and f_0 expected under the evaluated policy and zero after the end; that is, with

    A = sum over decisions of (phi_t - gamma_t * phi_(t+1)) phi_t'        a = A^-1 sum of phi_0
    value = sum over decisions of w * r / episodes

Without a ridge the solution equals LSTD-Q with the same features (section 4 of the paper). Per
episode the estimate is reported in its double form v_0 + sum of w * delta, where q is the LSTD-Q
solution: the mean is the same, and the spread is that of the fitted weights (Kallus & Uehara 2022).
The system itself contains the discounts, so the weights are those of discounted visits.
"""

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Settings

Array = NDArray[np.float64]


def minimax_weights(e: LoggedEpisodes, settings: Settings) -> Draft:
    """Return minimax weight learning with linear features (MWL)."""
    if e.features is None or e.next_features is None or e.initial_features is None:
        raise InputError("minimax weights need features, next_features and initial_features")
    phi, n = e.features, len(e)
    change = phi - e.step_discount[:, None] * e.next_features  # (D, d)
    system = change.T @ phi / n
    system += settings.ridge * np.abs(np.diag(system)).mean() * np.eye(len(system))
    start = e.initial_features.mean(axis=0)
    rewards = phi.T @ e.reward / n
    try:
        alpha = np.linalg.solve(system, start)
        beta = np.linalg.solve(system.T, rewards)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "the features of the log are linearly dependent; give fewer, or a ridge above 0"
        ) from error
    weights = phi @ alpha
    value = float(e.sums(weights * e.reward).mean())
    contributions = e.initial_features @ beta + e.sums(weights * (e.reward - change @ beta))
    # The ridge makes both forms differ; an even shift makes the mean equal to the value.
    contributions += value - contributions.mean()
    share = float(weights.sum() ** 2 / ((weights**2).sum() * len(weights)))
    warnings = _warnings(weights, share, e, settings)
    return Draft(value, contributions, None, ess=share * n, warnings=warnings)


def _warnings(
    weights: Array, share: float, e: LoggedEpisodes, settings: Settings
) -> tuple[str, ...]:
    """Return warnings about weights (D,) that leave a `share` of the decisions effective."""
    warnings = []
    if share < settings.share:
        warnings.append(f"the weights leave {share:.1%} of the decisions")
    negative = float(np.abs(weights[weights < 0.0]).sum() / np.abs(weights).sum())
    if negative > 0.1:
        warnings.append(
            f"{negative:.0%} of the weight is negative, but no visit count is: the features do not "
            "separate the policy's visits from the log's"
        )
    mean = float(weights.sum() / len(e) / e.lengths.mean())
    if e.discount == 1.0 and not 0.5 <= mean <= 2.0:
        warnings.append(
            f"the weights imply {mean:.2g} times as many decisions as in the log: they do not fit"
        )
    return tuple(warnings)
