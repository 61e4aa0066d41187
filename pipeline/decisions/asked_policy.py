"""A policy that a log of decisions is asked about: its support, estimates and sentence."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.arrays import session_episodes
from hindcast.pipeline.decisions.asking import LEVEL, Asking
from hindcast.pipeline.decisions.log import Array, Caution, Flags
from hindcast.pipeline.decisions.targets import LOGGED, offered
from hindcast.pipeline.estimators import Settings
from hindcast.pipeline.estimators import estimate as estimate_sessions
from hindcast.pipeline.estimators.decisions import (
    Support,
    Value,
    interval_of,
    sensitivity,
    support,
    values,
    weights,
)
from hindcast.pipeline.estimators.decisions.estimated import FACTORS
from hindcast.pipeline.estimators.decisions.intervals import (
    FEW_REWARDS,
    NONE,
    Interval,
    carrying,
    error_quantile,
    intervals_of,
    t_interval,
)
from hindcast.pipeline.estimators.decisions.logged import units_of
from hindcast.pipeline.estimators.decisions.support import (
    ENOUGH,
    FEWEST,
    LARGEST,
    SKEWED,
    bounds,
    decisions_needed,
    skewness_of,
)
from hindcast.pipeline.estimators.decisions.values import (
    clustered_error,
    logged_mean,
    standard_error,
    weighted_mean,
)
from hindcast.pipeline.estimators.verdicts import (
    ANSWERS,
    BESIDE,
    CANNOT,
    COVERED,
    ROUGHLY,
    off_one,
)

ORDER: Final = ("dr", "snis", "is", "sndr", "dm", "clipped", "switch")
BIASED: Final = ("dm", "clipped", "switch")
SESSIONS: Final = ("dr", "is", "snis", "pdis", "snpdis")
_EXPLORE: Final = 0.1
_DIFFER: Final = 2.0  # standard errors between dr and snis that are told
_MOST_LEVELS: Final = 20
_NAN: Final = float("nan")
_SAME: Final = 1e-12
_NO_BOOTSTRAP: Final = Settings(resamples=0)


class AskedPolicy:
    """A policy with its weights and its support in the log."""

    def __init__(self, asking: Asking, name: str, target: Array, used: Flags, split: str) -> None:
        self.asking, self.name, self.used, self.split = asking, name, used, split
        decisions, self.target, self.q = asking.every, target, asking.q
        if not used.all():
            rows = used[decisions.owner]
            decisions, self.target, self.q = asking.part(used), target[rows], asking.q[rows]
        self.is_log = name == LOGGED or bool(
            (self.target[decisions.taken][decisions.several] >= 1.0 - _SAME).all()
        )
        refusal = "" if self.is_log else asking.refusal
        if self.is_log:  # what the log did has the weight 1, whatever its propensities
            decisions = replace(
                decisions, propensity=np.ones(len(decisions)),
                draws=np.full(len(decisions), _NAN),
                probability=np.full(len(decisions.owner), _NAN),
            )  # fmt: skip
            self.target = np.zeros(len(decisions.owner))
            self.target[decisions.taken] = 1.0
        self.decisions = decisions
        self.weighable = not refusal
        self.w = weights(decisions, self.target)
        self.support = self._support(refusal)

    def _support(self, refusal: str) -> Support:
        """Return how far the log supports the policy; `refusal` says why weights cannot be used."""
        if not self.weighable:
            nan, decisions = _NAN, self.decisions
            disagrees = 1.0 - weighted_mean(decisions, self.target[decisions.taken])
            return Support(
                decisions=len(decisions), units=decisions.units, ess=nan, ess_units=nan,
                mean_weight=nan, mean_weight_se=nan, largest_weight=nan, largest_share=nan,
                largest_at=-1, covered=nan, well_covered=nan, changed=nan, disagrees=disagrees,
                verdict=CANNOT, why=(refusal,),
            )  # fmt: skip
        found = support(self.decisions, self.target)
        lost = self.asking.lost
        if not lost or found.verdict == CANNOT:
            return found
        return replace(found, verdict=ROUGHLY, why=(*found.why, lost))

    @property
    def uncovered(self) -> bool:
        """True if too much of the policy lies where the log never goes."""
        return self.support.covered < COVERED

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table of estimates."""
        if not self.weighable:
            return [self._row("none", _NAN, _NAN, None, None)]
        if self.uncovered:
            found = values(self.decisions, self.target)
            low, high = bounds(self.decisions, self.target)
            return [
                self._row("covered_part", found["snis"].value, found["snis"].se, None, None),
                self._row("bounds", _NAN, _NAN, Interval(low, high, "bounds"), None),
            ]
        made = values(self.decisions, self.target, self.q)
        found = {name: made[name] for name in ORDER}
        drawn = not np.isnan(self.decisions.draws).all()
        raw = values(self.decisions.raw(), self.target, self.q) if drawn else {}
        rows = []
        for (name, value), (interval, alone) in zip(
            found.items(), self._intervals([*found.values()]), strict=True
        ):
            row = self._row(name, value.value, value.se, interval, value)
            row["low_alone"], row["high_alone"] = alone.low, alone.high
            row["raw_value"] = raw[name].value if name in raw else _NAN
            if self.asking.kind == "estimated" and name == "snis":
                for factor in FACTORS:
                    ends = sensitivity(self.decisions, self.target, factor)
                    row[f"low_odds_{factor:g}"], row[f"high_odds_{factor:g}"] = ends
            rows.append(row)
        return rows + self._sessions()

    @cached_property
    def by_name(self) -> dict[str, dict[str, Any]]:
        """Rows of the table of estimates by the estimator."""
        return {row["estimator"]: row for row in self.rows}

    def _intervals(self, found: Sequence[Value]) -> list[list[Interval]]:
        """Return the intervals of estimates: simultaneous with other policies', and alone."""
        levels = (self.asking.level, LEVEL)
        if self.support.ess < FEWEST:
            return [[NONE for _ in levels] for _ in found]
        seed, passed = self.asking.options.seed, self.support.passed
        made = intervals_of(self.decisions, found, self.w, levels, seed, passed)
        # The noise of estimated propensities makes 1 / p too large: `is` is biased by it.
        noisy = self.asking.kind == "estimated" and not self.is_log
        return [
            [NONE for _ in levels] if noisy and value.name == "is" else intervals
            for value, intervals in zip(found, made, strict=True)
        ]

    def _row(
        self, estimator: str, value: float, se: float, interval: Interval | None,
        made: Value | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the row of an estimator in the table of estimates; NaN is unknown."""
        s = self.support
        shown = interval or NONE
        difference, low, high = self._difference(made)
        beside = estimator in BIASED and s.verdict != CANNOT
        return {
            "policy": self.name, "estimator": estimator, "value": value, "se": se,
            "low": shown.low, "high": shown.high, "interval": shown.kind,
            "low_alone": _NAN, "high_alone": _NAN, "raw_value": _NAN,
            "difference": difference, "difference_low": low, "difference_high": high,
            "ess": s.ess, "mean_weight": s.mean_weight, "largest_weight": s.largest_weight,
            "decisions": s.decisions, "units": s.units, "split": self.split,
            "verdict": BESIDE if beside else s.verdict, "propensities": self.asking.kind,
            "accepted": self.asking.accepted,
            **{f"{end}_odds_{f:g}": _NAN for f in FACTORS for end in ("low", "high")},
        }  # fmt: skip

    def _difference(self, made: Value | None) -> tuple[float, float, float]:
        """Return the difference to the log's mean on the same decisions, with its interval."""
        if made is None or made.name in BIASED:
            return _NAN, _NAN, _NAN
        mean = logged_mean(self.decisions)
        z = made.z - mean.z
        se, value = standard_error(self.decisions, z), made.value - mean.value
        few = carrying(self.decisions, self.w) < FEW_REWARDS
        if self.support.ess < FEWEST or few:  # the spread of few says nothing of those unseen
            return value, _NAN, _NAN
        quantile = error_quantile(self.decisions, z, self.w, self.support.passed)
        interval = t_interval(value, se, self.decisions.units, self.asking.level, quantile)
        return value, interval.low, interval.high

    def _sessions(self) -> list[dict[str, Any]]:
        """Return estimates by session, if sessions have several decisions."""
        episodes = session_episodes(self.asking.log, self.decisions, self.used, self.target)
        if episodes is None:
            return []
        rows = []
        units = units_of(episodes.units)
        w, even = np.exp(episodes.log_weights), np.ones(len(episodes))
        error = clustered_error(even, w - w.mean(), episodes.units)
        rough = skewness_of(w, even) > SKEWED or off_one(float(w.mean()), error)
        for name in SESSIONS:
            found = estimate_sessions(name, episodes, _NO_BOOTSTRAP)
            z = found.contributions - found.value
            se = clustered_error(even, z, episodes.units)
            few, verdict = not found.ess >= FEWEST, self.support.verdict
            if verdict == ANSWERS and (found.ess < ENOUGH or rough):
                verdict = ROUGHLY
            shown, alone = (
                NONE if few else t_interval(found.value, se, units, level)
                for level in (self.asking.level, LEVEL)
            )
            row = self._row(f"sessions_{name}", found.value, se, shown, None)
            row |= {"low_alone": alone.low, "high_alone": alone.high}
            row |= {"ess": found.ess, "mean_weight": found.mean_weight, "units": units,
                    "largest_weight": found.max_weight,
                    "verdict": CANNOT if few else verdict}  # fmt: skip
            rows.append(row)
        return rows

    def support_row(self) -> dict[str, Any]:
        """Return the row of the table of support."""
        s = self.support
        at = int(np.flatnonzero(self.used)[s.largest_at]) if s.largest_at >= 0 else -1
        d = self.asking.log.decisions
        dr = self.by_name.get("dr", {})
        visible = dr.get("high_alone", _NAN) - dr.get("low_alone", _NAN)
        return {
            "policy": self.name, "verdict": s.verdict, "why": "; ".join(s.why),
            "decisions": s.decisions, "units": s.units, "ess": s.ess, "ess_units": s.ess_units,
            "expected_ess": s.expected_ess, "skewness": s.skewness,
            "mean_weight": s.mean_weight, "mean_weight_se": s.mean_weight_se,
            "largest_weight": s.largest_weight, "largest_share": s.largest_share,
            "largest_decision": d["id"][at] if at >= 0 else None,
            "largest_line": d["line"][at] if at >= 0 else None,
            "covered": s.covered, "well_covered": s.well_covered, "changed": s.changed,
            "disagrees": s.disagrees, "smallest_visible_difference": visible / 2,
            "is_the_log": self.is_log, "split": self.split, "propensities": self.asking.kind,
            "accepted": self.asking.accepted,
        }  # fmt: skip

    def groups(self) -> list[dict[str, Any]]:
        """Return the support by candidate, category, logger and tenth of the time."""
        if not self.weighable:
            return []
        log, decisions = self.asking.log, self.decisions
        at = np.flatnonzero(self.used)
        taken = log.offsets[:-1][at] + decisions.chosen
        columns = {"candidate": log.candidates["id"][taken]}
        for name, dtype in log.features.schema.items():
            if dtype == pl.Categorical:
                columns[name] = log.features[name][taken]
        if log.decisions["logger"].drop_nulls().n_unique() > 1:
            columns["logger"] = log.decisions["logger"][at]
        columns["tenth"] = pl.Series(np.arange(len(decisions)) * 10 // max(len(decisions), 1))
        s = decisions.weight * self.w
        frame = pl.DataFrame({"s": s, "c": 1.0 - self.target[decisions.taken]})
        found = []
        for by, column in columns.items():
            table = (
                frame.with_columns(column.alias("level")).group_by("level")
                .agg(pl.len().alias("decisions"), pl.col("s").sum(),
                     (pl.col("s") ** 2).sum().alias("s2"), pl.col("c").mean().alias("changed"))
                .with_columns(pl.col("level").cast(pl.String))
                .sort(["decisions", "level"], descending=[True, False]).head(_MOST_LEVELS)
            )  # fmt: skip
            found += [{
                "policy": self.name, "by": by, "level": row["level"],
                "decisions": row["decisions"], "changed": row["changed"],
                "ess": row["s"] ** 2 / row["s2"] if row["s2"] else 0.0,
                "weight_share": row["s"] / s.sum() if s.sum() else 0.0,
            } for row in table.iter_rows(named=True)]  # fmt: skip
        return found

    def cautions(self) -> list[Caution]:
        """Return the cautions of this policy."""
        if not self.weighable or self.is_log:
            return []
        s, found = self.support, []
        if s.ess < ENOUGH or s.largest_share > LARGEST:
            row = self.support_row()
            found.append(Caution(
                "few_effective",
                f"{self.name}: {s.ess:.1f} effective decisions of {s.decisions:,}; decision "
                f"{row['largest_decision']!r} (line {row['largest_line']}) carries "
                f"{s.largest_share:.0%} of the weight",
                {"ess": s.ess, "largest_share": s.largest_share, "line": row["largest_line"]},
            ))  # fmt: skip
        kind, _, candidate = self.name.partition(":")
        if kind == "candidate":
            there = offered(candidate, self.asking.log, self.asking.every)[self.used]
            absent = weighted_mean(self.decisions, np.asarray(~there, np.float64))
            if absent > 0.0:
                found.append(Caution(
                    "candidate_absent",
                    f"{self.name}: {candidate} cannot be taken in {absent:.1%} of the decisions; "
                    "the policy is uniform there", {"absent": absent},
                ))  # fmt: skip
        if self.uncovered:
            found.append(Caution(
                "no_support",
                f"{self.name}: {1 - s.covered:.1%} of its probability is on candidates that the "
                "log never takes", {"covered": s.covered},
            ))  # fmt: skip
        sessions = self.by_name.get("sessions_is")
        if sessions is not None and sessions["ess"] < ENOUGH:
            found.append(Caution(
                "few_effective",
                f"{self.name}: {sessions['ess']:.1f} effective sessions of "
                f"{sessions['units']:,} units",
                {"ess": sessions["ess"]},
            ))  # fmt: skip
        rewards = carrying(self.decisions, self.w)
        if rewards < FEW_REWARDS:
            found.append(Caution(
                "few_rewards", f"{self.name}: {rewards} non-zero rewards carry weight",
                {"rewards": rewards},
            ))  # fmt: skip
        found += self._disagreement()
        return found

    def _disagreement(self) -> list[Caution]:
        if "dr" not in self.by_name:
            return []
        dr, snis = self.by_name["dr"], self.by_name["snis"]
        if not abs(dr["value"] - snis["value"]) > _DIFFER * max(dr["se"], snis["se"]):
            return []
        return [Caution(
            "estimators_differ",
            f"{self.name}: dr is {dr['value']:.4g} and snis {snis['value']:.4g}, more than two "
            "standard errors apart", {"dr": dr["value"], "snis": snis["value"]},
        )]  # fmt: skip

    def sentence(self) -> str:
        """Return what the log says about the policy, in words."""
        mark = " (with estimated propensities)" if self.asking.kind == "estimated" else ""
        if self.asking.accepted and not self.is_log:
            mark += f" (accepted: {self.asking.accepted})"
        if self.is_log:
            mean = self.asking.logged if self.split == self.asking.options.split else None
            own = logged_mean(self.decisions)
            shown = interval_of(self.decisions, own, self.w)
            value, low, high = own.value, shown.low, shown.high
            if mean is not None and self.name == LOGGED:
                value, low, high = mean["value"], mean["low"], mean["high"]
            return f"{self.name} is what the log did: {_with_interval(value, low, high)}."
        if self.support.verdict == CANNOT:
            why = "; ".join([*self.support.why, *self._heaviest()])
            return f"Cannot answer for {self.name}{mark}: {why}. {self._known()}"
        row = self.by_name["dr"]
        text = (
            f"{self.name}: {self.support.verdict}{mark}: dr "
            f"{_with_interval(row['value'], row['low'], row['high'])}, to the log "
            f"{_with_interval(row['difference'], row['difference_low'], row['difference_high'])}"
        )
        why = f"; {'; '.join(self.support.why)}" if self.support.why else ""
        return f"{text}{why}."

    def _heaviest(self) -> list[str]:
        """Return a clause on the decision of the largest weight, if that is too large a share."""
        if not self.weighable or not self.support.largest_share > LARGEST:
            return []
        row = self.support_row()
        share = f"{row['largest_share']:.0%} of the weight"
        return [
            f"decision {row['largest_decision']!r} (line {row['largest_line']}) carries {share}"
        ]

    def _known(self) -> str:
        """Return sentences on the log's own mean and on the exploration that an answer needs."""
        logged = self.asking.logged
        mean = _with_interval(logged["value"], logged["low"], logged["high"])
        known = f"The mean of the log is {mean}."
        if self.weighable and self.uncovered:
            low, high = bounds(self.decisions, self.target)
            part = values(self.decisions, self.target)["snis"].value
            known += (
                f" On the covered part the value is {part:.3g}; with the rewards seen it lies "
                f"between {low:.3g} and {high:.3g}."
            )
        return f"{known} {self._needed()}"

    def _needed(self) -> str:
        """Return the sentence on how much exploration would be enough, "" without any error."""
        decisions, error = self.decisions, self.decisions.reward - self.q[self.decisions.taken]
        spread = math.sqrt(weighted_mean(decisions, error**2))
        several = decisions.size[decisions.several]
        choices = float(several.mean()) if len(several) else 1.0
        if not spread > 0.0:
            return ""
        half = float(f"{spread / 4:.1g}")
        needed = decisions_needed(spread, choices, half, _EXPLORE)
        return (
            f"To compare others, draw uniformly in {_EXPLORE:.0%} of the decisions: about "
            f"{float(f'{needed:.2g}'):,.0f} of them give +- {half:g}."
        )


def _with_interval(value: float, low: float, high: float) -> str:
    if math.isnan(low):
        return f"{value:.4g} (no interval)"
    return f"{value:.4g} ({low:.4g} .. {high:.4g})"
