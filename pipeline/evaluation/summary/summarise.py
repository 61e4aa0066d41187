"""Summary of scores: one row per scenario, metric, policy and reference, with intervals.

    scores  ->  common windows  ->  mean, low, high, iqm, median        of each policy
                                ->  paired difference, wins, chance     against each reference

Seeds and training seeds of one agent are pooled into one row;
hindcast.pipeline.statistics.intervals says how their spread enters the interval. A second table has
them one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.evaluations import Metric
from hindcast.pipeline.evaluation.summary.pairing import Pairing, Setting, read_settings
from hindcast.pipeline.evaluation.summary.rows import (
    NO_BASELINE,
    SEEDS_SCHEMA,
    TABLE_SCHEMA,
    Rows,
    best_first,
)
from hindcast.pipeline.evaluation.until import decision
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.statistics.intervals import LEVEL, Array, skewness_of

# Fewer than the intervals were measured with, see docs/protocol.md.
FEW_SEEDS: Final = 5
FEW_WINDOWS: Final = 10
# Of differences that grow with a lognormal score, see docs/protocol.md.
SKEWED: Final = 1.5
_MANY_WINDOWS: Final = 100


@dataclass(frozen=True)
class Summary:
    """Numbers of a report.

    Attributes:
        settings: The settings, in the order of the folders.
        pairings: Data behind the rows, by (label of the setting, metric).
        table: Rows (scenario, metric, policy, reference), best policy first. The row of a reference
            with itself has no comparison; `reference` is null if the setting has no references.
        seeds: Rows (scenario, metric, policy, run): seeds or training seeds one by one, compared
            with the strongest simple policy.
        references: Reference policies of each setting, by its label.
        strongest: Best policy that was not learned, by mean of the headline metric; None if every
            policy was learned or the metric has no better direction.
        bounds: Bound on the headline metric of each common window, (windows,), or None.
        left_out: Sentences about data that the numbers do not cover, by label.
        level: Level of the intervals, 0.95.
    """

    settings: tuple[Setting, ...]
    pairings: Mapping[tuple[str, str], Pairing]
    table: pl.DataFrame
    seeds: pl.DataFrame
    references: Mapping[str, tuple[str, ...]]
    strongest: Mapping[str, str | None]
    bounds: Mapping[str, Array | None]
    left_out: Mapping[str, tuple[str, ...]]
    level: float = LEVEL

    def headline(self, setting: Setting) -> Pairing:
        """Return all policies of a setting on its headline metric."""
        return self.pairings[setting.label, setting.first.headline]

    def rows(self, setting: Setting, metric: str) -> pl.DataFrame:
        """Return the rows of `table` for a setting and metric."""
        return self.table.filter(scenario=setting.label, metric=metric)

    def seed_rows(self, setting: Setting) -> list[dict[str, Any]]:
        """Return the rows of `seeds` for a setting's headline metric."""
        metric = setting.first.headline
        return self.seeds.filter(scenario=setting.label, metric=metric).to_dicts()

    def metrics(self, setting: Setting) -> list[Metric]:
        """Return the metrics of a setting that could be compared, the headline first."""
        return [m for m in setting.metrics if (setting.label, m.name) in self.pairings]


def summarise(folders: Sequence[Path]) -> Summary:
    """Summarise one or several evaluation folders; DatasetError if they cannot be compared.

    References are those that evaluation.json lists, or `random` if it lists none. The strongest
    simple policy is always one of them, so that no choice of references hides it.
    """
    pairings: dict[tuple[str, str], Pairing] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    strongest: dict[str, str | None] = {}
    bounds: dict[str, Array | None] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    table: list[dict[str, Any]] = []
    seeds: list[dict[str, Any]] = []
    settings = read_settings(folders)
    for setting in settings:
        label = setting.label
        headline = setting.pair(setting.first.headline)
        strongest[label] = _strongest(headline)
        chosen[label] = _references(setting, headline, strongest[label])
        bounds[label] = _bound(setting, headline)
        left_out[label] = tuple(_left_out(setting, headline, bounds[label]))
        left_out[label] += _skewed(headline, strongest[label])
        for metric in setting.metrics:
            main = metric.name == setting.first.headline
            try:
                pairing = headline if main else setting.pair(metric.name)
            except DatasetError:  # a side metric is no reason to refuse the comparison
                note = f"{metric.name} is not shown: no window has a value of it for every policy."
                left_out[label] += (note,)
                continue
            pairings[label, metric.name] = pairing
            rows = Rows(label, setting.first.recipe, pairing)
            rows.compare(chosen[label], strongest[label], bounds[label] if main else None)
            table += rows.table
            seeds += rows.seeds
    return Summary(
        settings=tuple(settings),
        pairings=pairings,
        table=pl.DataFrame(table, schema=TABLE_SCHEMA),
        seeds=pl.DataFrame(seeds, schema=SEEDS_SCHEMA),
        references=chosen,
        strongest=strongest,
        bounds=bounds,
        left_out=left_out,
    )


def _strongest(headline: Pairing) -> str | None:
    """Return the best rule that a scheduler could follow; it need not be among the references."""
    if headline.metric.better == "neither":
        return None
    simple = (policy.name for policy in best_first(headline) if policy.kind not in NO_BASELINE)
    return next(simple, None)


