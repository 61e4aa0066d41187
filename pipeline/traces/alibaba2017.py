"""Reader of Alibaba cluster-trace-v2017, from the original tables or the DeepJS jobs.csv.

The path is a file (jobs.csv or batch_task) or a folder that holds one of them; if it holds both,
jobs.csv is read. Tables are recognised by their content, not by their names. Two more tables are
read if they lie beside the tasks: batch_instance (durations of the instances; only with batch_task)
and server_event (the machines). All files may be gzip-compressed.

Memory is bounded by the number of tasks, not by the size of the files: batch_instance, the large
table, is aggregated while it is read.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import alibaba2017_tables as side_tables
from hindcast.pipeline.traces import alibaba2017_tasks as task_tables
from hindcast.pipeline.traces.first_look import find_table, folder_without, head_lines, source_file
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.text_rows import Sifted
from hindcast.pipeline.workloads.schema import Provenance, Workload

FORMAT: Final = "alibaba2017"
_EXPECTED: Final = (
    "a jobs.csv (header with submit_time, duration, cpu, memory, job_id, task_id, instances_num) "
    "or a batch_task table (8 columns, the 6th a status such as Terminated)"
)
_SAMPLE: Final = 200  # first lines by which a table is recognised

Table = Literal["jobs", "batch_task", "batch_instance", "server_event"]
_WIDTHS: Final[dict[Table, int]] = {
    "batch_task": len(task_tables.BATCH_TASK_COLUMNS),
    "batch_instance": side_tables.BATCH_INSTANCE_WIDTH,
    "server_event": side_tables.SERVER_EVENT_WIDTH,
}


@dataclass(frozen=True)
class _Layout:
    """The table in a file, and its header line; `header` is empty if the file has none."""

    table: Table
    header: tuple[str, ...] = ()
    header_line: int | None = None


def read(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a trace file or folder, and its bad rows (file, line, reason, text).

    In the provenance, `left_out` counts the rows of the task table that are not tasks of the
    workload, by reason; the key "quarantined" counts the bad rows. Raises TraceError if the path is
    not such a trace.
    """
    tasks_path = _task_table(path)
    layout = _layout(tasks_path)
    if layout.table not in {"jobs", "batch_task"}:
        raise TraceError(
            f"{tasks_path}: this {layout.table} table has no tasks; expected {_EXPECTED}"
        )
    files = [tasks_path]
    sifted: dict[str, Sifted] = {}
    means = None
    if layout.table == "batch_task" and (beside := _beside(tasks_path, "batch_instance")):
        files.append(beside)
        attempts = side_tables.sift_batch_instance(
            beside, _layout(beside, "batch_instance").header_line
        )
        sifted["batch_instance"] = attempts
        means = side_tables.mean_durations(beside, attempts)
    tasks = (
        task_tables.sift_jobs(tasks_path, layout.header, layout.header_line or 1)
        if layout.table == "jobs"
        else task_tables.sift_batch_task(tasks_path, layout.header_line, means)
    )
    machines = None
    if beside := _beside(tasks_path, "server_event"):
        files.append(beside)
        added = side_tables.sift_server_event(beside, _layout(beside, "server_event").header_line)
        sifted["server_event"] = added
        machines = side_tables.machines_of(beside, added)

    noun = "a usable task, which is Terminated and has cpu and memory"
    distinct, tasks = distinct_tasks(tasks_path, tasks, noun)
    table = in_order(distinct)
    provenance = Provenance(
        format=FORMAT,
        files=tuple(source_file(file) for file in files),
        counts=_counts(table, tasks, sifted, machines),
        left_out=tasks.all_left_out,
        notes=_notes(layout.table, {layout.table: tasks, **sifted}),
    )
    quarantine = pl.concat([tasks.quarantine, *(part.quarantine for part in sifted.values())])
    return Workload(tasks=table, provenance=provenance, machines=machines), quarantine


def raw_files(path: Path) -> list[Path]:
    """Return the files that `read` may read: the path, and all tables in its folder."""
    folder = path if path.is_dir() else path.parent
    names = ("jobs", *_WIDTHS)
    return [path, *(file for name in names for file in folder.glob(f"{name}*.csv*"))]


