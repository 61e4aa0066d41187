"""A question to a log of decisions: its settings, the propensities and the reward model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from hindcast.pipeline.decisions.arrays import estimated_propensities, logged_decisions, reference_q
from hindcast.pipeline.decisions.log import Caution, DecisionLog, Flags
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.estimators.decisions import (
    EstimatedPropensities,
    LoggedDecisions,
    interval_of,
)
from hindcast.pipeline.estimators.decisions.estimated import with_propensities
from hindcast.pipeline.estimators.decisions.values import logged_mean
from hindcast.pipeline.recipes.splits import SPLITS

ALL: Final = "all"
CONTRADICTIONS: Final = ("propensities_contradicted", "override_depends")
_UNFAIR: Final = ("censored_by_choice", "censored_by_time")
LEVEL: Final = 0.95


@dataclass(frozen=True)
class Options:
    """Settings of a question to a log.

    Attributes:
        split: "all", or a split.
        accept: Codes of contradictions that are accepted, so that weighted numbers are given.
        estimate: True to estimate propensities where none were logged.
        seed: Seed of the bootstrap.
    """

    split: str = ALL
    accept: tuple[str, ...] = ()
    estimate: bool = False
    seed: int = 0


def decisions_of(log: DecisionLog, split: str) -> Flags:
    """Return which decisions of a log are of a split; raise UnknownName for another one."""
    if split == ALL:
        return np.ones(len(log), bool)
    if split not in SPLITS:
        raise unknown_name("split", split, [*SPLITS, ALL])
    found = (log.decisions["split"] == split).to_numpy()
    if not found.any():
        raise InputError(f"the split {split!r} has no decisions, expected one that has some")
    return found


def refusal_of(log: DecisionLog, accept: Sequence[str] = (), kind: str = "") -> str:
    """Return why weights of a log cannot be trusted, "" if they can.

    `kind` is that of the propensities; by default of those that the log has.
    """
    if (kind or log.mapping.propensity.kind) == "none":
        return (
            "the log has no propensities; `--estimate-propensities` estimates them, marked as "
            "such everywhere"
        )
    for caution in log.cautions:
        if caution.code == "deterministic":
            return caution.text
        if caution.code in CONTRADICTIONS and caution.code not in accept:
            return f"{caution.text} (`--accept {caution.code}` gives numbers all the same)"
    return ""


class Asking:
    """A log with its propensities and its reward model, for questions about several policies."""

    def __init__(self, log: DecisionLog, options: Options, policies: int) -> None:
        self.log, self.options = log, options
        self.level = 1.0 - (1.0 - LEVEL) / max(policies, 1)
        self.every = logged_decisions(log)
        stated = log.mapping.propensity.kind
        self.kind = stated if stated in ("none", "estimated") else "logged"
        self.estimated: EstimatedPropensities | None = None
        if options.estimate and self.kind == "none":
            self.kind = "estimated"
            self.estimated = estimated_propensities(log, self.every)
            self.every = with_propensities(self.every, self.estimated.probability)
            log = replace(log, cautions=_with_estimates(log.cautions, self.estimated))
            self.log = log
        self._used, self._part = np.ones(len(log), bool), self.every
        height = len(self.every.owner)
        self.q = (
            reference_q(log, self.every, log.weighted) if log.weighted.any() else np.zeros(height)
        )
        self.refusal, self.lost = self._refusal(), unfair_loss(log.cautions)
        self.accepted = ", ".join(
            c.code for c in log.cautions if c.code in set(CONTRADICTIONS) & {*options.accept}
        )

    def _refusal(self) -> str:
        """Return why no weight can be trusted, "" if they can."""
        if self.estimated is not None and self.estimated.deterministic:
            return (
                f"the choices are predicted with p > .99 in {self.estimated.certain:.0%} of the "
                "decisions: the logger is deterministic"
            )
        return refusal_of(self.log, self.options.accept, self.kind)

    def part(self, used: Flags) -> LoggedDecisions:
        """Return some decisions; policies that are weighed on the same ones share them."""
        if not np.array_equal(used, self._used):
            self._used, self._part = used, self.every.take(used)
        return self._part

    @cached_property
    def logged(self) -> dict[str, float]:
        """Mean reward of the logged choices with its interval, over all decisions with a reward."""
        there = self.log.decisions["reward"].is_not_null().to_numpy()
        rewarded = self.every.take(there & decisions_of(self.log, self.options.split))
        mean = logged_mean(rewarded)
        interval = interval_of(rewarded, mean, np.ones(len(rewarded)), LEVEL, self.options.seed)
        return {"value": mean.value, "se": mean.se, "low": interval.low, "high": interval.high,
                "decisions": len(rewarded)}  # fmt: skip


def _with_estimates(
    cautions: Sequence[Caution], found: EstimatedPropensities
) -> tuple[Caution, ...]:
    """Return the cautions with what is known about estimated propensities."""
    told = Caution(
        "estimated",
        f"the propensities are estimated: held-out log-likelihood {found.log_likelihood:.3f} a "
        f"decision, {found.uniform:.3f} for uniform; the most likely candidate was taken in "
        f"{found.most_likely:.0%}, p is below .01 in {found.rare:.1%}; they are right only if "
        "everything that the logger looked at is in the log, which no test can show",
        {"log_likelihood": found.log_likelihood, "uniform": found.uniform,
         "most_likely": found.most_likely, "rare": found.rare},
    )  # fmt: skip
    return (*(c for c in cautions if c.code != "no_propensities"), told)


def unfair_loss(cautions: Sequence[Caution]) -> str:
    """Return why the decisions with a reward are no fair sample of all, "" if they may be."""
    return "; ".join(c.text for c in cautions if c.code in _UNFAIR)
