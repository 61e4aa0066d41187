"""Outcomes of a log that has no reward: a file beside it, found by the ids that the two share."""

import re
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.proposals.names import find
from hindcast.pipeline.decisions.proposals.parts import (
    JSON,
    DecisionProposal,
    all_numbers,
    is_number,
    is_time,
    leaves_of,
    records_in,
)
from hindcast.pipeline.decisions.shapes.tables import Tables
from hindcast.pipeline.decisions.values import flags, numbers, text_of
from hindcast.pipeline.errors import TraceError

_TABLES: Final = (".csv", ".tsv", ".parquet")
_FILES: Final = 20  # that are looked at
_ROWS: Final = 20_000  # of a table that are looked at
_NAMES: Final = re.compile(r"outcome|reward|feedback|label", re.IGNORECASE)


def add_outcomes(found: DecisionProposal, path: Path, known: set[str | None]) -> None:
    """Add the file of outcomes beside a log whose decisions have these ids, if there is one."""
    endings = (*JSON, *_TABLES)
    files = [f for f in path.parent.iterdir() if f != path and f.suffix in endings and f.is_file()]
    for other in sorted(files, key=lambda f: (not _NAMES.search(f.name), f.name))[:_FILES]:
        try:
            columns, figures = _columns(other)
        except TraceError:
            continue
        decision = next((n for n, c in columns.items() if _is_id(c, known)), "")
        figures = [n for n in figures if n != decision]
        reward = find("reward", figures) or next(iter(figures), "")
        if not decision or not reward:
            continue
        when = find("time", [n for n, c in columns.items()
                              if n not in (decision, reward) and is_time(c)])  # fmt: skip
        found.table["outcomes"] = {
            "file": other.name, "decision": decision, "reward": reward,
            **({"time": when} if when else {}),
        }  # fmt: skip
        found.unsure.append(f"rewards are taken from {other.name}, {reward} by {decision}")
        return


def _is_id(column: pl.Series, known: set[str | None]) -> bool:
    return sum(text in known for text in column.cast(pl.String)) > len(column) / 2


def _columns(path: Path) -> tuple[dict[str, pl.Series], list[str]]:
    """Return the columns of a file, and the names of those of numbers; none of another log.

    A log has lists, a propensity, or a flag for what was chosen.
    """
    if path.suffix in JSON:
        leaves = leaves_of(records_in(path))
        if any(isinstance(value, list) for values in leaves.values() for value in values):
            return {}, []
        columns = {name: pl.Series([text_of(v) for v in values]) for name, values in leaves.items()}
        return columns, [name for name, values in leaves.items() if all_numbers(values)]
    piece = next(Tables([path]).pieces(), None)
    if piece is None:
        return {}, []
    rows = piece.rows.head(_ROWS)
    is_log = find("chosen", rows.columns, lambda n: not flags(rows[n])[1].any())
    if is_log or find("propensity", rows.columns):
        return {}, []
    columns = {c.name: c for c in rows.iter_columns() if not c.dtype.is_nested()}
    return columns, [n for n, c in columns.items() if is_number(c) and _any_number(c)]


def _any_number(column: pl.Series) -> bool:
    return not np.isnan(numbers(column)[0]).all()
