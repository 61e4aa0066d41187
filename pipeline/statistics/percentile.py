"""Percentile bootstrap over windows, as the gates of trainings and cards of datasets have it.

Reports and tables have the intervals of `hindcast.pipeline.statistics.intervals`, which hold the
truth more often. The gates decide which weights are released, and cards are files of released
datasets, so both keep the method that they were made with.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from hindcast.pipeline.statistics.intervals import LEVEL, Array, Interval

RESAMPLES: Final = 10_000
_BLOCK: Final = 1 << 21  # numbers held at once while resampling: 16 MB


def percentile_intervals(
    samples: Sequence[Array], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval]:
    """Return percentile intervals of the means of samples (W,) over the same windows.

    All samples share the draws of the windows, which depend on their number alone. Low and high are
    NaN if there is only one window.
    """
    count, means = len(samples[0]), [float(values.mean()) for values in samples]
    if count < 2:
        return [Interval(mean, np.nan, np.nan) for mean in means]
    rng = np.random.default_rng([seed, 0, count])
    block, replicates = min(resamples, max(1, _BLOCK // count)), []
    columns = [np.ascontiguousarray(values)[:, None] for values in samples]
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(count, size=(size, count)) + np.arange(size)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        weights = counts.astype(np.float64)
        # One product each: the last bits of a product depend on its other columns.
        replicates.append(np.hstack([weights @ column / count for column in columns]))
    tails = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]
    low, high = np.quantile(np.concatenate(replicates), tails, axis=0)
    return [Interval(*each) for each in zip(means, low.tolist(), high.tolist(), strict=True)]
