"""Numbers of the page of `hindcast whatif`: means, paired differences, and what they lack.

The scores are those of two evaluations of the same policies: windows of the test part, and the test
part as one run, whose blocks are weeks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.summary.evaluations import Evaluation, read_evaluation
from hindcast.pipeline.statistics.intervals import (
    Interval,
    bootstrap_intervals,
    difference_cells,
    mean_cells,
    relative_difference,
)
from hindcast.pipeline.storage.files import read_parquet
from hindcast.pipeline.storage.run_files import SCORES

HEADLINE: Final = "mean_bounded_slowdown"
WAIT: Final = "mean_wait_s"
METRICS: Final = (
    HEADLINE, WAIT, "p95_wait_s", "p99_wait_s", "max_wait_s", "starved_share", "user_fairness",
    "mean_slowdown_wide", "mean_slowdown_long",
)  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scope:
    """Scores of one evaluation: the windows of the test part, or its weeks as one run.

    Attributes:
        evaluation: The content of its evaluation.json.
        values: Values of every metric of every policy, (W,); one value where a metric of a run has
            no weeks.
        means: Mean of each, with its interval, which is NaN for one value.
    """

    evaluation: Evaluation
    values: Mapping[str, Mapping[str, Array]]
    means: Mapping[str, Mapping[str, Interval]]

    @property
    def blocks(self) -> int:
        """Number of windows or weeks behind the headline."""
        return len(next(iter(self.values.values()))[HEADLINE])

    def difference(self, policy: str, reference: str, metric: str) -> Interval:
        """Return the paired difference policy - reference."""
        mine, theirs = self.values[policy][metric], self.values[reference][metric]
        return bootstrap_intervals([difference_cells(mine, theirs)])[0]


def read_scope(folder: Path) -> Scope:
    """Return the scores of an evaluation folder."""
    evaluation = read_evaluation(folder)
    scores = (
        read_parquet(folder / SCORES)
        .filter(pl.col("metric").is_in(METRICS))
        .group_by("policy", "metric", "window", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    values: dict[str, dict[str, Array]] = {}
    for (policy, metric), rows in scores.group_by("policy", "metric", maintain_order=True):
        series = rows.sort("window")["value"].to_numpy()
        values.setdefault(str(policy), {})[str(metric)] = series
    means: dict[str, dict[str, Interval]] = {policy: {} for policy in values}
    for metric in METRICS:
        cells = [mean_cells(values[policy][metric]) for policy in values]
        for policy, interval in zip(values, bootstrap_intervals(cells), strict=True):
            means[policy][metric] = interval
    return Scope(evaluation, values, means)


def best(scope: Scope, names: Sequence[str]) -> str | None:
    """Return the policy of least mean bounded slowdown among some; None if there are none."""
    return min(names, key=lambda name: scope.means[name][HEADLINE].value, default=None)


@dataclass(frozen=True)
class Pair:
    """Two policies compared on a metric, and the data that would make the comparison surer.

    Attributes:
        policy: The policy.
        reference: The policy that it is compared with.
        metric: Name of the metric.
        difference: Paired difference policy - reference, with its interval.
        share: The same relative to the mean of the reference: policy / reference - 1. NaN if that
            mean is 0.
        blocks: Windows or weeks behind the interval.
        for_half: Further ones for an interval half as wide.
        to_tell: Further ones until an interval around the same difference excludes 0; 0 if it does
            already, None if the difference is 0.
    """

    policy: str
    reference: str
    metric: str
    difference: Interval
    share: Interval
    blocks: int
    for_half: int
    to_tell: int | None

    @property
    def has_interval(self) -> bool:
        """True if there are two or more blocks."""
        return math.isfinite(self.difference.low)

    @property
    def clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.has_interval and (self.difference.low > 0 or self.difference.high < 0)


def pair_of(scope: Scope, policy: str, reference: str, metric: str = HEADLINE) -> Pair:
    """Return the comparison of two policies.

    The width of an interval falls with the square root of the number of blocks, so one half as wide
    needs four times as many.
    """
    difference = scope.difference(policy, reference, metric)
    blocks = len(scope.values[policy][metric])
    to_tell: int | None = None
    if math.isfinite(difference.low) and difference.value:
        side = difference.high if difference.value < 0 else difference.low
        reach = abs(side - difference.value)  # towards 0
        to_tell = max(0, math.ceil(blocks * ((reach / abs(difference.value)) ** 2 - 1)))
    mine, theirs = scope.values[policy][metric], scope.values[reference][metric]
    share = Interval(math.nan, math.nan, math.nan)
    if theirs.mean():
        share = relative_difference(mine, theirs)
    return Pair(policy, reference, metric, difference, share, blocks, 3 * blocks, to_tell)


@dataclass(frozen=True)
class Cast:
    """Policies with a part on the page.

    Attributes:
        recorded: Name of the log's scheduler; None if the log does not say when jobs started.
        plain: EASY with the order of arrival, which most batch systems resemble.
        rule: The rule that was best before the test part.
        other: The rule to compare it with: `plain`, or the second best one if that is the best.
        agent: The only agent, or the one that was best before it; None if there is no agent.
        rule_after: The rule that was best in the run of the test part, after the fact.
        kinds: Kind of every policy.
    """

    recorded: str | None
    plain: str
    rule: str
    other: str
    agent: str | None
    rule_after: str
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> list[str]:
        """Policies in tables with few columns."""
        names = [self.recorded, self.plain, self.rule, self.rule_after, self.agent]
        return list(dict.fromkeys(name for name in names if name is not None))


def cast_of(before: Scope, run: Scope, recorded: str, plain: str) -> Cast:
    """Return the policies with a part on the page, chosen on the run before the test part."""
    kinds = {entry.name: entry.kind for entry in run.evaluation.policies}
    rules = [name for name, kind in kinds.items() if kind == "heuristic" and name != recorded]
    agents = [name for name, kind in kinds.items() if kind == "learned"]
    rule, after = best(before, rules), best(run, rules)
    other = plain if rule != plain else best(before, [name for name in rules if name != rule])
    assert rule is not None
    assert other is not None
    assert after is not None
    there = recorded if recorded in kinds else None
    agent = agents[0] if len(agents) == 1 else best(before, agents)
    return Cast(there, plain, rule, other, agent, after, kinds)


def rows(windows: Scope, run: Scope, cast: Cast) -> pl.DataFrame:
    """Return a row per scope, policy, metric and reference.

    Columns: scope (windows or run), policy, kind, metric, unit, mean, low, high, blocks, reference,
    difference, difference_low, difference_high.
    """
    parts = (cast.recorded, cast.plain, cast.rule, cast.other, cast.rule_after)
    references = dict.fromkeys(filter(None, parts))
    found = []
    for name, scope in (("windows", windows), ("run", run)):
        units = {metric.name: metric.unit for metric in scope.evaluation.metrics}
        for metric in METRICS:
            pairs = [(p, r) for p in scope.values for r in references if p != r]
            values = {policy: of[metric] for policy, of in scope.values.items()}
            # All at once: they share the draws of the windows.
            differences = bootstrap_intervals(
                [difference_cells(values[policy], values[other]) for policy, other in pairs]
            )
            for (policy, reference), difference in zip(pairs, differences, strict=True):
                mean = scope.means[policy][metric]
                found.append({
                    "scope": name, "policy": policy, "kind": cast.kinds.get(policy, ""),
                    "metric": metric, "unit": units.get(metric, ""), "mean": mean.value,
                    "low": _finite(mean.low), "high": _finite(mean.high),
                    "blocks": len(values[policy]), "reference": reference,
                    "difference": difference.value, "difference_low": _finite(difference.low),
                    "difference_high": _finite(difference.high),
                })  # fmt: skip
    return pl.DataFrame(found, infer_schema_length=None)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
