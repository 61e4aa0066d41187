"""Intervals of values from single decisions: Student's t by unit, BCa, Clopper-Pearson.

    rewards                                          interval
    of any size                                      t with G - 1 degrees of freedom
    of 0 or 1, at least 10 non-zero carry weight     BCa over 2,000 draws of units; t beyond 100,000
    of 0 or 1, fewer                                 Clopper-Pearson, of `is` alone
    of any size, fewer than 10 non-zero              none

Clopper-Pearson takes sum w r / max w successes of n / max w trials. An interval of width 0 is none:
it would come from decisions that are all alike. Sources: Efron 1987 (BCa); Clopper & Pearson 1934,
as in vw-estimators.

A plain answer needs a mean weight of .8 .. 1.25 (`support`). If three standard errors of the mean
weight are more than .2, this check cuts off part of its distribution. Estimates that are correlated
with the mean weight, as `is` is, then have another distribution among plain answers. The t and BCa
intervals use the quantiles of that one: those of a normal error, given that the error of the mean
weight, which is normal too and correlated with it, lies between the bounds of the check.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import Array, LoggedDecisions
from hindcast.pipeline.estimators.decisions.values import Value
from hindcast.pipeline.estimators.intervals import drawn_counts
from hindcast.pipeline.statistics.distributions import (
    beta_quantile,
    selected_quantile,
    t_quantile,
)

FEW_REWARDS: Final = 10
_DRAWS: Final = 2000
_MOST_UNITS: Final = 100_000  # beyond them t and BCa agree
_WEIGHTED: Final = frozenset({"is", "snis", "dr", "sndr", "logged"})
_ROUNDING: Final = 1e-12  # an error below it, relative to the value, is that of sums
_NAN: Final = float("nan")
_NORMAL: Final = NormalDist()
_ANY: Final = (-math.inf, math.inf)

Quantile = Callable[[float], float]


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


def t_interval(
    value: float, se: float, units: int, level: float = 0.95, quantile: Quantile = _NORMAL.inv_cdf
) -> Interval:
    """Return the t interval of a value; none for one unit or an error of 0.

    `quantile` is the quantile function of the error, in standard errors, for many units.
    """
    if units < 2 or not se > _ROUNDING * max(1.0, abs(value)):
        return NONE
    upper = 0.5 + level / 2.0
    scale = se * t_quantile(upper, units - 1) / _NORMAL.inv_cdf(upper)
    return Interval(value - scale * quantile(upper), value - scale * quantile(1.0 - upper), "t")


def error_quantile(
    e: LoggedDecisions, z: Array, w: Array, passed: tuple[float, float] = _ANY
) -> Quantile:
    """Return the quantile function of the error of an estimate, in standard errors.

    Args:
        e: The decisions.
        z: (D,) contributions to the estimate.
        w: (D,) weights of the policy.
        passed: Deviations of the mean of w from 1 that the verdict lets through, in standard
            errors; infinite if it lets all through.
    """
    if math.isinf(passed[0]):
        return _NORMAL.inv_cdf
    mean = float((e.weight * w).sum() / e.weight.sum())
    one, other = (np.bincount(e.unit, e.weight * part) for part in (z, w - mean))
    sizes = math.sqrt(float(one @ one) * float(other @ other))
    rho = float(one @ other) / sizes if sizes > 0.0 else 0.0
    return cache(lambda p: selected_quantile(p, rho, *passed))


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
    e: LoggedDecisions, values: Sequence[Value], w: Array, levels: Sequence[float], seed: int = 0,
    passed: tuple[float, float] = _ANY,
) -> list[list[Interval]]:  # fmt: skip
    """Return the intervals of estimates with the same weights w (D,): a list of levels for each.

    All estimates and levels share the bootstrap's draws. `passed` is that of `Support`.
    """
    binary = bool(np.isin(e.reward, (0.0, 1.0)).all())
    few, units = carrying(e, w) < FEW_REWARDS, e.units
    found: list[list[Interval]] = []
    drawn = []
    quantiles = [error_quantile(e, value.z, w, passed) for value in values]
    for k, value in enumerate(values):
        plain = [t_interval(value.value, value.se, units, n, quantiles[k]) for n in levels]
        if value.name not in _WEIGHTED or math.isnan(value.value) or few:
            exact = binary and few and value.name == "is"
            plain = [clopper_pearson(e, w, level) if exact else NONE for level in levels]
        elif binary and plain[0].shown and units <= _MOST_UNITS:
            drawn.append(k)
        found.append(plain)
    if drawn:
        rng = np.random.default_rng(seed)
        made = bca(e, [values[k] for k in drawn], levels, rng, [quantiles[k] for k in drawn])
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
    e: LoggedDecisions, values: Sequence[Value], levels: Sequence[float], rng: np.random.Generator,
    quantiles: Sequence[Quantile],
) -> list[list[Interval]]:  # fmt: skip
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
    for value, quantile in zip(values, quantiles, strict=True):
        replicates = of_parts[:, at : at + len(value.parts)].sum(axis=1)
        at += len(value.parts)
        z = np.asarray(np.bincount(e.unit, e.weight * value.z), np.float64)
        replicates = replicates[np.isfinite(replicates)]
        found.append([_corrected(value.value, z, replicates, n, quantile) for n in levels])
    return found


def _corrected(
    value: float, z: Array, replicates: Array, level: float, quantile: Quantile
) -> Interval:
    """Return the interval of a value with contributions z of the units, by its replicates."""
    below = float((replicates < value).mean() + 0.5 * (replicates == value).mean())
    if not 0.0 < below < 1.0:
        return NONE
    bias = _NORMAL.inv_cdf(below)
    acceleration = float((z**3).sum() / (6.0 * (z**2).sum() ** 1.5))
    ends = []
    for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
        q = bias - quantile(1.0 - tail)
        ends.append(_NORMAL.cdf(bias + q / (1.0 - acceleration * q)))
    low, high = np.quantile(replicates, ends)
    return Interval(float(low), float(high), "bca") if high > low else NONE
