"""Policies that a log can name: their probabilities of all candidates of all decisions.

uniform          every feasible candidate alike
first            the first feasible candidate
lowest:F         the one with the lowest F, highest:F the one with the highest; ties: the first
candidate:ID     that candidate, where it is feasible; uniform elsewhere
logged           the log itself
column:NAME      probabilities, or scores, that were logged beside
"""

from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.checks import SUM
from hindcast.pipeline.decisions.log import Array, DecisionLog, Flags
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.estimators.decisions import LoggedDecisions, best, first, uniform
from hindcast.pipeline.estimators.decisions.logged import normalised

LOGGED: Final = "logged"
PLAIN: Final = ("uniform", "first", LOGGED)
KINDS: Final = ("lowest", "highest", "candidate", "column")
SHOWN: Final = (*PLAIN, "lowest:FEATURE", "highest:FEATURE", "candidate:ID", "column:NAME")


def is_named(name: str) -> bool:
    """Return whether a policy is one of those that a log can name."""
    kind, colon, _ = name.partition(":")
    return name in PLAIN or (bool(colon) and kind in KINDS)


def target_of(name: str, log: DecisionLog, logged: LoggedDecisions) -> Array:
    """Return the probabilities (C,) of a named policy; raise UnknownName with the nearest name.

    `logged` has the probability 1 on every taken candidate: its weights are set to 1.
    """
    kind, _, of = name.partition(":")
    if name == "uniform":
        return uniform(logged)
    if name == "first":
        return first(logged)
    if name == LOGGED:
        taken = np.zeros(len(logged.owner))
        taken[logged.taken] = 1.0
        return taken
    if kind in ("lowest", "highest"):
        values = _feature(of, log)
        return best(logged, np.negative(values) if kind == "lowest" else values)
    if kind == "candidate":
        is_it = _is(of, log)
        there = best(logged, is_it.astype(np.float64))
        return np.where(offered(of, log, logged)[logged.owner], there, uniform(logged))
    if kind == "column":
        return _column(of, log, logged)
    raise unknown_name("policy of a log", name, SHOWN)


def offered(candidate: str, log: DecisionLog, logged: LoggedDecisions) -> Flags:
    """Return in which decisions (D,) a candidate can be taken."""
    return np.bincount(logged.owner, _is(candidate, log) & logged.feasible, len(logged)) > 0


def _is(candidate: str, log: DecisionLog) -> Flags:
    """Return which rows (C,) of candidates are that one; raise UnknownName if none is."""
    ids = log.candidates["id"].cast(pl.String)
    if candidate not in ids:
        raise unknown_name("candidate", candidate, ids.unique().drop_nulls().to_list())
    return (ids == candidate).fill_null(value=False).to_numpy()


def numeric(log: DecisionLog) -> list[str]:
    """Return the numeric features of the candidates."""
    return [name for name, dtype in log.features.schema.items() if dtype == pl.Float64]


def _feature(name: str, log: DecisionLog) -> Array:
    known = numeric(log)
    if name not in known:
        raise unknown_name("numeric feature of the candidates", name, known)
    return log.feature(name)


def _column(name: str, log: DecisionLog, logged: LoggedDecisions) -> Array:
    """Return the probabilities (C,) of the policy of a column.

    A column of probabilities is the policy itself; of any other, the policy takes the candidate
    with the highest value.
    """
    columns = log.mapping.columns
    if name in (columns.probability, columns.probabilities) and name not in log.features.columns:
        if np.isnan(logged.probability[logged.feasible]).any():
            raise InputError(f"column:{name}: not every candidate has a probability")
        return normalised(logged, np.nan_to_num(logged.probability), f"column:{name}")
    values = _feature(name, log)
    usable = np.where(logged.feasible, np.nan_to_num(values), 0.0)
    total = np.bincount(logged.owner, usable, len(logged))
    if (usable >= 0).all() and (np.abs(total - 1.0) < SUM).all():
        return normalised(logged, usable, f"column:{name}")
    return best(logged, values)
