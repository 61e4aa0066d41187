"""Logged decisions as arrays, and the weights of another policy on them.

    candidates     a b   c d e   f         offsets = [0, 2, 5, 6]
    feasible       1 1   1 0 1   1
    chosen         1     0       0         positions: b, c and f were taken
    target         .5 .5 .5 0 .5 1         probabilities of the policy that is asked about

A decision with one feasible candidate has weight 1 under every policy.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from hindcast.pipeline.errors import InputError

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ABOVE_ONE: Final = 1e-4  # by how much a probability may exceed 1


@dataclass(frozen=True)
class LoggedDecisions:
    """Decisions of a log with the propensities of what was taken: `e` in the estimators.

    Attributes:
        offsets: (D + 1,) first candidate of each decision, and the number C of all candidates.
        chosen: (D,) position of the taken candidate among those of its decision.
        propensity: (D,) probability with which it was taken.
        reward: (D,) rewards.
        feasible: (C,) which candidates could be taken.
        weight: (D,) weight of each record, 1 / the probability that it was kept.
        unit: (D,) number of what is drawn anew in intervals, such as a session.
        draws: (D,) number of Monte-Carlo draws that the propensity was counted from, else NaN.
        probability: (C,) logged probabilities of all candidates, NaN where not logged.
    """

    offsets: Ints
    chosen: Ints
    propensity: Array
    reward: Array
    feasible: Flags
    weight: Array
    unit: Ints
    draws: Array
    probability: Array

    @classmethod
    def of(
        cls, lengths: ArrayLike, chosen: ArrayLike, propensity: ArrayLike, reward: ArrayLike,
        feasible: ArrayLike | None = None, weight: ArrayLike | None = None,
        unit: ArrayLike | None = None, draws: ArrayLike | None = None,
        probability: ArrayLike | None = None,
    ) -> "LoggedDecisions":  # fmt: skip
        """Return decisions of plain arrays; what is left out has its usual value.

        Raises InputError for arrays whose lengths do not fit, and for a propensity of a choice
        between several candidates that is not above 0 and at most 1.
        """
        sizes = np.asarray(lengths, np.int64)
        offsets = offsets_of(sizes)
        count, rows = len(sizes), int(offsets[-1])

        def column(name: str, values: ArrayLike | None, length: int, usual: float) -> Array:
            if values is None:
                return np.full(length, usual)
            found = np.asarray(values, np.float64)
            if found.shape != (length,):
                raise InputError(f"{name} has the shape {found.shape}, expected ({length},)")
            return found

        result = cls(
            offsets,
            column("chosen", chosen, count, 0).astype(np.int64),
            column("propensity", propensity, count, np.nan),
            column("reward", reward, count, np.nan),
            column("feasible", feasible, rows, 1.0) > 0,
            column("weight", weight, count, 1.0),
            numbered(np.arange(count) if unit is None else unit),
            column("draws", draws, count, np.nan),
            column("probability", probability, rows, np.nan),
        )
        if count and (result.chosen.min() < 0 or (result.chosen >= sizes).any()):
            raise InputError("chosen has positions beyond the candidates of a decision")
        p = result.propensity[result.several]
        if (~(p > 0) | (p > 1 + ABOVE_ONE)).any():
            raise InputError("propensity has values that are not above 0 and at most 1")
        return result

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.chosen)

    @cached_property
    def owner(self) -> Ints:
        """(C,) decision of each candidate."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def taken(self) -> Ints:
        """(D,) row of the taken candidate."""
        return self.offsets[:-1] + self.chosen

    @cached_property
    def size(self) -> Ints:
        """(D,) number of feasible candidates."""
        if self.feasible.all():
            return np.diff(self.offsets)
        return np.bincount(self.owner, self.feasible, len(self)).astype(np.int64)

    @cached_property
    def several(self) -> Flags:
        """(D,) flags of the decisions with a choice: two or more feasible candidates."""
        return self.size >= 2

    @cached_property
    def units(self) -> int:
        """Number of units."""
        return units_of(self.unit)

    @cached_property
    def complete(self) -> Flags:
        """(D,) flags of the decisions whose feasible candidates all have a probability."""
        lacking = np.isnan(self.probability) & self.feasible
        return np.asarray(np.bincount(self.owner, lacking, len(self)) == 0)

    @cached_property
    def likely(self) -> Flags:
        """(C,) flags of the candidates with the highest probability of their decision."""
        most = highest(self, np.nan_to_num(self.probability))
        return np.asarray(self.probability == most[self.owner])

    @cached_property
    def inverse(self) -> Array:
        """(D,) 1 / propensity; (n + 1) / (n p + 1) for one that was counted from n draws.

        n / k is too large on average where k of n draws were won; the corrected one has the mean
        (1 - (1 - p)^(n + 1)) / p. It is 1 where there was no choice.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = 1.0 / self.propensity
            wins = np.round(self.propensity * self.draws)
            corrected = (self.draws + 1.0) / (wins + 1.0)
        counted = np.where(np.isnan(self.draws), plain, corrected)
        return np.where(self.several, counted, 1.0)

    def raw(self) -> "LoggedDecisions":
        """Return the decisions with the propensities as they were logged."""
        return replace(self, draws=np.full(len(self), np.nan))

    def take(self, rows: Flags) -> "LoggedDecisions":
        """Return the decisions for which `rows` (D,) is true."""
        if rows.all():
            return self
        return self.at(rows, rows[self.owner])

    def at(self, rows: Flags | Ints, of_candidates: Flags | Ints) -> "LoggedDecisions":
        """Return the decisions at `rows`, in that order, with the rows of their candidates."""
        return LoggedDecisions(
            offsets_of(np.diff(self.offsets)[rows]),
            self.chosen[rows], self.propensity[rows], self.reward[rows],
            self.feasible[of_candidates], self.weight[rows], self.unit[rows], self.draws[rows],
            self.probability[of_candidates],
        )  # fmt: skip


def offsets_of(lengths: Ints) -> Ints:
    """Return where each of some runs begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def beginnings(codes: NDArray[np.integer[Any]]) -> Flags:
    """Return where a run of equal codes begins."""
    return np.concatenate([np.ones(min(1, len(codes)), bool), codes[1:] != codes[:-1]])


