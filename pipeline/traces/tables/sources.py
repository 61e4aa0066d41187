"""Rows of a table as texts, whether it is CSV, Parquet or JSON."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.field_values import UTC
from hindcast.pipeline.traces.files import json_text
from hindcast.pipeline.traces.files.compression import PARQUET, content, first_bytes, readable
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.text_rows import TEXT_LIMIT, collect, scan_lines, scan_rows

TABLE: Final = "a table of jobs with a header (CSV), a Parquet file or a list of JSON objects"
_ISO: Final = "%Y-%m-%d %H:%M:%S%.6f"
_MOST_JSON: Final = 1 << 30  # bytes of a document, which is held in memory


@dataclass(frozen=True)
class Source:
    """A table that can be scanned.

    Attributes:
        path: The file.
        labels: Names of its columns in order; "" for one without a name.
        separator: Character between the fields of CSV.
        header: Line of the header of CSV; 0 if it has none.
        types: Types of the columns of Parquet.
        objects: Rows of JSON; None for other tables.
    """

    path: Path
    labels: Sequence[str]
    separator: str = ","
    header: int = 0
    types: Mapping[str, pl.DataType] | None = None
    objects: pl.DataFrame | None = None

    def scan(self, labels: Sequence[str], where: str = "") -> pl.LazyFrame:
        """Return the rows: line, text, reason, and "column 0", "column 1", ... for `labels`.

        Of columns of one name the first is read. Raises TraceError, which begins with `where`, for
        values of Parquet that are no texts.
        """
        places = {label: f"column {place}" for place, label in enumerate(labels)}
        if self.objects is not None:
            return self.objects.lazy().select(
                "line", "text", pl.lit(None, pl.String).alias("reason"),
                *(pl.col(f"/{label}").alias(place) for label, place in places.items()),
            )  # fmt: skip
        if self.types is not None:
            columns = {
                place: as_text(label, self.types[label], where) for label, place in places.items()
            }
            rows = pl.scan_parquet(self.path, glob=False).with_row_index("\0row")
            return rows.select(
                line=pl.col("\0row").cast(pl.Int64) + 1,
                text=pl.concat_str(*columns.values(), separator=",", ignore_nulls=True)
                if columns
                else pl.lit(""),
                reason=pl.lit(None, pl.String),
                **columns,
            )
        in_order = [
            places.get(label, "") if self.labels.index(label) == place else ""
            for place, label in enumerate(self.labels)
        ]
        quoted = collect(
            scan_lines(self.path).select(pl.col("text").str.contains('"', literal=True).any()),
            self.path,
        ).item()
        return scan_rows(
            self.path, in_order, self.header or None, self.separator, quotes=bool(quoted)
        )


def source_of(path: Path, separator: str = ",", names: Sequence[str] = ()) -> Source:
    """Return a table; `names` are those of the columns of CSV without a header.

    Raises TraceError if the file is no table.
    """
    if is_parquet(path):
        types = parquet_schema(path)
        return Source(path, list(types), types=types)
    if is_json(path):
        objects = _objects(path)
        labels = [name[1:] for name in objects.columns if name.startswith("/")]
        return Source(path, labels, objects=objects)
    if names:
        head_lines(path, TABLE)  # raises the error for a file that is no text
        return Source(path, names, separator)
    line, labels = header_of(path, separator)
    return Source(path, labels, separator, line)


def is_parquet(table: Path) -> bool:
    """Return whether a file begins as Parquet does."""
    return first_bytes(table).startswith(PARQUET)


def is_json(table: Path) -> bool:
    """Return whether a file begins as JSON does."""
    with readable(table), content(table) as text:
        return text.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}


def header_of(table: Path, separator: str) -> tuple[int, list[str]]:
    """Return the line of a CSV file's header and its names."""
    lines = head_lines(table, TABLE)
    line = next(n for n, text in enumerate(lines) if text.strip())
    return line + 1, split_line(lines[line], separator)


def split_line(text: str, separator: str) -> list[str]:
    """Return the fields of a line of CSV, without surrounding blanks and quotes."""
    parts = text.split(separator)
    if '"' in text:
        with suppress(csv.Error):
            parts = next(csv.reader([text], delimiter=separator))
    return [part.strip(' \t\r"') for part in parts]


