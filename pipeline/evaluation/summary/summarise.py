"""Summary of scores: one row per scenario, metric, policy and reference, with intervals.

    scores  ->  common windows  ->  mean, low, high, iqm, median        of each policy
                                ->  paired difference, wins, chance     against each reference

Seeds and training seeds of one agent are pooled into one row;
hindcast.pipeline.statistics.intervals says how their spread enters the interval. A second table has
them one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from hindcast.pipeline.evaluation.summary.cautions import cautions
from hindcast.pipeline.evaluation.summary.evaluations import NO_BASELINE
from hindcast.pipeline.evaluation.summary.finding import Finding, state_finding
from hindcast.pipeline.evaluation.summary.left_out import data_left_out
from hindcast.pipeline.evaluation.summary.pairing import (
    Pairing,
    PolicyRuns,
    Setting,
    read_settings,
)
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.statistics.intervals import (
    Array,
    Interval,
    autocorrelation,
    improvement_cells,
    iqm,
    mean_interval,
    median,
    paired_difference,
    tie_tolerance,
    win_tie_loss,
    windows_of_half,
)
from hindcast.pipeline.workloads.caveats import Caveat

_SUBJECT: Final = dict.fromkeys(
    ("scenario", "recipe", "metric", "unit", "better", "policy", "kind"), pl.String
)
_ESTIMATES: Final = {
    **dict.fromkeys(("windows", "windows_left_out", "seeds"), pl.Int64),
    **dict.fromkeys(("mean", "low", "high", "iqm", "median"), pl.Float64),
}
_AGAINST: Final = {
    "reference": pl.String,
    **dict.fromkeys(("paired_difference", "paired_low", "paired_high"), pl.Float64),
    **dict.fromkeys(("wins", "ties", "losses"), pl.Int64),
    "probability_of_improvement": pl.Float64,
    "windows_of_half": pl.Int64,
    "autocorrelation": pl.Float64,
}
_BOUND: Final = {"bound": pl.Float64, "bound_ratio": pl.Float64}
TABLE_SCHEMA: Final = pl.Schema({**_SUBJECT, **_ESTIMATES, **_BOUND, **_AGAINST})
SEEDS_SCHEMA: Final = pl.Schema({**_SUBJECT, "run": pl.String, **_ESTIMATES, **_AGAINST})


Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class SettingSummary:
    """Numbers of a report about one setting.

    Attributes:
        setting: The setting, with the data behind the rows.
        references: Reference policies.
        strongest: Best policy that was not learned, by mean of the headline metric; None if every
            policy was learned or the metric has no better direction.
        bound: Bound on the headline metric of each common window, (windows,), or None.
        table: Rows (policy, reference) by metric, the headline, the best policy and the strongest
            simple policy first. The row of a reference with itself has no comparison; `reference`
            is None without references.
        seeds: Rows (policy, run) by metric: seeds or training seeds one by one, compared with the
            strongest simple policy.
        finding: Result for the learned policies.
        cautions: What makes the scores doubtful.
        left_out: Sentences about data that the numbers do not cover.
        sentences: What is known of every policy and agent, by name.
    """

    setting: Setting
    references: tuple[str, ...]
    strongest: str | None
    bound: Array | None
    table: Mapping[str, Rows]
    seeds: Mapping[str, Rows]
    finding: Finding
    cautions: tuple[Caveat, ...]
    left_out: tuple[str, ...]
    sentences: Mapping[str, str]

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """The first row of every policy by metric, against the strongest simple policy if any."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for metric, rows in self.table.items():
            for row in rows:
                found.setdefault(metric, {}).setdefault(row["policy"], row)
        return {metric: [*of.values()] for metric, of in found.items()}


@dataclass(frozen=True)
class Summary:
    """Numbers of a report.

    Attributes:
        settings: The settings, in the order of the folders.
    """

    settings: tuple[SettingSummary, ...]

    @cached_property
    def table(self) -> pl.DataFrame:
        """Rows (scenario, metric, policy, reference) of all settings."""
        rows = [row for of in self.settings for part in of.table.values() for row in part]
        return pl.DataFrame(rows, schema=TABLE_SCHEMA)

    @cached_property
    def seeds(self) -> pl.DataFrame:
        """Rows (scenario, metric, policy, run) of all settings."""
        rows = [row for of in self.settings for part in of.seeds.values() for row in part]
        return pl.DataFrame(rows, schema=SEEDS_SCHEMA)


def summarise(folders: Sequence[Path]) -> Summary:
    """Summarise one or several evaluation folders; DatasetError if they cannot be compared.

    References are those that evaluation.json lists, or `random` if it lists none. The strongest
    simple policy is always one of them, so that no choice of references hides it.
    """
    summaries = []
    for setting in read_settings(folders):
        headline, strongest = setting.headline, _strongest(setting.headline)
        references, bound = _references(setting, strongest), _bound(setting)
        table, seeds = dict[str, Rows](), dict[str, Rows]()
        for metric, pairing in setting.pairings.items():
            of_windows = bound if pairing is headline else None
            table[metric] = _table(setting, pairing, references, of_windows)
            seeds[metric] = _seeds(setting, pairing, strongest)
        summaries.append(
            SettingSummary(
                setting=setting,
                references=references,
                strongest=strongest,
                bound=bound,
                table=table,
                seeds=seeds,
                finding=state_finding(setting, table[headline.metric.name], strongest),
                cautions=cautions(setting.entries.values(), setting.scores),
                left_out=tuple(data_left_out(setting, strongest, bound)),
                sentences=described(setting.entries.values()),
            )
        )
    return Summary(tuple(summaries))


