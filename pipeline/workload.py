"""The canonical workload: what every raw trace becomes, and what every scenario reads.

One row of `tasks` per task; the instance (one of `instances` identical copies) is what is placed.

    job          int64     0, 1, 2, ... in order of submission (stable for equal times)
    task         int64     0, 1, ... in file order inside its job
    job_id       string    the trace's own name of the job
    task_id      string    the trace's own name of the task
    submit_s     float64   seconds, re-based so that the trace's first job is at its own clock
    duration_s   float64   > 0
    cores        float64   > 0, per instance
    memory       float64   >= 0, fraction of the reference machine, per instance
    instances    int64     >= 1

`machines` is optional: machine (int64), machine_id (string), cores (float64), memory (float64).
Formats that know more (deadlines, users, dependencies) append columns of their own at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

TASK_COLUMNS: Final[Mapping[str, pl.DataType]] = {
    "job": pl.Int64(),
    "task": pl.Int64(),
    "job_id": pl.String(),
    "task_id": pl.String(),
    "submit_s": pl.Float64(),
    "duration_s": pl.Float64(),
    "cores": pl.Float64(),
    "memory": pl.Float64(),
    "instances": pl.Int64(),
}

MACHINE_COLUMNS: Final[Mapping[str, pl.DataType]] = {
    "machine": pl.Int64(),
    "machine_id": pl.String(),
    "cores": pl.Float64(),
    "memory": pl.Float64(),
}


@dataclass(frozen=True)
class SourceFile:
    """One raw file that went in."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Provenance:
    """Where a workload is from and what was left out of it.

    `counts` holds rows_read, tasks, jobs, instances, and `left_out` the number of rows by reason;
    rows_read == tasks + sum of left_out wherever one raw row is one task.
    """

    format: str
    files: tuple[SourceFile, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """Tasks (and machines, where the trace gives them) with their provenance."""

    tasks: pl.DataFrame
    provenance: Provenance
    machines: pl.DataFrame | None = None
