"""Reader of the four logs of the RLScheduler paper, as its published program reads them.

The path is a folder with some of these logs of the Parallel Workloads Archive, plain or
gzip-compressed, or one of these files:

    trace             file
    lublin_256        lublin_256.swf                 Lublin-1 in the paper's tables
    lublin_256_new2   lublin_256_new2.swf            Lublin-2
    SDSC-SP2          SDSC-SP2-1998-4.2-cln.swf
    HPC2N             HPC2N-2002-2.2-cln.swf

The program reads a log in other ways than `hindcast.pipeline.traces.swf`. Jobs are in order of
their job numbers. A run time below 0 is 10 s, so that jobs which were cancelled before they ran do
run; rows with a run time of 0 are left out. Processors are the larger of requested and allocated
ones. An unknown requested time is the run time as the log has it, so that it can stay -1. The
machine has MaxProcs processors, else MaxNodes.

All jobs are in one table, in order of submission. Additional columns: log (name of the trace),
number (place of the job in its log, from 0), requested_s, requested_memory_kb, user, group,
executable; -1 if unknown.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import TraceFormat
from hindcast.pipeline.traces.field_checks import number, number_fault
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.swf import scan_fields
from hindcast.pipeline.workloads.schema import (
    MACHINE_COLUMNS,
    TASK_COLUMNS,
    Provenance,
    Workload,
    empty_quarantine,
)

FORMAT: Final = "rlscheduler"
LOGS: Final[Mapping[str, str]] = {
    "lublin_256": "lublin_256.swf",
    "lublin_256_new2": "lublin_256_new2.swf",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf",
    "HPC2N": "HPC2N-2002-2.2-cln.swf",
}
UNKNOWN_RUN_S: Final = 10
_EXPECTED: Final = "an SWF log (lines `; Key: value`, then rows of 18 numbers)"
_MOST: Final = 1e10  # of any number
_READ: Final = (
    "job", "submit", "run", "allocated", "requested", "requested_time", "requested_memory", "user",
    "group", "executable",
)  # fmt: skip
_WHOLE: Final = ("submit", "run", "allocated", "requested", "requested_time")


def raw_files(path: Path) -> list[Path]:
    """Return the logs at a path, in the order of LOGS."""
    return [file for _, file in _log_files(path)]


def _log_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of every log at a path."""
    for name, log_name in LOGS.items():
        for file_name in (log_name, f"{log_name}.gz"):
            file = path / file_name if path.is_dir() else path
            if file.name == file_name and file.is_file():
                yield name, file
                break


