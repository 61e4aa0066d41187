"""The default choice among policies: a ranking by estimators of four kinds, which sees no truth.

    score of a policy   mean over estimators of its rank among the policies, ties shared

Which estimator ranks best differs by scenario (docs/results/ope.md), and nothing in a log says
which: weights die on long episodes, fitted values drift where credit is far off, linear features
miss what is not linear, and the window's most similar episodes say little where no episode is
similar. Their errors are of different origin, so one of each kind is asked, with one vote each.
Ranks have no unit: a consensus orders policies and says nothing of what they earn.
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
    """The estimators that have a vote, of those that were asked for; none for a single one."""
    found: list[str] = [name for name in MEMBERS if name in estimators]
    return found if len(found) > 1 else []


def consensus_scores(rows: pl.DataFrame) -> NDArray[np.float64]:
    """Mean ranks (P,) of the policies, in their order in `rows`; higher is better.

    `rows` are those of estimates.parquet; a policy without an estimate comes last for it.
    """
    votes = [
        ranks(rows.filter(pl.col("estimator") == name)["value"].fill_null(-np.inf).to_numpy())
        for name in members_of(rows["estimator"].unique().to_list())
    ]
    return np.asarray(np.mean(votes, axis=0), np.float64)


def describe_consensus(
    rows: pl.DataFrame, logged: float, reference: str | None
) -> Mapping[str, Any] | None:
    """What ope.json says of it: who voted, the policies best first, and metrics with truths.

    logged      the log's mean return
    reference   the heuristic against which errors are counted
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
    several = int(new.sum()) > 2  # of two there is no ranking
    found["rank_correlation_new"] = (
        rank_correlation(scores[new], truth[new]) if several else float("nan")
    )
    return found
