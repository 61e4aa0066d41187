"""The consensus: a ranking of policies by several estimators, computed without the truth.

    vote     1 for gp; for another estimator its rank correlation with gp, at least 0
    score    mean rank of the policy over the estimators, weighted by their votes

No estimator ranks best in every scenario (docs/results/ope.md). The regression over policies (gp;
Konyushkova et al., "Active Offline Policy Selection", NeurIPS 2021) comes closest, since neither
long episodes nor late rewards harm it. It says little about a policy that resembles none of the
log. Fitted values and products of weights say more about such a policy, or rank policies backwards.
Agreement with gp tells the two cases apart: errors of such different kinds seldom agree by chance.

Where gp has no estimate (the log's behaviours are not known), one estimator of each of four other
kinds has one vote. Ranks have no unit: the consensus orders policies and does not estimate their
returns.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.estimators.selection import assess, rank_correlation, ranks

CONSENSUS: Final = "consensus"
LEADER: Final = "gp"
FOLLOWERS: Final = ("dm", "dr", "wdr", "tempered")
MEMBERS: Final = ("snpdis", "dm", "mwl", "tempered")  # without gp


def members_of(estimators: Collection[str]) -> list[str]:
    """Return the estimators that vote, among the given ones; [] if only one of them could."""
    members = (LEADER, *FOLLOWERS) if LEADER in estimators else MEMBERS
    present: list[str] = [name for name in members if name in estimators]
    return present if len(present) > 1 else []


def votes(rows: pl.DataFrame) -> Mapping[str, float]:
    """Return the vote of every voting estimator, 0 to 1.

    `rows` are those of estimates.parquet. If gp ranks all policies alike, nothing can agree with it
    and the others have no vote.
    """
    voting = members_of(rows["estimator"].unique().to_list())
    if LEADER not in voting:
        return dict.fromkeys(voting, 1.0)
    leading = _values(rows, LEADER)
    agreed = {name: rank_correlation(_values(rows, name), leading) for name in voting[1:]}
    followers = {name: max(r, 0.0) if np.isfinite(r) else 0.0 for name, r in agreed.items()}
    return {LEADER: 1.0} | followers


def consensus_scores(rows: pl.DataFrame) -> NDArray[np.float64]:
    """Return the weighted mean ranks (P,) of the policies, in their order in `rows`.

    A higher score is better. `rows` are those of estimates.parquet. If an estimator has no value
    for a policy, it ranks that policy last.
    """
    weights = votes(rows)
    rankings = [ranks(_values(rows, name)) for name in weights]
    return np.average(rankings, axis=0, weights=list(weights.values()))


def _values(rows: pl.DataFrame, name: str) -> NDArray[np.float64]:
    values = rows.filter(pl.col("estimator") == name)["value"]
    return values.fill_null(-np.inf).to_numpy()


def describe_order(rows: pl.DataFrame) -> Mapping[str, Any] | None:
    """Return the order of the policies as in ope.json, the best first; None for a single policy.

    The order is that by gp or, where gp has no estimate, by the consensus; None if there is
    neither.
    """
    names = rows["estimator"].unique().to_list()
    policies = rows["policy"].unique(maintain_order=True).to_list()
    if len(policies) < 2 or not (LEADER in names or members_of(names)):
        return None
    leading = LEADER in names
    scores = _values(rows, LEADER) if leading else consensus_scores(rows)
    order = np.argsort(-scores, kind="stable")
    return {"by": LEADER if leading else CONSENSUS, "policies": [policies[i] for i in order]}


def describe_consensus(
    rows: pl.DataFrame, logged: float, reference: str | None
) -> Mapping[str, Any] | None:
    """Return the consensus as in ope.json, or None for fewer than two estimators or policies.

    The entry holds the voting estimators and their votes, the policies with the best first, and, if
    the truth is known, the selection metrics. `logged` is the log's mean return. `reference` is the
    heuristic for the error rates.
    """
    voting = members_of(rows["estimator"].unique().to_list())
    if not voting or rows["policy"].n_unique() < 2:
        return None
    scores, weights = consensus_scores(rows), votes(rows)
    policies = rows.filter(pl.col("estimator") == voting[0])
    names = policies["policy"].to_list()
    order = np.argsort(-scores, kind="stable")
    consensus: dict[str, Any] = {
        "name": CONSENSUS,
        "description": _description(weights),
        "members": voting,
        "votes": dict(weights),
        "order": [names[i] for i in order],
    }
    if policies["truth"].null_count():
        return consensus
    truth, new = policies["truth"].to_numpy(), ~policies["logged"].to_numpy()
    at = None if reference is None else names.index(reference)
    consensus |= asdict(assess(scores, truth, behaviour=logged, reference=at))
    several = int(new.sum()) > 2  # two policies make no ranking
    consensus["rank_correlation_new"] = (
        rank_correlation(scores[new], truth[new]) if several else float("nan")
    )
    return consensus


def _description(weights: Mapping[str, float]) -> str:
    if LEADER not in weights:
        return "mean rank by " + ", ".join(weights)
    others = ", ".join(f"{name} {vote:.2f}" for name, vote in weights.items() if name != LEADER)
    return f"mean rank by {LEADER}, weight 1, and as far as they agree with it: {others}"
