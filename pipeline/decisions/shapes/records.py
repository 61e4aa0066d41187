"""Records of text files as Python values, and their decisions collected to batches.

A line that is no JSON is rejected, with its reason; blank lines are skipped. Lines end in LF or
CRLF; a byte-order mark is no content. Files may be compressed.
"""

import io
import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import (
    CANDIDATE_COLUMNS,
    DECISION_COLUMNS,
    Batch,
    Reading,
    frame_of,
)
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.files.compression import content, members, readable

BATCH: Final = 20_000  # decisions collected before they become columns
LONGEST_LINE: Final = 1 << 24
DEEPEST: Final = 64
MOST_CANDIDATES: Final = 100_000
_BOM: Final = b"\xef\xbb\xbf"
_SHOWN: Final = 80


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
    path: Path, file: int, reading: Reading
) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Yield the objects of a file of JSON lines: line, record, text. Others are counted."""
    for number, line in lines_of(path):
        if not line or line.isspace():
            continue
        if not line.lstrip().startswith(b"{"):
            reading.count("lines_without_object")
            continue
        try:
            record = json.loads(line)
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


class Sparse:
    """Features by name that few owners have: where they are, and their values."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[array[int], array[float]]] = {}
        self.texts: dict[str, tuple[array[int], list[str]]] = {}

    def number(self, name: str, owner: int, value: float) -> None:
        """Set a number of an owner."""
        held = self.numbers.get(name)
        if held is None:
            held = self.numbers[name] = (array("q"), array("d"))
        held[0].append(owner)
        held[1].append(value)

    def text(self, name: str, owner: int, value: str) -> None:
        """Set a category of an owner."""
        held = self.texts.get(name)
        if held is None:
            held = self.texts[name] = (array("q"), [])
        held[0].append(owner)
        held[1].append(value)

    def flatten(self, owner: int, values: Mapping[str, Any], prefix: str = "") -> None:
        """Set the features of an object of JSON, by their dotted paths.

        True is 1, what begins with `_` is no feature, and objects of a list are merged in order.
        """
        for key, value in values.items():
            if key[:1] == "_":
                continue
            kind = type(value)
            if kind is float or kind is int:
                self.number(prefix + key, owner, value)
            elif kind is str:
                self.text(prefix + key, owner, value)
            elif kind is dict:
                self.flatten(owner, value, f"{prefix}{key}.")
            elif value is True:
                self.number(prefix + key, owner, 1.0)
            elif kind is list:
                for place, item in enumerate(value):
                    if isinstance(item, dict):
                        self.flatten(owner, item, f"{prefix}{key}.")
                    elif isinstance(item, str):
                        self.number(f"{prefix}{key}={item}", owner, 1.0)
                    elif isinstance(item, int | float):
                        self.number(f"{prefix}{key}.{place}", owner, float(item))

    def frame(self, height: int, absent: float) -> pl.DataFrame:
        """Return the features as columns; a name with texts is a category as a whole."""
        columns = []
        for name, (at, values) in self.numbers.items():
            if name not in self.texts:
                column = np.full(height, absent)
                column[np.frombuffer(at, np.int64)] = np.frombuffer(values, np.float64)
                columns.append(pl.Series(name, column))
        for name, (at, texts) in self.texts.items():
            owners, said = np.frombuffer(at, np.int64), texts
            if name in self.numbers:
                more, numbers = self.numbers[name]
                owners = np.concatenate([owners, np.frombuffer(more, np.int64)])
                said = [*texts, *(f"{n:g}" for n in numbers)]
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


class Collector:
    """Decisions of records, until they become a batch.

    Attributes:
        meta: Columns of the decisions, by name.
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
        self.meta: dict[str, list[Any]] = {name: [] for name in self.names}
        self.ids: list[str | None] = []
        self.feasible: list[bool] = []
        self.probability: list[float] = []
        self.context, self.features = Sparse(), Sparse()
        self.lengths: list[int] = []

    def __len__(self) -> int:
        """Return the number of decisions."""
        return len(self.lengths)

    def add(self, **values: Any) -> None:
        """Add a decision, whose candidates were added before."""
        for name, column in self.meta.items():
            column.append(values.get(name))

    def fill(self) -> None:
        """Complete the columns of candidates after a decision that cannot be used."""
        rows = len(self.ids)
        self.feasible.extend([True] * (rows - len(self.feasible)))
        self.probability.extend([math.nan] * (rows - len(self.probability)))

    def batch(self) -> Batch:
        """Return the decisions as columns, and forget them."""
        count, rows = len(self.lengths), len(self.ids)
        meta: dict[str, Any] = {}
        for name, values in self.meta.items():
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
