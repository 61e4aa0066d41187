"""Frames below each other; columns of large ones lie in temporary files.

    frames         x0 x1 | x2 x3 x4 | ...
    a column       in memory, or a file that is mapped: x0 x1 x2 x3 x4 ...

A mapped column reads as any other. `release` gives back the memory of the pages that were read.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.storage.files import storage_errors

_LARGE: Final = 200_000  # rows from which on columns are kept in files
_TAKEN: Final = 500_000  # rows that are taken at a time
_ALIGNED: Final = 64  # bytes
_VIEW: Final = 16  # bytes of a text in place
_LONGEST: Final = 1 << 31  # bytes of the texts of a column that Arrow can point into
_Places: TypeAlias = list[tuple[int, int] | None]
_MAPS: Final[weakref.WeakSet[mmap.mmap]] = weakref.WeakSet()


def release() -> None:
    """Give back the memory of all pages of mapped columns that were read."""
    for mapped in _MAPS:
        mapped.madvise(mmap.MADV_DONTNEED)


def stored(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose numbers and texts lie in a mapped temporary file, if it has many rows.

    A column of nulls takes no room: it lies in a hole of the file.
    """
    if frame.height < _LARGE:
        return frame.rechunk()
    with _errors(), tempfile.TemporaryFile() as file:
        file.truncate(_VIEW * frame.height)
        file.seek(0, os.SEEK_END)
        columns = [_written(file, column) for column in frame.get_columns()]
        whole = _mapped(file)

    def mapped_column(kind: pa.DataType, offset: int, places: _Places) -> pl.Series:
        parts = [None if place is None else whole.slice(*place) for place in places]
        return pl.Series(pa.Array.from_buffers(kind, frame.height, parts, offset=offset))

    return pl.DataFrame({
        name: column if isinstance(column, pl.Series) else mapped_column(*column)
        for name, column in zip(frame.columns, columns, strict=True)
    })  # fmt: skip


