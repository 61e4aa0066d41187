"""Checks of a log of decisions: refusals of the whole, and decisions quarantined with a reason.

A refusal is a TraceError: what was found, and what to do. A decision is quarantined for the first
reason that holds.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import Batch, Ints, Reading, Reasons, always, sums, take
from hindcast.pipeline.decisions.mapping import DecisionMapping
from hindcast.pipeline.decisions.shapes.rows import DIFFERS
from hindcast.pipeline.decisions.values import Array, Flags, floats, may_repeat
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.estimators.decisions.logged import ABOVE_ONE

SUM: Final = 1e-3  # by how much probabilities may miss 1
SAME: Final = 1e-3  # relative difference between two statements of one probability
LEAST: Final = 1e-6
_MOST_ABOVE: Final = 0.05
_MOST_QUARANTINED: Final = 0.1


class Scales:
    """Counts of numbers that are no probabilities, over the batches of a log."""

    def __init__(self) -> None:
        self._listed, self._stated = _Outside(), _Outside()

    def add(self, batch: Batch) -> None:
        """Count the probabilities of a batch, of all candidates and of the taken ones."""
        self._listed.add(batch.candidates["probability"])
        self._stated.add(batch.decisions["propensity"])

    def refuse(self, where: str) -> None:
        """Raise TraceError if the probabilities are percentages or logarithms."""
        found = self._listed if self._listed.values else self._stated
        if found.negative > found.values / 2:
            raise TraceError(
                f"{where}: {found.negative:,} of {found.values:,} probabilities are negative, such "
                f"as {found.lowest:g}: logarithms? exp(x) makes probabilities of them"
            )
        if found.above > _MOST_ABOVE * found.values:
            raise TraceError(
                f"{where}: {found.above:,} of {found.values:,} probabilities are above 1, such as "
                f"{found.highest:g}: percent? divide by 100"
            )


class _Outside:
    """Counts of values, and of those below 0 and above 1, with the first of each."""

    def __init__(self) -> None:
        self.values = self.negative = self.above = 0
        self.lowest = self.highest = 0.0

    def add(self, column: pl.Series) -> None:
        values = column.drop_nulls().drop_nans().to_numpy()
        low, high = values[values < 0], values[values > 1 + ABOVE_ONE]
        if len(low) and not self.negative:
            self.lowest = float(low[0])
        if len(high) and not self.above:
            self.highest = float(high[0])
        self.values += len(values)
        self.negative += len(low)
        self.above += len(high)


def without_repetitions(batch: Batch, reading: Reading) -> Batch:
    """Return the decisions without those that repeat another one; ids that differ are marked."""
    ids = batch.decisions["id"]
    if not may_repeat(ids):
        return batch
    again = ids.is_duplicated() & ids.is_not_null()
    if not again.any():
        return batch
    frame = batch.decisions.select("id", "content").with_row_index("row").filter(again)
    contents = frame.group_by("id").agg(pl.col("content").n_unique().alias("n"))
    frame = frame.join(contents, on="id", how="left", maintain_order="left")
    same = frame.filter(pl.col("n") == 1)
    dropped = same.filter(~pl.col("id").is_first_distinct())["row"].to_numpy()
    differs = frame.filter(pl.col("n") > 1)["row"].to_numpy()
    if len(dropped):
        reading.count("repeated_decisions", len(dropped))
    if len(differs):
        marked = np.zeros(len(batch), bool)
        marked[differs] = True
        decisions = batch.decisions.with_columns(
            pl.when(pl.Series(marked)).then(pl.lit(DIFFERS)).otherwise("reason").alias("reason")
        )
        batch = replace(batch, decisions=decisions)
    keep = np.ones(len(batch), bool)
    keep[dropped] = False
    return batch if keep.all() else take(batch, np.flatnonzero(keep))


def checked(batch: Batch, mapping: DecisionMapping, terms: Sequence[str]) -> Batch:
    """Return a batch with the reasons why decisions cannot be used, and their propensities.

    The propensity is that of the drawn candidate, at most 1. Probabilities of candidates are there
    if they are complete. `single` says which decisions have one feasible candidate.
    """
    decisions, offsets = batch.decisions, batch.offsets
    feasible = batch.candidates["feasible"].to_numpy()
    size = sums(feasible, offsets)
    logged = floats(batch.candidates["probability"])
    chosen = decisions["chosen"].fill_null(-1).to_numpy()
    known = (chosen >= 0) & (chosen < batch.lengths)
    rows = offsets[:-1] + np.where(known, chosen, 0)
    rows = np.minimum(rows, max(len(feasible) - 1, 0))
    p = propensity_of(batch, rows, logged)
    complete = complete_probabilities(logged, feasible, offsets)
    reasons = Reasons(decisions["reason"].to_list())
    _choices(batch, reasons, known, rows)
    if mapping.propensity.kind in ("exact", "monte_carlo"):
        _propensities(batch, reasons, size >= 2, complete, rows, p, logged)
    _finite(batch, reasons, terms)
    spread = logged if feasible.all() else np.where(feasible, logged, 0.0)
    if not complete.all():
        spread = np.where(np.repeat(complete, batch.lengths), spread, np.nan)
    if (size == 1).any():
        of_single = np.repeat(size == 1, batch.lengths)
        spread = np.where(of_single & ~np.isnan(spread), feasible.astype(np.float64), spread)
    return replace(
        batch,
        decisions=decisions.with_columns(
            reasons.series,
            pl.Series("propensity", np.minimum(p, 1.0)),
            pl.Series("single", size == 1),
        ),
        candidates=batch.candidates.with_columns(pl.Series("probability", spread).fill_nan(None)),
    )


def _choices(batch: Batch, reasons: Reasons, known: Flags, rows: Ints) -> None:
    """Mark decisions whose choice is no candidate, or an infeasible one."""
    ids, feasible = batch.candidates["id"], batch.candidates["feasible"].to_numpy()
    reasons.mark(~known, always("the chosen one is not among the candidates"))
    may = feasible[rows] if len(feasible) else np.zeros(len(rows), bool)
    reasons.mark(known & ~may, lambda d: f"chosen {ids[int(rows[d])]!r} is infeasible")


def _finite(batch: Batch, reasons: Reasons, terms: Sequence[str]) -> None:
    """Mark decisions with an infinite reward or feature."""
    decisions = batch.decisions
    for name in terms:
        if name not in decisions.columns:
            continue
        values = decisions[name].to_numpy()
        reasons.mark(np.isinf(values), always(f"{name} is not finite"))
    for side, frame, owner in (
        ("context", batch.context, None), ("candidates", batch.features, batch.offsets),
    ):  # fmt: skip
        for name, dtype in frame.schema.items():
            if dtype != pl.Float64:
                continue
            bad = np.isinf(frame[name].to_numpy())
            if bad.any():
                where = bad if owner is None else sums(bad, owner) > 0
                reasons.mark(where, always(f"{name} of the {side} is not finite"))


def _propensities(
    batch: Batch, reasons: Reasons, several: Flags, complete: Flags, rows: Ints, p: Array,
    logged: Array,
) -> None:  # fmt: skip
    """Mark decisions whose probabilities are missing, or are none."""
    weighed = several & ~overridden(batch.decisions).to_numpy()
    feasible, offsets = batch.candidates["feasible"].to_numpy(), batch.offsets
    if complete.any():
        known = np.nan_to_num(logged)
        total = sums(known if feasible.all() else np.where(feasible, known, 0.0), offsets)
        reasons.mark(
            complete & ~(np.abs(total - 1.0) < SUM),
            lambda d: f"the probabilities of the feasible candidates sum to {total[d]:.3g}",
        )
        reasons.mark(
            complete & (sums(~feasible & (known > LEAST), offsets) > 0),
            always("an infeasible candidate has a probability above 0"),
        )
    reasons.mark(weighed & np.isnan(p), always("the propensity is missing"))
    reasons.mark(weighed & (p <= 0), lambda d: f"taken with propensity {p[d]:g}, expected above 0")
    reasons.mark(
        weighed & (p > 1 + ABOVE_ONE), lambda d: f"the propensity is {p[d]:g}, expected at most 1"
    )
    listed = logged[rows] if len(logged) else np.full(len(p), np.nan)
    stated = floats(batch.decisions["propensity"])
    drawn = batch.decisions["sampled"].is_null().to_numpy()
    with np.errstate(invalid="ignore"):
        differ = np.abs(stated - listed) > SAME * np.maximum(stated, listed) + LEAST
    reasons.mark(
        weighed & drawn & differ,
        lambda d: (
            f"the propensity is {stated[d]:g}, the probability of the taken one {listed[d]:g}: in "
            "the order of the candidates?"
        ),
    )


def overridden(decisions: pl.DataFrame) -> pl.Series:
    """Return which decisions served another candidate than the drawn one."""
    other = (decisions["sampled"] != decisions["chosen"]).fill_null(value=False)
    return (decisions["overridden"] | other).alias("overridden")


def propensity_of(batch: Batch, rows: Ints, logged: Array) -> Array:
    """Return the propensity of each decision: as stated, else that of the drawn candidate."""
    stated = floats(batch.decisions["propensity"])
    sampled = batch.decisions["sampled"].fill_null(-1).to_numpy()
    drawn = np.where(sampled >= 0, batch.offsets[:-1] + np.maximum(sampled, 0), rows)
    if not len(logged):
        return stated
    return np.where(np.isnan(stated), logged[np.minimum(drawn, len(logged) - 1)], stated)


def complete_probabilities(logged: Array, feasible: Flags, offsets: Ints) -> Flags:
    """Return whether all feasible candidates of a decision have a logged probability."""
    lacking = sums(feasible & np.isnan(logged), offsets) > 0
    return ~lacking & (np.diff(offsets) > 0)


def refuse_many(quarantine: pl.DataFrame, accepted: int, where: str) -> None:
    """Raise TraceError if more than a tenth of the decisions cannot be used."""
    bad = quarantine.height
    if bad and bad > _MOST_QUARANTINED * (accepted + bad):
        kinds = Counter(_kind(reason) for reason in quarantine["reason"])
        most, number = kinds.most_common(1)[0]
        first = next(r for r in quarantine["reason"] if _kind(r) == most)
        line = quarantine.filter(pl.col("reason") == first)["line"][0]
        raise TraceError(
            f"{where}: {bad:,} of {accepted + bad:,} decisions cannot be used, more than "
            f"{_MOST_QUARANTINED:.0%}; {number:,} of them like line {line}: {first}"
        )


def _kind(reason: str) -> str:
    """Return a reason without its numbers and names."""
    return " ".join(w for w in reason.split() if not any(c.isdigit() or c in "'\"" for c in w))
