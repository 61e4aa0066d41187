"""Rows of a summary for one setting and metric: estimates and comparisons with references.

All intervals of a metric come from one bootstrap. Rows are first laid out with the cells that their
intervals need, and filled after all of them have been resampled together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.evaluation.summary.pairing import Pairing, PolicyRuns
from hindcast.pipeline.statistics.intervals import (
    Array,
    bootstrap_intervals,
    difference_cells,
    improvement_cells,
    iqm,
    mean_cells,
    median,
    win_tie_loss,
)

_TIE: Final = 1e-9  # relative: averages of equal numbers may differ in their last bits

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
    **dict.fromkeys(
        ("probability_of_improvement", "improvement_low", "improvement_high"), pl.Float64
    ),
}
_BOUND: Final = {"bound": pl.Float64, "bound_ratio": pl.Float64}
TABLE_SCHEMA: Final = pl.Schema({**_SUBJECT, **_ESTIMATES, **_BOUND, **_AGAINST})
# Kinds of policies that are no baselines: they learned, or know what no scheduler knows.
NO_BASELINE: Final = frozenset({"learned", "knows run times"})
SEEDS_SCHEMA: Final = pl.Schema({**_SUBJECT, "run": pl.String, **_ESTIMATES, **_AGAINST})


@dataclass
class Rows:
    """Rows that wait for their intervals.

    Attributes:
        scenario: Label of the setting.
        recipe: Id of the recipe.
        pairing: All policies on the metric.
        table: One row per policy and reference.
        seeds: One row per run of a policy that has several runs.
    """

    scenario: str
    recipe: str
    pairing: Pairing
    table: list[dict[str, Any]] = field(default_factory=list)
    seeds: list[dict[str, Any]] = field(default_factory=list)
    _waiting: list[tuple[list[dict[str, Any]], tuple[str, str, str]]] = field(default_factory=list)
    _cells: list[Array] = field(default_factory=list)

    def compare(
        self, references: Sequence[str], strongest: str | None, bound: Array | None
    ) -> None:
        """Lay out all policies, best first, against the references and the windows' bound."""
        compared = [p for name in references if (p := self.pairing.find(name)) is not None]
        best = self.pairing.find(strongest) if strongest else None
        for policy in best_first(self.pairing):
            own = self._estimates(policy)
            if bound is not None:
                middle = float(bound.mean())
                own |= {"bound": middle, "bound_ratio": own["mean"] / middle if middle else None}
            rows = [dict(own) for _ in range(max(1, len(compared)))]
            self._wait(rows, ("mean", "low", "high"), mean_cells(policy.values, policy.trained))
            for row, other in zip(rows, compared, strict=False):
                self._against(row, policy, other)
            self.table += rows
            for index, run in enumerate(policy.runs if len(policy.runs) > 1 else ()):
                one = PolicyRuns(
                    policy.name, policy.kind, policy.values[[index]], (run,), trained=False
                )
                row = self._estimates(one) | {"run": run}
                self._wait([row], ("mean", "low", "high"), mean_cells(one.values))
                if best is not None:
                    self._against(row, one, best)
                self.seeds.append(row)

    def fill(self, resamples: int) -> None:
        """Resample everything that was laid out and write the intervals into the rows."""
        intervals = bootstrap_intervals(self._cells, resamples=resamples)
        for (rows, columns), interval in zip(self._waiting, intervals, strict=True):
            numbers = (None if np.isnan(number) else number for number in interval)
            named = dict(zip(columns, numbers, strict=True))
            for row in rows:
                row.update(named)

    def _wait(
        self, rows: list[dict[str, Any]], columns: tuple[str, str, str], cells: Array
    ) -> None:
        self._waiting.append((rows, columns))
        self._cells.append(cells)

    def _estimates(self, policy: PolicyRuns) -> dict[str, Any]:
        metric = self.pairing.metric
        return {
            "scenario": self.scenario,
            "recipe": self.recipe,
            "metric": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "policy": policy.name,
            "kind": policy.kind,
            "windows": len(self.pairing.windows),
            "windows_left_out": len(self.pairing.left_out),
            "seeds": len(policy.runs),
            "mean": float(policy.values.mean()),
            "iqm": float(iqm(policy.values)),
            "median": float(median(policy.values)),
        }

    def _against(self, row: dict[str, Any], policy: PolicyRuns, other: PolicyRuns) -> None:
        row["reference"] = other.name
        if other.name == policy.name:
            return
        pair = (policy.values, other.values)
        both = (policy.trained, other.trained)
        columns = ("paired_difference", "paired_low", "paired_high")
        self._wait([row], columns, difference_cells(*pair, *both))
        better = self.pairing.metric.better
        if better == "neither":
            return
        tolerance = tie_tolerance(*pair)
        row["wins"], row["ties"], row["losses"] = win_tie_loss(*pair, better, tolerance)
        columns = ("probability_of_improvement", "improvement_low", "improvement_high")
        self._wait([row], columns, improvement_cells(*pair, better, tolerance, *both))


def best_first(pairing: Pairing) -> list[PolicyRuns]:
    """Return the policies by mean, best first, with names deciding ties.

    Policies are sorted by name if the metric has no better direction.
    """
    sign = {"lower": 1.0, "higher": -1.0, "neither": 0.0}[pairing.metric.better]
    return sorted(pairing.policies, key=lambda p: (sign * float(p.values.mean()), p.name))


def tie_tolerance(policy: Array, baseline: Array) -> float:
    """Return the difference up to which two window averages count as equal, in the unit."""
    return _TIE * float(max(np.abs(policy).max(), np.abs(baseline).max()))
