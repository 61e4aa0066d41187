"""Value of the best of the first k policies of a log, if k of them are tried online.

    one half of the units     the order in which policies are tried: highest dr first
    the other half            their values with intervals

The best of the first k is known after k trials that are long enough. Its value is between the
largest lower end and the largest upper end of their intervals. These hold for all policies at once,
and so for the first k, whatever ordered them. The largest of several estimates is too high on
average; the interval is not.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.estimators.decisions.intervals import NONE, interval_of
from hindcast.pipeline.estimators.decisions.logged import Array, LoggedDecisions, weights
from hindcast.pipeline.estimators.decisions.support import FEWEST, support
from hindcast.pipeline.estimators.decisions.values import doubly_robust

SCHEMA: Final = {
    "trials": pl.Int64, "policy": pl.String, "ordered_by": pl.Float64, "held_out": pl.Float64,
    "held_out_low": pl.Float64, "held_out_high": pl.Float64, "best": pl.String,
    "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "units": pl.Int64,
}  # fmt: skip
_FEWEST_UNITS: Final = 2  # of a half, for a standard error

Weighed = tuple[LoggedDecisions, Array, Array]  # decisions, probabilities (C,), values q (C,)


def trials_of(policies: Mapping[str, Weighed], level: float, seed: int) -> pl.DataFrame:
    """Return a row per number of trials; no row unless there are two policies to choose between.

    Args:
        policies: The policies that the log answers for, with the decisions that weigh them.
        level: Level of each interval, so that all hold at once.
        seed: Seed of the halves and of the bootstrap.
    """
    found = []
    for name, (e, target, q) in policies.items():
        rng = np.random.default_rng(seed)
        side = rng.random(int(e.unit.max(initial=0)) + 1) < 0.5
        halves = [_half(e, target, q, half) for half in (side[e.unit], ~side[e.unit])]
        if min(half[0].units for half in halves) < _FEWEST_UNITS:
            return pl.DataFrame(schema=SCHEMA)
        (one, *of_one), (other, *of_other) = halves
        order, held = doubly_robust(one, *of_one), doubly_robust(other, *of_other)
        enough = support(other, of_other[0]).ess >= FEWEST
        w = weights(other, of_other[0])
        interval = interval_of(other, held, w, level, seed) if enough else NONE
        found.append((order.value, name, held.value, interval, other.units))
    if len(found) < 2:
        return pl.DataFrame(schema=SCHEMA)
    found.sort(key=lambda one: -one[0])
    rows: list[dict[str, Any]] = []
    for k, (by, name, value, interval, units) in enumerate(found, start=1):
        tried = found[:k]
        best = max(tried, key=lambda one: one[2])
        lows, highs = ([getattr(one[3], end) for one in tried] for end in ("low", "high"))
        rows.append({
            "trials": k, "policy": name, "ordered_by": by, "held_out": value,
            "held_out_low": interval.low, "held_out_high": interval.high, "best": best[1],
            "value": best[2], "low": np.nan if np.isnan(lows).all() else float(np.nanmax(lows)),
            "high": float(np.max(highs)), "units": units,  # unknown if one of them is
        })  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


def _half(e: LoggedDecisions, target: Array, q: Array, half: np.ndarray) -> Weighed:
    rows = half[e.owner]
    return e.take(half), target[rows], q[rows]
