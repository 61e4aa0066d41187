"""Decisions as a reader found them: columns of decisions and of candidates, before the checks.

    decisions    d0      d1          lengths = [2, 3]
    candidates   a b     c d e       the candidates of a decision follow each other

A reader yields batches. `reason` says why a decision cannot be used; it is then quarantined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.decisions.values import Array, Flags
from hindcast.pipeline.estimators.decisions.logged import offsets_of
from hindcast.pipeline.storage.gathering import Gathered, release

Ints = NDArray[np.int64]

# Columns of decisions that every reader gives, and what stands in them where a log has none.
DECISION_COLUMNS: Final[Mapping[str, tuple[pl.DataType, Any]]] = {
    "id": (pl.String(), None), "session": (pl.String(), None), "unit": (pl.String(), None),
    "slot": (pl.String(), None), "logger": (pl.String(), None), "file": (pl.Int32(), 0),
    "line": (pl.Int64(), 0), "time": (pl.Float64(), None), "chosen": (pl.Int32(), None),
    "sampled": (pl.Int32(), None), "overridden": (pl.Boolean(), False),
    "propensity": (pl.Float64(), None), "draws": (pl.Float64(), None),
    "weight": (pl.Float64(), 1.0), "reward": (pl.Float64(), None), "content": (pl.UInt64(), 0),
    "reason": (pl.String(), None),
}  # fmt: skip
CANDIDATE_COLUMNS: Final[Mapping[str, tuple[pl.DataType, Any]]] = {
    "id": (pl.Categorical(), None), "feasible": (pl.Boolean(), True),
    "probability": (pl.Float64(), None),
}  # fmt: skip
_FEW: Final = 50_000  # decisions that are taken at a time
TERM: Final = "reward:"  # prefix of the columns of logged rewards and costs


@dataclass(frozen=True)
class Batch:
    """Some decisions of a log, in the order of the file.

    Attributes:
        decisions: (D,) a row per decision, DECISION_COLUMNS and the logged terms of the reward.
        context: (D,) features of the decisions, float64 or categories.
        candidates: (C,) a row per candidate, CANDIDATE_COLUMNS.
        features: (C,) features of the candidates, float64 or categories.
        lengths: (D,) numbers of candidates.
    """

    decisions: pl.DataFrame
    context: pl.DataFrame
    candidates: pl.DataFrame
    features: pl.DataFrame
    lengths: Ints

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.lengths)

    @property
    def offsets(self) -> Ints:
        """(D + 1,) first candidate of each decision, and the number of all candidates."""
        return offsets_of(self.lengths)


@dataclass
class Reading:
    """Counts, notes and rejected lines of a reader, beside its batches.

    Attributes:
        counts: Numbers of lines that are no decisions, by what they are.
        notes: Sentences about how the log was read.
        rejected: Lines without a decision that could be counted: file, line, id, reason.
    """

    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejected: list[tuple[int, int, str | None, str]] = field(default_factory=list)

    def count(self, what: str, number: int = 1) -> None:
        """Count lines."""
        self.counts[what] = self.counts.get(what, 0) + number

    def clear(self) -> None:
        """Forget everything, for a reader that begins again."""
        self.counts.clear()
        self.notes.clear()
        self.rejected.clear()

    def note(self, text: str) -> None:
        """Keep a note once."""
        if text not in self.notes:
            self.notes.append(text)


def ragged_rows(offsets: Ints, decisions: NDArray[np.integer[Any]]) -> Ints:
    """Return the rows of the candidates of some decisions, in the order of the decisions."""
    starts, lengths = offsets[:-1][decisions], np.diff(offsets)[decisions]
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    rows: Ints = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return rows


def slices(offsets: Ints, size: int) -> Iterator[tuple[slice, slice]]:
    """Yield ranges of whole decisions and of their candidates, about `size` of these at a time."""
    begin, count = 0, len(offsets) - 1
    while begin < count:
        end = int(np.searchsorted(offsets, offsets[begin] + size, side="right")) - 1
        end = min(max(end, begin + 1), count)
        yield slice(begin, end), slice(int(offsets[begin]), int(offsets[end]))
        begin = end


def frame_of(
    columns: Mapping[str, Any], known: Mapping[str, tuple[pl.DataType, Any]], height: int
) -> pl.DataFrame:
    """Return a frame with all `known` columns, and the others of `columns` behind them.

    A NaN of a number is null: it is not known.
    """
    series = []
    for name, (dtype, otherwise) in known.items():
        values = columns.get(name)
        if values is None:
            series.append(pl.Series(name, [otherwise], dtype=dtype).new_from_index(0, height))
            continue
        column = pl.Series(name, values).cast(dtype)
        series.append(column.fill_nan(None) if dtype == pl.Float64 else column)
    for name, values in columns.items():
        if name not in known:
            series.append(pl.Series(name, values))
    return pl.DataFrame(series)


def concat(batches: Iterable[Batch], absent: float) -> Batch | None:
    """Return all decisions of batches, None if there are none.

    A feature that a batch lacks is `absent` in it. No decision is in memory twice.
    """
    decisions, lengths = Gathered(None), []
    context, candidates, features = Gathered(absent), Gathered(absent), Gathered(absent)
    for batch in batches:
        decisions.add(batch.decisions, len(batch))
        lengths.append(batch.lengths)
        context.add(batch.context, len(batch))
        count = int(batch.lengths.sum())
        candidates.add(batch.candidates, count)
        features.add(batch.features, count)
        del batch
    if not lengths:
        return None
    sizes = np.concatenate(lengths).astype(np.int64)
    return Batch(decisions.frame(), context.frame(), candidates.frame(), features.frame(), sizes)


def take(batch: Batch, rows: Ints) -> Batch:
    """Return the decisions `rows` of a batch, in that order; of many, none is in memory twice."""
    found = concat((_few(batch, some) for some in np.split(rows, range(_FEW, len(rows), _FEW))), 0)
    assert found is not None
    return found


def _few(batch: Batch, rows: Ints) -> Batch:
    at = ragged_rows(batch.offsets, rows)
    release()
    sides = (batch.context, rows), (batch.candidates, at), (batch.features, at)
    context, candidates, features = (frame[of] if frame.width else frame for frame, of in sides)
    return Batch(batch.decisions[rows], context, candidates, features, batch.lengths[rows])


class Reasons:
    """Reasons why decisions cannot be used; the first one of a decision stays."""

    def __init__(self, reasons: list[str | None]) -> None:
        self.reasons = reasons

    def mark(self, where: Flags, text: Callable[[int], str]) -> None:
        """Give a reason to decisions (D,); `text` makes it of the decision's number."""
        for decision in np.flatnonzero(where):
            if self.reasons[decision] is None:
                self.reasons[decision] = text(int(decision))

    def mark_rows(self, where: Flags, offsets: Ints, text: Callable[[int], str]) -> None:
        """Give a reason to the decisions of candidates (C,); `text` makes it of the row."""
        for row in np.flatnonzero(where):
            decision = int(np.searchsorted(offsets, row, side="right")) - 1
            if self.reasons[decision] is None:
                self.reasons[decision] = text(int(row))

    @property
    def series(self) -> pl.Series:
        """The reasons as a column."""
        return pl.Series("reason", self.reasons, dtype=pl.String)


