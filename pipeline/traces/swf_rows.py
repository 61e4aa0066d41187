"""The rows of an SWF log: 18 fields between blanks, after and among lines that begin with `;`."""

from pathlib import Path
from typing import Final

import polars as pl

from pipeline.traces.rows import scan_lines, split_fault

FIELDS: Final = (
    "job", "submit", "wait", "run", "allocated", "average_cpu", "used_memory", "requested",
    "requested_time", "requested_memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding_job", "think",
)  # fmt: skip


def scan_fields(path: Path) -> pl.LazyFrame:
    """Return the rows of a log, plain or gzip: line, text, FIELDS as strings, reason.

    Comments and blank lines are no rows. `line` counts from 1; `reason` says why the row cannot be
    split, null where it can.
    """
    text = pl.col("text")
    trimmed = text.str.strip_chars().str.replace_all(r"\s+", " ")
    found = trimmed.str.count_matches(" ", literal=True) + 1
    fields = trimmed.str.split_exact(" ", len(FIELDS) - 1)
    return (
        scan_lines(path)
        .filter(~trimmed.str.starts_with(";"))
        .select(
            "line",
            "text",
            *(fields.struct.field(f"field_{i}").alias(name) for i, name in enumerate(FIELDS)),
            reason=split_fault(found, len(FIELDS), "field"),
        )
    )
