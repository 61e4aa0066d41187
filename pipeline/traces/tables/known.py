"""Public tables of jobs that are recognised by their columns, with what their columns are.

Each is a file in the folder `public`:

    title = "..."                    what the table is
    has = ["time_submit", ...]       columns that it has, among others
    headless = {status = "^...$"}    for a table without header: `has` are all of its columns in
                                     order, and values of these columns look so
    refuse = "..."                   why it is no table of jobs, and what to do; or a mapping:
    notes = ["..."]                  what of it is read differently than one may think
    skip = ["queue", ...]            columns that are not what their names say

    [columns]                        field -> columns, the first that the table has; `NAME:PART`
                                     is a part of a list, `=1` a number for all jobs; fields
                                     that are not here are found by name, as in any table
    [units], [states], [events]      as in a mapping; where a unit or a state is missing, it is
                                     found as in any table
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

_FOLDER: Final = Path(__file__).parent / "public"
_LOOKED_AT: Final = 50  # rows of a table without header


@dataclass(frozen=True)
class KnownTable:
    """A public table, see the module."""

    title: str
    has: tuple[str, ...]
    headless: Mapping[str, str] = field(default_factory=dict)
    refuse: str = ""
    notes: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, list[str]] = field(default_factory=dict)
    events: Mapping[str, str | list[str]] = field(default_factory=dict)


@cache
def known_tables() -> tuple[KnownTable, ...]:
    """Return all tables that are known, those with the most columns first."""
    tables = []
    for path in sorted(_FOLDER.glob("*.toml")):
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = {key: tuple(given.get(key, ())) for key in ("has", "notes", "skip")}
        tables.append(KnownTable(**{**given, **lists}))
    return tuple(sorted(tables, key=lambda table: -len(table.has)))


def known_by_names(labels: Sequence[str]) -> KnownTable | None:
    """Return the known table that has these columns, or None."""
    return next((table for table in known_tables() if set(table.has) <= set(labels)), None)


def known_by_values(sample: pl.DataFrame) -> KnownTable | None:
    """Return the known table without header whose rows look so, or None."""
    rows = sample.head(_LOOKED_AT)
    for table in known_tables():
        if not table.headless or len(table.has) != rows.width:
            continue
        named = rows.rename(dict(zip(rows.columns, table.has, strict=True)))
        fits = [
            pl.col(name).str.contains(pattern).all(ignore_nulls=True)
            for name, pattern in table.headless.items()
        ]
        if named.select(pl.all_horizontal(fits)).item():
            return table
    return None
