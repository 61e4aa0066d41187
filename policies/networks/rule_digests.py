"""Digests of what compiled rules do. A checkpoint holds one for each rule that its network reads.

A rule plays a fixed set of drawn observations. The digest is that of the order into which the rule
puts the feasible candidates of each, equal scores included. A rule that moves to another module or
is written in another way keeps its digest; a rule that orders candidates differently gets another
one.

The values of a column are drawn within the range of its feature, by a generator that the name of
the feature began. A rule thus gets another digest if it reads a column of another name. Columns
that the rule does not read, and the places of columns, are no part of the digest.

An older checkpoint holds digests of the source text of its rules. rule_digests.csv lists, for every
rule of that time, the digest of its source and what the same code does.
"""

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.kernel import FLOATS3, INTS, ROWS, SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.spec import Feature
from hindcast.pipeline.storage.files import sha256_text

OBSERVATIONS: Final = 2048
_MOST: Final = 12  # candidates of an observation
_FAR: Final = 20.0  # a feature without a bound reaches to this multiple of its scale
_EQUAL: Final = 4.0  # scores as many roundings apart are equal: libraries round differently
_MASKS: Final = types.Array(types.boolean, 2, "C")
_TABLE: Final = Path(__file__).with_name("rule_digests.csv")


def digest_of(scenario: str, rule: Heuristic, candidates: Sequence[Feature] = ()) -> str:
    """Return the digest of what a rule of a scenario does.

    The observations have the features of the scenario's default settings. A rule that needs a
    column which these leave out is given the columns `candidates` of its own problem.
    """
    context, known = _default_features(scenario)
    features = {feature.name: feature for feature in known}
    if not features.keys() >= set(rule.needs):
        # A checkpoint keeps no ranges of features.
        known = tuple(
            features.get(one.name, Feature(one.name, one.unit, 0, 1, "")) for one in candidates
        )
    return _digest(rule, context, known)


def current(digest: Any) -> Any:
    """Return the digest of behaviour that a digest of source text stood for, or `digest` itself."""
    return _of_sources().get(digest, digest) if isinstance(digest, str) else digest


@cache
def _default_features(scenario: str) -> tuple[tuple[Feature, ...], tuple[Feature, ...]]:
    """Return the features of the context and of the candidates under default settings."""
    loaded = load_scenario(scenario)
    spec = loaded.spec(loaded.config(), loaded.objectives[0])
    return spec.context, spec.candidates


@cache
def _of_sources() -> dict[str, str]:
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return {row["source"]: row["behaviour"] for row in csv.DictReader(file)}


@cache
def _digest(rule: Heuristic, context: tuple[Feature, ...], candidates: tuple[Feature, ...]) -> str:
    drawn = _observations(context, candidates)
    scores = np.zeros((OBSERVATIONS, _MOST))
    _score_all(rule.score, *drawn, scores)
    shown = drawn.feasible & (np.arange(_MOST) < drawn.counts[:, None])
    return sha256_text(_order(scores, shown).tobytes().hex())


class _Observations(NamedTuple):
    """Drawn observations: B of them, with at most N candidates each.

    Attributes:
        moments: (B, C) contexts.
        rows: (B, N, F) candidates.
        counts: (B,) numbers of candidates.
        feasible: (B, N) mask.
    """

    moments: NDArray[np.float64]
    rows: NDArray[np.float64]
    counts: NDArray[np.int64]
    feasible: NDArray[np.bool_]


@cache
def _observations(context: tuple[Feature, ...], candidates: tuple[Feature, ...]) -> _Observations:
    draws = np.random.default_rng(0)
    size = OBSERVATIONS, _MOST
    counts = np.minimum(draws.integers(2, 2 * _MOST, OBSERVATIONS) // 2 + 1, _MOST)
    feasible = draws.random(size) < 0.75
    feasible[:, 0] = True
    # A quarter of the rows repeats an earlier row, so that there are ties.
    earlier = np.floor(draws.random(size) * np.arange(_MOST)).astype(np.int64)
    place = np.where(draws.random(size) < 0.25, earlier, np.arange(_MOST))
    moments = np.zeros((OBSERVATIONS, len(context)))
    for column, feature in enumerate(context):
        moments[:, column] = _values(feature, OBSERVATIONS, 1)[:, 0]
    rows = np.zeros((*size, len(candidates)))
    for column, feature in enumerate(candidates):
        values = _values(feature, OBSERVATIONS, _MOST)
        rows[:, :, column] = np.take_along_axis(values, place, axis=1)
    return _Observations(moments, rows, counts, feasible)


@compiled(types.void(types.FunctionType(SCORE), ROWS, FLOATS3, INTS, _MASKS, ROWS))
def _score_all(rule: Any, moments: Any, rows: Any, counts: Any, feasible: Any, scores: Any) -> None:
    """Fill the scores (B, N) of B observations, of which b has counts[b] candidates."""
    none = np.zeros(0)
    for b in range(len(counts)):
        n = counts[b]
        rule(moments[b], rows[b][:n], feasible[b][:n], none, scores[b][:n])


def _order(scores: NDArray[np.float64], shown: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return (B, N, N): 1 where the first candidate is above the second, 0 if equal, else -1.

    Candidates that are not shown count as equal to every other one.
    """
    one, other = scores[:, :, None], scores[:, None, :]
    near = _EQUAL * np.spacing(np.maximum(np.abs(one), np.abs(other)))
    with np.errstate(invalid="ignore"):  # the difference of equal infinite scores
        apart = ~(np.abs(one - other) <= near) & (one != other)
    apart &= shown[:, :, None] & shown[:, None, :]
    return np.where(apart, np.where(one > other, 1, -1), 0).astype(np.int8)


def _values(feature: Feature, observations: int, rows: int) -> NDArray[np.float64]:
    """Return drawn values of a feature, (observations, rows).

    Observations differ in the part of the range that they fill, since a rule may act on small
    values alone, and in the share of values that are 0 or at the lower bound. Every
    second one has whole numbers.
    """
    rng = np.random.default_rng(np.frombuffer(feature.name.encode(), np.uint8))
    reach = _FAR * max(feature.scale, 1.0)
    low = feature.low if np.isfinite(feature.low) else -reach
    high = feature.high if np.isfinite(feature.high) else max(low, 0.0) + reach
    part = 100.0 ** -rng.random((observations, 1))
    middle = min(max(low, 0.0), high)
    values = middle + part * (low + rng.random((observations, rows)) * (high - low) - middle)
    values[rng.random(values.shape) < 0.5 * rng.random((observations, 1))] = middle
    whole = np.clip(np.rint(values), np.ceil(low), max(np.floor(high), np.ceil(low)))
    if (low, high) == (0.0, 1.0):  # most of these features are flags
        whole = (rng.random(values.shape) < 0.5).astype(np.float64)
    return np.where(np.arange(observations)[:, None] % 2 == 0, whole, values)
