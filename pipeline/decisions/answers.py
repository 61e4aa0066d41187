"""Answers of a log of decisions about policies: the verdict first, the numbers second.

For each policy: its support, then estimates with intervals, the difference to the log, and one
sentence. A log that cannot answer says what it knows, why it cannot, and what would have to be
logged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.asked_policy import AskedPolicy
from hindcast.pipeline.decisions.asking import CONTRADICTIONS, Asking, Options, decisions_of
from hindcast.pipeline.decisions.log import Array, Caution, DecisionLog
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.estimators.decisions import EstimatedPropensities
from hindcast.pipeline.estimators.decisions.trials import Weighed, trials_of
from hindcast.pipeline.estimators.verdicts import ANSWERS, CANNOT

_GROUPS: Final = {
    "policy": pl.String, "by": pl.String, "level": pl.String, "decisions": pl.Int64,
    "ess": pl.Float64, "weight_share": pl.Float64, "changed": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """Answers of a log about policies.

    Attributes:
        estimates: A row per policy and estimator: value, se, interval, difference to the log,
            support, verdict.
        support: A row per policy: effective decisions, weights, coverage, verdict and why.
        support_by: A row per policy and group: by candidate, category, logger and time.
        cautions: Facts that limit the answers: those of the log, then those of the policies.
        sentences: One or more sentences per policy.
        answerable: True for the policies that the log answers for, by their names.
        logged: Mean reward of the log with its interval.
        propensities: "logged", "estimated" or "none".
        estimated: The estimated propensities; None if none were estimated.
        trials: A row per number of policies that are tried online, see
            hindcast.pipeline.estimators.decisions.trials.
        options: Settings of the question.
    """

    estimates: pl.DataFrame
    support: pl.DataFrame
    support_by: pl.DataFrame
    cautions: tuple[Caution, ...]
    sentences: Mapping[str, str]
    answerable: Mapping[str, bool]
    logged: Mapping[str, float]
    propensities: str
    estimated: EstimatedPropensities | None
    trials: pl.DataFrame
    options: Options


def answer(
    log: DecisionLog,
    targets: Mapping[str, Array],
    options: Options | None = None,
    splits: Mapping[str, str] | None = None,
) -> Answers:
    """Return the answers of a log about policies.

    Args:
        log: The log.
        targets: Probabilities (C,) of each policy over the candidates of all decisions.
        options: Settings of the question.
        splits: Split of single policies, in place of that of the options.
    """
    options, splits = options or Options(), splits or {}
    for code in options.accept:
        if code not in CONTRADICTIONS:
            raise unknown_name("contradiction", code, CONTRADICTIONS)
    asking = Asking(log, options, len(targets))
    cautions = list(asking.log.cautions)
    rows: list[dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    sentences, answerable = {}, {}
    weighed: dict[str, Weighed] = {}
    for name, target in targets.items():
        split = splits.get(name, options.split)
        used = log.weighted & decisions_of(log, split)
        if not used.any():
            raise InputError(f"{name}: no decision of {split} has a reward and its own choice")
        asked = AskedPolicy(asking, name, target, used, split)
        rows += asked.rows
        supports.append(asked.support_row())
        groups += asked.groups()
        sentences[name] = asked.sentence()
        answerable[name] = asked.support.verdict == ANSWERS
        if asked.support.verdict != CANNOT and not asked.uncovered:
            weighed[name] = asked.decisions, asked.target, asked.q
        cautions += asked.cautions()
    cautions += _several_splits({row["policy"]: row["split"] for row in supports})
    return Answers(
        estimates=pl.DataFrame(rows, infer_schema_length=None).fill_nan(None),
        support=pl.DataFrame(supports, infer_schema_length=None).fill_nan(None),
        support_by=pl.DataFrame(groups, schema=_GROUPS), cautions=tuple(cautions),
        sentences=sentences, answerable=answerable, logged=asking.logged, propensities=asking.kind,
        estimated=asking.estimated, trials=trials_of(weighed, asking.level, options.seed),
        options=options,
    )  # fmt: skip


def _several_splits(found: Mapping[str, str]) -> list[Caution]:
    """Return the caution that policies are weighted on decisions of several splits, if so."""
    if len({*found.values()}) < 2:
        return []
    told = "; ".join(
        f"{', '.join(p for p in found if found[p] == split)} on {split}"
        for split in sorted({*found.values()})
    )
    return [Caution(
        "several_splits",
        f"values of different decisions cannot be compared ({told}): give one split, such "
        "as `--split test`, or compare the differences to the log", dict(found),
    )]  # fmt: skip
