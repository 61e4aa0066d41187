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
from typing import IO, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.storage.files import storage_errors

_LARGE: Final = 200_000  # rows from which on columns are kept in files
_TAKEN: Final = 500_000  # rows that are taken at a time
_VIEW: Final = 16  # bytes of a view of a text
_IN_VIEW: Final = 12  # bytes of a text that lies in its view
_LONGEST: Final = (1 << 31) - 1  # bytes of texts into which the views of Arrow can point
_MAPS: Final[weakref.WeakSet[mmap.mmap]] = weakref.WeakSet()


def release() -> None:
    """Give back the memory of all pages of mapped columns that were read, and of freed arrays."""
    for mapped in _MAPS:
        mapped.madvise(mmap.MADV_DONTNEED)
    pa.system_memory_pool().release_unused()


def stored(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose numbers and texts lie in mapped temporary files, if it has many rows."""
    if frame.height < _LARGE:
        return frame.rechunk()
    found = Gathered(None, frame.height)
    for some in frame.iter_slices(_LARGE):
        found.add(some, some.height)
    return found.frame()


def _errors() -> AbstractContextManager[None]:
    """Return a context in which errors of writing temporary files are StorageError."""
    return storage_errors(Path(tempfile.gettempdir()))


def _mapped(file: IO[bytes]) -> pa.Buffer:
    """Return the content of a file, mapped."""
    file.flush()
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPS.add(mapped)
    return pa.py_buffer(mapped)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # a buffer for which a full disk has no room is tried again here
        file.close()


class _File:
    """A temporary file of numbers, of codes of a category or of texts.

    Nulls at the end and pieces of nulls are holes of the file, which take no room. Texts are views
    of Arrow: their bytes, if they are longer than a view, lie in another file.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype, self.rows = dtype, 0
        self._file = _opened(self)
        self._texts = _opened(self) if dtype == pl.String else self._file
        self._buffers: list[tuple[int, int]] = []  # first byte and size in the file of texts
        self._valid: list[NDArray[np.uint8] | None] = []  # bits by piece, None if all rows are
        self._alive: pl.Series | None = None  # codes have a meaning as long as a column has them
        self._empty = pl.Series([], dtype=dtype).to_physical().to_arrow()
        self._width = _VIEW if dtype == pl.String else self._empty.type.bit_width // 8

    def append(self, column: pl.Series) -> "_Piece":
        """Write a column; return its place."""
        self._alive = column[:1] if self._alive is None else self._alive
        nulls = column.null_count()
        self._valid.append(
            np.packbits(column.is_not_null().to_numpy(), bitorder="little") if nulls else None
        )
        with _errors():
            if nulls == len(column):
                self._file.seek(self._width * nulls, os.SEEK_CUR)
            elif self.dtype == pl.String:
                self._file.write(self._views(column.fill_null("") if nulls else column).data)
            else:
                plain = column.to_physical()
                self._file.write((plain.fill_null(0) if nulls else plain).to_numpy().data)
        self.rows += len(column)
        return _Piece(self, self.rows - len(column), len(column))

    def _views(self, column: pl.Series) -> NDArray[np.uint32]:
        """Write the bytes of texts; return views: length, then the text, or where it is."""
        array = column.rechunk().to_arrow().cast(pa.string_view())
        _, found, *texts = array.buffers()
        views = np.frombuffer(found, np.uint32).reshape(-1, 4)[array.offset :][: len(array)].copy()
        long = views[:, 0] > _IN_VIEW
        if long.any():
            (text,) = texts
            if not self._buffers or self._buffers[-1][1] + text.size > _LONGEST:
                self._buffers.append((self._texts.tell(), 0))
            start, size = self._buffers[-1]
            views[long, 2], views[long, 3] = len(self._buffers) - 1, views[long, 3] + size
            self._texts.write(text)
            self._buffers[-1] = (start, size + text.size)
        return views

    def column(self, pieces: Sequence["_Piece"]) -> pl.Series:
        """Return the whole column, mapped."""
        with _errors():
            self._file.truncate(self._width * self.rows)
            whole = _mapped(self._file)
            texts = [_mapped(self._texts).slice(*place) for place in self._buffers]
        valid = None
        if any(bits is not None for bits in self._valid):
            flags = np.ones(self.rows, np.bool_)
            for piece, bits in zip(pieces, self._valid, strict=True):
                if bits is not None:
                    known = np.unpackbits(bits, count=piece.rows, bitorder="little")
                    flags[piece.start : piece.start + piece.rows] = known
            valid = pa.py_buffer(np.packbits(flags, bitorder="little"))
        kind = pa.string_view() if self.dtype == pl.String else self._empty.type
        found = pl.Series(pa.Array.from_buffers(kind, self.rows, [valid, whole, *texts]))
        return found.cat.to(pl.Categorical) if self.dtype == pl.Categorical else found


def _opened(owner: _File) -> IO[bytes]:
    """Return a new temporary file, closed when its owner is gone."""
    with _errors():
        file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as its owner is there
    weakref.finalize(owner, _close, file)
    return file


@dataclass(frozen=True)
class _Piece:
    """Consecutive rows of a file."""

    file: _File
    start: int
    rows: int


class Gathered:
    """Frames below each other; a column that a frame lacks is `absent` in it, None for null."""

    def __init__(self, absent: float | None, expected: int = 0) -> None:
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
            kept = column.dtype.is_numeric() or column.dtype in (pl.Categorical, pl.String)
            if kept and len(column):
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
        files = dict.fromkeys(piece.file for piece in held)
        wholes = {file: file.column([p for p in held if p.file is file]) for file in files}
        found = []
        for piece, height in pieces:
            column = piece
            if isinstance(piece, _Piece):
                column = wholes[piece.file][piece.start : piece.start + piece.rows]
            found.append(self._filled(column, height, category).alias(name))
        return pl.concat(
            [part.to_frame() for part in found], how="vertical_relaxed", rechunk=True
        ).to_series()

    def _filled(self, column: pl.Series | None, height: int, category: bool) -> pl.Series:
        if column is None and category:
            return pl.Series([None], dtype=pl.Categorical).new_from_index(0, height)
        if column is None and self._absent is None:
            return pl.Series([None]).new_from_index(0, height)
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
