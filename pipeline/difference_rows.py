"""The first value in which two parts differ: read side by side, a row group of each at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.card.coverage import row_groups
from pipeline.schema import Spec


@dataclass(frozen=True)
class RowDifference:
    """Where the first difference is, and both values; `column` is a name with dots."""

    episode: int
    step: int
    column: str
    a: Any
    b: Any


@dataclass(frozen=True)
class _Leaf:
    """The values of one Parquet column: which row each is of, and which are not null."""

    name: str
    rows: NDArray[np.int64]
    values: NDArray[Any]
    valid: NDArray[np.bool_]


def first_difference(a: Path, b: Path, spec: Spec) -> RowDifference | None:
    """The first row that differs, and of it the first column; None where all values are equal.

    Rows are compared in order, however they are cut into row groups; NaN equals NaN. Raises
    DatasetError where a file cannot be read.
    """
    for one, other in _side_by_side(row_groups(a, spec), row_groups(b, spec)):
        if one is None or other is None:
            longer = one if other is None else other
            assert longer is not None
            here = None if one is None else "a row"
            there = None if other is None else "a row"
            return _at(longer, 0, "row", here, there)
        found = [d for name in one.column_names if (d := _in_column(one, other, name)) is not None]
        if found:
            row, leaf = min(found, key=lambda d: d[0])
            return _at(one, row, *_inside(leaf, _value(one, row, leaf), _value(other, row, leaf)))
    return None


def _side_by_side(
    a: Iterator[pa.Table], b: Iterator[pa.Table]
) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """Tables of the same rows of both; at last one and None where one has more rows."""
    one, other = next(a, None), next(b, None)
    while one is not None and other is not None:
        n = min(one.num_rows, other.num_rows)
        if n:
            yield one.slice(0, n), other.slice(0, n)
        one = one.slice(n) if one.num_rows > n else next(a, None)
        other = other.slice(n) if other.num_rows > n else next(b, None)
    if one is not None or other is not None:
        yield one, other


def _in_column(one: pa.Table, other: pa.Table, name: str) -> tuple[int, str] | None:
    """The first row in which a column differs, and the leaf in which it does."""
    if one.column(name).equals(other.column(name)):
        return None  # NaN differs from itself here: then the leaves are looked at
    found = []
    for x, y in zip(_leaves(one, name), _leaves(other, name), strict=True):
        row = _first_row(x, y)
        if row is not None:
            found.append((row, x.name))
    return min(found, key=lambda d: d[0], default=None)


def _first_row(x: _Leaf, y: _Leaf) -> int | None:
    n = min(len(x.rows), len(y.rows))
    same = (x.rows[:n] == y.rows[:n]) & (x.valid[:n] == y.valid[:n])
    equal = x.values[:n] == y.values[:n]
    if x.values.dtype.kind == "f":
        equal |= np.isnan(x.values[:n]) & np.isnan(y.values[:n])
    differing = ~(same & (equal | ~x.valid[:n]))
    if differing.any():
        i = int(differing.argmax())
        return int(min(x.rows[i], y.rows[i]))
    if len(x.rows) == len(y.rows):
        return None
    longer = x if len(x.rows) > n else y
    return int(longer.rows[n])


def _leaves(table: pa.Table, name: str) -> Iterator[_Leaf]:
    column = table.column(name).combine_chunks()
    return _walk(name, column, np.arange(len(column)))


def _walk(name: str, array: pa.Array, rows: NDArray[np.int64]) -> Iterator[_Leaf]:
    """The leaves of an array, given the row that each of its elements belongs to."""
    if isinstance(array, pa.StructArray):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from _walk(f"{name}.{field.name}", child, rows)
    elif isinstance(array, pa.ListArray):
        lengths = array.value_lengths()
        yield _leaf(name, lengths, rows)  # so that lists of another length differ
        repeated = np.repeat(rows, lengths.fill_null(0).to_numpy(zero_copy_only=False))
        yield from _walk(name, array.flatten(), repeated)
    elif isinstance(array, pa.FixedSizeListArray):
        yield from _walk(name, array.flatten(), np.repeat(rows, array.type.list_size))
    else:
        yield _leaf(name, array, rows)


def _leaf(name: str, array: pa.Array, rows: NDArray[np.int64]) -> _Leaf:
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return _Leaf(name, rows, np.asarray(filled.to_numpy(zero_copy_only=False)), valid)


def _at(table: pa.Table, row: int, column: str, a: Any, b: Any) -> RowDifference:
    episode, step = (table.column(name)[row].as_py() for name in ("episode", "step"))
    return RowDifference(episode, step, column, a, b)


def _inside(leaf: str, a: Any, b: Any) -> tuple[str, Any, Any]:
    """Of two lists the first element that differs, or their lengths."""
    if not isinstance(a, list) or not isinstance(b, list):
        return leaf, a, b
    if len(a) != len(b):
        return f"{leaf} (length)", len(a), len(b)
    differs = (x != y and not (x != x and y != y) for x, y in zip(a, b, strict=True))  # noqa: PLR0124
    i = next((i for i, different in enumerate(differs) if different), 0)
    return f"{leaf}[{i}]", a[i], b[i]


def _value(table: pa.Table, row: int, leaf: str) -> Any:
    """What a row has of a leaf: a number, or a list of them."""
    name, *path = leaf.split(".")
    value = table.column(name)[row].as_py()
    for key in path:
        if isinstance(value, list):
            value = [None if v is None else v[key] for v in value]
        elif value is not None:
            value = value[key]
    return value
