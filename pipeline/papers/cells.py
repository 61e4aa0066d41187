"""Rows of tables from evaluations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.errors import unknown_name
from pipeline.evaluation.summary.pairing import Pairing, PolicyRuns, read_settings
from pipeline.papers.published import number
from pipeline.statistics.intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_intervals,
    difference_cells,
)


def pairing(folder: Path, metric: str | None = None) -> Pairing:
    """Return the scores of an evaluation folder on a metric, by default the headline."""
    setting = read_settings([folder])[0]
    return setting.pair(metric or setting.first.headline)


def runs(scores: Pairing, policy: str) -> PolicyRuns:
    """Return the scores of a policy or agent. Raises UnknownName if there is none."""
    found = scores.find(policy)
    if found is None:
        raise unknown_name("policy", policy, [each.name for each in scores.policies])
    return found


def mean(scores: Pairing, policy: str) -> Interval:
    """Return the mean of a policy, with an interval over windows and training seeds."""
    found = runs(scores, policy)
    return bootstrap_interval(found.values, resample_runs=found.trained)


def difference(scores: Pairing, policy: str, other: str) -> Interval:
    """Return policy - other on the same windows, with an interval."""
    first, second = runs(scores, policy), runs(scores, other)
    cells = difference_cells(first.values, second.values, first.trained, second.trained)
    return bootstrap_intervals([cells])[0]


def cell(
    table: str, row: str, column: str, unit: str, measured: Interval | float,
    published: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of pipeline.papers.results.TABLE."""
    if not isinstance(measured, Interval):
        measured = Interval(measured, float("nan"), float("nan"))
    ends = (None if each != each else each for each in measured[1:])  # noqa: PLR0124
    low, high = ends
    return {
        "table": table, "row": row, "column": column, "unit": unit, "published": published,
        "measured": measured.value, "low": low, "high": high,
    }  # fmt: skip


def mean_cells(
    table: str, column: str, unit: str, scores: Pairing, names: Mapping[str, str],
    printed: pl.DataFrame,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a cell per policy with its mean, beside the number that the paper prints.

    `names` maps policies to rows of the table. `printed` has the rows of pipeline.papers.published;
    its items are called like the tables.
    """
    return [
        cell(table, row, column, unit, mean(scores, policy), number(printed, table, row, column))
        for policy, row in names.items()
    ]
