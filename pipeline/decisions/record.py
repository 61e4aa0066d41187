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


def record_of(log: DecisionLog) -> pa.Table:
    """Return a row per decision: its columns, its context, and lists for its candidates."""
    offsets = pa.array(log.offsets)
    columns = {c.name: c.to_arrow() for c in log.decisions.get_columns()}
    columns |= {_CONTEXT + c.name: c.to_arrow() for c in log.context.get_columns()}
    for prefix, frame in ((_CANDIDATE, log.candidates), (_FEATURE, log.features)):
        for c in frame.get_columns():
            columns[prefix + c.name] = pa.LargeListArray.from_arrays(offsets, c.to_arrow())
    return pa.table(columns)


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
    schema = record_of(log.head()).schema
    # without Arrow's schema, in which categories would be dictionaries: others read them as texts
    with pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=3, store_schema=False
    ) as writer:
        for piece in log.pieces():
            writer.write_table(record_of(piece))


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
    if len(one) != len(other):
        return f"the number of decisions, {len(one):,} and {len(other):,}"
    if not np.array_equal(one.offsets, other.offsets):
        return "the numbers of candidates"
    for part in ("decisions", "context", "candidates", "features"):
        first, second = getattr(one, part), getattr(other, part)
        if first.columns != second.columns:
            return "the columns"
        for name in first.columns:
            if not first[name].equals(second[name], null_equal=True):
                return f"the column {name} of the {part}"
    return ""
