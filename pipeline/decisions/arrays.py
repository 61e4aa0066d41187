"""A log of decisions as the arrays of the estimators, and the features of the reference model."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import ragged_rows
from hindcast.pipeline.decisions.log import SMALL_PIECE, Array, DecisionLog, Flags
from hindcast.pipeline.decisions.values import floats
from hindcast.pipeline.estimators import LoggedEpisodes
from hindcast.pipeline.estimators.decisions import EstimatedPropensities, estimate_propensities
from hindcast.pipeline.estimators.decisions.logged import (
    Ints,
    LoggedDecisions,
    beginnings,
    unbroken,
)
from hindcast.pipeline.estimators.decisions.reward_model import fold_models, folds_of, predicted
from hindcast.pipeline.estimators.decisions.session_values import cross_fitted_fqe

_MOST_PRODUCTS: Final = 200  # of features with the context, in a model of propensities


def logged_decisions(log: DecisionLog, chosen: Ints | None = None) -> LoggedDecisions:
    """Return all decisions of a log; a missing reward is NaN, as is an unknown propensity.

    `chosen` are positions in place of the served candidates.
    """
    d = log.decisions
    taken = d["chosen"].to_numpy().astype(np.int64) if chosen is None else chosen
    return LoggedDecisions(
        offsets=log.offsets, chosen=taken, propensity=floats(d["propensity"]),
        reward=floats(d["reward"]), feasible=log.candidates["feasible"].to_numpy(),
        weight=floats(d["weight"]), unit=log.units, draws=floats(d["draws"]),
        probability=floats(log.candidates["probability"]),
    )  # fmt: skip


def design(
    frame: pl.DataFrame, height: int, levels: Mapping[str, Ints] | None = None,
    missing: float = 0.0,
) -> Array:  # fmt: skip
    """Return features as a matrix: numbers, and one column per level of a category.

    `levels` are codes of categories, by default those of the frame. A number that is `missing` is
    NaN in the frame.
    """
    levels = levels_of(frame) if levels is None else levels
    blocks = []
    for name, dtype in frame.schema.items():
        if dtype == pl.Float64:
            blocks.append(np.nan_to_num(frame[name].to_numpy(), nan=missing)[:, None])
            continue
        codes = frame[name].to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        blocks.append((codes[:, None] == levels[name]).astype(np.float64))
    return np.hstack(blocks) if blocks else np.zeros((height, 0))


def levels_of(frame: pl.DataFrame) -> dict[str, Ints]:
    """Return the codes of the levels of categories, in their order."""
    return {
        name: frame[name].unique().drop_nulls().to_physical().cast(pl.Int64).sort().to_numpy()
        for name, dtype in frame.schema.items()
        if dtype != pl.Float64
    }


def reference_q(log: DecisionLog, logged: LoggedDecisions, used: Flags) -> Array:
    """Return the cross-fitted values of all candidates by the reference model."""
    folds, known = folds_of(log.decisions["unit_id"]), levels_of(log.features)
    context, taken = design(log.context, len(log)), log.features
    if taken.width:
        taken = taken[logged.taken]
    x = np.hstack([context, design(taken, len(log), known)])
    models = fold_models(x, logged.reward, logged.weight, folds, used)
    found, begin = [], 0
    for piece in log.pieces(SMALL_PIECE):
        rows = slice(begin, begin + len(piece))
        begin = rows.stop
        owner = np.repeat(np.arange(len(piece)), piece.lengths)
        features = design(piece.features, len(owner), known)
        found.append(predicted(models, context[rows], features, folds[rows], owner))
    return np.concatenate(found)


def estimated_propensities(log: DecisionLog, logged: LoggedDecisions) -> EstimatedPropensities:
    """Return propensities estimated from the features, the ids and their products with context."""
    ids = design(log.candidates.select("id"), len(logged.owner))
    features = np.hstack([design(log.features, len(logged.owner)), ids])
    context = design(log.context, len(log))
    spread = context.std(axis=0)
    context = (context - context.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    products = None
    if 0 < features.shape[1] * context.shape[1] <= _MOST_PRODUCTS:
        products = (features[:, :, None] * context[logged.owner][:, None, :]).reshape(
            len(features), -1
        )
    return estimate_propensities(logged, features, folds_of(log.decisions["unit_id"]), products)


def session_episodes(
    log: DecisionLog, logged: LoggedDecisions, used: Flags, target: Array
) -> LoggedEpisodes | None:
    """Return the sessions of decisions as episodes, with weights and fitted values of a policy.

    None if no session has several decisions, or if the records were kept with different
    probabilities. A session ends before its first decision that is not used.
    """
    session = log.decisions["session"]
    if session.null_count() or session.n_unique() == len(session) or np.ptp(logged.weight) > 0.0:
        return None
    number = session.rank("dense").to_numpy().astype(np.int64)
    at = np.arange(len(log))
    first = np.unique(number, return_index=True)[1]
    order = np.lexsort((at, first[number - 1]))
    kept = order[unbroken(number[order], used[order])]
    place = np.full(len(log), -1)
    place[np.flatnonzero(used)] = np.arange(int(used.sum()))
    heads = np.flatnonzero(beginnings(number[kept]))
    if len(heads) == len(kept):
        return None
    of_candidates = ragged_rows(logged.offsets, place[kept])
    logged, target = logged.at(place[kept], of_candidates), target[of_candidates]
    features = log.features[ragged_rows(log.offsets, kept)] if log.features.width else log.features
    context = design(log.context[kept] if log.context.width else log.context, len(logged))
    q, v = cross_fitted_fqe(
        logged, target, heads, context, design(features, len(target)),
        folds_of(log.decisions["unit_id"][kept]),
    )  # fmt: skip
    offsets = np.concatenate([heads, [len(kept)]]).astype(np.int64)
    return LoggedEpisodes(
        offsets, np.minimum(1.0 / logged.inverse, 1.0),
        np.minimum(np.where(logged.several, target[logged.taken], 1.0), 1.0), logged.reward,
        q=q, v=v, group=logged.unit[heads],
    )  # fmt: skip
