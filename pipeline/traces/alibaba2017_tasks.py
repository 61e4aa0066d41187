"""Task tables of Alibaba cluster-trace-v2017: the original batch_task and the DeepJS jobs.csv.

    batch_task   no header, 8 columns: create_timestamp s, modify_timestamp s, job_id, task_id,
                 instance_num, status, plan_cpu (1/100 core per instance), plan_mem (fraction of
                 the largest machine, per instance). One row per task, not sorted.
    jobs.csv     header; submit_time s, duration s, cpu cores, memory fraction, job_id, task_id,
                 instances_num, disk. Derived by the DeepJS authors: submit_time is
                 create_timestamp + 173, duration the mean over the task's instances.

Both are read as rows of line, text, job_id, task_id, submit_s, duration_s, cores, memory,
instances. Times stay on the clock of the trace and may be negative.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, nearest
from hindcast.pipeline.traces.field_checks import (
    choice_fault,
    count_fault,
    name_fault,
    number,
    number_fault,
)
from hindcast.pipeline.traces.text_rows import Sifted, scan_rows, sift

STATUSES: Final = ("Ready", "Waiting", "Running", "Terminated", "Failed", "Cancelled")
BATCH_TASK_COLUMNS: Final = (
    "create_timestamp", "modify_timestamp", "job_id", "task_id", "instance_num", "status",
    "plan_cpu", "plan_mem",
)  # fmt: skip
JOBS_COLUMNS: Final = (
    "submit_time", "duration", "cpu", "memory", "job_id", "task_id", "instances_num",
)  # fmt: skip
_CENTICORES: Final = 100  # plan_cpu of one core


def sift_jobs(path: Path, header: Sequence[str], header_line: int) -> Sifted:
    """Return the rows of a jobs.csv, whose columns are found by their names in `header`.

    Raises TraceError if a column is missing or named twice, or if no row is usable.
    """
    for name in JOBS_COLUMNS:
        if header.count(name) != 1:
            fault = "lacks the column" if name not in header else "has more than one column"
            close = nearest(name, [label for label in header if label not in JOBS_COLUMNS])
            hint = f"; did you mean {close!r}?" if close else ""
            raise TraceError(f"{path}: line {header_line} {fault} {name!r} of jobs.csv{hint}")
    columns = [name if name in JOBS_COLUMNS else "" for name in header]
    rows = scan_rows(path, columns, header_line).with_columns(
        reason=pl.coalesce(
            "reason",
            number_fault("submit_time"),
            number_fault("duration", above=0),
            number_fault("cpu", above=0),
            number_fault("memory", at_least=0),
            name_fault("job_id"),
            name_fault("task_id"),
            count_fault("instances_num"),
        )
    )
    values = rows.select(
        "line",
        "text",
        "job_id",
        "task_id",
        "reason",
        submit_s=number("submit_time"),
        duration_s=number("duration"),
        cores=number("cpu"),
        memory=number("memory"),
        instances=number("instances_num").cast(pl.Int64, strict=False),
    )
    return sift(path, values, "jobs.csv")


def sift_batch_task(
    path: Path, header_line: int | None, mean_durations: pl.DataFrame | None
) -> Sifted:
    """Return the rows of a batch_task table, with or without a header line.

    The duration of a task is the mean over its instances (`mean_durations`: job_id, task_id,
    mean_s) if it is known, otherwise the time from creation to modification. A usable task is
    Terminated, has a known cpu and memory, and lasts longer than 0 s; all others are counted in
    `left_out`. A usable task that is modified before it is created has no sensible duration: its
    row is quarantined.
    """
    rows = scan_rows(path, BATCH_TASK_COLUMNS, header_line)
    if mean_durations is None:
        rows = rows.with_columns(mean_s=pl.lit(None, dtype=pl.Float64))
    else:
        rows = rows.join(mean_durations.lazy(), on=["job_id", "task_id"], how="left")
    span = number("modify_timestamp") - number("create_timestamp")
    terminated = pl.col("status") == "Terminated"
    backwards = pl.when(terminated & pl.col("mean_s").is_null() & (span < 0)).then(
        pl.format(
            "modify_timestamp {} is before create_timestamp {}",
            "modify_timestamp",
            "create_timestamp",
        )
    )
    return sift(
        path,
        rows.select(
            "line",
            "text",
            "job_id",
            "task_id",
            reason=pl.coalesce(
                "reason",
                number_fault("create_timestamp"),
                number_fault("modify_timestamp"),
                name_fault("job_id"),
                name_fault("task_id"),
                count_fault("instance_num"),
                choice_fault("status", STATUSES),
                number_fault("plan_cpu", optional=True, above=0),
                number_fault("plan_mem", optional=True, at_least=0),
                backwards,
            ),
            left_out=pl.when(~terminated)
            .then(pl.format("status {}", "status"))
            .when(pl.col("plan_cpu").is_null())
            .then(pl.lit("plan_cpu missing"))
            .when(pl.col("plan_mem").is_null())
            .then(pl.lit("plan_mem missing"))
            .when(pl.col("mean_s").is_null() & (span == 0))
            .then(pl.lit("lasted 0 s")),
            submit_s=number("create_timestamp"),
            duration_s=pl.coalesce("mean_s", span),
            cores=number("plan_cpu") / _CENTICORES,
            memory=number("plan_mem"),
            instances=number("instance_num").cast(pl.Int64, strict=False),
        ),
        "batch_task",
    )
