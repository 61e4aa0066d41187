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

    With c standard errors for the effect and h for half the width of the interval, new windows show
    it if their mean exceeds h of their own standard errors. The standard errors S of these windows
    and T of the new ones are roots of chi-square variables over their degrees of freedom d, so
    c S - h T has about the mean (c - h)(1 - 1 / 4d) and the variance (c^2 + h^2) / 2d. c is the
    solution of (c - h)(1 - 1 / 4d) = z sqrt(1 + (c^2 + h^2) / 2d), with z the 80 % quantile of the
    normal distribution. Tails that these windows do not show are not in it: docs/protocol.md says
    what power it has.
    """
    error, freedom = difference.error, difference.degrees
    if math.isnan(error) or error == 0.0:
        return error
    _, low, high = difference.interval()
    half = (high - low) / 2.0 / error
    factor = (NormalDist().inv_cdf(POWER) / (1.0 - 0.25 / freedom)) ** 2
    square = 1.0 - factor / (2.0 * freedom)
    constant = half**2 - factor * (1.0 + half**2 / (2.0 * freedom))
    return error * (half + math.sqrt(half**2 - square * constant)) / square


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