def not_as(name: str, values: pl.Series, expected: str) -> Callable[[int], str]:
    """Return a function that words a value of a column which cannot be read."""
    return lambda at: f"{name} is {values[at]!r}, expected {expected}"


def always(text: str) -> Callable[[int], str]:
    """Return a function that gives one reason."""
    return lambda _at: text


def first_true(found: Flags, offsets: Ints) -> Ints:
    """Return, per decision, the position of the first true value; -1 if there is none."""
    result = np.full(len(offsets) - 1, -1, np.int64)
    at = np.flatnonzero(found)
    owner = np.searchsorted(offsets, at, side="right") - 1
    result[owner[::-1]] = (at - offsets[:-1][owner])[::-1]
    return result


def sums(values: Array | Flags, offsets: Ints) -> Array:
    """Return the sum of the values of each decision; 0 for one without candidates."""
    if not values.any():
        return np.zeros(len(offsets) - 1)
    if values.dtype == bool and values.all():
        return np.diff(offsets).astype(np.float64)
    if values.dtype == bool:
        total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        return np.asarray(total[offsets[1:]] - total[offsets[:-1]])
    result = np.zeros(len(offsets) - 1)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        numbers = values.astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # a sum beyond all numbers is infinite
            result[filled] = np.add.reduceat(numbers, offsets[:-1][filled])
    return result
