"""Reader of the Azure packing trace 2020, from its database or a table derived from it.

    database   SQLite: table vm(vmId, tenantId, vmTypeId, priority 0 on-demand 1 deferrable,
               starttime, endtime) in fractional days, starttime may be negative, endtime NULL:
               alive at the end of the trace, day 14;
               table vmType(vmTypeId, machineId, core, memory, ...), fractions of that machine,
               one row per (vmTypeId, machineId)
    table      .csv without header, 6 columns: id, cores, memory, disk, duration_ms, start_ms

A VM is a job of one task with one instance. After the canonical columns its row has

    priority   int64     0 on-demand, 1 deferrable; null if read from a derived table
    tenant     string    null if read from a derived table
    vm_type    string    null if read from a derived table
    ended      bool      false: alive at the end of the trace, which ends its duration

The trace gives no absolute sizes: `cores` are fractions times MACHINE_CORES. A VM type fits several
machine types. Its size is taken from one of the machines for which its cores are known: the one
that hosts the most VM types. So most VMs are measured in one unit, and no VM is counted twice. A
derived table is joined with all machine types: there the first row of a VM counts, and memory is a
fraction of the largest VM's.

Source: Hadary et al., "Protean: VM Allocation Service at Scale", OSDI 2020.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError, nearest
from hindcast.pipeline.traces.field_checks import (
    choice_fault,
    name_fault,
    number,
    number_fault,
    value_fault,
)
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.text_rows import Sifted, collect, scan_rows, sift
from hindcast.pipeline.workloads.schema import Provenance, Workload

FORMAT: Final = "azure2020"
MACHINE_CORES: Final = 48.0  # cores of a whole machine, chosen here: the trace has fractions only
DAY_S: Final = 86_400.0
LAST_DAY: Final = 14.0
_MAGIC: Final = b"SQLite format 3\0"
_EXPECTED: Final = (
    "the SQLite database of the Azure packing trace 2020 (tables vm and vmType) or a derived .csv "
    "(6 columns: id, cores, memory, disk, duration_ms, start_ms)"
)
_TABLES: Final[dict[str, tuple[str, ...]]] = {
    "vm": ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime"),
    "vmType": ("vmTypeId", "machineId", "core", "memory"),
}
_DERIVED: Final = ("job_id", "cores", "memory", "", "duration_ms", "start_ms")
_EXTRA: Final = ("priority", "tenant", "vm_type", "ended")
_FURTHEST_DAY: Final = 3650.0  # days further away cannot belong to this trace
_BATCH: Final = 200_000  # rows fetched at once
_LONGEST: Final = 1 << 20  # bytes of a value or row


def read(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a database or derived table, and its bad rows.

    The `line` of a bad row of a database is its rowid in table vm. Raises TraceError if the path is
    neither a database nor a table, or if no VM is usable.
    """
    database = _is_database(path)
    vms = _sift_database(path) if database else _sift_table(path)
    distinct, vms = distinct_tasks(path, vms, "a usable VM")
    if not database:
        distinct = distinct.with_columns(pl.col("memory") / (distinct["memory"].max() or 1.0))
    extra = distinct.select("job_id", *_EXTRA)
    tasks = in_order(distinct).join(extra, on="job_id", how="left", maintain_order="left")
    provenance = Provenance(
        format=FORMAT,
        files=(source_file(path),),
        counts={
            "rows_read": vms.read,
            "tasks": tasks.height,
            "jobs": tasks.height,
            "instances": tasks.height,
            "alive_at_the_end": int((~tasks["ended"]).sum()),
            "on_demand": int((tasks["priority"] == 0).sum()),
        },
        left_out=vms.all_left_out,
        notes=_notes(database),
    )
    return Workload(tasks=tasks, provenance=provenance), vms.quarantine


def raw_files(path: Path) -> tuple[Path, ...]:
    """Return the files that `read` may read: the database and its write-ahead log."""
    return (path, path.with_name(f"{path.name}-wal"))


