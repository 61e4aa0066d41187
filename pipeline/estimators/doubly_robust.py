"""Estimators that use fitted values: the direct method, doubly robust, weighted doubly robust.

    delta_t   r_t + gamma_t * v_(t+1) - q_t            v after the last decision is zero
    DM        mean over episodes of v_0
    DR        mean over episodes of v_0 + sum over t of gamma^t * rho_t * delta_t
    WDR       mean of v_0 + sum over t of gamma^t * (sum of rho_t * delta_t) / (sum of rho_t)

DR is equation 10 of Jiang & Li 2016, unrolled. WDR is equation 7 of Thomas & Brunskill 2016, with
the terms of one weight collected. DR is unbiased only if the values were fitted on other episodes
than those that are weighted. The temporal differences of a policy's true values have zero mean
after every choice, whichever policy made it. Their unweighted mean on the log therefore measures
the error of fitted values, and all three warn if that mean is large: of few effective episodes, the
correction of such values has larger errors than its interval says. In WDR, episodes that have ended
stay in the denominators (see `importance`).
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.episodes import LoggedEpisodes
from hindcast.pipeline.estimators.estimate import Draft, Settings
from hindcast.pipeline.estimators.importance import per_decision_sums, step_draft

Array = NDArray[np.float64]

_ALIKE: Final = 1e-6  # spread of first values over their size
_LARGE_ERROR: Final = 0.5  # of fitted values per episode, in standard deviations of the returns


def direct_method(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return the mean fitted value of the first states (DM), without weights or correction."""
    start = _values(e)[1][e.first]
    warnings = []
    if len(e) > 1 and np.ptp(start) <= _ALIKE * np.abs(start).max():
        warnings.append(
            "all first states have the same value: their spread shows nothing of the error of the "
            "fitted values"
        )
    return Draft(float(start.mean()), start, None, warnings=(*warnings, *_value_warnings(e)))


def _value_warnings(e: LoggedEpisodes) -> tuple[str, ...]:
    """Return a warning if the fitted values have a large error on the log, else ().

    The error is the mean over episodes of the discounted sum of temporal differences, in the unit
    of the returns.
    """
    error = float(e.sums(e.discounts * temporal_differences(e)).mean())
    if not abs(error) > _LARGE_ERROR * float(e.returns.std()):
        return ()
    warning = (
        f"the fitted values have an error of {error:+.3g} per episode on the log's own "
        "transitions, where it should be 0 on average: they are not the policy's values"
    )
    return (warning,)


def doubly_robust(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return the direct method, corrected by weighted temporal differences (DR)."""
    _q, v = _values(e)
    contributions = v[e.first] + per_decision_sums(e, temporal_differences(e))
    return Draft(
        float(contributions.mean()), contributions, e.log_weights, warnings=_value_warnings(e)
    )


def weighted_doubly_robust(e: LoggedEpisodes, _settings: Settings) -> Draft:
    """Return doubly robust with the weights normalised at every step (WDR)."""
    _q, v = _values(e)
    draft = step_draft(e, temporal_differences(e), v[e.first])
    return replace(draft, warnings=(*draft.warnings, *_value_warnings(e)))


def temporal_differences(e: LoggedEpisodes) -> Array:
    """Return the temporal differences of the value functions on the log, (D,)."""
    q, v = _values(e)
    following = np.zeros(len(v))
    following[:-1] = v[1:]
    following[e.last] = 0.0
    return np.asarray(e.reward + e.step_discount * following - q, np.float64)


def _values(e: LoggedEpisodes) -> tuple[Array, Array]:
    if e.q is None or e.v is None:
        raise InputError("this estimator needs q and v; fit them with FQE, or choose another")
    return e.q, e.v
