"""Percentile bootstrap over windows: of gates of trainings, and of earlier evaluations.

Everything else has the intervals of `hindcast.pipeline.statistics.intervals`, which hold the truth
more often. The gates decide which weights are released, so they keep the method that they were made
with. Where such an interval is shown, it is widened.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from hindcast.pipeline.statistics.intervals import LEVEL, Array, Interval

RESAMPLES: Final = 10_000
_TAILS: Final = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
_BLOCK: Final = 1 << 21  # numbers held at once while resampling: 16 MB


def percentile_interval(values: Array, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the percentile interval of the mean of values (W,) over windows.

    The draws of the windows depend on their number alone. Low and high are NaN if there is only
    one window.
    """
    count, mean = len(values), float(values.mean())
    if count < 2:
        return Interval(mean, np.nan, np.nan)
    column = np.ascontiguousarray(values)[:, None]
    replicates = [weights @ column / count for weights in _draws(count, resamples, seed)]
    low, high = np.quantile(np.concatenate(replicates), _TAILS, axis=0)
    return Interval(mean, float(low[0]), float(high[0]))


def widening(windows: int, seeds: int) -> float:
    """Return what multiplies both arms of a percentile bootstrap interval of a difference.

    The interval without it is too narrow: the bootstrap does not know how uncertain a deviation of
    few windows or seeds is. `tests/benchmarks/intervals.py` measures both, for one training seed
    and for five: no row has another number.
    """
    return 1.35 if seeds > 1 else 1.0 + 4.0 / windows


def widened(value: float, low: float, high: float, windows: int, seeds: int = 1) -> Interval:
    """Return the interval of a difference with both arms multiplied by `widening`."""
    factor = widening(windows, seeds)
    return Interval(value, value - factor * (value - low), value + factor * (high - value))


def _draws(count: int, resamples: int, seed: int) -> Iterator[Array]:
    """Yield how often each window is drawn in some resamples, (R, W)."""
    rng = np.random.default_rng([seed, 0, count])
    block = min(resamples, max(1, _BLOCK // count))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(count, size=(size, count)) + np.arange(size)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        yield counts.astype(np.float64)
