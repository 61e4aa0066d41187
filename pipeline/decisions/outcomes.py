"""Rewards that come later, in a second file, joined to decisions by their ids."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import TERM, Reading
from hindcast.pipeline.decisions.mapping import DecisionMapping, Outcomes
from hindcast.pipeline.decisions.shapes.nested import getter
from hindcast.pipeline.decisions.shapes.records import records_of
from hindcast.pipeline.decisions.shapes.tables import Tables, is_parquet, no_column
from hindcast.pipeline.decisions.values import as_series, floats, numbers, text_of, times
from hindcast.pipeline.errors import TraceError

_LATE: Final = 0.99  # quantile of the delays within which a reward is expected
_JSON: Final = frozenset({".json", ".jsonl", ".ndjson", ".dsjson"})


def read_outcomes(path: Path, mapping: DecisionMapping, reading: Reading) -> pl.DataFrame:
    """Return the outcomes of a file: id, time (null if not known) and the terms of the reward."""
    outcomes = mapping.outcomes
    assert outcomes is not None
    names = {
        "id": outcomes.decision,
        "time": outcomes.time,
        **{TERM + n: n for n in outcomes.terms},
    }
    columns = _columns(path, {k: v for k, v in names.items() if v})
    frame: dict[str, Any] = {"id": columns["id"].cast(pl.String)}
    bad_rows = np.zeros(len(columns["id"]), bool)
    for name in outcomes.terms:
        values, bad = numbers(columns[TERM + name])
        frame[TERM + name] = pl.Series(values).fill_nan(None)
        bad_rows |= bad
    frame["time"] = pl.Series([None] * len(columns["id"]), dtype=pl.Float64)
    if outcomes.time:
        found, _, _ = times(columns["time"], mapping.time_zone)
        frame["time"] = pl.Series(found).fill_nan(None)
    table = pl.DataFrame(frame)
    if bad_rows.any():
        reading.count("outcomes_not_read", int(bad_rows.sum()))
        table = table.filter(pl.Series(~bad_rows))
    terms = [TERM + name for name in outcomes.terms]
    return table.filter(pl.col("id").is_not_null() & ~pl.all_horizontal(pl.col(terms).is_null()))


def _columns(path: Path, names: Mapping[str, str]) -> dict[str, pl.Series]:
    """Return columns of a file of outcomes by key; `names` has their labels or dotted paths."""
    if not path.exists():
        raise TraceError(f"{path}: there is no such file, which the mapping names for outcomes")
    endings = set(path.suffixes)
    if is_parquet(path) or not endings & _JSON:
        tables = Tables([path])
        if all("." not in name for name in names.values()) or not is_parquet(path):
            wanted = tables.require(names.values())
            pieces = [piece.rows for piece in tables.pieces(wanted)]
            if not pieces:
                return {key: pl.Series([], dtype=pl.String) for key in names}
            table = pl.concat(pieces)
            return {key: table[name] for key, name in names.items()}
        records = [r for piece in tables.pieces() for r in piece.rows.iter_rows(named=True)]
    else:
        records = [record for _, record, _ in records_of(path, 0, Reading())]
    get = {key: getter(name) for key, name in names.items()}
    values = {key: [read(record) for record in records] for key, read in get.items()}
    for key, column in values.items():
        if records and all(v is None for v in column):
            known = sorted({k for r in records[:100] for k in r})
            if names[key] not in known:
                raise no_column(str(path), names[key], known)
    return {
        key: as_series([text_of(v) for v in column]) if key == "id" else as_series(column)
        for key, column in values.items()
    }


def join(
    decisions: pl.DataFrame, found: pl.DataFrame, outcomes: Outcomes, reading: Reading
) -> pl.DataFrame:
    """Return the decisions with the terms of their outcomes; `late` is true if one may still come.

    The same outcome twice counts once. Of outcomes that differ none counts, unless
    `outcomes.several` says which.
    """
    terms = [TERM + name for name in outcomes.terms]
    known = found["id"].is_in(decisions["id"].implode())
    if not known.all():
        reading.count("outcomes_without_decision", int((~known).sum()))
        found = found.filter(known)
    distinct = found.unique(subset=["id", *terms], keep="first", maintain_order=True)
    if distinct.height < found.height:
        reading.count("repeated_outcomes", found.height - distinct.height)
    several = distinct["id"].is_duplicated()
    if several.any():
        reading.count("decisions_with_several_outcomes", distinct.filter(several)["id"].n_unique())
    by_id = distinct.sort("time", nulls_last=False, maintain_order=True).group_by(
        "id", maintain_order=True
    )
    if outcomes.several == "last":
        one = by_id.agg(pl.col(terms).last(), pl.col("time").last())
    elif outcomes.several == "sum":
        one = by_id.agg(pl.col(terms).sum(), pl.col("time").last())
    elif outcomes.several == "mean":
        one = by_id.agg(pl.col(terms).mean(), pl.col("time").last())
    else:
        one = distinct.filter(~several).select("id", *terms, "time")
    one = one.rename({"time": "reward_time"})
    joined = decisions.drop(terms, strict=False).join(
        one, on="id", how="left", maintain_order="left"
    )
    return joined.with_columns(_late(joined, terms).alias("late"))


def _late(joined: pl.DataFrame, terms: list[str]) -> pl.Series:
    """Return which decisions without reward are too young for it, by the delays of the others."""
    time, later = (floats(joined[n]) for n in ("time", "reward_time"))
    delays = (later - time)[~np.isnan(later - time)]
    if not len(delays):
        return pl.Series(np.zeros(joined.height, bool))
    usual = np.quantile(delays, _LATE, method="higher")
    end = np.nanmax(np.concatenate([time, later]))
    lacking = joined.select(pl.any_horizontal(pl.col(terms).is_null())).to_series().to_numpy()
    return pl.Series(lacking & (time > end - usual))
