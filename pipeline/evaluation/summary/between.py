"""Comparison of one agent across evaluations, which measures the effect of its settings.

    hindcast report EVALUATION EVALUATION ... --between score_ppo-best

    difference   mean of the policy in `evaluation` minus its mean in `other`, paired over the same
                 windows, with a 95 % interval over windows and over the training seeds of both
    row          evaluation, other, metric, windows, mean, other_mean, difference, low, high

`hindcast report` compares policies of one recipe. Here the recipes may differ in how an agent was
trained, but not in the problem: rules that both evaluations hold must have the same scores.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError, unknown_name
from hindcast.pipeline.evaluation.summary.pairing import Pairing, PolicyRuns, read_settings
from hindcast.pipeline.statistics.intervals import paired_difference

COLUMNS: Final = (
    "evaluation", "other", "metric", "windows", "mean", "other_mean", "difference", "low", "high",
)  # fmt: skip


def differences(folders: Sequence[Path], policy: str, metric: str | None = None) -> pl.DataFrame:
    """Return COLUMNS for every pair of evaluation folders, in the given order.

    `metric` is the headline by default. Raises UnknownName for a policy that an evaluation lacks,
    DatasetError for fewer than two folders or evaluations of different problems.
    """
    if len(folders) < 2:
        raise DatasetError("--between compares evaluations; name at least two folders")
    found: list[tuple[str, Pairing, PolicyRuns]] = []
    for folder in folders:
        for setting in read_settings([folder]):
            pairing = setting.pair(metric or setting.first.headline)
            own = pairing.by_name.get(policy)
            if own is None:
                raise unknown_name("policy", policy, pairing.by_name)
            found.append((setting.first.recipe, pairing, own))
    rows = []
    for (name, pairing, own), (other, other_pairing, others) in combinations(found, 2):
        _require_same(name, pairing, other, other_pairing)
        interval = paired_difference(
            own.values, others.values,
            trained=(own.trained, others.trained), stretches=pairing.stretches,
        )  # fmt: skip
        means = (float(own.values.mean()), float(others.values.mean()))
        windows = len(pairing.windows)
        rows.append((name, other, pairing.metric.name, windows, *means, *interval))
    return pl.DataFrame(rows, schema=list(COLUMNS), orient="row")


def _require_same(name: str, one: Pairing, other_name: str, other: Pairing) -> None:
    """Raise DatasetError unless the rules that both evaluations hold have equal scores."""
    if one.metric.name != other.metric.name or one.windows != other.windows:
        raise DatasetError(
            f"{name} and {other_name}: {one.metric.name} of {len(one.windows)} windows and "
            f"{other.metric.name} of {len(other.windows)}, expected the same windows and metric"
        )
    common = 0
    for rule in (p for p in one.policies if p.kind == "heuristic"):
        twin = other.by_name.get(rule.name)
        if twin is None:
            continue
        common += 1
        if not np.array_equal(rule.window_means, twin.window_means):
            raise DatasetError(
                f"{name} and {other_name}: the rule {rule.name} has other scores in one, so the "
                "problems differ in more than the training of an agent"
            )
    if not common:
        raise DatasetError(
            f"{name} and {other_name} have no rule in common, so their windows cannot be matched"
        )
