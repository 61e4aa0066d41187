"""Features of a log as the numbers of a dataset: levels of categories, codes, missing values.

kind      a level of each of a category's most frequent 32 levels of the train split, and
`kind=*` for the others; beside them `kind`, a code that rules see and learners do not
x         float, NaN where it is missing; `x_missing` is 1 there, if it ever is
candidate the code of its id
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from hindcast.pipeline.decisions.batch import TERM
from hindcast.pipeline.decisions.log import MOST_LEVELS, DecisionLog
from hindcast.pipeline.decisions.values import Array, floats
from hindcast.pipeline.scenarios.decisions import IDENTIFIER, LEVEL, DecisionsConfig
from hindcast.pipeline.storage.gathering import release

NUMBER: Final = "number"
REST: Final = "*"
CANDIDATE: Final = "candidate"
CONSTANT: Final = "constant"  # 1, the context of a log without one
_MOST_SCALE: Final = 1e6
_ROUND: Final = 4  # digits of a scale
_LEADING: Final = 16  # bits of a size by which sizes are counted

Narrow = NDArray[np.float32]
Rows = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Encoded:
    """Features of a log by the names that they have in a dataset.

    Attributes:
        context_kinds: Kind of each feature of the decisions, by its name.
        candidate_kinds: Kind of each feature of the candidates.
        scales: Typical magnitudes of numbers that are far from 1.
        terms: Names of the logged rewards and costs.
    """

    context_kinds: Mapping[str, str]
    candidate_kinds: Mapping[str, str]
    scales: Mapping[str, float]
    terms: tuple[str, ...]
    _context: Mapping[str, "_Column"]
    _candidates: Mapping[str, "_Column"]
    _terms: Mapping[str, pl.Series]

    def of_context(self, name: str, rows: Rows) -> Narrow:
        """Return a feature of some decisions."""
        return self._context[name](rows)

    def candidate(self, name: str, rows: Rows) -> Narrow:
        """Return a feature of some candidates."""
        return self._candidates[name](rows)

    def term(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """Return a logged reward or cost of some decisions, NaN where it is missing."""
        return floats(self._terms[name][rows])


# Values of a feature at some rows.
_Column = Callable[[Rows], Narrow]


def _numbers(values: NDArray[Any]) -> _Column:
    return lambda rows: _gathered(values, rows)


def _missing(values: Array) -> _Column:
    return lambda rows: np.isnan(values[rows]).astype(np.float32)


def _looked_up(codes: NDArray[np.uint32], places: NDArray[np.int32], values: Narrow) -> _Column:
    """Return the column of the values of levels, by their places; the last is that of no level."""
    return lambda rows: _gathered_by(codes, places, values, rows)


@njit(cache=True, nogil=True)
def _gathered(values, rows):  # type: ignore[no-untyped-def]
    found = np.empty(len(rows), np.float32)
    for at in range(len(rows)):
        found[at] = values[rows[at]]
    return found


@njit(cache=True, nogil=True)
def _gathered_by(codes, places, values, rows):  # type: ignore[no-untyped-def]
    found = np.empty(len(rows), np.float32)
    for at in range(len(rows)):
        found[at] = values[places[codes[rows[at]]]]
    return found


def _median_size(values: Array) -> tuple[float, bool]:
    """Return the median of the finite sizes other than 0 (0 without one), and if any is NaN."""
    counts = np.zeros(1 << _LEADING, np.int64)
    lacking = bool(_count_sizes(values, counts))
    ends = counts.cumsum()
    total = int(ends[-1])
    middle = [(total - 1) // 2, total // 2]
    first, last = np.searchsorted(ends, middle, side="right")
    if not total:
        return 0.0, lacking
    near = np.empty(int(ends[last] - ends[first] + counts[first]))
    _take_sizes(values, first, last, near)
    low, high = middle - (ends[first] - counts[first])
    return float(np.partition(near, (low, high))[low : high + 1].mean()), lacking


# The bits of sizes are in the order of the sizes. A group of them has the same leading bits.
@njit(cache=True, nogil=True)
def _count_sizes(values, counts):  # type: ignore[no-untyped-def]
    """Count the finite sizes other than 0 by their leading bits; return if any is NaN."""
    lacking = False
    bits = values.view(np.uint64)
    for at in range(len(values)):
        lacking |= np.isnan(values[at])
        if values[at] != 0.0 and np.isfinite(values[at]):
            counts[(bits[at] << np.uint64(1)) >> np.uint64(64 - _LEADING)] += 1
    return lacking


@njit(cache=True, nogil=True)
def _take_sizes(values, first, last, near):  # type: ignore[no-untyped-def]
    """Fill `near` with the sizes in the groups from `first` to `last`."""
    count = 0
    bits = values.view(np.uint64)
    for at in range(len(values)):
        group = np.int64((bits[at] << np.uint64(1)) >> np.uint64(64 - _LEADING))
        if first <= group <= last and values[at] != 0.0 and np.isfinite(values[at]):
            near[count] = abs(values[at])
            count += 1


def codes_of(
    column: pl.Series,
) -> tuple[NDArray[np.uint32], NDArray[np.int32], pl.Series]:
    """Return codes of a category, the places of their levels by code, and the levels.

    Levels are in the order of appearance. The last code stands for no level, whose place is -1.
    """
    levels = column.drop_nulls().unique(maintain_order=True)
    codes = levels.to_physical().to_numpy()
    places = np.full(int(codes.max(initial=0)) + 2, -1, np.int32)
    places[codes] = np.arange(len(codes))
    found = column.to_physical().fill_null(len(places) - 1).to_numpy()
    return found, places, levels.cast(pl.String)


def _numbering(levels: pl.Series) -> Narrow:
    """Return the places of levels as values, -1 for none."""
    return np.append(np.arange(len(levels)), -1).astype(np.float32)


def encode(log: DecisionLog, like: DecisionsConfig | None = None) -> Encoded:
    """Return the features of a log by their names in a dataset.

    `like` is the config of a dataset of more decisions: its features and scales are kept.
    """
    kinds: dict[str, dict[str, str]] = {"context": {}, "candidates": {}}
    places: dict[str, dict[str, _Column]] = {"context": {}, "candidates": {}}
    scales: dict[str, float] = {}
    for side, frame in (("context", log.context), ("candidates", log.features)):
        kind, place = kinds[side], places[side]
        for name, dtype in frame.schema.items():
            release()
            column = frame[name]
            if dtype == pl.Float64:
                values = column.to_numpy()
                kind[name], place[name] = NUMBER, _numbers(values)
                size, lacking = _median_size(values)
                if like is not None:
                    lacking = f"{name}_missing" in getattr(like, side)
                if lacking:
                    kind[f"{name}_missing"], place[f"{name}_missing"] = LEVEL, _missing(values)
                if size > 0.0:
                    scale = float(f"{size:.{_ROUND}g}")
                    scales[name] = min(max(scale, 1 / _MOST_SCALE), _MOST_SCALE)
                continue
            known = list(log.vocabulary[f"{side}.{name}"])[:MOST_LEVELS]
            codes, places_of_codes, levels = codes_of(column)
            looked_up = partial(_looked_up, codes, places_of_codes)
            places_of = {level: at for at, level in enumerate(levels)}
            rest = np.ones(len(levels) + 1, np.float32)
            rest[-1] = 0.0
            for level in known:
                one = np.zeros_like(rest)
                if level in places_of:  # else none of these decisions has it
                    one[places_of[level]], rest[places_of[level]] = 1.0, 0.0
                kind[f"{name}={level}"], place[f"{name}={level}"] = LEVEL, looked_up(one)
            kind[f"{name}={REST}"], place[f"{name}={REST}"] = LEVEL, looked_up(rest)
            kind[name], place[name] = IDENTIFIER, looked_up(_numbering(levels))
    if not kinds["context"]:  # a file has no struct without a field
        kinds["context"][CONSTANT] = NUMBER
        places["context"][CONSTANT] = _numbers(np.ones(len(log), np.float32))
    own = CANDIDATE if CANDIDATE not in kinds["candidates"] else f"{CANDIDATE}_id"
    kinds["candidates"][own] = IDENTIFIER
    codes, places_of_codes, levels = codes_of(log.candidates["id"])
    places["candidates"][own] = _looked_up(codes, places_of_codes, _numbering(levels))
    terms = {n.removeprefix(TERM): log.decisions[n] for n in log.decisions.columns
             if n.startswith(TERM)}  # fmt: skip
    return Encoded(
        context_kinds=kinds["context"], candidate_kinds=kinds["candidates"],
        scales=scales if like is None else like.scales, terms=tuple(terms),
        _context=places["context"], _candidates=places["candidates"], _terms=terms,
    )  # fmt: skip
