"""Families of comparisons: p-values, their adjustment, and minimum detectable effects.

Everything here is computed from a mean over windows and its 95 % bootstrap interval, which is what
committed tables hold. The end of the interval towards zero lies 1.96 bootstrap standard errors from
the mean, if the side is read as normal. A bootstrap standard error of n windows is too small by
sqrt(n / (n - 1)), and the mean over its standard error follows Student's t with n - 1 degrees of
freedom, so few windows need more than an interval that excludes zero.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from hindcast.pipeline.statistics.distributions import t_quantile, t_tails
from hindcast.pipeline.statistics.intervals import LEVEL, Array, Interval

ERROR: Final = 0.05  # of a family: the probability of one or more false differences
POWER: Final = 0.8
_QUANTILE: Final = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)


def p_value(difference: Interval, windows: int) -> float:
    """Return the two-sided p-value of no difference over `windows` windows.

    It is NaN without an interval, and 1 for a difference that is 0 in every replicate.
    """
    value, low, high = difference
    if windows < 2 or math.isnan(low) or math.isnan(high):
        return math.nan
    width = value - low if value > 0.0 else high - value
    if width <= 0.0:
        return 1.0 if value == 0.0 else 0.0
    return t_tails(value / _standard_error(width, windows), windows - 1)


def holm(p_values: Sequence[float]) -> Array:
    """Return p-values adjusted for the number of comparisons of a family (Holm 1979).

    A family error of a is kept by all differences whose adjusted p-value is below a, whatever the
    dependence between them. NaN stays NaN and counts as no comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


def detectable(difference: Interval, windows: int) -> float:
    """Return the effect that as many such windows show with a probability of 80 %; NaN if unknown.

    It is (t of 97.5 % + t of 80 %) standard errors. The standard error is that of these data, so it
    says little about other policies.
    """
    if windows < 2:
        return math.nan
    quantiles = t_quantile((1.0 + LEVEL) / 2.0, windows - 1) + t_quantile(POWER, windows - 1)
    return quantiles * _standard_error((difference.high - difference.low) / 2.0, windows)


def _standard_error(half_width: float, windows: int) -> float:
    return half_width / _QUANTILE * math.sqrt(windows / (windows - 1))