def _table(
    setting: Setting, pairing: Pairing, references: Sequence[str], bound: Array | None
) -> Rows:
    """Return a row for each policy and reference, best policy first.

    `bound` is that of each window, (windows,), or None. Without references, a policy has one row.
    """
    compared = [pairing.by_name[name] for name in references if name in pairing.by_name]
    rows: Rows = []
    for policy in pairing.ranked:
        own = {**dict.fromkeys(TABLE_SCHEMA), **_estimates(setting, pairing, policy)}
        if bound is not None:
            middle = float(bound.mean())
            own |= {"bound": middle, "bound_ratio": own["mean"] / middle if middle else None}
        rows += [own | _against(pairing, policy, other) for other in compared] or [own]
    return rows


def _seeds(setting: Setting, pairing: Pairing, strongest: str | None) -> Rows:
    """Return a row for each run of the policies that have several, best policy first.

    A run is a seed, or a training seed. It is compared with the strongest simple policy, if there
    is one.
    """
    best = pairing.by_name.get(strongest or "")
    rows: Rows = []
    for policy in pairing.ranked:
        for index, run in enumerate(policy.runs if len(policy.runs) > 1 else ()):
            values = policy.values[[index]]  # (1, windows)
            one = PolicyRuns(policy.name, policy.kind, values, (run,), trained=False)
            own = {**dict.fromkeys(SEEDS_SCHEMA), **_estimates(setting, pairing, one), "run": run}
            rows.append(own | ({} if best is None else _against(pairing, one, best)))
    return rows


def _estimates(setting: Setting, pairing: Pairing, policy: PolicyRuns) -> dict[str, Any]:
    """Return the columns of a policy alone; the interval of a mean is None if it has none."""
    metric, values = pairing.metric, policy.values
    interval = mean_interval(values, trained=policy.trained, stretches=pairing.stretches)
    middle = {"iqm": float(iqm(values)), "median": float(median(values))}
    return {
        "scenario": setting.label,
        "recipe": setting.first.recipe,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "policy": policy.name,
        "kind": policy.kind,
        "windows": len(pairing.windows),
        "windows_left_out": len(pairing.left_out),
        "seeds": len(policy.runs),
        **_named(("mean", "low", "high"), interval),
        **middle,
    }


def _against(pairing: Pairing, policy: PolicyRuns, other: PolicyRuns) -> dict[str, Any]:
    """Return the columns of a policy against another one; a policy has none against itself."""
    if other.name == policy.name:
        return {"reference": other.name}
    pair, stretches = (policy.values, other.values), pairing.stretches
    differences = policy.window_means - other.window_means
    found = paired_difference(*pair, trained=(policy.trained, other.trained), stretches=stretches)
    row = {
        "reference": other.name,
        **_named(("paired_difference", "paired_low", "paired_high"), found),
        "windows_of_half": windows_of_half(differences),
        "autocorrelation": _known(autocorrelation(differences, stretches)),
    }
    better = pairing.metric.better
    if better == "neither":
        return row
    tolerance = tie_tolerance(*pair)
    counts = win_tie_loss(*pair, better, tolerance)
    chance = float(improvement_cells(*pair, better, tolerance).mean())
    return row | counts._asdict() | {"probability_of_improvement": chance}


def _named(columns: tuple[str, str, str], interval: Interval) -> dict[str, float | None]:
    return dict(zip(columns, map(_known, interval), strict=True))


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def _strongest(headline: Pairing) -> str | None:
    """Return the best rule that a scheduler could follow; it need not be among the references."""
    if headline.metric.better == "neither":
        return None
    return next((p.name for p in headline.ranked if p.kind not in NO_BASELINE), None)


def _references(setting: Setting, strongest: str | None) -> tuple[str, ...]:
    """Return the policies to compare with, the strongest simple one first.

    What was recorded elsewhere is always one of them: it is what a reader has today.
    """
    headline = setting.headline
    names = setting.references or [p.name for p in headline.policies if p.kind == "random"]
    names = [*names, *(p.name for p in headline.policies if p.kind == "recorded")]
    groups = [setting.entries[name].group if name in setting.entries else name for name in names]
    ordered = dict.fromkeys([strongest, *groups] if strongest else groups)
    return tuple(name for name in ordered if name in headline.by_name)


def _bound(setting: Setting) -> Array | None:
    """Return the bound on each common window: (windows,), or None if one window lacks it.

    If policies carry different bounds of one window, each of them is valid, and the tightest
    counts.
    """
    evaluation, windows = setting.first, setting.headline.windows
    if evaluation.bound is None:
        return None
    value = pl.col("value")
    rows = (
        setting.scores.filter((pl.col("metric") == evaluation.bound) & value.is_not_nan())
        .filter(pl.col("window").is_in(windows))
        .group_by("window")
        .agg(value.max() if evaluation.bound_kind == "lower" else value.min())
        .sort("window")
    )
    return rows["value"].to_numpy() if rows.height == len(windows) else None
