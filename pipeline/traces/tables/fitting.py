"""Units of columns by fit: run times against starts and ends, limits against run times.

Names of units are often missing and sometimes wrong. What fits the other columns decides; what
nothing decides is taken from the name, else from a default, and is doubtful.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from hindcast.pipeline.traces.field_values import moment, span
from hindcast.pipeline.traces.table import NO_LIMIT
from hindcast.pipeline.traces.tables.mapping import SECONDS

GOOD: Final = 0.9  # share of the values that have to be as proposed
_UNITS: Final = ("s", "min", "h", "ms", "d", "us", "ns")  # the likeliest first
_ABOVE: Final = 0.2  # of the jobs may run longer than limits in s, before another unit is tried
_OVER: Final = (0.05, 0.005)  # shares of runs far beyond limits: too many in s, few in min
_SHORT: Final = 0.05  # of the limits may be shorter than a minute
_AT: Final = 0.05  # of the runs end at their limit, which tells its unit
_LONG_S: Final = 30 * 86_400  # limits beyond this in the middle are in a smaller unit
_LEAST: Final = 20  # jobs for a conclusion about the length of the log
_CORE_MB: Final = (128.0, 262_144.0)  # memory of a processor
_MEMORY: Final = {"MB": 1.0, "GB": 1024.0, "KB": 2.0**-10, "B": 2.0**-20}  # in MB, likeliest first


def moment_of(columns: Mapping[str, str], units: Mapping[str, str], name: str) -> pl.Expr:
    """Return a time of a sample in seconds."""
    unit = units.get(name)
    column = pl.col(columns[name])
    if unit is not None and unit in SECONDS:
        seconds: pl.Expr = column.cast(pl.Float64, strict=False) * SECONDS[unit]
        return seconds
    return moment(column, form=unit)


def known_span(label: str) -> pl.Expr:
    """Return a column of spans as numbers; null where the text says that there is no limit."""
    column = pl.col(label)
    return span(pl.when(~column.str.to_lowercase().is_in(NO_LIMIT)).then(column))


def time_between(
    columns: Mapping[str, str], units: Mapping[str, str], first: str, last: str
) -> pl.Expr:
    """Return the time between two times of a sample in seconds."""
    return moment_of(columns, units, last) - moment_of(columns, units, first)


def run_of(columns: Mapping[str, str], units: Mapping[str, str]) -> pl.Expr | None:
    """Return the run times of a sample in seconds; None if they are not known."""
    if {"start", "end"} <= columns.keys():
        return time_between(columns, units, "start", "end")
    if "duration" in columns:
        return span(pl.col(columns["duration"])) * SECONDS[units.get("duration", "s")]
    return None


def unit_of_runs(
    columns: Mapping[str, str], units: Mapping[str, str], sample: pl.DataFrame, name: str
) -> str | None:
    """Return the unit in which the spans `name` are end - start, or None."""
    if not {"start", "end"} <= columns.keys():
        return None
    run, given = time_between(columns, units, "start", "end"), known_span(columns[name])
    return _agreeing_unit(sample.select(run=run, span=given).filter(pl.col("span") > 0))


def _agreeing_unit(runs: pl.DataFrame) -> str | None:
    """Return the unit in which the column `span` is `run`, which is in seconds; None if none is."""
    runs = runs.filter(pl.col("run") > 0)
    for unit in _UNITS:
        seconds = SECONDS[unit]
        error_s = (pl.col("span") * seconds - pl.col("run")).abs()
        agrees = error_s <= max(2.0, seconds)
        if runs.height and runs.select(agrees.mean()).item() >= GOOD:
            return unit
    return None


def unit_of_times(
    columns: Mapping[str, str], duration_s: float, sample: pl.DataFrame
) -> str | None:
    """Return the unit in which start + run is end, if a run of 1 is `duration_s` seconds."""
    if not {"start", "end", "duration"} <= columns.keys():
        return None
    number = {n: pl.col(columns[n]).cast(pl.Float64, strict=False) for n in ("start", "end")}
    run = span(pl.col(columns["duration"])) * duration_s
    return _agreeing_unit(sample.select(run=run, span=number["end"] - number["start"]))


def exceeds_log(
    columns: Mapping[str, str], units: Mapping[str, str], sample: pl.DataFrame
) -> str | None:
    """Return a smaller unit of run times if in s half of them are longer than the log, or None."""
    if "submit" not in columns:
        return None
    runs = sample.select(
        submit=moment_of(columns, units, "submit"), run=span(pl.col(columns["duration"]))
    ).drop_nulls()
    if runs.height < _LEAST:
        return None
    length_s = float(str(runs.select(pl.col("submit").max() - pl.col("submit").min()).item()))
    median = float(str(runs["run"].median()))
    if length_s <= 0 or median <= length_s:
        return None
    return next((u for u in ("ms", "us", "ns") if median * SECONDS[u] <= length_s), None)


def unit_of_limits(
    columns: Mapping[str, str], units: Mapping[str, str], sample: pl.DataFrame
) -> tuple[str | None, str]:
    """Return the unit of limits, None if nothing tells it, and what tells it in words.

    Jobs seldom run longer than their limit, and some run until it.
    """
    run = run_of(columns, units)
    if run is None:
        return None, ""
    limit = known_span(columns["time_limit"])
    runs = sample.select(run=run, limit=limit).filter(pl.col("run") > 0, pl.col("limit") > 0)
    if runs.is_empty():
        return None, ""
    middle = float(str(runs["limit"].median()))
    in_s = pl.col("run") / pl.col("limit")
    kept = {u: float(runs.select((in_s <= 1.001 * SECONDS[u]).mean()).item()) for u in SECONDS}
    at = {
        unit: float(runs.select(
            ((pl.col("run") - pl.col("limit") * SECONDS[unit]).abs() <= 0.02 * pl.col("run"))
            .mean()).item())
        for unit in ("s", "min", "h")
    }  # fmt: skip
    if middle > _LONG_S:
        smaller = next((u for u in ("ms", "us", "ns") if middle * SECONDS[u] <= _LONG_S), None)
        if smaller and kept[smaller] >= GOOD:
            return smaller, f"in s half of the limits would be longer than {_LONG_S // 86_400} days"
    if kept["s"] < 1 - _ABOVE:
        unit = next((u for u in ("min", "h") if kept[u] >= GOOD), None)
        over = f"in s {1 - kept['s']:.0%} of the jobs would run longer than their limit"
        return unit, over if unit else ""
    far = {u: float(runs.select((in_s > 1.1 * SECONDS[u]).mean()).item()) for u in ("s", "min")}
    if far["s"] >= _OVER[0] and far["min"] <= _OVER[1]:
        return "min", f"in s {far['s']:.0%} of the jobs would run 10 % longer than their limit"
    best = max(at, key=lambda unit: at[unit])
    if at[best] >= _AT and kept[best] >= 1 - _ABOVE:
        return best, f"{at[best]:.0%} of the jobs run until a limit in {best}"
    short = float(runs.select((pl.col("limit") < SECONDS["min"]).mean()).item())
    if short >= _SHORT:
        return "min", f"in s {short:.0%} of the limits would be shorter than a minute"
    return None, ""


def unit_of_memory(cores: str | None, memory: str, sample: pl.DataFrame, of: str) -> str | None:
    """Return the unit in which a processor has a usual amount of memory; None if none does."""
    amount = sample.select(
        memory=pl.col(memory).cast(pl.Float64, strict=False),
        cores=pl.lit(1.0)
        if cores is None or of != "job"
        else pl.col(cores).cast(pl.Float64, strict=False),
    ).filter(pl.col("memory") > 0, pl.col("cores") > 0)
    if amount.height < _LEAST:
        return None
    middle = float(amount.select((pl.col("memory") / pl.col("cores")).median()).item())
    least, most = _CORE_MB
    return next((u for u, mb in _MEMORY.items() if least <= middle * mb <= most), None)


def is_since_submission(
    columns: Mapping[str, str], units: Mapping[str, str], sample: pl.DataFrame
) -> bool:
    """Return whether the column of durations is end - submit, which is a wait and a run."""
    if not {"submit", "end"} <= columns.keys():
        return False
    between = time_between(columns, units, "submit", "end")
    given = span(pl.col(columns["duration"])) * SECONDS[units.get("duration", "s")]
    equal = sample.select(((given - between).abs() <= 2.0).mean()).item()
    return float(equal or 0.0) >= GOOD


def is_limit(
    columns: Mapping[str, str], units: Mapping[str, str], sample: pl.DataFrame, unit: str
) -> bool:
    """Return whether the column of durations is never less than end - start, and mostly more."""
    if not {"start", "end"} <= columns.keys():
        return False
    run = time_between(columns, units, "start", "end")
    given = span(pl.col(columns["duration"])) * SECONDS[unit]
    runs = sample.select(run=run, given=given).filter(pl.col("run") > 0, pl.col("given") > 0)
    if runs.height < _LEAST:
        return False
    at_least, more = runs.select(
        (pl.col("given") >= 0.99 * pl.col("run")).mean(),
        (pl.col("given") > 1.05 * pl.col("run") + 2).mean().alias("more"),
    ).row(0)
    return float(at_least) >= GOOD and float(more) > 0.5
