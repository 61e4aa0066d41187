"""One agent of several evaluations against itself: what its settings are worth.

    hindcast report EVALUATION EVALUATION ... --between score_ppo-best

    difference   evaluation - other of the policy's mean, paired over the same windows, with its
                 95 % interval over windows and over the training seeds of either
    row          evaluation, other, metric, windows, mean, other_mean, difference, low, high

`hindcast report` compares policies of one recipe; these recipes may differ in how an agent was
trained, and in nothing that was played: rules that all evaluations hold must have the same values.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pipeline.errors import DatasetError, unknown_name
from pipeline.evaluation.summary.pairing import Pairing, PolicyRuns, read_settings
from pipeline.simulation.seeds import generator
from pipeline.statistics.intervals import paired_difference

COLUMNS: Final = (
    "evaluation", "other", "metric", "windows", "mean", "other_mean", "difference", "low", "high",
)  # fmt: skip


def differences(folders: Sequence[Path], policy: str, metric: str | None = None) -> pl.DataFrame:
    """COLUMNS of every two evaluation folders, in the order given.

    metric   the headline where it is not given. Raises UnknownName for a policy that one of them
    lacks, DatasetError for fewer than two folders, or where not the same was played in all of them.
    """
    if len(folders) < 2:
        raise DatasetError("expected at least two evaluation folders to compare")
    found: list[tuple[str, Pairing, PolicyRuns]] = []
    for folder in folders:
        for setting in read_settings([folder]):
            pairing = setting.pair(metric or setting.first.headline)
            own = pairing.find(policy)
            if own is None:
                raise unknown_name("policy", policy, [p.name for p in pairing.policies])
            found.append((setting.first.recipe, pairing, own))
    rows = []
    for (name, pairing, own), (other, other_pairing, others) in combinations(found, 2):
        _require_same(name, pairing, other, other_pairing)
        rng = generator(0, f"between {name} {other}")
        interval = paired_difference(
            own.values, others.values, rng,
            resample_policy=own.trained, resample_baseline=others.trained,
        )  # fmt: skip
        means = (float(own.values.mean()), float(others.values.mean()))
        windows = len(pairing.windows)
        rows.append((name, other, pairing.metric.name, windows, *means, *interval))
    return pl.DataFrame(rows, schema=list(COLUMNS), orient="row")


def _require_same(name: str, one: Pairing, other_name: str, other: Pairing) -> None:
    """DatasetError where the rules of both did not do the same."""
    if one.metric.name != other.metric.name or one.windows != other.windows:
        raise DatasetError(
            f"{name} and {other_name}: {one.metric.name} of {len(one.windows)} windows and "
            f"{other.metric.name} of {len(other.windows)}, expected the same windows and metric"
        )
    common = 0
    for rule in (p for p in one.policies if p.kind == "heuristic"):
        twin = other.find(rule.name)
        if twin is None:
            continue
        common += 1
        if not np.array_equal(rule.window_means, twin.window_means):
            raise DatasetError(
                f"{name} and {other_name}: {rule.name} did not do the same in both, so what was "
                "played differs in more than the training of an agent"
            )
    if not common:
        raise DatasetError(
            f"{name} and {other_name} have no rule in common, by which the same windows are known"
        )
