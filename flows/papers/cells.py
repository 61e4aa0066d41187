"""Rows of tables from evaluations."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.flows.papers.published import number
from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.evaluation.summary.pairing import Pairing, PolicyRuns, read_settings
from hindcast.pipeline.statistics.intervals import (
    Interval,
    difference_cells,
    estimate,
    mean_interval,
)

MINUS: Final = "minus the paper's agent"  # column of the table "beside"


def pairing(folder: Path, metric: str | None = None) -> Pairing:
    """Return the scores of an evaluation folder on a metric, by default the headline."""
    setting = read_settings([folder])[0]
    return setting.pair(metric or setting.first.headline)


def runs(scores: Pairing, policy: str) -> PolicyRuns:
    """Return the scores of a policy or agent. Raises UnknownName if there is none."""
    found = scores.by_name.get(policy)
    if found is None:
        raise unknown_name("policy", policy, [each.name for each in scores.policies])
    return found


def mean(scores: Pairing, policy: str) -> Interval:
    """Return the mean of a policy, with an interval over windows and training seeds."""
    return mean_of(runs(scores, policy))


def mean_of(policy: PolicyRuns) -> Interval:
    """Return the mean of the scores of a policy, with an interval."""
    return mean_interval(policy.values, trained=policy.trained)


def difference(scores: Pairing, policy: str, other: str) -> Interval:
    """Return policy - other on the same windows, with an interval."""
    return difference_of(runs(scores, policy), runs(scores, other))


def difference_of(first: PolicyRuns, second: PolicyRuns) -> Interval:
    """Return first - second, of two evaluations of the same windows."""
    cells = difference_cells(first.values, second.values, first.trained, second.trained)
    return estimate(cells).interval()


def bound(folder: Path) -> Interval | None:
    """Return the mean bound of the windows of an evaluation folder, or None if there is none."""
    setting = read_settings([folder])[0]
    if not setting.first.bound:
        return None
    policy = setting.pair(setting.first.bound).policies[0]
    return mean_interval(policy.values[:1])


def strongest_rule(scores: Pairing) -> str:
    """Return the rule with the best mean; agents, logs and clairvoyant rules do not count."""
    rules = [each for each in scores.policies if each.kind == "heuristic"]
    sign = 1.0 if scores.metric.better == "higher" else -1.0
    return max(rules, key=lambda rule: sign * float(rule.values.mean())).name


def beside(
    policies: Mapping[str, PolicyRuns], agent: PolicyRuns, column: str, unit: str,
    best: Interval | None = None, setting: str = "",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return rows of the table "beside": policies beside the paper's agent, and the bound.

    `policies` are the policies by their row, such as `strongest rule: sjf`. Columns are the mean of
    `column`, and the difference from the paper's agent on the same windows. The text `setting` is
    put before each row.
    """
    rows = []
    for row, policy in {f"the paper's agent: {agent.name}": agent, **policies}.items():
        name = f"{setting}{row}"
        rows.append(cell("beside", name, column, unit, mean_of(policy)))
        if policy is not agent:
            gap = difference_of(policy, agent)
            rows.append(cell("beside", name, MINUS, unit, gap))
    if best is not None:
        rows.append(cell("beside", f"{setting}bound", column, unit, best))
    return rows


def ours(scores: Pairing, offline: str, online: str) -> dict[str, PolicyRuns]:
    """Return random, the strongest rule, and our best agents, by row of the table "beside"."""
    rule = strongest_rule(scores)
    named = {
        "random": "random", f"strongest rule: {rule}": rule,
        f"best offline agent: {offline}": offline, f"best online agent: {online}": online,
    }  # fmt: skip
    return {row: runs(scores, policy) for row, policy in named.items()}


def cell(
    table: str, row: str, column: str, unit: str, measured: Interval | float,
    published: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of hindcast.flows.papers.results.TABLE."""
    if not isinstance(measured, Interval):
        measured = Interval(measured, float("nan"), float("nan"))
    low, high = (None if math.isnan(each) else each for each in measured[1:])
    return {
        "table": table, "row": row, "column": column, "unit": unit, "published": published,
        "measured": measured.value, "low": low, "high": high,
    }  # fmt: skip


def mean_cells(
    table: str, column: str, unit: str, scores: Pairing, names: Mapping[str, str],
    printed: pl.DataFrame,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a cell per policy with its mean, beside the number that the paper prints.

    `names` maps policies to rows of the table. `printed` has the rows of
    hindcast.flows.papers.published; its items are called like the tables.
    """
    return [
        cell(table, row, column, unit, mean(scores, policy), number(printed, table, row, column))
        for policy, row in names.items()
    ]
