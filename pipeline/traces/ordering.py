"""Conversion of usable rows to canonical tasks: repetitions, and the order of the jobs.

    rows of the trace, in file order          tasks
    job_id  task_id  submit_s                 job  task  job_id  task_id  submit_s
    b       1        20                       0    0     a       1        10
    a       1        10                 ->    1    0     b       1        15
    b       2        15   (last of b)         1    1     b       2        15
    b       2        15   (there already: quarantined)

A job is submitted once. If its rows have different times the LAST row counts, as in the simulator
of the DeepJS authors, whose published numbers depend on it. Jobs are sorted by that time; equal
times keep the order of first appearance in the file. Tasks keep file order.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.text_rows import (
    QUARANTINE_LIMIT,
    Sifted,
    first_rows,
    quarantined_rows,
)
from hindcast.pipeline.workloads.schema import TASK_COLUMNS

_KEY = ("job_id", "task_id")
_VALUES = ("submit_s", "duration_s", "cores", "memory", "instances")


def distinct_tasks(
    path: Path, sifted: Sifted, noun: str, key: Sequence[str] = _KEY
) -> tuple[pl.DataFrame, Sifted]:
    """Return one row per task, and `sifted` with repetitions counted as quarantined.

    `sifted.rows` has line, text, `key` and the task's values. The first row of a task counts.
    Memory is bounded by the number of tasks, however often they are repeated. Raises TraceError if
    there is no task; `noun` completes its message.
    """
    rows = sifted.rows
    values = [name for name in rows.collect_schema().names() if name not in {*key, "line", "text"}]
    tasks, repetitions = first_rows(rows.select(*key, *values, "line"), key, path)
    if tasks.is_empty():
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in sifted.all_left_out.items())
        raise TraceError(f"{path}: none of its {sifted.read:,} rows is {noun} ({reasons})")
    if repetitions:
        names = ", ".join(f"{name} {{}}" for name in key)
        copies = (
            rows.join(tasks.lazy().select(*key, first="line"), on=list(key))
            .filter(pl.col("line") != pl.col("first"))
            .with_columns(
                reason=pl.format(f"a repetition: {names} is already in line {{}}", *key, "first")
            )
        )
        quarantine = pl.concat([sifted.quarantine, quarantined_rows(path, copies)])
        sifted = replace(
            sifted,
            quarantined=sifted.quarantined + repetitions,
            quarantine=quarantine.sort("line").head(QUARANTINE_LIMIT),
        )
    return tasks, sifted


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the canonical task table (TASK_COLUMNS) of one-row-per-task `rows` with a `line`."""
    rows = rows.sort("line")
    jobs = (
        rows.group_by("job_id", maintain_order=True)
        .agg(pl.col("submit_s").last())
        .sort("submit_s", maintain_order=True)
        .with_row_index("job")
    )
    ordered = (
        rows.select("line", *_KEY, *_VALUES[1:])
        .join(jobs, on="job_id", how="left")
        .sort("job", "line")
        .with_columns(task=pl.int_range(pl.len()).over("job"))
    )
    return ordered.select(pl.col(name).cast(kind) for name, kind in TASK_COLUMNS.items())
