"""Tests of logged propensities against the choices.

For any set g of candidates and any behaviour, W = 1(A in g) / (p |g|) has a mean of at most 1 over
the decisions in which g has a feasible candidate: it is 1 if all of g is supported. So

    test A   the e-value: mean over l of .05, .10, ..., .95 of the product of
             1 + l s (W - 1) / max s, averaged over the sets. Right propensities exceed 1,000 with a
             probability of at most .001 (Ville's inequality), whatever the tails of 1 / p.
    test B   with all probabilities: t = sum s (1(A in g) - p(g)), and Bernstein's bound
             2 exp(-t^2 / (2 (V + max s |t| / 3))), V = sum s^2 p(g) (1 - p(g)), times the number
             of sets.

Test A sees propensities that are too small for what is taken. Too large ones look like missing
support, unless a share of uniform exploration is declared.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hindcast.pipeline.estimators.decisions.logged import (
    Array,
    Flags,
    Ints,
    LoggedDecisions,
    best_rows,
    consecutive,
)
from hindcast.pipeline.estimators.decisions.values import clustered_error

CONTRADICTED_A: Final = 1000.0
CONTRADICTED_B: Final = 0.001
MOST_LEVELS: Final = 60  # of ids, and of each category
_BETS: Final = np.arange(0.05, 0.951, 0.05)
_FEW_WEIGHTS: Final = 100  # distinct weights of records that are counted one by one

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class SetResult:
    """One set of candidates against the choices.

    Attributes:
        name: The set, such as "lowest x".
        decisions: Number of decisions in which it has a feasible candidate.
        ratio: Mean of W: how often the set is taken, relative to what the propensities say.
        log_e: Logarithm of its e-value.
        p_value: Bernstein's bound for the set alone; NaN without all probabilities.
    """

    name: str
    decisions: int
    ratio: float
    log_e: float
    p_value: float


@dataclass(frozen=True)
class PropensityTests:
    """Tests of the propensities of a log.

    Attributes:
        mean_weight: Mean of W over all candidates, without the correction of Monte-Carlo counts: 1
            if the log supports every candidate.
        mean_weight_se: Its standard error by unit.
        e_value: Test A; NaN if no decision has a choice.
        p_value: Test B; NaN if no decision has all probabilities.
        exploration_e_value: E-value against propensities that are too large, by the declared share
            of exploration; NaN without one.
        sets: Results by set.
    """

    mean_weight: float
    mean_weight_se: float
    e_value: float
    p_value: float
    exploration_e_value: float
    sets: tuple[SetResult, ...]

    @property
    def contradicted(self) -> bool:
        """True if the choices contradict the propensities."""
        return (
            self.e_value >= CONTRADICTED_A
            or self.exploration_e_value >= CONTRADICTED_A
            or self.p_value < CONTRADICTED_B
        )

    @property
    def most(self) -> SetResult | None:
        """The set that speaks most against the propensities."""
        return max(self.sets, key=lambda s: s.log_e, default=None)


def candidate_sets(
    e: LoggedDecisions, ids: Codes, categories: Mapping[str, tuple[Codes, list[str]]],
    numbers: Mapping[str, Array], names: list[str],
) -> Iterator[tuple[str, Ints]]:  # fmt: skip
    """Yield the sets by name: rows of their feasible candidates in decisions with a choice.

    Args:
        e: The decisions.
        ids: (C,) codes of the ids of candidates, -1 for none; `names` by code.
        categories: Codes (C,) of features and the names of their levels.
        numbers: Numeric features (C,), NaN where missing.
        names: Ids by code.
    """
    usable = e.feasible & e.several[e.owner]
    yield "all", np.flatnonzero(usable)
    for code, rows in _levels(ids, usable):
        yield f"id {names[code]}", rows
    yield "the first", best_rows(e, np.zeros(len(usable)))[e.several]
    for feature, (codes, levels) in categories.items():
        for code, rows in _levels(codes, usable):
            yield f"{feature} {levels[code]}", rows
    for feature, values in numbers.items():
        for word, scores in (("lowest", -values), ("highest", values)):
            rows = best_rows(e, scores)[e.several]
            yield f"{word} {feature}", rows[~np.isnan(values[rows])]


def _levels(codes: Codes, usable: Flags) -> Iterator[tuple[int, Ints]]:
    """Yield the most frequent levels, each with its rows in order."""
    rows = np.flatnonzero(usable & (codes >= 0))
    if not len(rows):
        return
    counts = np.bincount(codes[rows])
    narrow = np.int16 if len(counts) < 1 << 15 else np.int64  # a radix sort
    order = rows[np.argsort(codes[rows].astype(narrow), kind="stable")]
    ends = np.cumsum(counts)
    for code in np.argsort(-counts, kind="stable")[:MOST_LEVELS]:
        if counts[code]:
            yield int(code), order[ends[code] - counts[code] : ends[code]]


class Tally:
    """Sums of the tests over parts of a log, each with whole decisions.

    Every part has the same sets by name. A large log is thus tested in bounded memory.

    Args:
        scale: Largest weight of a record in the log.
        epsilon: Declared share of uniform exploration, 0 if there is none.
    """

    def __init__(self, scale: float, epsilon: float = 0.0) -> None:
        self.scale, self.epsilon = scale, epsilon
        self.sets: dict[str, NDArray[np.float64]] = {}
        self.exploration = np.zeros(len(_BETS))
        self.weights: list[tuple[Array, Array, Ints]] = []  # W of all, s, unit

    def add(
        self, e: LoggedDecisions, sets: Iterator[tuple[str, Ints]], unit: Ints | None = None
    ) -> None:
        """Add a part; `unit` (D,) numbers the units of the whole log, else they are those of e."""
        complete = e.several & e.complete
        for name, rows in sets:
            if not len(rows):
                continue
            members, starts, inside = _members(rows, e.owner, e.taken)
            size, p = np.diff(starts, append=len(rows)), e.probability[rows]
            if len(members) < len(rows):
                p = np.add.reduceat(p, starts)
            w = np.where(inside, e.inverse[members] / size, 0.0)
            s = e.weight[members]
            there = complete[members]
            sums = np.concatenate([
                [len(members), (s * w).sum(), s.sum()], _surplus(inside, p, s, there),
                _logs(w, s / self.scale),
            ])  # fmt: skip
            self.sets[name] = self.sets[name] + sums if name in self.sets else sums
            if name == "all" and self.epsilon > 0:
                self.exploration += _exploration(w, s / self.scale, self.epsilon)
        several = e.several
        w = e.raw().inverse[several] / e.size[several]
        self.weights.append((w, e.weight[several], (e.unit if unit is None else unit)[several]))

    def tests(self) -> PropensityTests:
        """Return the tests of all parts."""
        w, s, unit = (np.concatenate(parts) for parts in zip(*self.weights, strict=True))
        nan = float("nan")
        if not len(w):
            return PropensityTests(nan, nan, nan, nan, nan, ())
        results = []
        for name, sums in self.sets.items():
            members, weighted, total, t, variance, choices = sums[:6]
            p = _bernstein(abs(float(t)), float(variance), self.scale) if choices else nan
            log_e = _log_mean(sums[6:].tolist())
            results.append(SetResult(name, int(members), float(weighted / total), log_e, p))
        tests = [r.p_value for r in results if not math.isnan(r.p_value)]
        mean = float((s * w).sum() / s.sum())
        return PropensityTests(
            mean_weight=mean, mean_weight_se=clustered_error(s, w - mean, consecutive(unit)),
            e_value=_exp(_log_mean([r.log_e for r in results])),
            p_value=min(1.0, min(tests) * len(tests)) if tests else nan,
            exploration_e_value=(
                _exp(_log_mean(self.exploration.tolist())) if self.epsilon > 0 else nan
            ),
            sets=tuple(results),
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _members(rows, owner, taken):  # type: ignore[no-untyped-def]
    """Return the decisions of a set, where their rows begin, and which took one of these."""
    members, starts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    inside = np.zeros(len(rows), np.bool_)
    count = 0
    for at in range(len(rows)):
        decision = owner[rows[at]]
        if count == 0 or members[count - 1] != decision:
            members[count], starts[count] = decision, at
            count += 1
        inside[count - 1] |= taken[decision] == rows[at]
    return members[:count], starts[:count], inside[:count]


def _logs(w: Array, s: Array) -> Array:
    """Return the logarithm of the product of one set, by bet."""
    taken = w > 0
    logs = np.zeros(len(_BETS))
    x = s[taken] * (w[taken] - 1.0)
    rest = s[~taken]
    alike = len(rest) > 0 and rest.min() == rest.max()
    weights, counts = (
        (rest[:1], np.array([len(rest)])) if alike else np.unique(rest, return_counts=True)
    )
    if len(weights) > _FEW_WEIGHTS:
        weights, counts = rest, np.ones(len(rest), np.int64)
    for k, bet in enumerate(_BETS):
        logs[k] = np.log1p(bet * x).sum() + (counts * np.log1p(-bet * weights)).sum()
    return logs


def _exploration(w: Array, s: Array, epsilon: float) -> Array:
    """Return such logarithms against propensities that are too large, whose W is too small."""
    most = epsilon / (1.0 - epsilon) if epsilon < 0.5 else 1.0
    x = s * (1.0 - np.minimum(w, 1.0 / epsilon))
    return np.array([np.log1p(bet * most * x).sum() for bet in _BETS])


def _surplus(inside: Flags, p: Array, s: Array, complete: Flags) -> Array:
    """Return t and V of test B, and the number of decisions with all probabilities."""
    if not complete.all():
        inside, p, s = inside[complete], p[complete], s[complete]
    t, variance = (s * (inside - p)).sum(), (s**2 * np.clip(p * (1.0 - p), 0.0, None)).sum()
    return np.array([t, variance, float(len(p))])


def _bernstein(t: float, variance: float, scale: float) -> float:
    """Return the bound by Bernstein on the probability of a sum t as far from 0, or farther."""
    if t == 0.0:
        return 1.0
    return min(1.0, 2.0 * math.exp(-(t**2) / (2.0 * (variance + scale * t / 3.0))))


def _log_mean(logs: list[float]) -> float:
    highest = max(logs)
    return highest + math.log(sum(math.exp(v - highest) for v in logs) / len(logs))


def _exp(log: float) -> float:
    return math.exp(min(log, 700.0))
