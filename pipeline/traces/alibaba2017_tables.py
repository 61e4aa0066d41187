"""Optional tables of Alibaba cluster-trace-v2017: instances (attempts) and server events.

batch_instance  no header, 12 columns: start s, end s, job_id, task_id, machine_id, status,
                seq_no, total_seq_no, real cpu max and average, real memory max and average.
                One row per attempt; ids can be missing; running and failed attempts end at 0.
server_event    no header, 7 columns: timestamp s, machine_id, add | softerror | harderror,
                detail, cpu cores, memory fraction, disk fraction. Errors have capacities of 0.
"""

from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.traces.alibaba2017_tasks import STATUSES
from hindcast.pipeline.traces.field_checks import (
    choice_fault,
    name_fault,
    number,
    number_fault,
    value_fault,
)
from hindcast.pipeline.traces.text_rows import Sifted, collect, fold, scan_rows, sift
from hindcast.pipeline.workloads.schema import LARGEST, MACHINE_COLUMNS

EVENTS: Final = ("add", "softerror", "harderror")
INSTANCE_STATUSES: Final = (*STATUSES, "Interrupted")
BATCH_INSTANCE_WIDTH: Final = 12
SERVER_EVENT_WIDTH: Final = 7
_BATCH_INSTANCE_COLUMNS: Final = ("start", "end", "job_id", "task_id", "", "status", *[""] * 6)
_SERVER_EVENT_COLUMNS: Final = ("timestamp", "machine_id", "event", "", "cpu", "memory", "")
_MICROSECONDS: Final = 1_000_000
_LATEST_S: Final = 10_000_000_000  # later is no time in seconds, and microseconds would overflow


def sift_batch_instance(path: Path, header_line: int | None) -> Sifted:
    """Return the successful attempts: line, text, job_id, task_id, duration_us (int64).

    Successful attempts are Terminated, end after they start and name their task. All others are
    counted by reason. Whole microseconds make sums exact, so a mean does not depend on the order in
    which threads add.
    """
    start, end = number("start"), number("end")
    rows = scan_rows(path, _BATCH_INSTANCE_COLUMNS, header_line)
    return sift(
        path,
        rows.select(
            "line",
            "text",
            "job_id",
            "task_id",
            reason=pl.coalesce(
                "reason",
                number_fault("start"),
                number_fault("end"),
                *(value_fault(t, number(t).abs() > _LATEST_S, "seconds") for t in ("start", "end")),
                choice_fault("status", INSTANCE_STATUSES),
            ),
            left_out=pl.when(pl.col("status") != "Terminated")
            .then(pl.format("status {}", "status"))
            .when(pl.col("job_id").is_null() | pl.col("task_id").is_null())
            .then(pl.lit("job_id or task_id missing"))
            .when(end <= start)
            .then(pl.lit("end not after start")),
            duration_us=((end - start) * _MICROSECONDS).round().cast(pl.Int64, strict=False),
        ),
        "batch_instance",
    )


def mean_durations(path: Path, attempts: Sifted) -> pl.DataFrame:
    """Return the mean duration of the attempts of each task: columns job_id, task_id, mean_s."""
    attempt = attempts.rows.select(
        "job_id", "task_id", "duration_us", attempts=pl.lit(1, dtype=pl.Int64)
    )
    sums = [pl.col("duration_us").sum(), pl.col("attempts").sum()]
    total = fold(attempt, ("job_id", "task_id"), sums, path)
    count = pl.col("attempts").cast(pl.Float64)
    return total.select(
        "job_id",
        "task_id",
        mean_s=pl.col("duration_us").cast(pl.Float64) / (count * _MICROSECONDS),
    )


def sift_server_event(path: Path, header_line: int | None) -> Sifted:
    """Return the add events: line, text, timestamp, machine_id, cores, memory.

    An error event has capacities of zero, and no event says when the machine was repaired. Error
    events are therefore counted in `left_out` and change no machine.
    """
    added = pl.col("event") == "add"
    rows = scan_rows(path, _SERVER_EVENT_COLUMNS, header_line)
    capacity = pl.coalesce(
        number_fault("cpu", above=0, at_most=LARGEST),
        number_fault("memory", at_least=0, at_most=LARGEST),
    )
    return sift(
        path,
        rows.select(
            "line",
            "text",
            "machine_id",
            reason=pl.coalesce(
                "reason",
                number_fault("timestamp"),
                name_fault("machine_id"),
                choice_fault("event", EVENTS),
                pl.when(added).then(capacity),
            ),
            left_out=pl.when(~added).then("event"),
            timestamp=number("timestamp"),
            cores=number("cpu"),
            memory=number("memory"),
        ),
        "server_event",
    )


def machines_of(path: Path, added: Sifted) -> pl.DataFrame:
    """Return the canonical machines, in order of appearance, each as its latest add event says."""
    events = collect(added.rows.drop("text"), path).sort("line")
    latest = events.sort("timestamp", "line").group_by("machine_id", maintain_order=True).last()
    return (
        events.group_by("machine_id", maintain_order=True)
        .agg(pl.col("line").first())
        .select("machine_id")
        .join(latest, on="machine_id", how="left", maintain_order="left")
        .with_row_index("machine")
        .select(pl.col(name).cast(kind) for name, kind in MACHINE_COLUMNS.items())
    )
