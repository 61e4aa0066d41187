"""Calibration of quantiles of waits on earlier forecasts, and how good quantiles are.

The quantiles of level a are multiplied, on the scale wait + 600 s, by what would have made the
share a of earlier waits lie below them (split conformal quantiles, Romano et al. 2019).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.whatif.record import Array

Floats = NDArray[np.float64]

LEVELS: Final = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
INTERVALS: Final = {50: (2, 4), 80: (1, 5), 95: (0, 6)}  # % -> places of its levels
EARLIER: Final = 300  # forecasts that are calibrated on, the last ones
FEWEST: Final = 39  # of them, with which all levels are between two of them
LONGEST_S: Final = 7 * 86_400  # a longer wait counts as this
_OFFSET_S: Final = 600.0


def quantiles_of(waits: NDArray[np.int64]) -> Floats:
    """Return the seven quantiles of D draws for T jobs, (T, 7), of waits in s, (D, T)."""
    found: Floats = np.quantile(waits, LEVELS, axis=0, method="hazen").T
    return found


def shifts_of(quantiles: Floats, waits: Array) -> Floats:
    """Return what is added to the logarithms of quantiles, (7,); 0 from less than FEWEST forecasts.

    Args:
        quantiles: Quantiles of earlier forecasts in s, (n, 7).
        waits: The waits that they were about in s, (n,).
    """
    count = len(waits)
    if count < FEWEST:
        return np.zeros(len(LEVELS))
    missing = np.log(waits + _OFFSET_S)[:, None] - np.log(quantiles + _OFFSET_S)
    place = np.ceil(np.round(LEVELS * (count + 1), 9)).astype(np.int64) - 1
    return np.sort(missing, axis=0)[np.minimum(place, count - 1), np.arange(len(LEVELS))]


def calibrated(quantiles: Floats, shifts: Floats) -> Floats:
    """Return quantiles with these shifts, at least 0 and ascending, (.., 7)."""
    moved = np.exp(np.log(quantiles + _OFFSET_S) + shifts) - _OFFSET_S
    return np.sort(np.maximum(moved, 0.0), axis=-1)


@dataclass(frozen=True)
class Score:
    """Quality of forecasts of n waits; waits and quantiles count as at most seven days.

    Attributes:
        loss_h: Mean pinball loss over the seven levels in h.
        coverage: Share of the waits in the interval, by % of the interval.
        width_h: Mean width of the interval in h.
    """

    loss_h: float
    coverage: dict[int, float]
    width_h: dict[int, float]


def score(quantiles: Floats, waits: Array) -> Score:
    """Return the score of quantiles in s, (n, 7), for waits in s, (n,)."""
    q, y = np.minimum(quantiles, LONGEST_S), np.minimum(waits, LONGEST_S)[:, None]
    loss = np.maximum(LEVELS * (y - q), (LEVELS - 1.0) * (y - q)).mean()
    inside = {
        percent: float(((q[:, low] <= y[:, 0]) & (y[:, 0] <= q[:, high])).mean())
        for percent, (low, high) in INTERVALS.items()
    }
    width = {
        percent: float((q[:, high] - q[:, low]).mean()) / 3600.0
        for percent, (low, high) in INTERVALS.items()
    }
    return Score(float(loss) / 3600.0, inside, width)
