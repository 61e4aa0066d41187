"""Numbers of the page of `hindcast whatif`: scopes, means, paired differences and the ranking.

before     40 to 70 % of the log as one run, on which the candidate is chosen
run        the last 30 % as one run, whose blocks are weeks
windows    windows of the last 30 %, each from the state that the log was in
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.statistics.intervals import Interval, mean_interval
from hindcast.pipeline.whatif import verdict as v
from hindcast.pipeline.whatif.shakes import Shaken

HEADLINE: Final = "mean_bounded_slowdown"
WAIT: Final = "mean_wait_s"
UNITS: Final[Mapping[str, str]] = {
    HEADLINE: "1",
    WAIT: "s",
    "p95_wait_s": "s",
    "p99_wait_s": "s",
    "max_wait_s": "s",
    "starved_share": "1",
    "user_fairness": "1",
    "mean_slowdown_wide": "1",
    "mean_slowdown_long": "1",
}

UTILISATION: Final = "utilisation_"  # followed by a resource, where the machine has several

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scope:
    """Values of all policies in one scope.

    Attributes:
        values: Values of every metric of `UNITS` of every policy, (B,): one for a window, or for a
            week of the run. The mean of the weeks is the mean over the jobs. A metric without
            blocks, and every metric of a run of less than four weeks, has one value.
    """

    values: Mapping[str, Mapping[str, Array]]

    @cached_property
    def means(self) -> Mapping[str, Mapping[str, Interval]]:
        """Mean of every metric of every policy; its interval is NaN below two blocks.

        No metric is below 0, so no interval is.
        """
        found: dict[str, dict[str, Interval]] = {policy: {} for policy in self.values}
        for metric in self.units:
            for name, of in self.values.items():
                if metric in of:
                    mean = mean_interval(of[metric])
                    found[name][metric] = mean._replace(low=_at_least(0.0, mean.low))
        return found

    @property
    def units(self) -> Mapping[str, str]:
        """The unit of every metric: those of `UNITS`, and the shares of resources that are held."""
        first = next(iter(self.values.values()), {})
        return {**UNITS, **{name: "1" for name in first if name.startswith(UTILISATION)}}

    @property
    def blocks(self) -> int:
        """Number of windows or weeks behind the headline."""
        return len(next(iter(self.values.values()))[HEADLINE])

    def value(self, policy: str, metric: str = HEADLINE) -> float:
        """Return the mean of a metric, NaN where the policy or the metric is absent."""
        of = self.values.get(policy, {}).get(metric)
        return math.nan if of is None else float(np.mean(of))


@dataclass(frozen=True)
class Pair:
    """Two policies compared on a metric, and the data that would make the comparison surer.

    Attributes:
        policy: The policy.
        reference: The policy that it is compared with.
        difference: Paired difference policy - reference, with its interval.
        mean: Mean of the reference.
        blocks: Windows or weeks behind the interval.
        for_half: Further ones for an interval half as wide.
        to_tell: Further ones until an interval around the same difference excludes 0; 0 if it does
            already, None if the difference is 0.
    """

    policy: str
    reference: str
    difference: Interval
    mean: float
    blocks: int
    for_half: int
    to_tell: int | None

    @property
    def share(self) -> Interval:
        """Difference and interval in multiples of the mean of the reference; NaN if that is 0.

        Nothing is less by more than 100 %.
        """
        ends = [end / self.mean if self.mean else math.nan for end in self.difference]
        return Interval(*(_at_least(-1.0, end) for end in ends))

    @property
    def has_interval(self) -> bool:
        """True if there are enough blocks for an interval."""
        return self.blocks >= v.FEWEST_BLOCKS

    @property
    def clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.has_interval and (self.difference.low > 0 or self.difference.high < 0)


def _at_least(least: float, number: float) -> float:
    """Return `number`, or `least` if the number is below that; NaN stays NaN."""
    return number if math.isnan(number) else max(least, number)


def pair_of(scope: Scope, policy: str, reference: str, metric: str = HEADLINE) -> Pair:
    """Return the comparison of two policies.

    The width of an interval falls with the square root of the number of blocks, so one half as wide
    needs four times as many.
    """
    mine, theirs = scope.values[policy][metric], scope.values[reference][metric]
    difference = mean_interval(mine - theirs)
    blocks = len(mine)
    to_tell: int | None = None
    if math.isfinite(difference.low) and difference.value:
        side = difference.high if difference.value < 0 else difference.low
        reach = abs(side - difference.value)  # towards 0
        to_tell = max(0, math.ceil(blocks * ((reach / abs(difference.value)) ** 2 - 1)))
    return Pair(policy, reference, difference, float(theirs.mean()), blocks, 3 * blocks, to_tell)


def difference_of(
    scope: Scope | None, name: str, policy: str, reference: str
) -> v.Difference | None:
    """Return the headline of two policies as the verdict takes it; None where one is absent."""
    if scope is None or not {policy, reference} <= scope.values.keys():
        return None
    of = pair_of(scope, policy, reference).difference
    return v.Difference(
        "run" if name == "run" else "windows",
        scope.value(policy),
        scope.value(reference),
        len(scope.values[policy][HEADLINE]),
        of.low,
        of.high,
    )


def spread(shaken: Mapping[str, Shaken], policy: str, metric: str) -> tuple[float, float] | None:
    """Return mean and standard deviation over the shakes; None without two draws."""
    of = shaken.get(policy)
    if of is None or metric not in {HEADLINE, WAIT} or len(of.slowdown) < 2:
        return None
    values = of.slowdown if metric == HEADLINE else of.wait
    return float(values.mean()), float(values.std(ddof=1))


def ranking(scope: Scope, shaken: Mapping[str, Shaken], names: Sequence[str]) -> dict[str, int]:
    """Return the rank of each policy by the headline, 1 for the best.

    A policy has the rank of the first of its rank if the mean of their differences over the shakes
    is within two standard deviations of these differences, or if their values are equal.
    """
    found: dict[str, int] = {}
    leader = ""
    for place, name in enumerate(sorted(names, key=scope.value), start=1):
        equal = bool(leader) and (
            scope.value(name) == scope.value(leader) or _within(shaken, name, leader)
        )
        found[name] = found[leader] if equal else place
        leader = leader if equal else name
    return found


def _within(shaken: Mapping[str, Shaken], policy: str, other: str) -> bool:
    if spread(shaken, policy, HEADLINE) is None or spread(shaken, other, HEADLINE) is None:
        return False
    differences = shaken[policy].slowdown - shaken[other].slowdown
    return bool(abs(differences.mean()) <= v.SHAKES * differences.std(ddof=1))


def rows(
    scopes: Mapping[str, Scope],
    kinds: Mapping[str, str],
    references: Sequence[str],
    shaken: Mapping[str, Shaken],
) -> pl.DataFrame:
    """Return a row per scope, policy, metric and reference.

    Columns: scope (windows or run), policy, kind, metric, unit, mean, low, high, blocks, reference,
    difference, difference_low, difference_high, shake_sd (of the mean in the run).
    """
    found = []
    for name, scope in scopes.items():
        for metric, unit in scope.units.items():
            values = {p: of[metric] for p, of in scope.values.items() if metric in of}
            pairs = [(p, r) for p in values for r in references if p != r and r in values]
            for policy, reference in pairs:
                difference = mean_interval(values[policy] - values[reference])
                mean = scope.means[policy][metric]
                shakes = spread(shaken, policy, metric) if name == "run" else None
                found.append(
                    {
                        "scope": name,
                        "policy": policy,
                        "kind": kinds.get(policy, ""),
                        "metric": metric,
                        "unit": unit,
                        "mean": mean.value,
                        "low": _finite(mean.low),
                        "high": _finite(mean.high),
                        "blocks": len(values[policy]),
                        "reference": reference,
                        "difference": difference.value,
                        "difference_low": _finite(difference.low),
                        "difference_high": _finite(difference.high),
                        "shake_sd": None if shakes is None else shakes[1],
                    }
                )
    return pl.DataFrame(found, infer_schema_length=None)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
