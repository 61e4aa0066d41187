"""Percentile bootstrap over windows: of gates of trainings, cards of datasets, and `whatif`.

Reports and tables have the intervals of `hindcast.pipeline.statistics.intervals`, which hold the
truth more often. The gates decide which weights are released, and cards are files of released
datasets, so both keep the method that they were made with. The verdict of `whatif` was fitted to
these intervals over weeks, with thresholds of its own beside them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hindcast.pipeline.statistics.intervals import LEVEL, Array, Interval

RESAMPLES: Final = 10_000
_TAILS: Final = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
_BLOCK: Final = 1 << 21  # numbers held at once while resampling: 16 MB


def percentile_intervals(
    samples: Sequence[Array], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval]:
    """Return percentile intervals of the means of samples (W,) over the same windows.

    All samples share the draws of the windows, which depend on their number alone. Low and high are
    NaN if there is only one window. No samples have no intervals.
    """
    if not samples:
        return []
    count, means = len(samples[0]), [float(values.mean()) for values in samples]
    if count < 2:
        return [Interval(mean, np.nan, np.nan) for mean in means]
    columns = [np.ascontiguousarray(values)[:, None] for values in samples]
    # One product each: the last bits of a product depend on its other columns.
    replicates = [
        np.hstack([weights @ column / count for column in columns])
        for weights in _draws(count, resamples, seed)
    ]
    low, high = np.quantile(np.concatenate(replicates), _TAILS, axis=0)
    return [Interval(*each) for each in zip(means, low.tolist(), high.tolist(), strict=True)]


def percentile_ratio(first: Array, second: Array) -> Interval:
    """Return mean(first) / mean(second) - 1 over the same windows (W,), with its interval.

    A replicate is the ratio of the two means on one draw of the windows, so the interval excludes 0
    if that of the difference does. Raises ValueError if the second has a mean of 0.
    """
    if second.mean() == 0.0:
        raise ValueError("a difference relative to a mean of 0 is not defined")
    value, replicates = float(first.mean() / second.mean() - 1.0), []
    if len(first) < 2:
        return Interval(value, np.nan, np.nan)
    for weights in _draws(len(first), RESAMPLES, 0):
        below = weights @ second
        replicates.append(weights @ first / np.where(below == 0.0, np.nan, below) - 1.0)
    low, high = np.nanquantile(np.concatenate(replicates), _TAILS)
    return Interval(value, float(low), float(high))


def _draws(count: int, resamples: int, seed: int) -> Iterator[Array]:
    """Yield how often each window is drawn in some resamples, (R, W)."""
    rng = np.random.default_rng([seed, 0, count])
    block = min(resamples, max(1, _BLOCK // count))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(count, size=(size, count)) + np.arange(size)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        yield counts.astype(np.float64)
