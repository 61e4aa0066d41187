"""Checks of one field of a row, as polars expressions.

Each expression gives the reason in words ("memory is 'abc', expected a number") if the field is
bad, and null if it is sound. `pl.coalesce` of several keeps the first reason.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

_VALUE_LIMIT: Final = 40  # characters kept of a bad value
_LARGEST_COUNT: Final = 2**53  # whole numbers beyond are not exact in float64


def number(name: str) -> pl.Expr:
    """Return a field as float64; null if it is not a number."""
    return pl.col(name).cast(pl.Float64, strict=False)


def value_fault(name: str, broken: pl.Expr, expected: str) -> pl.Expr:
    """Return the reason that a field is not as `expected`; null if `broken` is false."""
    return pl.when(broken).then(
        pl.format("{} is {}, expected {}", pl.lit(name), _short(name), pl.lit(expected))
    )


def number_fault(
    name: str,
    *,
    optional: bool = False,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
) -> pl.Expr:
    """Return the reason that a field is no finite number within the limit, else null.

    An `optional` field may be empty. The number must be `at_least` one limit, or `above` another,
    and `at_most` a third.
    """
    value = number(name)
    fault: pl.Expr = pl.when(value.is_null() | ~value.is_finite()).then(
        pl.format("{} is '{}', expected a number", pl.lit(name), _short(name))
    )
    if at_least is not None:
        fault = pl.coalesce(fault, value_fault(name, value < at_least, f"at least {at_least:g}"))
    if above is not None:
        fault = pl.coalesce(fault, value_fault(name, value <= above, f"more than {above:g}"))
    if at_most is not None:
        fault = pl.coalesce(fault, value_fault(name, value > at_most, f"at most {at_most:g}"))
    missing = None if optional else f"{name} is missing, expected a number"
    return pl.when(pl.col(name).is_null()).then(pl.lit(missing)).otherwise(fault)


def count_fault(name: str) -> pl.Expr:
    """Return the reason that a field is not a whole number of at least 1, else null."""
    value = number(name)
    whole = (value >= 1) & (value <= _LARGEST_COUNT) & (value == value.floor())
    return pl.coalesce(
        number_fault(name), value_fault(name, ~whole, "a whole number of at least 1")
    )


def name_fault(name: str) -> pl.Expr:
    """Return the reason that a field is not a name (it is empty), else null."""
    return pl.when(pl.col(name).is_null()).then(pl.lit(f"{name} is missing"))


def choice_fault(name: str, options: Sequence[str]) -> pl.Expr:
    """Return the reason that a field is not one of `options`, else null."""
    return pl.when(~pl.col(name).is_in(list(options)).fill_null(value=False)).then(
        pl.format(
            "{} is '{}', expected {}",
            pl.lit(name),
            _short(name).fill_null(""),
            pl.lit(", ".join(options)),
        )
    )


def _short(name: str) -> pl.Expr:
    return pl.col(name).str.slice(0, _VALUE_LIMIT)
