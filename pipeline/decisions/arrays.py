"""A log of decisions as the arrays of the estimators, and the features of the reference model."""

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.log import Array, DecisionLog, Flags
from hindcast.pipeline.estimators.decisions.logged import Ints, LoggedDecisions
from hindcast.pipeline.estimators.decisions.reward_model import cross_fitted_ridge, folds_of


def logged_decisions(log: DecisionLog, chosen: Ints | None = None) -> LoggedDecisions:
    """Return all decisions of a log; a missing reward is NaN, as is an unknown propensity.

    `chosen` are positions in place of the served candidates.
    """
    d = log.decisions
    _, units = np.unique(d["unit_id"].rank("dense").to_numpy(), return_inverse=True)
    taken = d["chosen"].to_numpy().astype(np.int64) if chosen is None else chosen
    return LoggedDecisions(
        log.offsets, taken, _floats(d["propensity"]),
        _floats(d["reward"]), log.candidates["feasible"].to_numpy(), _floats(d["weight"]),
        units.astype(np.int64), _floats(d["draws"]), _floats(log.candidates["probability"]),
    )  # fmt: skip


def _floats(column: pl.Series) -> Array:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def design(frame: pl.DataFrame, height: int) -> Array:
    """Return features as a matrix: numbers with NaN as 0, one column per level of a category."""
    blocks = []
    for name, dtype in frame.schema.items():
        if dtype == pl.Float64:
            blocks.append(np.nan_to_num(frame[name].to_numpy())[:, None])
            continue
        codes = frame[name].to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        levels = np.unique(codes[codes >= 0])
        blocks.append((codes[:, None] == levels).astype(np.float64))
    return np.hstack(blocks) if blocks else np.zeros((height, 0))


def reference_q(log: DecisionLog, e: LoggedDecisions, used: Flags) -> Array:
    """Return the cross-fitted values of all candidates by the reference model."""
    return cross_fitted_ridge(
        e, design(log.context, len(log)), design(log.features, len(e.owner)),
        folds_of(log.decisions["unit_id"]), used,
    )  # fmt: skip
