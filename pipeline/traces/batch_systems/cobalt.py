"""Reader of the jobs of Cobalt as Argonne's computing facility publishes them: DIM_JOB_COMPOSITE.

The path is the CSV file of a machine and a year, such as ANL-ALCF-DJC-THETA_20190101_20191231.csv,
also for machines that run PBS now. The accounting log that Cobalt itself writes is in the form of
PBS (hindcast.pipeline.traces.batch_systems.pbs).

    column of the workload    from
    job_id                    COBALT_JOBID; JOB_NAME
    submit_s, start           QUEUED_TIMESTAMP; START_TIMESTAMP
    eligible_s                START_TIMESTAMP - ELIGIBLE_WAIT_SECONDS
    duration_s                END_TIMESTAMP - START_TIMESTAMP; RUNTIME_SECONDS
    requested_s               WALLTIME_SECONDS
    requested_cores           CORES_REQUESTED
    allocated_cores           CORES_USED
    nodes                     NODES_USED; NODES_REQUESTED
    gpus                      GPUS_REQUESTED
    status                    EXIT_STATUS: 1 for 0, else 0
    user, account             USERNAME_GENID; PROJECT_NAME_GENID
    queue, cluster            QUEUE_NAME; MACHINE_NAME

Sources: the data dictionary of DIM_JOB_COMPOSITE at reports.alcf.anl.gov.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.traces.batch_systems.records import csv_records, names_of, rows_of
from hindcast.pipeline.traces.field_values import require_time_zone, span
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import (
    Field,
    JobLogSettings,
    sift_jobs,
    time_field,
    workload_of,
)
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "cobalt"
DEFAULTS: Final = JobLogSettings()
_EXPECTED: Final = (
    "a table DIM_JOB_COMPOSITE of Argonne (CSV with QUEUED_TIMESTAMP, START_TIMESTAMP, ...)"
)
_WHAT: Final = "a job of DIM_JOB_COMPOSITE"
_COLUMNS: Final = (
    "JOB_NAME", "COBALT_JOBID", "MACHINE_NAME", "QUEUED_TIMESTAMP", "START_TIMESTAMP",
    "END_TIMESTAMP", "USERNAME_GENID", "PROJECT_NAME_GENID", "QUEUE_NAME", "WALLTIME_SECONDS",
    "RUNTIME_SECONDS", "NODES_USED", "NODES_REQUESTED", "CORES_USED", "CORES_REQUESTED",
    "EXIT_STATUS", "ELIGIBLE_WAIT_SECONDS", "GPUS_REQUESTED",
)  # fmt: skip
_NEEDED: Final = ("QUEUED_TIMESTAMP", "START_TIMESTAMP", "END_TIMESTAMP")


def read(path: Path, settings: JobLogSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a table and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a table or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    head_lines(path, _EXPECTED)
    keys = {name: key for key in _COLUMNS for name in names_of(key)}
    rows = rows_of(csv_records(path, keys, _NEEDED, _EXPECTED), _COLUMNS)
    exit_status = pl.col("EXIT_STATUS").cast(pl.Float64, strict=False)
    rows = rows.with_columns(
        job_id=pl.coalesce("COBALT_JOBID", "JOB_NAME"),
        outcome=pl.when(exit_status == 0)
        .then(pl.lit("completed"))
        .when(exit_status.is_not_null())
        .then(pl.lit("failed")),
        interrupted=pl.lit(value=False),
        user="USERNAME_GENID",
        account="PROJECT_NAME_GENID",
        queue="QUEUE_NAME",
        cluster="MACHINE_NAME",
    )
    sifted = sift_jobs(path, rows, _fields(settings.time_zone), _WHAT, settings)
    return workload_of(path, FORMAT, sifted, settings)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether the first of some lines is the header of such a table."""
    return {"queuedtimestamp", "starttimestamp", "walltimeseconds"} <= set(names_of(lines[0]))


def _fields(zone: str) -> dict[str, Field]:
    """Return the fields of a job in the columns of Cobalt, whose times are of a zone.

    A job is eligible ELIGIBLE_WAIT_SECONDS before its start, but not before its submission. The run
    time is End - Start, or RUNTIME_SECONDS where one of them is missing.
    """

    def number(key: str, *others: str, expected: str = "a number") -> Field:
        text = pl.coalesce(key, *others)
        return Field(key, text, text.cast(pl.Float64, strict=False), expected)

    submit, start, end = (time_field(key, pl.col(key), zone) for key in _NEEDED)
    waited = pl.col("ELIGIBLE_WAIT_SECONDS").cast(pl.Float64, strict=False)
    eligible = pl.max_horizontal(submit.value, start.value - waited)
    run = pl.when(start.value.is_null() | end.value.is_null()).then("RUNTIME_SECONDS")
    return {
        "submit": submit,
        "start": start,
        "end": end,
        "eligible": Field(
            "ELIGIBLE_WAIT_SECONDS",
            pl.col("ELIGIBLE_WAIT_SECONDS"),
            pl.when(waited >= 0).then(eligible),
            "a number of seconds",
        ),
        "duration": Field("RUNTIME_SECONDS", run, span(run), "a number of seconds"),
        "limit": number("WALLTIME_SECONDS", expected="a number of seconds"),
        "requested_cores": number("CORES_REQUESTED"),
        "allocated_cores": number("CORES_USED"),
        "nodes": number("NODES_USED", "NODES_REQUESTED"),
        "gpus": number("GPUS_REQUESTED"),
    }
