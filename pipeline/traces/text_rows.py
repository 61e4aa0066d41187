"""Comma-separated text as checked rows, in bounded memory at any file size.

A malformed line must neither stop the reading nor disappear. So a file is read as whole lines, each
with its number, which are split afterwards:

    line  text            -> a      b      reason
    1     "1,2"              "1"    "2"    null
    2     "1"                "1"    null   "1 column, expected 2"
    3     "1,2,3"            "1"    "2"    "3 columns, expected 2"
    4     ""              (blank: not a row)

`reason` says why a row is bad (it is quarantined), `left_out` why a sound row is not used (it is
counted). Both are null for a row that is used. Every step is lazy and runs in polars' streaming
engine; at most QUARANTINE_LIMIT bad rows a file stay in memory.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.first_look import require_lines
from hindcast.pipeline.workloads.schema import NUMBERS, empty_quarantine, limits, within

QUARANTINE_LIMIT: Final = 10_000  # bad rows kept per file; all are counted
TEXT_LIMIT: Final = 200  # characters kept of a bad row
_HOPELESS: Final = 50_000  # a file that begins with so many bad rows is refused, not read on
_BATCH_ROWS: Final = 500_000  # rows in flight in a fold
_NO_SEPARATOR: Final = "\x01"  # a byte that no text file has, so that a line is one column
# The reason of a line that has this byte all the same; what stands behind it is in `rest`.
CONTROL_CHARACTER: Final = "a control character (0x01) in the row"


@dataclass(frozen=True)
class Sifted:
    """The rows of one file, sorted into usable, bad and unused ones.

    Attributes:
        rows: Lazy table of the usable rows: line, text and the caller's columns.
        read: Number of rows of the file, without header and blank lines.
        quarantined: Number of bad rows.
        left_out: Number of sound rows that are not used, by reason.
        quarantine: The first QUARANTINE_LIMIT bad rows, columns QUARANTINE_COLUMNS.
    """

    rows: pl.LazyFrame
    read: int
    quarantined: int
    left_out: Mapping[str, int]
    quarantine: pl.DataFrame

    @property
    def all_left_out(self) -> dict[str, int]:
        """Numbers of rows that are not used, by reason; the key "quarantined" counts bad rows."""
        return {**self.left_out, **({"quarantined": self.quarantined} if self.quarantined else {})}

    def note(self, prefix: str = "") -> list[str]:
        """Return a note, behind `prefix`, if not all bad rows were kept; else no note."""
        kept = self.quarantine.height
        if self.quarantined == kept:
            return []
        return [f"{prefix}of {self.quarantined:,} bad rows the first {kept:,} were kept"]


def scan_rows(
    path: Path,
    columns: Sequence[str],
    header_line: int | None = None,
    separator: str = ",",
    *,
    quotes: bool = False,
    lines: pl.LazyFrame | None = None,
) -> pl.LazyFrame:
    """Return the rows of a separated file, plain or gzip: line, text, `columns`, reason.

    `columns` names the fields in file order; a field named "" is counted and dropped. Fields are
    strings without surrounding blanks and quotes; an empty field is null. `line` counts from 1.
    A separator in quotes separates too, so that such a row has too many columns, unless `quotes`:
    this takes several times as long. A line break in quotes always ends the row. `lines` are the
    lines of the file, if they are not those of `scan_lines`.
    """
    width = len(columns)
    text = pl.col("text")
    lines = scan_lines(path) if lines is None else lines
    lines = lines.filter(pl.col("line") != (header_line or 0))
    if quotes:
        sign = re.escape(separator)
        parts = (separator + text).str.extract_all(rf'{sign}(?:"(?:[^"]|"")*"|[^"{sign}]*)')
        # A quote inside a field leaves text that no part covers: such a row is split without them.
        is_complete = pl.col("parts").list.join("") == separator + text
        fields_without_quotes = (separator + text).str.split(separator).list.slice(1)
        fields_in_quotes = pl.col("parts").list.eval(pl.element().str.slice(1))
        lines = lines.with_columns(parts=parts).with_columns(
            parts=pl.when(is_complete).then(fields_in_quotes).otherwise(fields_without_quotes)
        )
        n_parts = pl.col("parts").list.len().cast(pl.Int64)
        fields = pl.col("parts").list.to_struct(fields=[f"field_{i}" for i in range(width)])
    else:
        n_parts = text.str.count_matches(separator, literal=True) + 1
        fields = text.str.split_exact(separator, width - 1)
    return (
        lines.select("line", "text", fields=fields, reason=split_fault(n_parts, width, "column"))
        .unnest("fields")  # a row is split once; with an expression per field, once per field
        .select(
            "line",
            "text",
            *(_field(index, name) for index, name in enumerate(columns) if name),
            "reason",
        )
    )


def scan_lines(path: Path) -> pl.LazyFrame:
    """Return the lines of a text file that are not blank, plain or gzip: line (from 1), text, rest.

    `rest` is the text after a control character that no trace contains, else null; a line of
    nothing but this character counts as blank. Raises TraceError if a line is too long to be held.
    """
    require_lines(path)
    lines = pl.scan_csv(
        path,
        has_header=False,
        separator=_NO_SEPARATOR,
        quote_char=None,
        schema={"text": pl.String, "rest": pl.String},
        encoding="utf8-lossy",
        missing_columns="insert",
        truncate_ragged_lines=True,
        row_index_name="line",
        row_index_offset=1,
        glob=False,
    )
    return lines.with_columns(pl.col("line").cast(pl.Int64), pl.col("text").fill_null("")).filter(
        (pl.col("text").str.strip_chars() != "") | pl.col("rest").is_not_null()
    )


def split_fault(n_parts: pl.Expr, expected: int, noun: str) -> pl.Expr:
    """Return the reason that a line of `scan_lines` has not `expected` parts; null if it has.

    `n_parts` is the number of its parts, `noun` the word for a part ("column").
    """
    word = pl.when(n_parts == 1).then(pl.lit(noun)).otherwise(pl.lit(f"{noun}s"))
    return (
        pl.when(pl.col("rest").is_not_null())
        .then(pl.lit(CONTROL_CHARACTER))
        .when(pl.col("text").str.contains("\ufffd", literal=True))
        .then(pl.lit("the row is not valid UTF-8"))
        .when(n_parts != expected)
        .then(pl.format("{} {}, expected {}", n_parts, word, pl.lit(expected)))
    )


def _field(index: int, name: str) -> pl.Expr:
    value = pl.col(f"field_{index}").str.strip_chars(' \t\r"')
    return pl.when(value != "").then(value).alias(name)


def sift(path: Path, rows: pl.LazyFrame, what: str) -> Sifted:
    """Sort the rows of `scan_rows`, to which the caller has added reasons and `left_out`.

    Rows with numbers that no workload may have are bad too, unless they are left out.

    Makes one pass to count, and a second one to fetch the bad rows if there are any. Raises
    TraceError if the file has no rows, or if all of them, or the first _HOPELESS, are bad. `what`
    names the rows in these messages.
    """
    names = rows.collect_schema().names()
    if "left_out" not in names:
        rows = rows.with_columns(left_out=pl.lit(None, dtype=pl.String))
    faults = [_out_of_limits(name) for name in NUMBERS if name in names and "submit_s" in names]
    rows = rows.with_columns(reason=pl.coalesce("reason", *faults))
    bad = pl.col("reason").is_not_null()
    head = collect(rows.head(_HOPELESS).select("line", "reason"), path)
    if head.height == _HOPELESS and not head["reason"].has_nulls():
        line, reason = head.sort("line").row(0)
        raise TraceError(
            f"{path}: none of its first {_HOPELESS:,} rows can be read as {what}; line {line}: "
            f"{reason}"
        )
    tally = collect(
        rows.select(bad=bad, left_out=pl.when(~bad).then("left_out"))
        .group_by("bad", "left_out")
        .len(),
        path,
    )
    read = int(tally["len"].sum())
    quarantined = int(tally.filter("bad")["len"].sum())
    if not read:
        raise TraceError(f"{path}: this file has no rows, expected {what}")
    quarantine = empty_quarantine()
    if quarantined:
        quarantine = quarantined_rows(path, rows.filter(bad))
    if quarantined == read:
        line, reason = quarantine.row(0)[1:3]
        raise TraceError(
            f"{path}: none of its {read:,} rows can be read as {what}; line {line}: {reason}"
        )
    left_out = tally.filter(pl.col("left_out").is_not_null()).sort("left_out")
    return Sifted(
        rows=rows.filter(~bad, pl.col("left_out").is_null()).drop("reason", "left_out"),
        read=read,
        quarantined=quarantined,
        left_out=dict(left_out.select("left_out", "len").iter_rows()),
        quarantine=quarantine,
    )


def _out_of_limits(name: str) -> pl.Expr:
    """Return the reason that a number cannot be in a workload; null if it can, or is not used."""
    return pl.when(pl.col("left_out").is_null() & ~within(name)).then(
        pl.format("{} is {}, expected a number {}", pl.lit(name), name, pl.lit(limits(name)))
    )


def quarantined_rows(path: Path, bad: pl.LazyFrame) -> pl.DataFrame:
    """Return the first QUARANTINE_LIMIT of the `bad` rows (line, reason, text) as a quarantine."""
    kept = bad.select(
        pl.lit(path.name).alias("file"),
        "line",
        "reason",
        pl.col("text").str.slice(0, TEXT_LIMIT),
    )
    return collect(kept.bottom_k(QUARANTINE_LIMIT, by="line"), path).sort("line")


def collect(frame: pl.LazyFrame, path: Path) -> pl.DataFrame:
    """Run a query over `path` in the streaming engine; raise TraceError if the file is damaged."""
    with reading(path):
        return frame.collect(engine="streaming")


def fold(
    rows: pl.LazyFrame, key: Sequence[str], aggregates: Sequence[pl.Expr], path: Path
) -> pl.DataFrame:
    """Group `rows` by `key`, in memory bounded by the number of groups.

    Each aggregate keeps its column's name and gives the same for parts as for the whole (sum, min,
    min_by), so that batches can be merged. polars' own streaming group_by keeps about 20 bytes per
    ROW if a key occurs again much later, which is usual in a trace.
    """

    def merged(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by(*key).agg(*aggregates)

    parts: list[pl.DataFrame] = []  # once something was merged, the first is its result
    done = pending = 0  # rows of the last merge, and of the parts since
    with reading(path):
        for batch in rows.collect_batches(
            chunk_size=_BATCH_ROWS, engine="streaming", maintain_order=False
        ):
            parts.append(merged(batch))
            pending += parts[-1].height
            # Merging only when as many rows are pending as are merged keeps the cost linear.
            if pending >= max(_BATCH_ROWS, done):
                parts = [merged(pl.concat(parts))]
                done, pending = parts[0].height, 0
        return merged(pl.concat(parts) if parts else collect(rows.head(0), path))


def first_rows(rows: pl.LazyFrame, key: Sequence[str], path: Path) -> tuple[pl.DataFrame, int]:
    """Return the first row of each key, in order of `line`, and the number of the other rows.

    Memory is bounded by the number of keys and one batch. Unlike in `fold`, no value is touched
    again if every row has a key of its own, as is usual.
    """
    parts: list[pl.DataFrame] = []
    read = done = pending = 0  # rows of all batches, of the last merge, and of the parts since
    with reading(path):
        for batch in rows.collect_batches(
            chunk_size=_BATCH_ROWS, engine="streaming", maintain_order=True
        ):
            read += batch.height
            parts.append(batch)
            pending += batch.height
            if pending >= max(_BATCH_ROWS, done):
                parts = _first_of(parts, key)
                done, pending = sum(part.height for part in parts), 0
        parts = _first_of(parts, key)
        first = pl.concat(parts) if parts else collect(rows.head(0), path)
    return first if first["line"].is_sorted() else first.sort("line"), read - first.height


def _first_of(parts: list[pl.DataFrame], key: Sequence[str]) -> list[pl.DataFrame]:
    """Return the first row of each key in the parts of a table."""
    if not parts:
        return parts
    keys = pl.concat(part.select(*key, "line") for part in parts)
    first = keys.sort("line").unique(subset=list(key), keep="first").select("line")
    if first.height == keys.height:
        return parts
    return [part.join(first, on="line", how="semi") for part in parts]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Replace the errors of a query over a damaged file by a TraceError that names it."""
    try:
        yield
    except (OSError, pl.exceptions.ComputeError) as error:
        what = str(error).splitlines()[0]
        raise TraceError(
            f"{path}: this file cannot be read to its end ({what}); download or copy it again"
        ) from error
