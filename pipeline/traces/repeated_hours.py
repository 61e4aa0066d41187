"""Local times in the hour that clocks repeat in autumn: which of its two meanings a time has.

Times of a job come in the order submission, eligibility, start, end, and the run is as long as the
log says. So of the meanings of a job's times

    submit   start   end            Berlin, 27 October 2024, clocks go back from 03:00 to 02:00
    01:30    02:50   02:10          the start is before the change, the end after it: 20 minutes
    02:58    02:02   02:40          the submission is before it, start and end are after it

the first is taken that is in order and fits the run time, else the first that is in order; a
meaning before the change comes before one after it. `TIMES` in order have either their `_later`
meaning from some place on, or none has.
"""

from collections.abc import Collection
from functools import reduce
from operator import and_, or_
from typing import Final

import polars as pl

TIMES: Final = ("submit", "eligible", "start", "end")
LATER: Final = "_later"  # a column `start_later` has the later meaning of `start`
_FITS_S: Final = 1.0  # run times are written in whole seconds


def told_apart(rows: pl.LazyFrame, names: Collection[str]) -> pl.LazyFrame:
    """Give the times `names` of jobs the meaning that fits best, and add `repeated`.

    `repeated` says that a time has two meanings and more than one of them would fit. The rows have
    `duration`, null where the log does not say it.
    """
    times = [name for name in TIMES if name in names]
    if not times:
        return rows.with_columns(repeated=pl.lit(value=False))
    later = {name: pl.coalesce(name + LATER, name) for name in times}
    readings = [
        {n: later[n] if place >= len(times) - k else pl.col(n) for place, n in enumerate(times)}
        for k in range(len(times) + 1)
    ]
    ordered = [_in_order(reading) for reading in readings]
    fitting = [each & _of_length(reading) for each, reading in zip(ordered, readings, strict=True)]
    by_preference = [*enumerate(fitting), *enumerate(ordered)]
    choice = pl.coalesce(*(pl.when(good).then(place) for place, good in by_preference), 0)
    two = reduce(or_, (later[name] != pl.col(name) for name in times)).fill_null(value=False)
    rows = rows.with_columns(_choice=pl.when(two).then(choice).otherwise(0), _two=two)
    chosen = {
        name: pl.when(pl.col("_choice") >= len(times) - place).then(later[name]).otherwise(name)
        for place, name in enumerate(times)
    }
    any_fitting = reduce(or_, fitting)
    others = [
        pl.when(any_fitting).then(fits).otherwise(in_order)
        & reduce(or_, ((reading[n] != chosen[n]).fill_null(value=False) for n in times))
        for fits, in_order, reading in zip(fitting, ordered, readings, strict=True)
    ]
    none = ~reduce(or_, ordered)
    rows = rows.with_columns(**chosen, repeated=pl.col("_two") & (none | reduce(or_, others)))
    return rows.drop("_choice", "_two", *(name + LATER for name in times))


def _in_order(reading: dict[str, pl.Expr]) -> pl.Expr:
    pairs = (("submit", "eligible"), ("submit", "start"), ("eligible", "start"), ("start", "end"))
    known = [reading[a] <= reading[b] for a, b in pairs if a in reading and b in reading]
    return reduce(and_, (pair.fill_null(value=True) for pair in known), pl.lit(value=True))


def _of_length(reading: dict[str, pl.Expr]) -> pl.Expr:
    if not {"start", "end"} <= reading.keys():
        return pl.lit(value=True)
    run = reading["end"] - reading["start"]
    return ((run - pl.col("duration")).abs() <= _FITS_S).fill_null(value=True)
