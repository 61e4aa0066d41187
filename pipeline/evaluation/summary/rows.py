"""Rows of a summary for one setting and metric: estimates and comparisons with references."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.evaluation.summary.pairing import Pairing, PolicyRuns
from hindcast.pipeline.statistics.intervals import (
    Array,
    Interval,
    autocorrelation,
    improvement_cells,
    iqm,
    mean_interval,
    median,
    paired_difference,
    win_tie_loss,
    windows_of_half,
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
    "probability_of_improvement": pl.Float64,
    "windows_of_half": pl.Int64,
    "autocorrelation": pl.Float64,
}
_BOUND: Final = {"bound": pl.Float64, "bound_ratio": pl.Float64}
TABLE_SCHEMA: Final = pl.Schema({**_SUBJECT, **_ESTIMATES, **_BOUND, **_AGAINST})
# Kinds of policies that are no baselines: they learned, or know what no scheduler knows.
NO_BASELINE: Final = frozenset({"learned", "knows run times"})
SEEDS_SCHEMA: Final = pl.Schema({**_SUBJECT, "run": pl.String, **_ESTIMATES, **_AGAINST})


@dataclass
class Rows:
    """Rows of a setting on a metric.

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
            for row, other in zip(rows, compared, strict=False):
                self._against(row, policy, other)
            self.table += rows
            for index, run in enumerate(policy.runs if len(policy.runs) > 1 else ()):
                one = PolicyRuns(
                    policy.name, policy.kind, policy.values[[index]], (run,), trained=False
                )
                row = self._estimates(one) | {"run": run}
                if best is not None:
                    self._against(row, one, best)
                self.seeds.append(row)

    def _estimates(self, policy: PolicyRuns) -> dict[str, Any]:
        metric, pairing = self.pairing.metric, self.pairing
        interval = mean_interval(policy.values, trained=policy.trained, stretches=pairing.stretches)
        middle = {"iqm": float(iqm(policy.values)), "median": float(median(policy.values))}
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
            **_named(("mean", "low", "high"), interval),
            **middle,
        }

    def _against(self, row: dict[str, Any], policy: PolicyRuns, other: PolicyRuns) -> None:
        row["reference"] = other.name
        if other.name == policy.name:
            return
        pair = (policy.values, other.values)
        both, stretches = (policy.trained, other.trained), self.pairing.stretches
        differences, tolerance = policy.window_means - other.window_means, tie_tolerance(*pair)
        found = paired_difference(*pair, trained=both, stretches=stretches)
        row |= _named(("paired_difference", "paired_low", "paired_high"), found)
        row["windows_of_half"] = windows_of_half(differences)
        row["autocorrelation"] = _known(autocorrelation(differences, stretches))
        better = self.pairing.metric.better
        if better == "neither":
            return
        row["wins"], row["ties"], row["losses"] = win_tie_loss(*pair, better, tolerance)
        cells = improvement_cells(*pair, better, tolerance)
        row["probability_of_improvement"] = float(cells.mean())


def _named(columns: tuple[str, str, str], interval: Interval) -> dict[str, float | None]:
    return dict(zip(columns, map(_known, interval), strict=True))


def _known(number: float) -> float | None:
    return None if np.isnan(number) else number


def best_first(pairing: Pairing) -> list[PolicyRuns]:
    """Return the policies by mean, best first, with names deciding ties.

    Policies are sorted by name if the metric has no better direction.
    """
    sign = {"lower": 1.0, "higher": -1.0, "neither": 0.0}[pairing.metric.better]
    return sorted(pairing.policies, key=lambda p: (sign * float(p.values.mean()), p.name))


def tie_tolerance(policy: Array, baseline: Array) -> float:
    """Return the difference up to which two window averages count as equal, in the unit."""
    return _TIE * float(max(np.abs(policy).max(), np.abs(baseline).max()))