def read(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of the logs at a path, and an empty table of bad rows.

    Raises TraceError if there is no log, or if a row is not one that the published program reads.
    """
    log_files = list(_log_files(path))
    if not log_files:
        if not path.is_dir():
            head_lines(path, _EXPECTED)
        expected = ", ".join(LOGS.values())
        raise TraceError(
            f"{path}: this is none of the logs of RLScheduler; expected a folder with {expected} "
            "(or .gz), or one of these files"
        )
    logs = [_log(name, file) for name, file in log_files]
    tasks = pl.concat([rows for rows, _, _ in logs]).sort("submit_s", maintain_order=True)
    tasks = tasks.with_columns(job=pl.int_range(pl.len(), dtype=pl.Int64))
    machines = pl.DataFrame(
        [
            (i, name, float(processors), 1.0)
            for i, ((name, _), (_, processors, _)) in enumerate(zip(log_files, logs, strict=True))
        ],
        schema=dict(MACHINE_COLUMNS),
        orient="row",
    )
    left_out = sum(dropped for _, _, dropped in logs)
    provenance = Provenance(
        format=FORMAT,
        files=tuple(source_file(file) for _, file in log_files),
        counts={
            "rows_read": tasks.height + left_out,
            "tasks": tasks.height,
            "jobs": tasks.height,
            "instances": tasks.height,
            "machines": machines.height,
        },
        left_out={"a run time of 0": left_out} if left_out else {},
        notes=("read as the published program of RLScheduler reads logs",),
    )
    return Workload(tasks=tasks, provenance=provenance, machines=machines), empty_quarantine()


def _log(name: str, path: Path) -> tuple[pl.DataFrame, int, int]:
    """Return the jobs of a log, the processors of its machine, and the number of rows left out."""
    processors = _processors(path)
    faults = [
        number_fault(field, at_least=0 if field == "submit" else -1, at_most=_MOST)
        for field in _READ
    ]
    rows = (
        scan_fields(path)
        .with_columns(reason=pl.coalesce("reason", *faults))
        .with_columns(number(field).alias(field) for field in _READ)
        .collect()
    )
    fractional = pl.any_horizontal(pl.col(field) != pl.col(field).floor() for field in _WHOLE)
    rows = rows.with_columns(
        reason=pl.coalesce("reason", pl.when(fractional).then(pl.lit("a number that is not whole")))
    )
    bad = rows.filter(pl.col("reason").is_not_null())
    if bad.height:
        line, reason = bad.select("line", "reason").row(0)
        raise TraceError(
            f"{path}: line {line}: {reason}; the published program reads logs without bad rows, "
            f"and {bad.height:,} of its {rows.height:,} rows cannot be read"
        )
    cores = pl.max_horizontal("allocated", "requested")
    jobs = (
        rows.sort("job", maintain_order=True)
        .filter(pl.col("run") != 0)
        .with_columns(
            cores=cores,
            requested_s=pl.when(pl.col("requested_time") == -1)
            .then("run")
            .otherwise("requested_time"),
            run=pl.when(pl.col("run") < 0).then(float(UNKNOWN_RUN_S)).otherwise("run"),
        )
    )
    if jobs.is_empty():
        raise TraceError(f"{path}: none of its {rows.height:,} rows is a job that ran")
    misplaced = jobs.filter(pl.col("submit").diff() < 0)
    if misplaced.height:
        raise TraceError(
            f"{path}: line {misplaced['line'][0]}: this job was submitted before a job of a lower "
            "job number; expected job numbers in order of submission"
        )
    misfit = jobs.filter(~pl.col("cores").is_between(1, processors))
    if misfit.height:
        raise TraceError(
            f"{path}: line {misfit['line'][0]}: the job has {misfit['cores'][0]:g} processors, "
            f"expected 1 to {processors}, those of the machine"
        )
    tasks = jobs.select(
        job=pl.lit(0, dtype=pl.Int64),
        task=pl.lit(0, dtype=pl.Int64),
        job_id=pl.format("{} {}", pl.lit(name), pl.col("job").cast(pl.Int64)),
        task_id=pl.lit("0"),
        submit_s="submit",
        duration_s="run",
        cores="cores",
        memory=pl.lit(0.0),
        instances=pl.lit(1, dtype=pl.Int64),
        log=pl.lit(name),
        number=pl.int_range(pl.len(), dtype=pl.Int64),
        requested_s="requested_s",
        requested_memory_kb="requested_memory",
        user="user",
        group="group",
        executable="executable",
    )
    assert tasks.columns[: len(TASK_COLUMNS)] == list(TASK_COLUMNS)
    return tasks, processors, rows.height - jobs.height


def _processors(path: Path) -> int:
    """Return the processors of a log's machine: MaxProcs, else MaxNodes."""
    sizes = {"MaxProcs": 0, "MaxNodes": 0}
    for line in head_lines(path, _EXPECTED):
        for key in sizes:
            if match := re.match(rf"\s*;\s*{key}:\s*([0-9]{{1,9}})\s*$", line):
                sizes[key] = int(match[1])
    if not any(sizes.values()):
        raise TraceError(
            f"{path}: no header line names the processors of the machine, expected `; MaxProcs: N` "
            "or `; MaxNodes: N` with a whole number of at least 1"
        )
    return sizes["MaxProcs"] or sizes["MaxNodes"]


TRACE_FORMAT: Final = TraceFormat(
    name=FORMAT,
    description="the four SWF logs of the RLScheduler paper, as its program reads them",
    path=(
        "a folder with any of lublin_256.swf, lublin_256_new2.swf, SDSC-SP2-1998-4.2-cln.swf "
        "and HPC2N-2002-2.2-cln.swf, or one of them; .swf.gz is read too"
    ),
    source=(
        "the Parallel Workloads Archive, www.cs.huji.ac.il/labs/parallel/workload; the two "
        "lublin_256 logs, output of its Lublin-Feitelson model, from "
        "github.com/DIR-LAB/deep-batch-scheduler"
    ),
    terms="name the archive, and whom the logs' `; Acknowledge:` lines name",
    citation=(
        "Feitelson, Tsafrir & Krakov, Experience with using the Parallel Workloads Archive, "
        "JPDC 2014; Zhang et al., RLScheduler, SC 2020"
    ),
    read=read,
    files=raw_files,
)
