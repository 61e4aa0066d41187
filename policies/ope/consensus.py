"""The consensus: a ranking of policies by estimators of four kinds, computed without the truth.

    score of a policy   mean over estimators of its rank among the policies, ties shared

No estimator ranks best in every scenario (docs/results/ope.md), and a log does not show which one
to trust. Weights vanish on long episodes. Fitted values drift if rewards come long after the
choices that earned them. Linear features miss nonlinear effects. The window's most similar episodes
say little if no episode is similar. The errors of these four kinds have different causes, so one
estimator of each kind has one vote. Ranks have no unit: the consensus orders policies and does not
estimate their returns.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.estimators.selection import assess, rank_correlation, ranks

CONSENSUS: Final = "consensus"
MEMBERS: Final = ("snpdis", "dm", "mwl", "tempered")


def members_of(estimators: list[str]) -> list[str]:
    """Return the estimators that vote, among the given ones; [] if only one of them could."""
    found: list[str] = [name for name in MEMBERS if name in estimators]
    return found if len(found) > 1 else []


def consensus_scores(rows: pl.DataFrame) -> NDArray[np.float64]:
    """Return the mean ranks (P,) of the policies, in their order in `rows`; higher is better.

    `rows` are those of estimates.parquet. If an estimator has no value for a policy, it ranks that
    policy last.
    """
    votes = [
        ranks(rows.filter(pl.col("estimator") == name)["value"].fill_null(-np.inf).to_numpy())
        for name in members_of(rows["estimator"].unique().to_list())
    ]
    return np.asarray(np.mean(votes, axis=0), np.float64)


def describe_consensus(
    rows: pl.DataFrame, logged: float, reference: str | None
) -> Mapping[str, Any] | None:
    """Return the consensus as in ope.json, or None for fewer than two estimators or policies.

    The entry holds the voting estimators, the policies with the best first, and, if the truth is
    known, the selection metrics. `logged` is the log's mean return. `reference` is the heuristic
    for the error rates.
    """
    voting = members_of(rows["estimator"].unique().to_list())
    if not voting or rows["policy"].n_unique() < 2:
        return None
    scores = consensus_scores(rows)
    own = rows.filter(pl.col("estimator") == voting[0])
    names = own["policy"].to_list()
    order = np.argsort(-scores, kind="stable")
    found: dict[str, Any] = {
        "name": CONSENSUS,
        "description": "mean rank by " + ", ".join(voting),
        "members": voting,
        "order": [names[i] for i in order],
    }
    if own["truth"].null_count():
        return found
    truth, new = own["truth"].to_numpy(), ~own["logged"].to_numpy()
    at = None if reference is None else names.index(reference)
    found |= asdict(assess(scores, truth, behaviour=logged, reference=at))
    several = int(new.sum()) > 2  # two policies make no ranking
    found["rank_correlation_new"] = (
        rank_correlation(scores[new], truth[new]) if several else float("nan")
    )
    return found