def _is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database; raise TraceError if it cannot be read."""
    if path.is_file():
        try:
            with path.open("rb") as raw:
                if raw.read(len(_MAGIC)) == _MAGIC:
                    return True
        except OSError as error:
            raise TraceError(f"{path}: this file cannot be read ({error.strerror})") from error
    head_lines(path, _EXPECTED)
    return False


def _notes(database: bool) -> tuple[str, ...]:
    if not database:
        return (
            "of the rows of one VM, which was joined with several machines, the first counts",
            "memory is a fraction of the largest VM's",
        )
    return (
        f"cores are fractions of a machine times {MACHINE_CORES:g}",
        "a VM type is measured on the machine with the most types of those that know its cores",
        f"VMs without endtime last until day {LAST_DAY:g}; their column ended is false",
    )


def _sift_table(path: Path) -> Sifted:
    """Return the rows of a derived table, with the columns of a task."""
    rows = scan_rows(path, _DERIVED)
    no_text = pl.lit(None, dtype=pl.String)
    values = rows.select(
        "line",
        "text",
        "job_id",
        task_id=pl.lit("0"),
        reason=pl.coalesce(
            "reason",
            name_fault("job_id"),
            number_fault("cores", above=0),
            number_fault("memory", at_least=0),
            number_fault("duration_ms", above=0),
            number_fault("start_ms"),
        ),
        submit_s=number("start_ms") / 1000.0,
        duration_s=number("duration_ms") / 1000.0,
        cores=number("cores"),
        memory=number("memory"),
        instances=pl.lit(1, dtype=pl.Int64),
        priority=pl.lit(None, dtype=pl.Int64),
        tenant=no_text,
        vm_type=no_text,
        ended=pl.lit(value=True),
    )
    return sift(path, values, "a derived table of the Azure packing trace 2020")


def _sift_database(path: Path) -> Sifted:
    """Return the rows of table vm, with the columns of a task and the size of the VM type."""
    vms, types = _fetch(path)
    sizes = _sizes(path, types)
    rows = (
        vms.lazy()
        .with_columns(pl.col("priority").str.strip_suffix(".0"))
        .join(sizes.lazy(), on="vmTypeId", how="left", maintain_order="left")
    )
    start, end = number("starttime"), number("endtime")
    lasted = pl.coalesce(end, pl.lit(LAST_DAY)) - start
    backwards = pl.when(end < start).then(
        pl.format("endtime {} is before starttime {}", "endtime", "starttime")
    )
    text = pl.concat_str([pl.col(name).fill_null("") for name in _TABLES["vm"]], separator=",")
    left_out = (
        pl.when(~pl.col("known").fill_null(value=False))
        .then(pl.lit("vmTypeId not in vmType"))
        .when(pl.col("core").is_null())
        .then(pl.lit("core missing"))
        .when(pl.col("memory").is_null())
        .then(pl.lit("memory missing"))
        .when(pl.col("endtime").is_null() & (lasted <= 0))
        .then(pl.lit(f"started on day {LAST_DAY:g} or later and did not end"))
        .when(lasted == 0)
        .then(pl.lit("lasted 0 s"))
    )
    values = rows.select(
        "line",
        text.alias("text"),
        job_id="vmId",
        task_id=pl.lit("0"),
        reason=pl.coalesce(
            name_fault("vmId"),
            name_fault("vmTypeId"),
            choice_fault("priority", ("0", "1")),
            number_fault("starttime"),
            number_fault("endtime", optional=True),
            *(
                value_fault(day, number(day).abs() > _FURTHEST_DAY, "days of the trace")
                for day in ("starttime", "endtime")
            ),
            backwards,
        ),
        left_out=left_out,
        submit_s=start * DAY_S,
        duration_s=lasted * DAY_S,
        cores=pl.col("core") * MACHINE_CORES,
        memory=pl.col("memory"),
        instances=pl.lit(1, dtype=pl.Int64),
        priority=pl.col("priority").cast(pl.Int64, strict=False),
        tenant="tenantId",
        vm_type="vmTypeId",
        ended=pl.col("endtime").is_not_null(),
    )
    return sift(path, values, "table vm of the Azure packing trace 2020")


def _fetch(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables vm and vmType; every value is text, exact to the last bit."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            for table, columns in _TABLES.items():
                _check_table(path, database, table, columns)
            return _table(database, "vm"), _table(database, "vmType")
    except sqlite3.Error as error:
        raise TraceError(
            f"{path}: this SQLite database is damaged or foreign ({error}); expected {_EXPECTED}"
        ) from error


def _check_table(
    path: Path, database: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> None:
    """Raise TraceError if the table or one of its columns is missing."""
    present = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    if not present:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        has = f"it has {', '.join(names[:5])}" if names else "it has no tables"
        raise TraceError(f"{path}: the table {table!r} is missing ({has}); expected {_EXPECTED}")
    lower = {name.lower() for name in present}
    for column in columns:
        if column.lower() not in lower:
            close = nearest(column, present)
            hint = f"; did you mean {close!r}?" if close else ""
            raise TraceError(f"{path}: column {column!r} of the table {table!r} is missing{hint}")


def _table(database: sqlite3.Connection, table: str) -> pl.DataFrame:
    """Return `line` (the rowid) and the known columns of a table; numbers read back unchanged."""
    columns = _TABLES[table]
    as_text = ", ".join(
        f"CASE typeof({c}) WHEN 'real' THEN printf('%!.17g', {c}) ELSE CAST({c} AS TEXT) END"
        for c in columns
    )
    query = f"SELECT rowid, {as_text} FROM {table} ORDER BY rowid"  # noqa: S608  our own names
    schema: dict[str, Any] = {"line": pl.Int64, **dict.fromkeys(columns, pl.String)}
    cursor = database.execute(query)
    frames = [pl.DataFrame(schema=schema)]
    while rows := cursor.fetchmany(_BATCH):
        frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
    return pl.concat(frames)


def _sizes(path: Path, types: pl.DataFrame) -> pl.DataFrame:
    """Return the size of each VM type on its chosen machine: vmTypeId, core, memory, known."""
    hosted = pl.col("vmTypeId").n_unique().over("machineId")
    usable = (pl.col("core") > 0) & pl.col("core").is_finite()
    sized = types.with_columns(
        pl.when(number(name).is_finite()).then(number(name)).alias(name)
        for name in ("core", "memory")
    ).with_columns(
        core=pl.when(usable).then("core"),
        memory=pl.when(pl.col("memory") >= 0).then("memory"),
        hosted=hosted,
        known=pl.lit(value=True),
    )
    # Known cores first, then known memory, then the machine of the most types, then by name.
    by_preference = sized.lazy().sort(
        pl.col("core").is_null(),
        pl.col("memory").is_null(),
        -pl.col("hosted").cast(pl.Int64),
        "machineId",
    )
    chosen = by_preference.group_by("vmTypeId", maintain_order=True).first()
    return collect(chosen.select("vmTypeId", "core", "memory", "known"), path)
