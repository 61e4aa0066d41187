"""Families of comparisons: p-values, their adjustment, and minimum detectable effects.

They are computed from a mean and its standard error. Committed tables hold intervals, from which
`read_interval` returns them.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from hindcast.pipeline.statistics.distributions import t_quantile
from hindcast.pipeline.statistics.intervals import LEVEL, Array, Estimate, Interval

ERROR: Final = 0.05  # of a family: the probability of one or more false differences
POWER: Final = 0.8
_UPPER: Final = (1.0 + LEVEL) / 2.0


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


def detectable(difference: Estimate) -> float:
    """Return the effect that as many such windows show with a probability of 80 %; NaN if unknown.

    It is half the width of the interval, and t of 80 % standard errors. Both are those of these
    data, so it says little about other policies.
    """
    if math.isnan(difference.error):
        return math.nan
    _, low, high = difference.interval()
    return (high - low) / 2.0 + t_quantile(POWER, difference.degrees) * difference.error


def read_interval(
    difference: Interval, windows: int, degrees: float | None, *, towards_zero: bool = False
) -> Estimate:
    """Return the estimate of a difference that a table has with its interval of 95 %.

    The standard error is that of the side towards zero, or of half the width. `degrees` are those
    of Student's t. None stands for a percentile bootstrap interval: each end lies 1.96 bootstrap
    standard errors from the mean, if the side is read as normal, and the bootstrap standard error
    of n windows is too small by sqrt(n / (n - 1)).
    """
    value, low, high = difference
    half = (high - low) / 2.0
    if towards_zero:
        half = value - low if value > 0.0 else high - value
    if windows < 2:
        return Estimate(value, math.nan, math.nan)
    if degrees is not None:
        return Estimate(value, max(half, 0.0) / t_quantile(_UPPER, degrees), degrees)
    normal = NormalDist().inv_cdf(_UPPER)
    error = max(half, 0.0) / normal * math.sqrt(windows / (windows - 1))
    return Estimate(value, error, windows - 1.0)
