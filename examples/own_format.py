"""A trace format outside Hindcast: a CSV file with the columns submit_s, run_s and cores.

    export HINDCAST_PLUGINS=examples/own_format.py
    hindcast ingest jobs_csv jobs.csv --out workload

The reader gives every row a reason why it is bad, or null; bad rows go to the quarantine.
"""

from pathlib import Path

import polars as pl

import hindcast
from hindcast.pipeline.traces.field_checks import count_fault, number, number_fault
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.ordering import in_order
from hindcast.pipeline.traces.text_rows import collect, scan_rows, sift
from hindcast.pipeline.workloads.schema import Provenance, Workload

COLUMNS = ("submit_s", "run_s", "cores")


def read(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a file and its bad rows; TraceError if it is no such file."""
    first = head_lines(path, "a CSV file of jobs")[0]
    if first.strip() != ",".join(COLUMNS):
        raise hindcast.errors.TraceError(f"{path}: line 1 is {first!r}, expected {COLUMNS}")
    faults = [
        number_fault("submit_s", at_least=0),
        number_fault("run_s", above=0),
        count_fault("cores"),
    ]
    rows = scan_rows(path, COLUMNS, header_line=1).with_columns(
        reason=pl.coalesce(pl.col("reason"), *faults)
    )
    rows = rows.with_columns(
        job_id=pl.col("line").cast(pl.String),
        task_id=pl.lit("0"),
        submit_s=number("submit_s"),
        duration_s=number("run_s"),
        cores=number("cores"),
        memory=pl.lit(0.0),  # not known
        instances=pl.lit(1, dtype=pl.Int64),
    )
    sifted = sift(path, rows, "a job")
    jobs = collect(sifted.rows.drop("text", "run_s"), path)
    tasks = in_order(jobs)
    provenance = Provenance(
        format="jobs_csv",
        files=(source_file(path),),
        counts={"rows_read": sifted.read, "tasks": tasks.height, "jobs": tasks.height},
        left_out={"quarantined": sifted.quarantined} if sifted.quarantined else {},
    )
    return Workload(tasks, provenance), sifted.quarantine


hindcast.register_trace_format(
    hindcast.TraceFormat(
        name="jobs_csv",
        description="a CSV file of jobs: submit_s, run_s, cores",
        path="the file",
        source="your own cluster",
        terms="yours",
        citation="none",
        read=read,
    )
)
