"""The rows of an SWF log: 18 fields between blanks, after and among lines that begin with `;`."""

from pathlib import Path
from typing import Final

import polars as pl

FIELDS: Final = (
    "job", "submit", "wait", "run", "allocated", "average_cpu", "used_memory", "requested",
    "requested_time", "requested_memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding_job", "think",
)  # fmt: skip
_NO_SEPARATOR: Final = "\x01"  # a byte that no text file has, so that a line is one column


def scan_fields(path: Path) -> pl.LazyFrame:
    """Return the rows of a log, plain or gzip: line, text, FIELDS as strings, reason.

    Comments and blank lines are no rows. `line` counts from 1; `reason` says why the row cannot be
    split, null where it can.
    """
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
    text = pl.col("text")
    trimmed = text.str.strip_chars().str.replace_all(r"\s+", " ")
    found = trimmed.str.count_matches(" ", literal=True) + 1
    fields = trimmed.str.split_exact(" ", len(FIELDS) - 1)
    reason = (
        pl.when(pl.col("rest").is_not_null())
        .then(pl.lit("a control character (0x01) in the row"))
        .when(text.str.contains("\ufffd", literal=True))
        .then(pl.lit("the row is not valid UTF-8"))
        .when(found != len(FIELDS))
        .then(pl.format("{} {}, expected {}", found, _word(found), pl.lit(len(FIELDS))))
    )
    return (
        lines.with_columns(pl.col("line").cast(pl.Int64))
        .filter(trimmed != "", ~trimmed.str.starts_with(";"))
        .select(
            "line",
            "text",
            *(fields.struct.field(f"field_{i}").alias(name) for i, name in enumerate(FIELDS)),
            reason=reason,
        )
    )


def _word(count: pl.Expr) -> pl.Expr:
    return pl.when(count == 1).then(pl.lit("field")).otherwise(pl.lit("fields"))