def parquet_schema(table: Path) -> Mapping[str, pl.DataType]:
    """Return the columns of a Parquet file; raise TraceError if it is damaged."""
    try:
        return pl.read_parquet_schema(table)
    except (OSError, pl.exceptions.PolarsError) as error:
        what = str(error).splitlines()[0]
        raise TraceError(
            f"{table}: this Parquet file cannot be read ({what}); download or copy it again"
        ) from error


def as_text(label: str, kind: pl.DataType, where: str) -> pl.Expr:
    """Return a column of a Parquet file as the text that a CSV file would have.

    Raises TraceError, which begins with `where`, for lists, structures and binary values.
    """
    column = pl.col(label)
    if isinstance(kind, pl.Date):
        return column.cast(pl.Datetime("us")).dt.to_string(_ISO)
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is None:
            return column.dt.to_string(_ISO)
        return column.dt.convert_time_zone(UTC).dt.to_string(_ISO) + "Z"
    if isinstance(kind, pl.Duration):
        return (column.dt.total_microseconds() / 1e6).cast(pl.String)
    if kind.is_nested() or kind == pl.Binary:
        raise TraceError(f"{where}: the column {label!r} has values of type {kind}, expected texts")
    return column.cast(pl.String)


def _objects(path: Path) -> pl.DataFrame:
    """Return the objects of a JSON file as rows: line, text, and "/NAME" for each value.

    The file is a list of objects, an object that has one such list, or an object a line. Values of
    an object inside an object are named a.b; of a list a.count, and of the objects in it
    a.first.b and a.last.b. a.b.count is the number of values of all lists b of the list a.
    """
    rows: dict[str, list[str | None]] = {}
    texts: list[str] = []
    for number, each in enumerate(_documents(path)):
        texts.append(json.dumps(each, ensure_ascii=False)[:TEXT_LIMIT])
        for name, value in _flat(each):
            column = rows.setdefault(name, [])
            column += [None] * (number - len(column))
            if len(column) == number:
                column.append(value)
    values = {
        f"/{n}": [*column, *[None] * (len(texts) - len(column))] for n, column in rows.items()
    }
    return pl.DataFrame(
        {"line": list(range(1, len(texts) + 1)), "text": texts, **values},
        schema={"line": pl.Int64, "text": pl.String, **dict.fromkeys(values, pl.String)},
    )


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of JSON: objects in an array, a line each, or the one list of an object.

    Raises TraceError for other JSON.
    """
    with readable(path), content(path) as text:
        raw = text.read(_MOST_JSON + 1)
    if len(raw) > _MOST_JSON:
        raise TraceError(f"{path}: this JSON is longer than {_MOST_JSON:,} bytes, expected {TABLE}")
    decoded = raw.decode("utf-8-sig", errors="replace")
    try:
        found = json_text.loads(decoded)
    except (ValueError, RecursionError):
        try:
            found = [json_text.loads(line) for line in decoded.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: this JSON cannot be read ({error}), {_convert()}") from error
    if isinstance(found, dict):
        lists = [value for value in found.values() if _is_rows(value)]
        found = lists[0] if len(lists) == 1 else [found]
    if not _is_rows(found):
        raise TraceError(f"{path}: this is JSON, {_convert()}")
    yield from found


def _convert() -> str:
    return (
        f"expected {TABLE}; make each job an object of one list, or a row of CSV, such as with jq "
        "-r '.jobs[] | [.id, .submit, .start, .end, .cpus] | @csv'"
    )


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield the values of an object with their names."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{name}.")
        elif isinstance(inner, list):
            yield f"{name}.count", str(len(inner))
            if _is_rows(inner):
                lists = {k for each in inner for k, v in each.items() if isinstance(v, list)}
                for k in sorted(lists):
                    yield f"{name}.{k}.count", str(sum(len(each.get(k) or ()) for each in inner))
                yield from _flat(inner[0], f"{name}.first.")
                yield from _flat(inner[-1], f"{name}.last.")
        elif inner is not None:
            yield name, inner if isinstance(inner, str) else json.dumps(inner)
