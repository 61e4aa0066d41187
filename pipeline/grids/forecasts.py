"""Forecasts that a policy sees at hour t of the hours after it; x[t] itself is known.

    perfect   x[t + h]
    day       x of the same hour of the last known day; week: of the last known week
    mean7     mean of that hour over the last seven known days
    level7    mean7 + (x[t] - mean of x[t - 24], ..., x[t - 168]) .9^h
    noise     x[t + h] (1 + sigma sqrt(h / 24) z), z standard normal by t, h and the seed

Days before the series, and unknown hours, do not count; without any the forecast is x[t].
"""

from typing import Final

import numpy as np
from numba import types

from hindcast.pipeline.simulation.kernel import Floats, compiled

FORECASTS: Final = ("perfect", "day", "week", "mean7", "level7", "noise")
PERFECT, DAY, WEEK, MEAN7, LEVEL7, NOISE = range(len(FORECASTS))
_A: Final = np.uint64(0x9E3779B97F4A7C15)
_B: Final = np.uint64(0xBF58476D1CE4E5B9)
_C: Final = np.uint64(0x94D049BB133111EB)


@compiled(types.float64(types.uint64), forceinline=True)
def _uniform(state):  # type: ignore[no-untyped-def]
    """Return a number above 0 and below 1 by SplitMix64's finalizer."""
    z = (state ^ (state >> np.uint64(30))) * _B
    z = (z ^ (z >> np.uint64(27))) * _C
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@compiled()
def _past(x: Floats, last: int, step: int, days: int) -> float:
    """Return the mean of x[last], x[last - step], ... that are known; NaN without any."""
    total, count = 0.0, 0
    for k in range(days):
        at = last - k * step
        if 0 <= at < len(x) and not np.isnan(x[at]):
            total += x[at]
            count += 1
    return total / count if count > 0 else np.nan


@compiled()
def forecast(x: Floats, t: int, kind: int, sigma: float, seed: int, end: int, seen: Floats) -> None:
    """Fill seen[:end] with the forecast of x[t], x[t + 1], ..., made at hour t."""
    usual = _past(x, t - 24, 24, 7) if kind == LEVEL7 else 0.0
    for h in range(end):
        if h == 0:
            seen[h] = x[t]
        elif kind in (PERFECT, NOISE):
            seen[h] = x[t + h] if t + h < len(x) else np.nan
            if kind == NOISE:
                state = np.uint64(seed) * _A + np.uint64(t) * _C + np.uint64(2 * h)
                radius = np.sqrt(-2.0 * np.log(_uniform(state * _A)))
                angle = 2.0 * np.pi * _uniform((state + np.uint64(1)) * _A)
                seen[h] *= 1.0 + sigma * np.sqrt(h / 24.0) * radius * np.cos(angle)
        else:
            period = 168 if kind == WEEK else 24
            last = t + h - period * ((h + period - 1) // period)
            seen[h] = _past(x, last, period, 1 if kind in (DAY, WEEK) else 7)
            if kind == LEVEL7 and not np.isnan(usual):
                seen[h] += (x[t] - usual) * 0.9**h
            if np.isnan(seen[h]):
                seen[h] = x[t]