def _references(setting: Setting, headline: Pairing, strongest: str | None) -> tuple[str, ...]:
    """Return the policies to compare with, the strongest simple one first.

    What was recorded elsewhere is always one of them: it is what a reader has today.
    """
    names = setting.references or [p.name for p in headline.policies if p.kind == "random"]
    names = [*names, *(p.name for p in headline.policies if p.kind == "recorded")]
    groups = [setting.entries[name].group if name in setting.entries else name for name in names]
    ordered = dict.fromkeys([strongest, *groups] if strongest else groups)
    return tuple(name for name in ordered if headline.find(name) is not None)


def _bound(setting: Setting, headline: Pairing) -> Array | None:
    """Return the bound on each common window: (windows,), or None if one window lacks it.

    If policies carry different bounds of one window, each of them is valid, and the tightest
    counts.
    """
    evaluation = setting.first
    if evaluation.bound is None:
        return None
    value = pl.col("value")
    rows = (
        setting.scores.filter((pl.col("metric") == evaluation.bound) & value.is_not_nan())
        .filter(pl.col("window").is_in(headline.windows))
        .group_by("window")
        .agg(value.max() if evaluation.bound_kind == "lower" else value.min())
        .sort("window")
    )
    return rows["value"].to_numpy() if rows.height == len(headline.windows) else None


def _left_out(setting: Setting, headline: Pairing, bound: Array | None) -> list[str]:
    """Return sentences about data that the numbers do not cover, and about suspect values."""
    found = []
    if headline.left_out:
        total = len(headline.windows) + len(headline.left_out)
        who = ", ".join(f"{name} lacks {count}" for name, count in headline.incomplete)
        found.append(
            f"{len(headline.left_out)} of {total} windows are left out, because not every policy "
            f"was run on them with all of its seeds ({who})."
        )
    scored = set(setting.scores.filter(pl.col("metric") == headline.metric.name)["policy"])
    found += [
        f"{name} is listed but has no value of {headline.metric.name}."
        for name in setting.entries
        if name not in scored
    ]
    missing = [name for name in setting.references if name not in scored]
    missing = [name for name in missing if headline.find(name) is None]
    found += [f"{name} is named as a reference but was not run." for name in missing]
    evaluation = setting.first
    if bound is None and evaluation.bound in {metric.name for metric in evaluation.metrics}:
        found.append(f"The bound {evaluation.bound} is missing on some windows and is not shown.")
    if bound is not None:
        found += _violations_of_bound(headline, bound, evaluation.bound_kind == "lower")
    found += [decision(e.until) for e in setting.evaluations if e.until is not None]
    looks = max((e.looks for e in setting.evaluations if e.looks is not None), default=0)
    if looks:
        found.append(
            f"{count_of(looks, 'other agent')} had been scored on these windows before, by the "
            "ledger of the machine. Of several agents, the best looks better there than it is."
        )
    few = [p for p in headline.policies if p.trained and 1 < len(p.runs) < FEW_SEEDS]
    if few:
        who = ", ".join(f"{policy.name} ({len(policy.runs)})" for policy in few)
        found.append(
            f"There are fewer than {FEW_SEEDS} training seeds of {who}. How often intervals over "
            "so few seeds hold the truth was not measured."
        )
    if len(headline.windows) < FEW_WINDOWS:
        found.append(
            f"Intervals are over {count_of(len(headline.windows), 'window')} alone. How often "
            f"intervals over fewer than {FEW_WINDOWS} windows hold the truth was not measured."
        )
    return found


def _skewed(headline: Pairing, strongest: str | None) -> tuple[str, ...]:
    """Return a sentence about differences whose intervals hold the truth less often; or none."""
    reference = headline.find(strongest) if strongest else None
    if reference is None or not FEW_WINDOWS <= len(headline.windows) < _MANY_WINDOWS:
        return ()
    found = {
        p.name: skewness_of(p.window_means - reference.window_means) for p in headline.policies
    }
    who = [f"{name} ({value:+.1f})" for name, value in found.items() if abs(value) >= SKEWED]
    if not who:
        return ()
    told = (
        f"The differences from {strongest} are skewed over windows: {', '.join(who)}. Where "
        "differences grow with a skewed score, simulated intervals of 10 and 30 windows held the "
        "truth in 90 and 92 % instead of 95 %, and in 82 and 86 % where the ratio of two policies "
        "scatters as much."
    )
    return (told,)


def _violations_of_bound(headline: Pairing, bound: Array, lower: bool) -> list[str]:
    """Return a sentence for every policy that is better than a bound allows in some window."""
    slack = 1e-6 * np.abs(bound)
    sentences = []
    for policy in headline.policies:
        excess = bound - policy.values if lower else policy.values - bound
        count = int((excess > slack).any(axis=0).sum())
        if count:
            side = "below the lower" if lower else "above the upper"
            sentences.append(
                f"{policy.name} is {side} bound on {count_of(count, 'window')}: the bound or the "
                "outcome is wrong there."
            )
    return sentences
