"""Records of text files as Python values, and their decisions collected to batches.

A line that is no JSON, or has half of a surrogate pair, is rejected, with its reason; blank lines
are skipped. Lines end in LF or CRLF; a byte-order mark is no content. Files may be compressed.
"""

import io
import json
import math
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.decisions.batch import (
    CANDIDATE_COLUMNS,
    DECISION_COLUMNS,
    Batch,
    Ints,
    Reading,
    frame_of,
)
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.files.compression import content, members, readable
from hindcast.pipeline.traces.files.json_text import require_text

BATCH: Final = 20_000  # decisions collected before they become columns
LONGEST_LINE: Final = 1 << 24
DEEPEST: Final = 64
MOST_CANDIDATES: Final = 100_000
_BOM: Final = b"\xef\xbb\xbf"
_SHOWN: Final = 80
_HELD: Final = 500  # objects that become columns together
_FIGURES: Final = {float, int}

T = TypeVar("T")


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and texts of the lines of a file, without blank ones."""
    number = 0
    with readable(path):
        for member in members(path):
            with content(path, member) as inflated:
                stream = io.BufferedReader(inflated)  # type: ignore[type-var]
                while line := stream.readline(LONGEST_LINE + 1):
                    number += 1
                    if len(line) > LONGEST_LINE:
                        raise TraceError(
                            f"{path}: line {number} is longer than {LONGEST_LINE >> 20} MiB, "
                            "expected a record per line"
                        )
                    text = line.removeprefix(_BOM) if number == 1 else line
                    yield number, text.rstrip(b"\r\n")


def records_of(
    path: Path, file: int, reading: Reading, loads: Callable[[bytes], Any] = json.loads
) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Yield the objects of a file of JSON lines: line, record, text. Others are counted."""
    for number, line in lines_of(path):
        if line[:1] != b"{" and not line.lstrip().startswith(b"{"):
            if line and not line.isspace():
                reading.count("lines_without_object")
            continue
        try:
            record = loads(line)
            require_text(record, line)
        except RecursionError as error:
            raise TraceError(
                f"{path}: line {number} is nested deeper than {DEEPEST} levels"
            ) from error
        except (ValueError, UnicodeDecodeError):
            reading.rejected.append((file, number, None, f"no valid JSON: {shown(line)}"))
            continue
        yield number, record, line


def shown(line: bytes) -> str:
    """Return the beginning of a line for a message."""
    text = line[:_SHOWN].decode("utf-8", errors="replace")
    return text + ("..." if len(line) > _SHOWN else "")


