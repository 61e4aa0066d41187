"""Features of a log as the numbers of a dataset: levels of categories, codes, missing values.

kind      a level of each of a category's most frequent 32 levels of the train split, and
`kind=*` for the others; beside them `kind`, a code that rules see and learners do not
x         float, NaN where it is missing; `x_missing` is 1 there, if it ever is
candidate the code of its id
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.decisions.batch import TERM, Ints
from hindcast.pipeline.decisions.log import MOST_LEVELS, DecisionLog
from hindcast.pipeline.scenarios.decisions import IDENTIFIER, LEVEL

NUMBER: Final = "number"
REST: Final = "*"
CANDIDATE: Final = "candidate"
CONSTANT: Final = "constant"  # 1, the context of a log without one
_MOST_SCALE: Final = 1e6
_ROUND: Final = 4  # digits of a scale

Narrow = NDArray[np.float32]


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
    _context: Mapping[str, tuple[pl.Series, str | None]]
    _candidates: Mapping[str, tuple[pl.Series, str | None]]
    _terms: Mapping[str, pl.Series]

    def of_context(self, name: str, rows: Ints) -> Narrow:
        """Return a feature of some decisions."""
        return _values(*self._context[name], rows)

    def candidate(self, name: str, rows: Ints) -> Narrow:
        """Return a feature of some candidates."""
        return _values(*self._candidates[name], rows)

    def term(self, name: str, rows: Ints) -> NDArray[np.float64]:
        """Return a logged reward or cost of some decisions, NaN where it is missing."""
        return self._terms[name][rows].fill_null(float("nan")).to_numpy()


_MISSING: Final = "\x00missing"  # in place of a level: is the number missing?
_CODE: Final = "\x00code"
_OTHERS: Final = "\x00others"  # begins the levels that `kind=*` leaves out


def _values(column: pl.Series, level: str | None, rows: Ints) -> Narrow:
    part = column[rows]
    if level is None or level == _CODE:
        found = part.to_numpy()
    elif level == _MISSING:
        found = np.isnan(part.to_numpy())
    elif level.startswith(_OTHERS):
        known = level.removeprefix(_OTHERS).split("\x00")
        text = part.cast(pl.String)
        found = (text.is_not_null() & ~text.is_in(known)).to_numpy()
    else:
        found = (part.cast(pl.String) == level).fill_null(value=False).to_numpy()
    return np.asarray(found, np.float32)


def codes_of(column: pl.Series) -> pl.Series:
    """Return codes of the levels in the order of appearance, -1 where there is none."""
    physical = column.to_physical()
    levels = physical.drop_nulls().unique(maintain_order=True).to_numpy()
    last = int(levels.max(initial=0)) + 1
    lookup = np.full(last + 1, -1.0, np.float32)
    lookup[levels] = np.arange(len(levels))
    return pl.Series(lookup[physical.fill_null(last).to_numpy()])


def encode(log: DecisionLog) -> Encoded:
    """Return the features of a log by their names in a dataset."""
    kinds: dict[str, dict[str, str]] = {"context": {}, "candidates": {}}
    places: dict[str, dict[str, tuple[pl.Series, str | None]]] = {"context": {}, "candidates": {}}
    scales: dict[str, float] = {}
    for side, frame in (("context", log.context), ("candidates", log.features)):
        kind, place = kinds[side], places[side]
        for name, dtype in frame.schema.items():
            column = frame[name]
            if dtype == pl.Float64:
                kind[name], place[name] = NUMBER, (column, None)
                values = column.to_numpy()
                if np.isnan(values).any():
                    kind[f"{name}_missing"] = LEVEL
                    place[f"{name}_missing"] = (column, _MISSING)
                known = np.abs(values[np.isfinite(values) & (values != 0.0)])
                if len(known):
                    scale = float(f"{np.median(known):.{_ROUND}g}")
                    scales[name] = min(max(scale, 1 / _MOST_SCALE), _MOST_SCALE)
                continue
            counted = log.vocabulary[f"{side}.{name}"]
            levels = list(counted)[:MOST_LEVELS]
            for level in levels:
                kind[f"{name}={level}"], place[f"{name}={level}"] = LEVEL, (column, level)
            kind[f"{name}={REST}"] = LEVEL
            place[f"{name}={REST}"] = (column, _OTHERS + "\x00".join(levels))
            kind[name], place[name] = IDENTIFIER, (codes_of(column), _CODE)
    if not kinds["context"]:  # a file has no struct without a field
        kinds["context"][CONSTANT] = NUMBER
        places["context"][CONSTANT] = (pl.Series(np.ones(len(log))), None)
    own = CANDIDATE if CANDIDATE not in kinds["candidates"] else f"{CANDIDATE}_id"
    kinds["candidates"][own] = IDENTIFIER
    places["candidates"][own] = (codes_of(log.candidates["id"]), _CODE)
    terms = {n.removeprefix(TERM): log.decisions[n] for n in log.decisions.columns
             if n.startswith(TERM)}  # fmt: skip
    return Encoded(
        kinds["context"], kinds["candidates"], scales, tuple(terms), places["context"],
        places["candidates"], terms,
    )  # fmt: skip