def _task_table(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in ("jobs", "batch_task"):
        if table := find_table(path, name):
            return table
    raise folder_without(path, ("jobs.csv", "batch_task.csv"), _EXPECTED)


def _beside(path: Path, name: str) -> Path | None:
    table = find_table(path.parent, name)
    return None if table == path else table


def _layout(path: Path, expected_table: Table | None = None) -> _Layout:
    """Recognise a table by the first lines of its file; raise TraceError if it is not known."""
    expected = f"a {expected_table} table" if expected_table else _EXPECTED
    lines = [
        (number, [field.strip(' \t"') for field in line.split(",")])
        for number, line in enumerate(head_lines(path, expected)[:_SAMPLE], start=1)
        if line.strip()
    ]
    first_line, first = lines[0]
    votes = Counter(table for _, fields in lines if (table := _table_of(fields)))
    if votes:
        table = votes.most_common(1)[0][0]
        header = len(first) == _WIDTHS[table] and _is_header(first)
        layout = _Layout(table, header_line=first_line if header else None)
    elif len(set(first) & set(task_tables.JOBS_COLUMNS)) > len(task_tables.JOBS_COLUMNS) // 2:
        layout = _Layout("jobs", tuple(first), first_line)
    else:
        raise TraceError(_not_known(path, first_line, first, expected))
    if expected_table and layout.table != expected_table:
        raise TraceError(
            f"{path}: this is a {layout.table} table, expected {expected}; rename or move the file"
        )
    return layout


def _table_of(fields: Sequence[str]) -> Table | None:
    """Return the table that a row without header belongs to, by its width and its words."""
    width = len(fields)
    if width == _WIDTHS["batch_task"] and fields[5] in task_tables.STATUSES:
        return "batch_task"
    if width == _WIDTHS["batch_instance"] and fields[5] in side_tables.INSTANCE_STATUSES:
        return "batch_instance"
    if width == _WIDTHS["server_event"] and fields[2] in side_tables.EVENTS:
        return "server_event"
    return None


def _not_known(path: Path, line: int, fields: Sequence[str], expected: str) -> str:
    values = ", ".join(repr(field[:20]) for field in fields[:4]) + (", ..." if fields[4:] else "")
    hint = ""
    if len(fields) == 9 and ("task_name" in fields or fields[4] in task_tables.STATUSES):
        hint = "; this looks like batch_task of cluster-trace-v2018, which is another format"
    width = f"{len(fields)} column{'s' if len(fields) != 1 else ''}"
    return f"{path}: line {line} has {width} ({values}), expected {expected}{hint}"


def _is_header(fields: Sequence[str]) -> bool:
    """Return whether a row has words and no number; a bad row of data still has some number."""
    return any(fields) and pl.Series(fields).cast(pl.Float64, strict=False).is_null().all()


def _counts(
    table: pl.DataFrame,
    tasks: Sifted,
    others: dict[str, Sifted],
    machines: pl.DataFrame | None,
) -> dict[str, int]:
    """Return counts of rows and of what became of them, for the provenance."""
    counts = {
        "rows_read": tasks.read,
        "tasks": table.height,
        "jobs": table["job"].n_unique(),
        "instances": int(table["instances"].sum()),
    }
    if machines is not None:
        counts["machines"] = machines.height
    for name, part in others.items():
        counts[f"{name}_rows_read"] = part.read
        counts[f"{name}_rows_quarantined"] = part.quarantined
        for reason, count in part.left_out.items():
            counts[f"{name}_rows_left_out: {reason}"] = count
    return counts


def _notes(table: Table, parts: dict[str, Sifted]) -> tuple[str, ...]:
    notes = ["a job's submit_s is that of its last row; equal times keep the order of the file"]
    if table == "batch_task":
        notes.append(
            "durations are means over a task's Terminated instances"
            " where batch_instance has them, else modify - create"
            if "batch_instance" in parts
            else "durations are modify - create: there was no batch_instance table"
        )
    if "server_event" in parts:
        notes.append("machines keep the capacities of their add event; errors change nothing")
    return (*notes, *(note for name, part in parts.items() for note in part.note(f"{name}: ")))
