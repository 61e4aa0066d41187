"""The record of a log of decisions beside its dataset: everything that was read, in float64."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hindcast.pipeline.dataset.part import part_errors
from hindcast.pipeline.decisions.batch import Batch, concat
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.mapping import parse_mapping
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.workload_source import DECISION_TABLES, RECORD
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.files import require_parquet
from hindcast.pipeline.storage.json_values import a_count, a_table, a_text
from hindcast.pipeline.workloads.schema import read_provenance

CENSORED, QUARANTINE = DECISION_TABLES
RECORDS: Final = (RECORD, CENSORED, QUARANTINE)
_CONTEXT: Final = "context:"
_CANDIDATE: Final = "candidate:"
_FEATURE: Final = "feature:"
_LOOKED_AT: Final = 100_000  # values of a column by which it gets a dictionary


def record_of(log: DecisionLog) -> pa.Table:
    """Return a row per decision: its columns, its context, and lists for its candidates."""
    offsets = pl.Series(log.offsets).to_arrow()  # pa.array would import pandas
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
    found = {RECORD: {"rows": len(log), **asdict(stored)}}
    tables = {
        CENSORED: censored.select("id", "file", "line", why.alias("why")),
        QUARANTINE: log.quarantine,
    }
    for name, table in tables.items():
        stored = files.write_parquet(out / name, table)
        found[name] = {"rows": table.height, **asdict(stored)}
    return found


def _repeating(log: DecisionLog) -> list[str]:
    """Return the columns that get a dictionary: those whose values repeat at the beginning."""
    item = ".list.element"
    sides = (("", log.decisions, ""), (_CONTEXT, log.context, ""),
             (_CANDIDATE, log.candidates, item), (_FEATURE, log.features, item))  # fmt: skip
    return [
        prefix + column.name + suffix
        for prefix, frame, suffix in sides
        for column in frame.head(_LOOKED_AT).get_columns()
        if column.n_unique() <= len(column) / 2
    ]


def _write_pieces(log: DecisionLog, path: Path) -> None:
    """Write the record, a row group per piece of the log."""
    schema = record_of(log.head()).schema
    # without Arrow's schema, in which categories would be dictionaries: others read them as texts
    with pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, use_dictionary=_repeating(log),
        store_schema=False, write_statistics=False,
    ) as writer:  # fmt: skip
        for piece in log.pieces():
            writer.write_table(record_of(piece))


def read_record(folder: Path, provenance: Mapping[str, Any]) -> DecisionLog:
    """Return the log of a dataset from its record, without cautions.

    Raises DatasetError if the record is damaged.
    """
    path = folder / RECORD
    mapping = parse_mapping(provenance["mapping"], f"{folder}: provenance.mapping")
    with part_errors(path):
        batch = concat(_row_groups(path), float("nan"))
    if batch is None:
        raise DatasetError(f"{path}: there is no decision in this record")
    lineage, offsets = read_provenance(provenance), batch.offsets
    levels = {  # of the train split; of a selection, those of the whole log
        a_text(name): {a_text(level): a_count(n) for level, n in a_table(counts).items()}
        for name, counts in a_table(provenance["vocabulary"]).items()
    }
    counts = {k: v for k, v in lineage.counts.items() if k not in ("transitions", "cut_sessions")}
    return DecisionLog(
        batch.decisions, batch.context, batch.candidates, batch.features, offsets,
        files.read_parquet(folder / QUARANTINE), counts, lineage.notes, (), mapping,
        lineage.files, levels,
    )  # fmt: skip


def _row_groups(path: Path) -> Iterator[Batch]:
    """Yield the decisions of each row group of a record; raise DatasetError if it is none."""
    schema = require_parquet(path, whole=False).schema
    texts = [
        c.path for c in map(schema.column, range(len(schema))) if c.physical_type == "BYTE_ARRAY"
    ]
    coded = [name for name in texts if name.startswith((_CONTEXT, _CANDIDATE, _FEATURE))]
    with closing(pq.ParquetFile(path, read_dictionary=coded)) as file:
        names = file.schema_arrow.names
        own = [n for n in names if not n.startswith((_CONTEXT, _CANDIDATE, _FEATURE))]
        lists = [n for n in names if n.startswith((_CANDIDATE, _FEATURE))]
        if not {"id", "chosen", "propensity", "reward", "unit_id", "split"} <= {*own} or not lists:
            raise DatasetError(f"{path}: this is not the record of a log of decisions")
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            lengths = _lengths(table[lists[0]])
            if any(not np.array_equal(_lengths(table[name]), lengths) for name in lists):
                raise DatasetError(f"{path}: the lists of candidates differ in length")
            yield Batch(
                pl.DataFrame(table.select(own)), _side(table, _CONTEXT), _side(table, _CANDIDATE),
                _side(table, _FEATURE), lengths,
            )  # fmt: skip
            del table
            pa.default_memory_pool().release_unused()


def _lengths(column: pa.ChunkedArray) -> np.ndarray:
    lengths = column.combine_chunks().value_lengths().fill_null(0)
    return pl.Series(lengths).cast(pl.Int64).to_numpy()


def _side(table: pa.Table, prefix: str) -> pl.DataFrame:
    """Return the columns with a prefix: a row per decision, or per candidate."""
    columns = []
    for name in table.column_names:
        if name.startswith(prefix):
            array = table[name].combine_chunks()
            column = pl.Series(
                name.removeprefix(prefix), array if prefix == _CONTEXT else array.flatten()
            )
            columns.append(column.cast(pl.Categorical) if column.dtype == pl.String else column)
    return pl.DataFrame(columns)


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
