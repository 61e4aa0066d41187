"""Rows of Slurm's accounting log that free text has broken: separators and line breaks in it.

A job name may hold the separator of the columns, or a line break, and sacct prints both as they
are:

    1000|a|b|ann|COMPLETED|...       one column too many: the surplus belongs to JobName
    1001|two                         too few, and the rest is in the next line
    lines|ann|COMPLETED|...

Such lines are put together before the rows are split. What is joined must have the right number of
columns, a job's number, a state and times where they belong; else the lines stay as they are. In a
file with quotes a row goes on until they are closed.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.traces.slurm_output.states import STATES
from hindcast.pipeline.traces.text_rows import collect

# Columns of sacct with text that users write.
FREE_TEXT: Final = (
    "jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "stdin",
    "stdout", "stderr", "extra", "reason",
)  # fmt: skip
_MOST_LINES: Final = 500_000  # broken lines of a log that are put together; more are bad rows
_MOST_OF_ROW: Final = 50  # lines of one row
_BLANK_LINES: Final = 3  # between two lines of one row; blank lines are no rows
_MOST_SURPLUS: Final = 12  # separators in the free text of a row
_SEPARATOR: Final = "\u00a6"  # stands for a separator in a free text
_BREAK: Final = "\u2424"  # stands for a line break
_JOB: Final = re.compile(r"\s*\d+(_|\+|\.|\s*$)")
_IDS: Final = ("jobid", "jobidraw")
_ID: Final = r"^\s*\d"
_TIME: Final = re.compile(r"\s*(\d|Unknown|None|N/A|$)", re.IGNORECASE)


def whole_rows(
    path: Path,
    lines: pl.LazyFrame,
    columns: Sequence[str],
    separator: str,
    header: str,
    *,
    quotes: bool,
) -> pl.LazyFrame:
    """Return the lines of a log with its broken rows put together.

    `lines` are those of hindcast.pipeline.traces.text_rows.scan_lines; `columns` are the names of
    all columns in lowercase; `header` is the text of the header, which may be there several times.
    """
    width = len(columns)
    parts = pl.col("text").str.count_matches(separator, literal=True) + 1
    if quotes:
        odd = (pl.col("text").str.count_matches('"', literal=True) % 2 == 1) | (parts < width)
    elif set(FREE_TEXT) & set(columns):
        # A part of a row may have as many columns as a row.
        id_first = columns[0] in _IDS
        odd = (parts != width) | (~pl.col("text").str.contains(_ID) if id_first else False)
    else:
        return lines
    odd &= pl.col("text").str.strip_chars() != header.strip()
    broken = collect(lines.filter(odd).select("line", "text").head(_MOST_LINES + 1), path)
    if broken.is_empty() or broken.height > _MOST_LINES:
        return lines
    rows = _Rows(columns, separator)
    find = rows.in_quotes if quotes else rows.in_free_text
    joined: list[tuple[int, str]] = []
    used: list[int] = []
    for line, text, others in find(broken.rows()):
        if text is not None:
            joined.append((line, text))
        used += others
    schema = {"line": pl.Int64, "joined": pl.String}
    whole = pl.DataFrame(joined, schema=schema, orient="row")
    taken = pl.DataFrame({"line": used}, schema={"line": pl.Int64})
    return (
        lines.join(taken.lazy(), on="line", how="anti")
        .join(whole.lazy(), on="line", how="left")
        .with_columns(text=pl.coalesce("joined", "text"))
        .drop("joined")
    )


class _Rows:
    """Rows of a log, as lines that are put together."""

    def __init__(self, columns: Sequence[str], separator: str) -> None:
        self._width, self._separator = len(columns), separator
        self._free = [place for place, name in enumerate(columns) if name in FREE_TEXT]
        place_of = {name: place for place, name in reversed(list(enumerate(columns)))}
        self._id = next((place_of[n] for n in _IDS if n in place_of), None)
        self._state = place_of.get("state")
        self._times = [place_of[name] for name in ("submit", "start") if name in place_of]

    def in_quotes(
        self, broken: list[tuple[int, str]]
    ) -> Iterator[tuple[int, str | None, list[int]]]:
        """Yield the first line of each row that goes on, the row, and its other lines."""
        at = 0
        while at < len(broken):
            line, text = broken[at]
            end = at + 1
            while text.count('"') % 2 and self._goes_on(broken, at, end):
                text += _BREAK + broken[end][1]
                end += 1
            if end > at + 1 and self._is_quoted_row(text):
                yield line, text, [number for number, _ in broken[at + 1 : end]]
                at = end
            else:
                at += 1

    def _is_quoted_row(self, text: str) -> bool:
        try:
            fields = next(csv.reader([text], delimiter=self._separator), [])
        except csv.Error:
            return False
        return text.count('"') % 2 == 0 and len(fields) == self._width

    def in_free_text(
        self, broken: list[tuple[int, str]]
    ) -> Iterator[tuple[int, str | None, list[int]]]:
        """Yield the first line of each row that free text broke, the row, and its other lines.

        A row whose last column is free text goes on in lines of any form: these are used up.
        """
        open_ended = self._free[-1] == self._width - 1
        at = 0
        while at < len(broken):
            line, text = broken[at]
            end = at + 1
            row = self._row(text)
            while row is None and self._may_begin(text) and self._goes_on(broken, at, end):
                if self._row(broken[end][1]) is not None:
                    break  # the next line is a row of its own
                text += _BREAK + broken[end][1]
                end += 1
                row = self._row(text)
            if row is not None:
                yield line, row, [number for number, _ in broken[at + 1 : end]]
                at = end
                continue
            if open_ended and not self._may_begin(broken[at][1]):
                yield line, None, [line]
            at += 1

    def _goes_on(self, broken: list[tuple[int, str]], at: int, end: int) -> bool:
        """Return whether a row of `broken` from `at` on may go on in the line at `end`."""
        return (
            end < len(broken)
            and end - at < _MOST_OF_ROW
            and broken[end][0] - broken[end - 1][0] <= 1 + _BLANK_LINES
            and broken[end][1].count(self._separator) < self._width + _MOST_SURPLUS
        )

    def _may_begin(self, text: str) -> bool:
        """Return whether a line may be the beginning of a row whose free text is broken."""
        parts = text.split(self._separator)
        begins = self._id is None or len(parts) <= self._id or bool(_JOB.match(parts[self._id]))
        return begins and self._free[0] < len(parts) <= self._width + _MOST_SURPLUS

    def _row(self, text: str) -> str | None:
        """Return a row with its surplus separators in its free text; None if it is no row."""
        parts = text.split(self._separator)
        surplus = len(parts) - self._width
        if not 0 <= surplus <= _MOST_SURPLUS:
            return None
        for places in combinations_with_replacement(self._free, min(surplus, 3)):
            # Of more than three surplus separators, all further ones are in the first free text.
            extra = [*places, *[places[0]] * (surplus - len(places))] if places else []
            fields, at = [], 0
            for place in range(self._width):
                size = 1 + extra.count(place)
                fields.append(_SEPARATOR.join(parts[at : at + size]))
                at += size
            if self._is_row(fields):
                return self._separator.join(fields)
        return None

    def _is_row(self, fields: Sequence[str]) -> bool:
        state = "" if self._state is None else fields[self._state].strip().strip('"')
        word = re.match("[A-Za-z_]+|[0-9]+$", state)
        return (
            (self._id is None or _JOB.match(fields[self._id]) is not None)
            and (self._state is None or (word is not None and word[0].upper() in STATES))
            and all(_TIME.match(fields[place]) for place in self._times)
        )
