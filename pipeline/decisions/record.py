"""The record of a log of decisions beside its dataset: everything that was read, in float64."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hindcast.pipeline.decisions.assembly import vocabulary
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.mapping import parse_mapping
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.estimators.decisions.logged import offsets_of
from hindcast.pipeline.recipes.workload_source import DECISION_TABLES, RECORD
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.schema import read_provenance

CENSORED, QUARANTINE = DECISION_TABLES
RECORDS: Final = (RECORD, CENSORED, QUARANTINE)
_CONTEXT: Final = "context:"
_CANDIDATE: Final = "candidate:"
_FEATURE: Final = "feature:"


def record_of(log: DecisionLog) -> pl.DataFrame:
    """Return a row per decision: its columns, its context, and lists for its candidates."""
    context = log.context.rename({n: _CONTEXT + n for n in log.context.columns})
    columns = [*log.decisions.get_columns(), *_texts(context)]
    candidates = log.candidates.rename({n: _CANDIDATE + n for n in log.candidates.columns})
    features = log.features.rename({n: _FEATURE + n for n in log.features.columns})
    listed = (*_texts(candidates), *_texts(features))
    columns += [_listed(column, log.offsets) for column in listed]
    return pl.DataFrame(columns)


def _texts(frame: pl.DataFrame) -> list[pl.Series]:
    return [c.cast(pl.String) if c.dtype == pl.Categorical else c for c in frame.get_columns()]


def _listed(column: pl.Series, offsets: np.ndarray) -> pl.Series:
    """Return a column of candidates as a list per decision."""
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), column.to_arrow())
    return pl.Series(column.name, lists)


def write_record(log: DecisionLog, out: Path) -> dict[str, dict[str, Any]]:
    """Write the three tables of a log; return rows, bytes and SHA-256 by their names."""
    why = pl.when("overridden").then(pl.lit("overridden")).when("late").then(
        pl.lit("its reward may still come")).otherwise(pl.lit("no reward"))  # fmt: skip
    censored = log.decisions.filter(pl.col("reward").is_null() | pl.col("overridden"))
    stored = files.write_atomically(out / RECORD, partial(_write_pieces, log))
    found = {
        RECORD: {"rows": len(log), "bytes": stored.bytes, "sha256": stored.sha256},
    }
    tables = {
        CENSORED: censored.select("id", "file", "line", why.alias("why")),
        QUARANTINE: log.quarantine,
    }
    for name, table in tables.items():
        stored = files.write_parquet(out / name, table)
        found[name] = {"rows": table.height, "bytes": stored.bytes, "sha256": stored.sha256}
    return found


def _write_pieces(log: DecisionLog, path: Path) -> None:
    """Write the record, a row group per piece of the log."""
    schema = record_of(log.head()).to_arrow().schema
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=3) as writer:
        for piece in log.pieces():
            writer.write_table(record_of(piece).to_arrow().cast(schema))


def read_record(folder: Path, provenance: Mapping[str, Any]) -> DecisionLog:
    """Return the log of a dataset from its record, without cautions.

    Raises DatasetError if the record is damaged.
    """
    path = folder / RECORD
    table = files.read_parquet(path)
    mapping = parse_mapping(provenance["mapping"], f"{folder}: provenance.mapping")
    own = [n for n in table.columns if not n.startswith((_CONTEXT, _CANDIDATE, _FEATURE))]
    lists = [n for n in table.columns if n.startswith((_CANDIDATE, _FEATURE))]
    if not {"id", "chosen", "propensity", "reward", "unit_id", "split"} <= {*own} or not lists:
        raise DatasetError(f"{path}: this is not the record of a log of decisions")
    lengths = table[lists[0]].list.len().to_numpy().astype(np.int64)
    for name in lists:
        if not np.array_equal(table[name].list.len().to_numpy(), lengths):
            raise DatasetError(f"{path}: the lists of candidates differ in length")

    def part(prefix: str) -> pl.DataFrame:
        columns = []
        for name in table.columns:
            if name.startswith(prefix):
                column = table[name]
                if isinstance(column.dtype, pl.List):
                    column = column.explode(empty_as_null=False)
                if column.dtype == pl.String:
                    column = column.cast(pl.Categorical)
                columns.append(column.alias(name.removeprefix(prefix)))
        return pl.DataFrame(columns)

    lineage = read_provenance(provenance)
    context, features = part(_CONTEXT), part(_FEATURE)
    decisions = table.select(own)
    offsets = offsets_of(lengths)
    counts = {k: v for k, v in lineage.counts.items() if k not in ("transitions", "cut_sessions")}
    return DecisionLog(
        decisions, context, part(_CANDIDATE), features, offsets,
        files.read_parquet(folder / QUARANTINE), counts, lineage.notes, (), mapping,
        lineage.files, vocabulary(decisions, context, features, offsets),
    )  # fmt: skip


def same_log(one: DecisionLog, other: DecisionLog) -> str:
    """Return the first thing in which two logs differ, "" if they hold the same."""
    first, second = record_of(one), record_of(other)
    if first.columns != second.columns:
        return "the columns"
    if first.height != second.height:
        return f"the number of decisions, {first.height:,} and {second.height:,}"
    for name in first.columns:
        if not first[name].equals(second[name], null_equal=True):
            return f"the column {name}"
    return ""
