"""Intervals of values from single decisions: Student's t by unit, BCa, Clopper-Pearson.

    rewards                                          interval
    of any size                                      t with G - 1 degrees of freedom
    of 0 or 1, at least 10 non-zero carry weight     BCa over 2,000 draws of units
    of 0 or 1, fewer                                 Clopper-Pearson, of `is` alone
    of any size, fewer than 10 non-zero              none

Clopper-Pearson takes sum w r / max w successes of n / max w trials. An interval of width 0 is none:
it would come from decisions that are all alike. Sources: Efron 1987 (BCa); Clopper & Pearson 1934,
as in vw-estimators.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import Array, LoggedDecisions
from hindcast.pipeline.estimators.decisions.values import Value
from hindcast.pipeline.estimators.intervals import drawn_counts
from hindcast.pipeline.statistics.distributions import beta_quantile, t_quantile

FEW_REWARDS: Final = 10
_DRAWS: Final = 2000
_MOST_UNITS: Final = 100_000  # beyond them t and BCa agree
_WEIGHTED: Final = frozenset({"is", "snis", "dr", "sndr", "logged"})
_ROUNDING: Final = 1e-12  # an error below it, relative to the value, is that of sums
_NAN: Final = float("nan")


@dataclass(frozen=True)
class Interval:
    """A two-sided interval and its kind; NaN where there is none.

    Attributes:
        low: Lower end.
        high: Upper end.
        kind: "t", "bca", "clopper_pearson" or "none".
    """

    low: float
    high: float
    kind: str

    @property
    def shown(self) -> bool:
        """True if there is an interval."""
        return not math.isnan(self.low)


NONE: Final = Interval(_NAN, _NAN, "none")


def t_interval(value: float, se: float, units: int, level: float = 0.95) -> Interval:
    """Return the t interval of a value; none for one unit or an error of 0."""
    if units < 2 or not se > _ROUNDING * max(1.0, abs(value)):
        return NONE
    half = t_quantile(0.5 + level / 2.0, units - 1) * se
    return Interval(value - half, value + half, "t")


def carrying(e: LoggedDecisions, w: Array) -> int:
    """Return the number of non-zero rewards that carry weight."""
    return int(((e.reward != 0.0) & (w > 0.0)).sum())


def interval_of(
    e: LoggedDecisions, value: Value, w: Array, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the interval of an estimate with weights w (D,), see the table of this module."""
    [[found]] = intervals_of(e, [value], w, [level], seed)
    return found


def intervals_of(
    e: LoggedDecisions, values: Sequence[Value], w: Array, levels: Sequence[float], seed: int = 0
) -> list[list[Interval]]:
    """Return the intervals of estimates with the same weights w (D,): a list of levels for each.

    All estimates and levels share the bootstrap's draws.
    """
    binary = bool(np.isin(e.reward, (0.0, 1.0)).all())
    few, units = carrying(e, w) < FEW_REWARDS, e.units
    found: list[list[Interval]] = []
    drawn = []
    for k, value in enumerate(values):
        plain = [t_interval(value.value, value.se, units, level) for level in levels]
        if value.name not in _WEIGHTED or math.isnan(value.value) or few:
            exact = binary and few and value.name == "is"
            plain = [clopper_pearson(e, w, level) if exact else NONE for level in levels]
        elif binary and plain[0].shown and units <= _MOST_UNITS:
            drawn.append(k)
        found.append(plain)
    if drawn:
        made = bca(e, [values[k] for k in drawn], levels, np.random.default_rng(seed))
        for k, intervals in zip(drawn, made, strict=True):
            found[k] = intervals
    return found


def clopper_pearson(e: LoggedDecisions, w: Array, level: float = 0.95) -> Interval:
    """Return the exact interval of a mean of weighted rewards of 0 or 1."""
    if len(e) == 0 or not (w > 0.0).any():
        return NONE
    s = e.weight * w / e.weight.mean()
    largest = float(s.max())
    trials, wins = len(e) / largest, min(float(s @ e.reward), float(len(e))) / largest
    tail = (1.0 - level) / 2.0
    low = beta_quantile(tail, wins, trials - wins + 1.0) if wins > 0.0 else 0.0
    high = beta_quantile(1.0 - tail, wins + 1.0, trials - wins) if wins < trials else 1.0
    return Interval(low, high, "clopper_pearson")


def bca(
    e: LoggedDecisions, values: Sequence[Value], levels: Sequence[float], rng: np.random.Generator
) -> list[list[Interval]]:
    """Return the bias-corrected and accelerated bootstrap intervals over units."""
    there = np.bincount(e.unit) > 0
    units = int(there.sum())
    parts = [part for value in values for part in value.parts]
    tops, bottoms = (
        np.stack([np.bincount(e.unit, side)[there] for side in sides], axis=1)
        for sides in zip(*parts, strict=True)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = drawn_counts(units, rng, _DRAWS)
        of_parts = np.concatenate([(counts @ tops) / (counts @ bottoms) for counts in drawn])
    at, found = 0, []
    for value in values:
        replicates = of_parts[:, at : at + len(value.parts)].sum(axis=1)
        at += len(value.parts)
        z = np.asarray(np.bincount(e.unit, e.weight * value.z), np.float64)
        replicates = replicates[np.isfinite(replicates)]
        found.append([_corrected(value.value, z, replicates, level) for level in levels])
    return found


def _corrected(value: float, z: Array, replicates: Array, level: float) -> Interval:
    """Return the interval of a value with contributions z of the units, by its replicates."""
    below = float((replicates < value).mean() + 0.5 * (replicates == value).mean())
    if not 0.0 < below < 1.0:
        return NONE
    normal = NormalDist()
    bias = normal.inv_cdf(below)
    acceleration = float((z**3).sum() / (6.0 * (z**2).sum() ** 1.5))
    ends = []
    for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
        q = bias + normal.inv_cdf(tail)
        ends.append(normal.cdf(bias + q / (1.0 - acceleration * q)))
    low, high = np.quantile(replicates, ends)
    return Interval(float(low), float(high), "bca") if high > low else NONE
