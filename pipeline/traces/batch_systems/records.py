"""Records of logs that are no tables, as rows of text.

    a log                               rows
    JobStatus = 4                       line  text             reason  jobstatus  qdate
    QDate = 1709280000             ->   1     JobStatus = 4    null    "4"        "1709280000"
    *** Offset = 0 ClusterId = 1        4     JobStatus = 4    null    "4"        null
    JobStatus = 4

A parser of a format turns numbered lines, or the objects of a JSON text, into `Record`s. Blank
lines are skipped; a gap in the numbers tells where they were. Each record is one row, also if it is
damaged, so that all are counted.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.files import json_text
from hindcast.pipeline.traces.files.compression import content, readable
from hindcast.pipeline.traces.text_rows import CONTROL_CHARACTER, TEXT_LIMIT, reading, scan_lines

_SEPARATORS: Final = (",", ";", "|", "\t")
_LARGEST: Final = 1 << 31  # bytes of a JSON text, which is held as a whole
_CHUNK: Final = 50_000  # records that become a frame at once
_NEXT_OBJECT: Final = re.compile(r"[^:\s]\s*(?=\{)")  # not a value of a key


@dataclass(frozen=True)
class Line:
    """A line of a log: its number from 1, its text, and why it cannot be read, or None."""

    number: int
    text: str
    reason: str | None = None


@dataclass
class Record:
    """A record of a log.

    Attributes:
        line: Number of its first line.
        text: Its first line.
        values: What it says, by key in lower case; None or "" is unknown.
        reason: Why it cannot be read, or None.
        left_out: Why it is no record of a job, or None.
    """

    line: int
    text: str
    values: dict[str, str | None] = field(default_factory=dict)
    reason: str | None = None
    left_out: str | None = None


def numbered_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a text file, plain or gzip, without blanks at their ends.

    Blank lines are skipped, but have numbers. Bytes that are no UTF-8 are U+FFFD: names and
    commands of jobs may be in any encoding, and Univa Grid Engine writes such a byte for a colon in
    a command.
    """
    lines = scan_lines(path).select(
        "line",
        pl.col("text").str.strip_chars(),
        reason=pl.when(pl.col("rest").is_not_null()).then(pl.lit(CONTROL_CHARACTER)),
    )
    with reading(path):
        for batch in lines.collect_batches(engine="streaming", maintain_order=True):
            yield from map(Line, batch["line"], batch["text"], batch["reason"])


def rows_of(records: Iterable[Record], keys: Sequence[str]) -> pl.LazyFrame:
    """Return records as rows: line, text, reason, left_out and the values of `keys`, strings."""
    schema = {"line": pl.Int64, **dict.fromkeys(("text", "reason", "left_out", *keys), pl.String)}
    rows = (
        (
            *(r.line, r.text[:TEXT_LIMIT], r.reason, r.left_out),
            *(r.values.get(key) or None for key in keys),
        )
        for r in records
    )
    frames = [pl.DataFrame(schema=schema)]
    while chunk := list(islice(rows, _CHUNK)):
        frames.append(pl.DataFrame(chunk, schema=schema, orient="row"))
    return pl.concat(frames).lazy()


def names_of(header: str) -> list[str]:
    """Return the names of a header of CSV in lower case, without separators in them."""
    separator = max(_SEPARATORS, key=header.count)
    return [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header.split(separator)]


def csv_records(
    path: Path, keys: Mapping[str, str], needed: Sequence[str], expected: str
) -> Iterator[Record]:
    """Yield the rows of a CSV file; `keys` has the keys of columns by `names_of`.

    Other columns are not read. Quotes are as in RFC 4180, without line breaks in them. Raises
    TraceError, with what was `expected`, if no column has one of the keys that are `needed`, or if
    there is no line.
    """
    lines = numbered_lines(path)
    first = next(lines, None)  # a line of nothing but a control character is none
    if first is None:
        raise TraceError(f"{path}: this file has no lines of text, expected {expected}")
    header = first.text
    separator = max(_SEPARATORS, key=header.count)
    columns = [keys.get(name, "") for name in names_of(header)]
    for key in needed:
        if key not in columns:
            raise TraceError(
                f"{path}: the first line, {header[:60]!r}, has no column {key}, expected {expected}"
            )
    for line in lines:
        record = Record(line.number, line.text, reason=line.reason)
        try:
            texts = next(csv.reader([line.text], delimiter=separator), [])
        except csv.Error:  # a carriage return in the line, or a field of more than 128 KB
            texts = []
        if line.text == header:
            record.left_out = "the header again"
        elif len(texts) != len(columns):
            word = "column" if len(texts) == 1 else "columns"
            record.reason = line.reason or f"{len(texts)} {word}, expected {len(columns)}"
        else:
            values = zip(columns, texts, strict=True)
            record.values = {key: text.strip() for key, text in values if key}
        yield record


def json_lines(path: Path) -> Iterator[tuple[Record, Mapping[str, Any]]]:
    """Yield the objects of a file with a JSON object a line, each with a record to fill."""
    for line in numbered_lines(path):
        found: Any = {}
        reason = line.reason
        if reason is None:
            try:
                found = json_text.loads(line.text)
            except (ValueError, RecursionError) as error:
                reason = f"no JSON ({str(error)[:60]})"
        if reason is None and not isinstance(found, dict):
            reason, found = "no JSON object", {}
        yield Record(line.number, line.text, reason=reason), found


def json_objects(text: str) -> Iterator[tuple[Record, Mapping[str, Any]]]:
    """Yield the objects of a JSON array, each with a record to fill, also if some are damaged.

    After a damaged object, reading goes on at the next one. Objects in one line are numbered on, so
    that each has a number of its own.
    """
    decoder = json.JSONDecoder()
    line, last = 1, 0
    end = 0
    start = text.find("{")
    while start >= 0:
        line += text.count("\n", end, start)
        first = text[start : start + TEXT_LIMIT].split("\n", 1)[0]
        found: Any = {}
        reason = None
        try:
            found, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            reason = f"no JSON object ({str(error)[:60]})"
            after = _NEXT_OBJECT.search(text, start + 1)
            stop = after.end() if after else len(text)
        try:
            json_text.require_text(found, text[start:stop])
        except (ValueError, RecursionError) as error:
            reason, found = f"no JSON object ({str(error)[:60]})", {}
        last = max(line, last + 1)
        yield Record(last, first, reason=reason), found
        end, start = start, text.find("{", stop)


def document(path: Path) -> str:
    """Return the text of a file whose lines may have any length, plain or compressed.

    Raises TraceError if it is larger than 2 GiB.
    """
    with readable(path), content(path) as raw:
        read = raw.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise TraceError(
            f"{path}: this JSON text is longer than {_LARGEST:,} bytes; write an object a line, or "
            "several files"
        )
    return read.decode("utf-8-sig", errors="replace")


def as_text(value: Any) -> str | None:
    """Return a value of JSON as text; None if it is null, a list or an object."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None or isinstance(value, list | dict) else str(value)
