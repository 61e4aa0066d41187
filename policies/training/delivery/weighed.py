"""The gate of a log of decisions: the agent's value on validation decisions against the log's own.

    value     doubly robust, by decision, with units as clusters (hindcast.pipeline.estimators
              .decisions); its reward model is fitted without the test split
    rules     first, lowest:F and highest:F of every numeric feature F; of those with the verdict
              "answers" on the train split, the one of the highest value there, so that the
              decisions that judge the rule did not pick it by luck
    verdict   the agent is delivered if its verdict on the validation split is "answers", ten
              non-zero rewards carry weight, and the 95 % intervals of its value less that of the
              log, of uniform choices and of the rule are above 0;
              else the rule, if the rule is better than the log in the same way;
              else the log's own policy, which no checkpoint plays

In a log of sessions every decision is weighed for itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.decisions.arrays import logged_decisions, reference_q
from hindcast.pipeline.decisions.asking import refusal_of, unfair_loss
from hindcast.pipeline.decisions.cautions import with_cautions
from hindcast.pipeline.decisions.log import Array, DecisionLog, Flags
from hindcast.pipeline.decisions.record import read_record
from hindcast.pipeline.decisions.scoring import scored
from hindcast.pipeline.decisions.targets import LOGGED, numeric, target_of
from hindcast.pipeline.estimators.decisions import LoggedDecisions, Support, Value, support
from hindcast.pipeline.estimators.decisions.intervals import FEW_REWARDS, carrying, t_interval
from hindcast.pipeline.estimators.decisions.logged import weights
from hindcast.pipeline.estimators.decisions.values import doubly_robust, logged_mean, standard_error
from hindcast.pipeline.estimators.verdicts import ANSWERS
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery.verdict import (
    AGENT,
    LOG,
    RULE,
    Decide,
    Delivered,
    Verdict,
)

METRIC: Final = "dr"
UNIFORM: Final = "uniform"


@dataclass(frozen=True)
class Compared:
    """A policy against another one on the same decisions.

    Attributes:
        other: Name of the other policy.
        difference: Value of the policy less that of the other one.
        low: Lower end of its 95 % interval; NaN where there is none.
        high: Upper end.
    """

    other: str
    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = f"{self.low:+.4g} .. {self.high:+.4g}" if self.low == self.low else "no interval"
        return f"{self.difference:+.4g} ({ends}) against {self.other}"


class _Part:
    """The decisions of a split, and the values of policies on them.

    A `target` is the probabilities (C,) of a policy over the candidates of all decisions of the
    log. Its rows on the split are taken here.
    """

    def __init__(self, logged: LoggedDecisions, q: Array, used: Flags) -> None:
        self.used, self.rows = used, used[logged.owner]
        self.logged, self.q = logged.take(used), q[self.rows]

    def value(self, target: Array) -> Value:
        return doubly_robust(self.logged, target[self.rows], self.q)

    def support(self, target: Array) -> Support:
        return support(self.logged, target[self.rows])

    def rewards(self, target: Array) -> int:
        """Return the number of non-zero rewards that carry weight."""
        return carrying(self.logged, weights(self.logged, target[self.rows]))

    def compare(self, one: Value, other: Value, name: str) -> Compared:
        difference = one.value - other.value
        se = standard_error(self.logged, one.z - other.z)
        found = t_interval(difference, se, self.logged.units)
        return Compared(name, difference, found.low, found.high)


@dataclass(frozen=True)
class Judge:
    """The verdicts of a log on agents.

    Attributes:
        log: The log.
        spec: Names of its features.
        logged: The log as arrays.
        validation: The decisions on which agents are compared.
        rule: The rule of the highest value on the train split; "" if none has the support there.
        refusal: Reason why no weight can be trusted; "" if they can.
    """

    log: DecisionLog
    spec: Spec
    logged: LoggedDecisions
    validation: _Part
    rule: str
    refusal: str

    def judge(self, policy: LearnedPolicy) -> Verdict:
        """Return the verdict on an agent."""
        units, rule = self.validation.logged.units, self.rule or LOGGED
        if self.refusal:
            why = f"the agent cannot be compared with the log: {self.refusal}"
            return Verdict(LOG, rule, METRIC, units, why=f"{why}; the log's own policy stays")
        used = self.validation.used
        of_agent = scored(policy, self.spec, self.log, self.logged, used=used)
        hardest, reason = self._against(of_agent, self._others(self.rule))
        delivered: Delivered = AGENT
        why = f"the agent is better: {hardest}"
        if reason:
            delivered, why = LOG, f"the agent is not delivered: {reason}"
            rest = "the log's own policy stays"
            if self.rule:
                of_rule = target_of(self.rule, self.log, self.logged)
                led, short = self._against(of_rule, self._others(""))
                rest = f"{self.rule} is not delivered: {short}; {rest}"
                if not short:
                    delivered, rest = RULE, f"{self.rule} is delivered: {led}"
            why = f"{why}; {rest}"
        why += f" (dr on {len(self.validation.logged):,} validation decisions of {units:,} units)"
        low, high = (None if np.isnan(end) else end for end in (hardest.low, hardest.high))
        return Verdict(delivered, rule, METRIC, units, hardest.difference, low, high, why)

    def _others(self, rule: str) -> dict[str, Value]:
        """Return the values of what a policy has to beat, by name; "" stands for no rule.

        They are the log's own policy and, beside a rule, also the uniform choice.
        """
        named = [UNIFORM, rule] if rule else []
        part = self.validation
        found = {name: part.value(target_of(name, self.log, self.logged)) for name in named}
        return {LOGGED: logged_mean(part.logged), **found}

    def _against(self, target: Array, others: Mapping[str, Value]) -> tuple[Compared, str]:
        """Return a policy against the hardest of others, and why it is not better, "" if it is.

        The hardest of the others is the one from which the interval of the policy's
        difference begins lowest; NaN is lowest of all. The interval that is returned is NaN where
        too few rewards carry weight.
        """
        part, value = self.validation, self.validation.value(target)
        compared = [part.compare(value, other, of) for of, other in others.items()]
        hardest = min(compared, key=lambda c: (-np.inf if np.isnan(c.low) else c.low, c.difference))
        found = part.support(target)
        if found.verdict != ANSWERS:
            return hardest, f"validation {found.verdict} ({'; '.join(found.why)})"
        if (rewards := part.rewards(target)) < FEW_REWARDS:
            hardest = replace(hardest, low=float("nan"), high=float("nan"))
            few = f"{rewards} non-zero rewards carry weight, fewer than {FEW_REWARDS}"
            return hardest, f"it is not clearly better: {hardest}; {few}"
        return hardest, "" if hardest.low > 0.0 else f"it is not clearly better: {hardest}"


def judge_of(dataset: Dataset) -> Judge | None:
    """Return the judge of agents of a log; None if its validation split has no decisions."""
    log = with_cautions(read_record(dataset.folder, dataset.manifest.provenance))
    split = log.decisions["split"].to_numpy()
    train, validation = (log.weighted & (split == name) for name in ("train", "validation"))
    if not validation.any():
        return None
    logged, refusal = logged_decisions(log), refusal_of(log) or unfair_loss(log.cautions)
    q = reference_q(log, logged, log.weighted & (split != "test"))
    rule = ""
    if not refusal and train.any():
        rule = _best_supported_rule(log, logged, _Part(logged, q, train))
    return Judge(log, dataset.spec, logged, _Part(logged, q, validation), rule, refusal)


def _best_supported_rule(log: DecisionLog, logged: LoggedDecisions, part: _Part) -> str:
    """Return the rule of the highest value on a split, of those whose support there is ANSWERS.

    The rules are `first`, `lowest:F` and `highest:F` of every numeric feature F. "" if none has
    that support.
    """
    kinds = ("lowest", "highest")
    values: dict[str, float] = {}
    for rule in ["first", *(f"{kind}:{feature}" for feature in numeric(log) for kind in kinds)]:
        target = target_of(rule, log, logged)
        if part.support(target).verdict == ANSWERS:
            values[rule] = part.value(target).value
    return max(values, key=lambda rule: values[rule]) if values else ""


def decide_on(dataset: Dataset) -> Decide:
    """Return the function that compares the checkpoints of a training with the log and its rules.

    Of several checkpoints it takes one that is delivered before others, then the one that is
    further ahead.
    """

    def lead(one: tuple[Trained, Verdict]) -> Any:
        difference = one[1].difference
        return one[1].delivered == AGENT, -np.inf if difference is None else difference

    def decide(candidates: Mapping[str, Trained]) -> tuple[Trained, Verdict] | None:
        found = judge_of(dataset)
        if found is None:
            return None
        return max(((one, found.judge(one.policy())) for one in candidates.values()), key=lead)

    return decide
