"""Tables as frames of bounded size: CSV, TSV and Parquet files, and frames at hand."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean
from hindcast.pipeline.traces.files.compression import PARQUET, first_bytes
from hindcast.pipeline.traces.first_look import head_lines

CHUNK_ROWS: Final = 100_000
_SEPARATORS: Final = (",", "\t", ";", "|")
_EXPECTED: Final = "a table of decisions (CSV or TSV with a header, or Parquet)"


@dataclass(frozen=True)
class Piece:
    """Some rows of a table.

    Attributes:
        rows: The rows, with the columns that were asked for.
        file: Number of the file.
        line: Line of the first row, where the header is line 1.
    """

    rows: pl.DataFrame
    file: int
    line: int


@dataclass(frozen=True)
class Tables:
    """The tables of a log, in order: paths, or one frame at hand."""

    parts: Sequence[Path | pl.DataFrame]
    separator: str = ""

    def header(self) -> list[str]:
        """Return the columns of the first table."""
        return list(self.schema())

    def schema(self) -> dict[str, pl.DataType]:
        """Return the columns of the first table with their types."""
        return self._schema(self.parts[0])

    def require(self, columns: Iterable[str]) -> list[str]:
        """Return `columns` without repetitions; raise TraceError if a table lacks one."""
        wanted = list(dict.fromkeys(c for c in columns if c))
        for part in self.parts:
            header = self._schema(part)
            for name in wanted:
                if name not in header:
                    raise no_column(name_of(part), name, list(header))
        return wanted

    def pieces(
        self, columns: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> Iterator[Piece]:
        """Yield the rows of all tables in order.

        Args:
            columns: The columns; None are all.
            numbers: Columns of texts that are read as float64, up to the first that is no number.
        """
        for number, part in enumerate(self.parts):
            line = 2
            for typed in (numbers, ()):
                scan = self._scan(part, typed).slice(line - 2)
                chosen = scan if columns is None else scan.select(columns)
                with suppress(pl.exceptions.PolarsError) if typed else _readable(part):
                    for rows in chosen.collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True):
                        if rows.height:
                            yield Piece(rows, number, line)
                        line += rows.height
                    break

    def _schema(self, part: Path | pl.DataFrame) -> dict[str, pl.DataType]:
        with _readable(part):
            return dict(self._scan(part).collect_schema())

    def _scan(self, part: Path | pl.DataFrame, numbers: Sequence[str] = ()) -> pl.LazyFrame:
        if isinstance(part, pl.DataFrame):
            return part.lazy()
        if is_parquet(part):
            return pl.scan_parquet(part)
        header = head_lines(part, _EXPECTED)[0]
        separator = self.separator or max(_SEPARATORS, key=header.count)
        return pl.scan_csv(
            part, separator=separator, infer_schema=False, truncate_ragged_lines=True,
            encoding="utf8-lossy", empty_string_is_null=True,
            schema_overrides=dict.fromkeys(numbers, pl.Float64),
        )  # fmt: skip


@contextmanager
def _readable(part: Path | pl.DataFrame) -> Iterator[None]:
    """Replace the errors of a damaged table by a TraceError that names it."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise TraceError(
            f"{name_of(part)}: this table cannot be read ({str(error).splitlines()[0]}), "
            f"expected {_EXPECTED}"
        ) from error


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as a Parquet file."""
    try:
        return first_bytes(path).startswith(PARQUET)
    except OSError:
        return False


def no_column(where: str, name: str, known: Sequence[str]) -> TraceError:
    """Return the error for a column of the mapping that a log does not have."""
    return TraceError(
        f"{where}: there is no column {name!r}, which the mapping names; "
        f"{did_you_mean(name, known)}"
    )


def name_of(part: Any) -> str:
    """Return what messages call a file, or a frame at hand."""
    return str(part) if isinstance(part, str | Path) else "the table"
