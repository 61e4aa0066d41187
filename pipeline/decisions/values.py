"""Values of logs of decisions as typed columns: numbers, flags, texts, times.

    number   "0.5", "nan", "inf", "n/a", "abc"  ->  .5, NaN, bad, NaN, bad
    flag     1, "true", "yes", "0", "", "maybe" ->  1, 1, 1, 0, -1 (not said), bad
    text     " ash ", ""                         ->  "ash", null
    time     "2031-03-01T08:00:00Z", 1930118400  ->  seconds since 1970

A bad value is one that is there and cannot be read. Its decision is quarantined with the text.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.traces.field_values import is_local, moment

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

MISSING: Final = ("", "nan", "na", "n/a", "null", "none", "nil", "nat", "-", "?", "unknown")
TRUE: Final = ("1", "true", "t", "yes", "y", "1.0")
FALSE: Final = ("0", "false", "f", "no", "n", "0.0")
NOT_SAID: Final = -1
# Seconds since 1970 as numbers: later than the year 5100 can only be a finer unit.
_UNITS: Final = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))


def numbers(values: pl.Series) -> tuple[Array, Flags]:
    """Return a column as float64, NaN where it is missing, and which values are bad."""
    if values.dtype in (pl.String, pl.Categorical) or isinstance(values.dtype, pl.Enum):
        text = values.cast(pl.String)
        found = text.cast(pl.Float64, strict=False)
        if found.null_count() != text.null_count():
            lost = found.is_null() & text.is_not_null()
            stripped = text.filter(lost).str.strip_chars()
            again = stripped.cast(pl.Float64, strict=False)
            whole = found.fill_null(float("nan")).to_numpy().copy()
            whole[lost.to_numpy()] = again.fill_null(float("nan")).to_numpy()
            wrong = (again.is_null() & ~stripped.str.to_lowercase().is_in(MISSING)).to_numpy()
            bad = np.zeros(len(values), bool)
            bad[np.flatnonzero(lost.to_numpy())[wrong]] = True
            return whole, bad | np.isinf(whole)
    elif values.dtype == pl.Null or not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        return np.full(len(values), np.nan), values.is_not_null().to_numpy()
    else:
        found = values.cast(pl.Float64)
    known = found.fill_null(float("nan")) if found.null_count() else found
    array = known.to_numpy().astype(np.float64, copy=False)
    return array, np.isinf(array)


def floats(column: pl.Series) -> Array:
    """Return a column of numbers as float64, NaN where it is null."""
    found = column.cast(pl.Float64)
    return (found.fill_null(float("nan")) if found.null_count() else found).to_numpy()


def may_repeat(values: pl.Series) -> bool:
    """Return whether a column may have a value twice, by the hashes of its values."""
    return repeats(values.hash(seed=1).to_numpy())


def repeats(hashes: NDArray[np.uint64]) -> bool:
    """Return whether a number is there twice."""
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def flags(values: pl.Series) -> tuple[NDArray[np.int8], Flags]:
    """Return a column as 1, 0 or NOT_SAID, and which values are bad."""
    if values.dtype == pl.Boolean:
        return values.cast(pl.Int8).fill_null(NOT_SAID).to_numpy(), np.zeros(len(values), bool)
    if values.dtype.is_numeric():
        array = floats(values)
        result = np.where(array == 1, 1, np.where(array == 0, 0, NOT_SAID)).astype(np.int8)
        return result, (result == NOT_SAID) & ~np.isnan(array)
    text = values.cast(pl.String)
    ones = (text == TRUE[0]).fill_null(value=False)
    if (ones | (text == FALSE[0])).all(ignore_nulls=False):
        return ones.cast(pl.Int8).to_numpy(), np.zeros(len(values), bool)
    codes = text.cast(pl.Categorical)
    levels = codes.unique().drop_nulls()
    places = levels.to_physical().to_numpy()
    meaning = np.full(int(places.max(initial=0)) + 1, NOT_SAID, np.int8)
    bad = np.zeros(len(meaning), bool)
    for place, level in zip(places, levels.cast(pl.String), strict=True):
        text = level.strip().lower()
        meaning[place] = 1 if text in TRUE else 0 if text in FALSE else NOT_SAID
        bad[place] = meaning[place] == NOT_SAID and text not in MISSING
    at, there = codes.to_physical().fill_null(0).to_numpy(), codes.is_not_null().to_numpy()
    return np.where(there, meaning[at], NOT_SAID).astype(np.int8), bad[at] & there


def texts(values: pl.Series) -> pl.Series:
    """Return a column of few levels as categories without surrounding blanks, null where empty."""
    if values.dtype == pl.Categorical:
        return values
    found = _plain(values).cast(pl.Categorical)
    levels = _levels(found).cast(pl.String)
    if (levels.str.strip_chars() != levels).any() or (levels == "").any():
        found = strings(values).cast(pl.Categorical)
    return found


def _levels(column: pl.Series) -> pl.Series:
    """Return a value of each level of a category."""
    known = column.drop_nulls()
    codes = known.to_physical().to_numpy()
    if codes.max(initial=0) > len(codes):
        return known.unique()
    place = np.zeros(len(codes) + 1, np.int64)
    place[codes] = np.arange(1, len(codes) + 1)
    return known[place[place > 0] - 1]


def strings(values: pl.Series) -> pl.Series:
    """Return a column as texts without surrounding blanks, null where it is empty."""
    text = _plain(values).str.strip_chars()
    return pl.select(pl.when(text != "").then(text)).to_series()


def _plain(values: pl.Series) -> pl.Series:
    if not values.dtype.is_float():
        return values.cast(pl.String)
    whole = ((values == values.round()) & (values.abs() < 2**53)).fill_null(value=False)
    return pl.select(
        pl.when(whole)
        .then(values.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(values.cast(pl.String))
    ).to_series()


def times(values: pl.Series, zone: str) -> tuple[Array, Flags, bool]:
    """Return seconds since 1970, NaN where not said, which are bad, and if any has no zone."""
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("us"))
    if isinstance(values.dtype, pl.Datetime):
        local = values.dtype.time_zone is None
        placed = values.dt.replace_time_zone(zone) if local and zone != "UTC" else values
        found = placed.dt.epoch("us").cast(pl.Float64) / 1e6
        return _seconds(found), np.zeros(len(values), bool), local
    if values.dtype.is_numeric():
        return _seconds(values.cast(pl.Float64)), np.zeros(len(values), bool), False
    text = values.cast(pl.String).str.strip_chars()
    whole = text.cast(pl.Int64, strict=False)
    if whole.null_count() == text.null_count():
        return _seconds(whole.cast(pl.Float64)), np.zeros(len(values), bool), False
    frame = pl.DataFrame({"text": text})
    # More than six digits of a second, as .NET writes them, are cut to microseconds.
    plain = pl.col("text").str.replace(r"(\.\d{6})\d+", "$1")
    found, local_time = frame.select(
        moment(plain, zone).alias("found"), is_local(plain).alias("local")
    ).get_columns()
    array = _seconds(found)
    said = text.is_not_null() & ~text.str.to_lowercase().is_in(MISSING)
    return array, np.isnan(array) & said.fill_null(value=False).to_numpy(), bool(local_time.any())


def _seconds(found: pl.Series) -> Array:
    array = found.fill_null(float("nan")).to_numpy().astype(np.float64)
    for above, factor in _UNITS:
        larger = np.abs(array) > above
        if larger.any():
            array = np.where(larger, array * factor, array)
            break
    # To the microsecond: polars divides the last values of a column differently in the last bit.
    return np.asarray(np.round(array * 1e6) / 1e6)


def as_series(values: Sequence[Any]) -> pl.Series:
    """Return Python values of a nested record as a column: of one type, else of texts."""
    try:
        return pl.Series(values, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([text_of(v) for v in values], dtype=pl.String)


def text_of(value: Any) -> str | None:
    """Return the text of a value of JSON, None for null and for what is no single value."""
    if type(value) is str:
        return value
    if value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
