"""Intervals for means of independent units: bootstrap, Hoeffding, empirical Bernstein.

A unit is an episode, or a window with all its episodes if groups are given. The bootstrap draws
units with replacement and computes the whole estimator for each draw. Of n units its percentiles
are further out than the level says, as Student's t is further out than the normal distribution and
a sample's spread smaller than that of what it was drawn from:

    tail = Phi(-sqrt(n / (n - 1)) * t)      t: quantile of the level with n - 1 degrees of freedom

This is the expanded percentile interval of Hesterberg 2015, "What Teachers Should Know About the
Bootstrap", The American Statistician 69(4). The other two intervals hold for any
sample size, but only if all units lie in a range that was known beforehand. A range taken from the
data is an assumption, and `Concentration.source` says so.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.statistics.distributions import t_quantile

Array = NDArray[np.float64]
Replicate = Callable[[Array], Array]  # counts (R, G) -> the estimator's value, (R,)

_BLOCK: Final = 1 << 21  # counts held at once


@dataclass(frozen=True)
class Concentration:
    """An interval that follows from a range of values.

    Attributes:
        low: Lower end of the interval.
        high: Upper end of the interval.
        range: Lowest and highest value that a unit can have.
        source: "given" if the caller set the range, "data" if it is the range of the data.
    """

    low: float
    high: float
    range: tuple[float, float]
    source: Literal["given", "data"]


def bootstrap(
    replicate: Replicate, units: int, rng: np.random.Generator, resamples: int, level: float
) -> tuple[float, float]:
    """Return the expanded percentile interval over drawn units; NaN for one unit."""
    if units < 2 or resamples < 1:
        return float("nan"), float("nan")
    drawn = drawn_counts(units, rng, resamples)
    replicates = np.concatenate([replicate(counts) for counts in drawn])
    replicates = replicates[np.isfinite(replicates)]
    if not len(replicates):
        return float("nan"), float("nan")
    quantile = t_quantile((1.0 + level) / 2.0, units - 1.0)
    tail = NormalDist().cdf(-math.sqrt(units / (units - 1.0)) * quantile)
    low, high = np.quantile(replicates, [tail, 1.0 - tail])
    return float(low), float(high)


def drawn_counts(units: int, rng: np.random.Generator, resamples: int) -> Iterator[Array]:
    """Yield how often each unit is drawn in some resamples, (R, G)."""
    block = max(1, _BLOCK // units)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(units, size=(size, units)) + np.arange(size)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        yield counts.astype(np.float64)


def hoeffding(values: Array, low: float, high: float, level: float) -> tuple[float, float]:
    """Return the two-sided interval of a mean of values in [low, high] (Hoeffding 1963)."""
    half = (high - low) * np.sqrt(np.log(2.0 / (1.0 - level)) / (2.0 * len(values)))
    middle = float(values.mean())
    return middle - float(half), middle + float(half)


def empirical_bernstein(
    values: Array, low: float, high: float, level: float
) -> tuple[float, float]:
    """Return the two-sided interval of a mean of values in [low, high], from their variance.

    Maurer & Pontil 2009, theorem 4, on both sides with half of the error each: sqrt(2 V ln(4 / d) /
    n) + 7 (high - low) ln(4 / d) / (3 (n - 1)), d = 1 - level. NaN for one value.
    """
    n = len(values)
    if n < 2:
        return float("nan"), float("nan")
    log = np.log(4.0 / (1.0 - level))
    half = np.sqrt(2.0 * values.var(ddof=1) * log / n) + 7.0 * (high - low) * log / (3.0 * (n - 1))
    middle = float(values.mean())
    return middle - float(half), middle + float(half)
