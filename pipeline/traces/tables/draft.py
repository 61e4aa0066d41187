"""A mapping that is being proposed, and the values of a column that it looks at."""

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hindcast.pipeline.traces.field_values import moment
from hindcast.pipeline.traces.table import NO_LIMIT, UNKNOWN
from hindcast.pipeline.traces.tables.fitting import GOOD
from hindcast.pipeline.traces.tables.mapping import DATETIME

FORMS: Final = (
    "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
    "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M", "%a %b %d %H:%M:%S %Y",
)  # fmt: skip
# Numbers of this size are times since 1970 in this unit.
SINCE_1970: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, DATETIME))
NOT_NUMBERS: Final = (*UNKNOWN, *NO_LIMIT)


@dataclass
class Proposal:
    """A mapping that is proposed for a table.

    Attributes:
        columns: Column of the table by what is read from it.
        parts: Part of a list of resources by the same names.
        units: Units by the same names.
        states: Values of the column of states by outcome.
        separator: Character between the fields.
        names: Names of the columns of a table without a header.
        memory_of: What the memory is of.
        unused: Columns of the table that are not read.
        unsure: What a person should look at, one sentence each.
        notes: What is known of the table beside its columns, one sentence each.
        known: What the table is, if it is one of the public tables that are known; else "".
        sections: Further sections of the mapping of a known table.
        is_json: Whether the table is JSON.
    """

    columns: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    states: dict[str, list[str]] = field(default_factory=dict)
    separator: str = ","
    names: list[str] = field(default_factory=list)
    memory_of: str = "job"
    unused: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    known: str = ""
    sections: dict[str, dict[str, str | list[str]]] = field(default_factory=dict)
    is_json: bool = False


def values_of(sample: pl.DataFrame, label: str) -> pl.Series:
    """Return the known values of a column."""
    values = sample[label].drop_nulls()
    return values.filter(~values.str.to_lowercase().is_in(NOT_NUMBERS))


def share_of(values: pl.Series, reading: pl.Expr) -> float:
    """Return the share of the values that an expression over the column `x` can read."""
    if not len(values):
        return 0.0
    return float(pl.DataFrame({"x": values}).select(reading.is_not_null().mean()).item())


def any_time(text: pl.Expr) -> pl.Expr:
    """Return a time of any form in seconds since 1970; a number as it is."""
    return pl.coalesce(moment(text), *(moment(text, form=form) for form in FORMS))


def is_absolute(sample: pl.DataFrame, label: str) -> bool:
    """Return whether times of a column count from 1970, or are dates."""
    values = values_of(sample, label)
    numbers = values.cast(pl.Float64, strict=False).drop_nulls()
    if len(numbers) < GOOD * len(values):
        return share_of(values, any_time(pl.col("x"))) >= GOOD
    return len(numbers) > 0 and float(str(numbers.median())) >= SINCE_1970[-1][0]