def unbroken(codes: NDArray[np.integer[Any]], usable: Flags) -> Flags:
    """Return flags of the items before the first unusable one of their run of equal codes."""
    begins = beginnings(codes)
    lost: Ints = np.cumsum(~usable) - ~usable  # before each item
    return np.asarray(usable & (lost == lost[np.flatnonzero(begins)][np.cumsum(begins) - 1]))


def numbered(ids: ArrayLike) -> Ints:
    """Return the numbers of ids, equal for equal ones."""
    inverse: Ints = np.unique(np.asarray(ids), return_inverse=True)[1].astype(np.int64)
    return inverse


def consecutive(numbers: Ints) -> Ints:
    """Return numbers from 0 on without gaps, in the same order, equal for equal ones."""
    there = np.bincount(numbers) > 0
    return numbers if there.all() else np.asarray((np.cumsum(there) - 1)[numbers])


def units_of(unit: Ints) -> int:
    """Return the number of units of some decisions; `unit` (D,) has the numbers of these."""
    return int((np.bincount(unit) > 0).sum())


def uniform(e: LoggedDecisions) -> Array:
    """Return the uniform policy: (C,) probabilities."""
    return np.where(e.feasible, 1.0 / np.maximum(e.size, 1)[e.owner], 0.0)


def first(e: LoggedDecisions) -> Array:
    """Return the policy that takes the first feasible candidate."""
    return best(e, np.zeros(len(e.owner)))


def best(e: LoggedDecisions, scores: Array) -> Array:
    """Return the policy that takes the feasible candidate with the highest score.

    Ties go to the first. A score of NaN is never taken, unless all are.
    """
    rows = best_rows(e, scores)
    target = np.zeros(len(e.owner))
    target[rows[rows >= 0]] = 1.0
    return target


def best_rows(e: LoggedDecisions, scores: Array) -> Ints:
    """Return the rows (D,) of the candidates that `best` takes, -1 where none is feasible."""
    rows = np.empty(len(e), np.int64)
    _best_rows(e.offsets, e.feasible, np.ascontiguousarray(scores, np.float64), rows)
    return rows


@njit(cache=True, nogil=True)
def _best_rows(offsets, feasible, scores, rows):  # type: ignore[no-untyped-def]
    for d in range(len(rows)):
        at, most = -1, -np.inf
        for row in range(offsets[d], offsets[d + 1]):
            if feasible[row] and (at < 0 or scores[row] > most):
                at = row
                most = -np.inf if np.isnan(scores[row]) else scores[row]
        rows[d] = at


def highest(e: LoggedDecisions, values: Array) -> Array:
    """Return the highest of the values (C,) of each decision: (D,), 0 without candidates."""
    filled = np.flatnonzero(np.diff(e.offsets))
    result = np.zeros(len(e))
    if len(filled):
        result[filled] = np.maximum.reduceat(values, e.offsets[:-1][filled])
    return result


def weights(e: LoggedDecisions, target: Array) -> Array:
    """Return the weights of a policy with probabilities `target` (C,): (D,)."""
    return np.where(e.several, target[e.taken] * e.inverse, 1.0)


def normalised(e: LoggedDecisions, target: ArrayLike, name: str) -> Array:
    """Return probabilities of a policy that add to 1 over the feasible candidates.

    Raises InputError, which begins with the name, if they are no probabilities.
    """
    values = np.asarray(target, np.float64)
    if values.shape != e.owner.shape:
        raise InputError(f"{name}: {values.shape} probabilities, expected {e.owner.shape}")
    values = np.where(e.feasible, values, 0.0)
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"{name}: its probabilities are not all finite and at least 0")
    total = np.bincount(e.owner, values, len(e))
    if (np.abs(total - 1.0) > 1e-3).any():
        bad = int(np.flatnonzero(np.abs(total - 1.0) > 1e-3)[0])
        raise InputError(f"{name}: its probabilities sum to {total[bad]:.4g} in decision {bad}")
    return values / total[e.owner]
