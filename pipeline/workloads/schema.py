"""The canonical workload: the tables that trace readers write and scenarios read.

`tasks` has one row per task; schedulers place instances, of which a task has `instances` identical
ones.

    job          int64     0, 1, 2, ... in order of submission (stable for equal times)
    task         int64     0, 1, ... in file order inside its job
    job_id       string    the trace's own name of the job
    task_id      string    the trace's own name of the task
    submit_s     float64   seconds on the clock of the trace; below 0 before its start
    duration_s   float64   > 0
    cores        float64   > 0, per instance
    memory       float64   >= 0, fraction of the reference machine, per instance
    instances    int64     >= 1

`machines` is optional: machine (int64), machine_id (string), cores (float64), memory (float64). A
format that knows more (deadlines, users, dependencies) appends its own columns at the end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from hindcast.pipeline.storage.json_values import a_count, a_list, a_sha256, a_table, a_text

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

LARGEST: Final = 1e15  # seconds, cores, instances: sums of them stay exact

# Smallest number of each column, and whether the number itself is excluded.
_LEAST: Final[Mapping[str, tuple[float, bool]]] = {
    "submit_s": (-LARGEST, False),
    "duration_s": (0.0, True),
    "cores": (0.0, True),
    "memory": (0.0, False),
    "instances": (1, False),
}
NUMBERS: Final = tuple(_LEAST)


def within(name: str) -> pl.Expr:
    """Return whether a number of the tasks is within the limits of its column."""
    least, excluded = _LEAST[name]
    column = pl.col(name)
    return ((column > least) if excluded else (column >= least)) & (column <= LARGEST)


def limits(name: str) -> str:
    """Return the limits of a column of the tasks in words."""
    least, excluded = _LEAST[name]
    return f"{'above' if excluded else 'of at least'} {least:g} and at most {LARGEST:g}"


def wrong_columns(table: pl.DataFrame, expected: Mapping[str, pl.DataType]) -> str | None:
    """Return how the first columns of a table differ from the expected ones, None if they do not.

    A format may add columns of its own at the end.
    """
    columns_read, columns_expected = (
        ", ".join(f"{name} {kind}" for name, kind in list(columns.items())[: len(expected)])
        for columns in (table.schema, expected)
    )
    if columns_read == columns_expected:
        return None
    return f"the columns are {columns_read}, expected {columns_expected}"


def damage(tasks: pl.DataFrame, machines: pl.DataFrame | None = None) -> str | None:
    """Return the first fault of tables that no ingestion writes, or None if they are sound.

    Simulators compute the size of their memory from these numbers. So tables that come from a file
    are checked here, in one pass.
    """
    canonical = tasks.select(list(TASK_COLUMNS))
    if sum(canonical.null_count().row(0)):
        return "a value of the tasks is missing (null)"
    job = canonical["job"]
    for column in canonical.select(within(name).alias(name) for name in NUMBERS).get_columns():
        if not column.all():
            return f"{column.name} has a value that is not a number {limits(column.name)}"
    if float(canonical["instances"].cast(pl.Float64).sum()) > LARGEST:
        return f"the sum of the instances is above {LARGEST:g}"
    steps = job.diff().drop_nulls()
    if job.len() and not (job[0] == 0 and steps.is_between(0, 1).all()):
        return "the jobs are not numbered 0, 1, 2, ... in order"
    if not (canonical["submit_s"].diff().drop_nulls() >= 0).all():
        return "the jobs are not in order of submission"
    sizes = [] if machines is None else machines.select("cores", "memory").get_columns()
    for column in sizes:
        if column.null_count() or not column.is_between(0, LARGEST).all():
            return f"{column.name} of a machine is missing, below 0 or above {LARGEST:g}"
    return None


@dataclass(frozen=True)
class SourceFile:
    """A raw file that a workload was made from."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Provenance:
    """Source of a workload, and the rows that were left out.

    Attributes:
        format: Name of the trace format.
        files: The raw files.
        counts: Numbers of rows_read, tasks, jobs, instances and others.
        left_out: Number of rows that are not in the workload, by reason; rows_read == tasks + the
            sum of left_out if one raw row is one task.
        notes: Remarks for the card of a dataset.
    """

    format: str
    files: tuple[SourceFile, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def noted(self) -> Mapping[str, str]:
        """Values of notes such as `UnixStartTime: 1709280000`, by what stands before the colon.

        The first note of a key counts.
        """
        return dict(note.split(": ", 1) for note in reversed(self.notes) if ": " in note)

    @property
    def second_zero(self) -> int | None:
        """Second 0 of a log in seconds since 1970; None if no note says it, or one says 0."""
        noted = self.noted.get("UnixStartTime", "").strip()
        return (int(noted) or None) if re.fullmatch("[0-9]{1,11}", noted) else None


def read_provenance(value: Any) -> Provenance:
    """Return a provenance from JSON; raise KeyError, TypeError or ValueError if it is damaged."""
    return Provenance(
        format=a_text(value["format"]),
        files=tuple(
            SourceFile(a_text(file["name"]), a_count(file["bytes"]), a_sha256(file["sha256"]))
            for file in a_list(value["files"])
        ),
        counts={k: a_count(v) for k, v in a_table(value["counts"]).items()},
        left_out={k: a_count(v) for k, v in a_table(value["left_out"]).items()},
        notes=tuple(map(a_text, a_list(value["notes"]))),
    )


@dataclass(frozen=True)
class Workload:
    """Tasks, machines (None if the trace has none) and their provenance."""

    tasks: pl.DataFrame
    provenance: Provenance
    machines: pl.DataFrame | None = None


QUARANTINE_COLUMNS: Final[Mapping[str, pl.DataType]] = {
    "file": pl.String(),
    "line": pl.Int64(),
    "reason": pl.String(),
    "text": pl.String(),
}


def empty_quarantine() -> pl.DataFrame:
    """Return a quarantine without rows."""
    return pl.DataFrame(schema=dict(QUARANTINE_COLUMNS))