def require_depth(value: Any, where: str) -> None:
    """Raise TraceError if a record is nested deeper than DEEPEST levels."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise TraceError(f"{where} is nested deeper than {DEEPEST} levels")
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        depth += 1


@dataclass
class _Column:
    """Values of one feature.

    Attributes:
        first: The first owner, and a number by which the features of one owner are in order.
        owners: Owner of each value.
        values: Numbers or texts.
    """

    first: tuple[int, int]
    owners: "array[int]"
    values: Any


class Sparse:
    """Features by name that few owners have: where they are, and their values.

    Objects of JSON are held until there are many, and become columns together: those with the same
    keys are a table, in which a column of objects is a table again.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, _Column] = {}
        self.texts: dict[str, _Column] = {}
        self._owners: list[int] = []
        self._held: list[dict[str, Any]] = []
        self._named = 0

    def number(self, name: str, owner: int, value: float) -> None:
        """Set a number of an owner; owners come in order."""
        held = self.numbers.get(name) or self._named_column(self.numbers, name, owner, array("d"))
        held.owners.append(owner)
        held.values.append(value)

    def text(self, name: str, owner: int, value: str) -> None:
        """Set a category of an owner; owners come in order."""
        held = self.texts.get(name) or self._named_column(self.texts, name, owner, [])
        held.owners.append(owner)
        held.values.append(value)

    def numbers_from(self, name: str, owner: int, values: Sequence[float]) -> None:
        """Set a number of each owner from one on."""
        held = self.numbers.get(name) or self._named_column(self.numbers, name, owner, array("d"))
        held.owners.extend(range(owner, owner + len(values)))
        held.values.extend(values)

    def flatten(self, owner: int, objects: Sequence[dict[str, Any]]) -> None:
        """Set the features of objects of JSON, by their dotted paths, from an owner on.

        Owners come in order. True is 1, what begins with `_` is no feature, and objects of a list
        are merged in order.
        """
        self._owners.extend(range(owner, owner + len(objects)))
        self._held.extend(objects)
        if len(self._held) >= _HELD:
            self.settle()

    def _named_column(
        self, columns: dict[str, _Column], name: str, owner: int, empty: Any
    ) -> _Column:
        self._named += 1
        first = (owner, self._named)
        column = columns.setdefault(name, _Column(first, array("q"), empty))
        column.first = min(column.first, first)
        return column

    def settle(self) -> None:
        """Make columns of the objects that are held."""
        if self._held:
            owners, objects = self._owners, self._held
            self._owners, self._held = [], []
            self._objects(np.array(owners, np.int64), objects, "")

    def _objects(self, owners: Ints, objects: Sequence[dict[str, Any]], prefix: str) -> None:
        """Add objects, those with the same keys in the same order together."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, keys in enumerate(map(tuple, objects)):
            groups.setdefault(keys, []).append(place)
        for keys, places in groups.items():
            alike = len(places) == len(objects)
            some = objects if alike else [objects[place] for place in places]
            for key in keys:
                if key[:1] != "_":
                    values = [*map(itemgetter(key), some)]
                    self._values(owners if alike else owners[places], values, prefix + key)

    def _values(self, owners: Ints, values: Sequence[Any], name: str) -> None:
        """Add the values of one key."""
        for kind, mine, said in _by_kind(owners, values):
            if kind is float:
                column = self._named_column(self.numbers, name, int(mine[0]), array("d"))
                column.owners.frombytes(mine.tobytes())
                column.values.frombytes(_floats(said).tobytes())
            elif kind is str:
                column = self._named_column(self.texts, name, int(mine[0]), [])
                column.owners.frombytes(mine.tobytes())
                column.values.extend(said)
            elif kind is dict:
                self._objects(mine, said, f"{name}.")
            elif kind is bool:
                true = mine[np.array(said)]
                if len(true):
                    self._values(true, [1.0] * len(true), name)
            elif kind is list:
                self._lists(mine, said, name)

    def _lists(self, owners: Ints, lists: Sequence[list[Any]], name: str) -> None:
        for place in range(max(map(len, lists))):
            mine, long = _where([len(items) > place for items in lists], owners, lists)
            for kind, of, items in _by_kind(mine, [items[place] for items in long]):
                if kind is dict:
                    self._objects(of, items, f"{name}.")
                elif kind is str:
                    for owner, item in zip(of.tolist(), items, strict=True):
                        self._values(np.array([owner]), [1.0], f"{name}={item}")
                elif kind is float or kind is bool:
                    self._values(of, [*map(float, items)], f"{name}.{place}")

    def frame(self, height: int, absent: float) -> pl.DataFrame:
        """Return the features as columns; a name with texts is a category as a whole."""
        self.settle()
        columns = []
        for name, held in _in_order(self.numbers):
            if name not in self.texts:
                column = np.full(height, absent)
                column[np.frombuffer(held.owners, np.int64)] = np.frombuffer(held.values)
                columns.append(pl.Series(name, column))
        for name, held in _in_order(self.texts):
            owners, said = np.frombuffer(held.owners, np.int64), held.values
            if name in self.numbers:
                more = self.numbers[name]
                owners = np.concatenate([owners, np.frombuffer(more.owners, np.int64)])
                said = [*said, *(f"{n:g}" for n in more.values)]
            levels = pl.Series(said, dtype=pl.String).cast(pl.Categorical)
            place = np.full(height, -1, np.int64)
            place[owners] = np.arange(len(said))
            index = pl.Series(place)
            columns.append(
                levels[pl.select(pl.when(index >= 0).then(index)).to_series()].alias(name)
                if not (place >= 0).all()
                else levels[place].alias(name)
            )
        return pl.DataFrame(columns)


def _in_order(columns: Mapping[str, _Column]) -> list[tuple[str, _Column]]:
    return sorted(columns.items(), key=lambda item: item[1].first)


def _where(flags: Sequence[bool], owners: Ints, values: Sequence[T]) -> tuple[Ints, list[T]]:
    """Return the owners and values that are flagged."""
    return owners[np.array(flags, bool)], [*compress(values, flags)]


def _by_kind(owners: Ints, values: Sequence[Any]) -> Iterator[tuple[type, Ints, Sequence[Any]]]:
    """Yield values by their types, integers among float, with their owners."""
    found = {*map(type, values)}
    if found <= _FIGURES or len(found) == 1:
        yield (float if found <= _FIGURES else found.pop()), owners, values
        return
    kinds = [*map(type, values)]
    for kind in dict.fromkeys(kinds):
        mine, said = _where([k is kind for k in kinds], owners, values)
        yield (float if kind is int else kind), mine, said


def _floats(values: Sequence[float]) -> NDArray[np.float64]:
    """Return numbers of JSON; an integer beyond all floats is infinite."""
    try:
        return np.array(values, np.float64)
    except OverflowError:
        most = sys.float_info.max
        finite = [math.inf if v > most else -math.inf if v < -most else v for v in values]
        return np.array(finite, np.float64)


class Collector:
    """Decisions of records, until they become a batch.

    Attributes:
        names: Columns of the decisions.
        meta: Values of each decision by these names.
        ids: Ids of the candidates.
        feasible: Flags of the candidates that could be taken.
        probability: Probability of each candidate, NaN if it is not known.
        context: Features of the decisions.
        features: Features of the candidates.
        lengths: Number of candidates of each decision.
    """

    def __init__(self, names: Sequence[str], absent: float) -> None:
        self.names, self.absent = tuple(names), absent
        self.clear()

    def clear(self) -> None:
        """Forget all decisions."""
        self.meta: list[dict[str, Any]] = []
        self.ids: list[str | None] = []
        self.feasible: list[bool] = []
        self.probability: list[float] = []
        self.context, self.features = Sparse(), Sparse()
        self.lengths: list[int] = []

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.lengths)

    def add(self, values: dict[str, Any]) -> None:
        """Add a decision, whose candidates were added before."""
        self.meta.append(values)

    def fill(self) -> None:
        """Complete the columns of candidates after a decision that cannot be used."""
        rows = len(self.ids)
        self.feasible.extend([True] * (rows - len(self.feasible)))
        self.probability.extend([math.nan] * (rows - len(self.probability)))

    def batch(self) -> Batch:
        """Return the decisions as columns, and forget them."""
        count, rows = len(self.lengths), len(self.ids)
        meta: dict[str, Any] = {}
        for name in self.names:
            values = [decision.get(name) for decision in self.meta]
            if name in DECISION_COLUMNS and values.count(None) == count:
                continue
            dtype = DECISION_COLUMNS[name][0] if name in DECISION_COLUMNS else pl.Float64()
            column = pl.Series(name, values, dtype=dtype, strict=False)
            default = DECISION_COLUMNS[name][1] if name in DECISION_COLUMNS else None
            meta[name] = column if default is None else column.fill_null(default)
        candidates = {
            "id": pl.Series(self.ids, dtype=pl.String).cast(pl.Categorical),
            "feasible": np.array(self.feasible, bool),
            "probability": np.array(self.probability, np.float64),
        }
        result = Batch(
            frame_of(meta, DECISION_COLUMNS, count),
            self.context.frame(count, self.absent),
            frame_of(candidates, CANDIDATE_COLUMNS, rows),
            self.features.frame(rows, self.absent),
            np.array(self.lengths, np.int64),
        )
        self.clear()
        return result
