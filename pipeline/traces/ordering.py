"""From usable rows to canonical tasks: which row counts, which job is first.

    rows of the trace, in file order          tasks
    job_id  task_id  submit_s                 job  task  job_id  task_id  submit_s
    b       1        20                       0    0     a       1        10
    a       1        10                 ->    1    0     b       1        15
    b       2        15   (last of b)         1    1     b       2        15
    b       2        15   (there already: quarantined)

A job is submitted once. Where its rows disagree the LAST one counts, as in the simulator of the
DeepJS authors, whose published numbers depend on it. Jobs go by that time; equal times keep the
order of first appearance in the file. Tasks keep file order.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipeline.traces.text_rows import fold, quarantined_rows
from pipeline.workloads.schema import TASK_COLUMNS, empty_quarantine

_KEY = ("job_id", "task_id")
_VALUES = ("submit_s", "duration_s", "cores", "memory", "instances")


def distinct_tasks(
    path: Path, rows: pl.LazyFrame, key: Sequence[str] = _KEY
) -> tuple[pl.DataFrame, int, pl.DataFrame]:
    """One row per task, how many rows were repetitions, and those as a quarantine.

    `rows` has line, text, `key` and the task's values. The first row of a task counts. Memory is
    bounded by the number of tasks, however often they are repeated.
    """
    first_line = pl.col("line").min()
    values = [name for name in rows.collect_schema().names() if name not in {*key, "line", "text"}]
    tasks = fold(
        rows.select(*key, *values, "line", copies=pl.lit(1, dtype=pl.Int64)),
        key,
        [pl.col("copies").sum(), *(pl.col(name).min_by("line") for name in values), first_line],
        path,
    ).sort("line")
    repeated = tasks.filter(pl.col("copies") > 1)
    repetitions = int(tasks["copies"].sum()) - tasks.height
    if not repetitions:
        return tasks.drop("copies"), 0, empty_quarantine()
    where = ", ".join(f"{name} {{}}" for name in key)
    again = (
        rows.join(repeated.lazy().select(*key, first="line"), on=list(key))
        .filter(pl.col("line") != pl.col("first"))
        .with_columns(
            reason=pl.format(f"a repetition: {where} is already in line {{}}", *key, "first")
        )
    )
    return tasks.drop("copies"), repetitions, quarantined_rows(path, again)


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