class Stored:
    """Frames below each other, of which long ones lie in mapped temporary files.

    A column that a frame lacks is null there.
    """

    def __init__(self) -> None:
        self._stored: list[pl.DataFrame] = []
        self._waiting: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add a frame."""
        self._waiting.append(frame)
        if sum(f.height for f in self._waiting) >= _LARGE:
            self._stored.append(stored(_below(self._waiting)))
            self._waiting.clear()

    def frame(self) -> pl.DataFrame:
        """Return the whole frame."""
        if len(self._stored) == 1 and not self._waiting:
            return self._stored[0]
        return stored(_below([*self._stored, *self._waiting]))


def _errors() -> AbstractContextManager[None]:
    """Return a context in which errors of writing temporary files are StorageError."""
    return storage_errors(Path(tempfile.gettempdir()))


def _mapped(file: IO[bytes]) -> pa.Buffer:
    """Return the content of a file, mapped."""
    file.flush()
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPS.add(mapped)
    return pa.py_buffer(mapped)


def _below(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, how="diagonal_relaxed")


def _written(file: IO[bytes], column: pl.Series) -> pl.Series | tuple[pa.DataType, int, _Places]:
    """Write a column; return type, offset and places of its buffers, or a column of another type.

    A place is a position in the file and a number of bytes.
    """
    text = column.dtype == pl.String
    if not (text or column.dtype.is_numeric()) or column.estimated_size() >= _LONGEST:
        return column.rechunk()
    if column.null_count() == len(column):
        kind = pa.string_view() if text else column[:0].to_arrow().type
        return kind, 0, [(0, (len(column) + 7) // 8), (0, _VIEW * len(column))]
    array = column.rechunk().to_arrow()
    if text:
        array = array.cast(pa.string_view())
    places: _Places = []
    for buffer in array.buffers():
        places.append(None if buffer is None else (file.tell(), buffer.size))
        if buffer is not None:
            file.write(buffer)
            file.write(bytes(-buffer.size % _ALIGNED))
    return array.type, array.offset, places


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # a buffer for which a full disk has no room is tried again here
        file.close()


class _File:
    """A temporary file of numbers or of codes of a category."""

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype, self.rows = dtype, 0
        with _errors():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, _close, self._file)
        self._valid: list[NDArray[np.uint8] | None] = []  # bits by piece, None if all rows are
        self._alive: pl.Series | None = None  # codes have a meaning as long as a column has them

    def append(self, column: pl.Series) -> "_Piece":
        """Write a column; return its place."""
        self._alive = column[:1] if self._alive is None else self._alive
        nulls = column.null_count()
        self._valid.append(
            np.packbits(column.is_not_null().to_numpy(), bitorder="little") if nulls else None
        )
        plain = column.to_physical()
        with _errors():
            self._file.write((plain.fill_null(0) if nulls else plain).to_numpy().data)
        self.rows += len(column)
        return _Piece(self, self.rows - len(column), len(column))

    def column(self, pieces: Sequence["_Piece"]) -> pl.Series:
        """Return the whole column, mapped."""
        with _errors():
            whole = _mapped(self._file)
        kind = pa.float64() if self.dtype == pl.Float64 else pa.uint32()
        valid = None
        if any(bits is not None for bits in self._valid):
            flags = np.ones(self.rows, np.bool_)
            for piece, bits in zip(pieces, self._valid, strict=True):
                if bits is not None:
                    known = np.unpackbits(bits, count=piece.rows, bitorder="little")
                    flags[piece.start : piece.start + piece.rows] = known
            valid = pa.py_buffer(np.packbits(flags, bitorder="little"))
        found = pl.Series(pa.Array.from_buffers(kind, self.rows, [valid, whole]))
        return found if self.dtype == pl.Float64 else found.cat.to(pl.Categorical)


@dataclass(frozen=True)
class _Piece:
    """Consecutive rows of a file."""

    file: _File
    start: int
    rows: int


class Gathered:
    """Frames below each other; a column that a frame lacks is `absent` in it."""

    def __init__(self, absent: float, expected: int = 0) -> None:
        self._absent, self._rows = absent, 0
        self._frames: list[tuple[dict[str, Any], int]] = []
        self._files: dict[tuple[str, str], _File] = {}
        self._large = expected >= _LARGE

    def add(self, frame: pl.DataFrame, height: int) -> None:
        """Add a frame; it has no height of its own if it has no column."""
        columns = dict(zip(frame.columns, frame.get_columns(), strict=True))
        self._frames.append((columns, height))
        self._rows += height
        if self._large:
            self._store(columns)
        elif self._rows >= _LARGE:
            self._large = True
            for earlier, _ in self._frames:
                self._store(earlier)

    def _store(self, columns: dict[str, Any]) -> None:
        for name, column in columns.items():
            if column.dtype in (pl.Float64, pl.Categorical) and len(column):
                key = (name, str(column.dtype))
                if key not in self._files:
                    self._files[key] = _File(column.dtype)
                columns[name] = self._files[key].append(column)

    def frame(self) -> pl.DataFrame:
        """Return the whole frame; a column is taken out of the pieces as soon as it is whole.

        A feature that is a number in one frame and a category in another is a category.
        """
        names: dict[str, bool] = {}  # True for a category
        for columns, _ in self._frames:
            for name, column in columns.items():
                dtype = column.file.dtype if isinstance(column, _Piece) else column.dtype
                names[name] = names.get(name, False) or dtype == pl.Categorical
        return pl.DataFrame([self._column(name, category) for name, category in names.items()])

    def _column(self, name: str, category: bool) -> pl.Series:
        pieces = [(columns.pop(name, None), height) for columns, height in self._frames]
        held = [piece for piece, _ in pieces if isinstance(piece, _Piece)]
        if len(held) == len(pieces) and all(p.file is held[0].file for p in held):
            return held[0].file.column(held).alias(name)
        wholes = {p.file: p.file.column([q for q in held if q.file is p.file]) for p in held}
        found = []
        for piece, height in pieces:
            column = piece
            if isinstance(piece, _Piece):
                column = wholes[piece.file][piece.start : piece.start + piece.rows]
            found.append(self._filled(column, height, category).alias(name))
        return pl.concat(found, rechunk=True)

    def _filled(self, column: pl.Series | None, height: int, category: bool) -> pl.Series:
        if column is None and category:
            return pl.Series([None], dtype=pl.Categorical).new_from_index(0, height)
        if column is None:
            return pl.Series(np.full(height, self._absent))
        if category and column.dtype != pl.Categorical:
            there = column.fill_nan(None) != self._absent
            known = pl.select(pl.when(there).then(column)).to_series()
            return plain_texts(known).cast(pl.Categorical)
        return column


def taken(frame: pl.DataFrame, rows: slice | NDArray[np.int64]) -> pl.DataFrame:
    """Return rows of a frame, in the order given; many that are listed are mapped as well."""
    if not frame.width or isinstance(rows, slice) or len(rows) < _LARGE:
        return frame[rows] if frame.width else frame
    found = Gathered(float("nan"), len(rows))
    for begin in range(0, len(rows), _TAKEN):
        some = rows[begin : begin + _TAKEN]
        found.add(frame[some], len(some))
        release()
    return found.frame()


def plain_texts(values: pl.Series) -> pl.Series:
    """Return values as texts: the number 3.0 is "3"."""
    if not values.dtype.is_float():
        return values.cast(pl.String)
    whole = ((values == values.round()) & (values.abs() < 2**53)).fill_null(value=False)
    return pl.select(
        pl.when(whole)
        .then(values.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(values.cast(pl.String))
    ).to_series()
