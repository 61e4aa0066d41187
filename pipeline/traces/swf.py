"""Reader of the Standard Workload Format, version 2.2: logs of the Parallel Workloads Archive.

The path is one log, plain or gzip-compressed: header lines `; Key: value`, then a row of 18 numbers
for every job, -1 for an unknown value. A job is one task with one instance that holds its
processors (cores) and memory together for its run time. Missing values are derived, and the
provenance counts them:

    wanted          taken from                 if unknown (-1)
    cores           requested processors       allocated processors; else the row is left out
    duration_s      run time                   average cpu time; else requested time; else left out
                    a run time of 0            1 s, the resolution of the logs
    requested_s     requested time             duration_s
    memory          requested memory           used memory; else 0

Memory is in KB per processor. As a fraction of the cluster it is memory * cores over (the largest
memory of the log * processors of the cluster). The cluster is one machine of as many processors as
the setting says, else MaxProcs, else MaxNodes, else as many as the largest job has. This counts too
where more than 1 % of the jobs are wider than MaxNodes: then nodes are not processors.

A bad value of a field that the task does not need is taken as unknown, and counted. So is a request
for more processors than the cluster has, if fewer were allocated, and a status above 5.

Rows of status 2, 3 and 4 are parts of a job that has its own row: they are left out, as are
jobs cancelled before they ran. A cancelled job with a run time of 0 did run. Additional columns:
requested_s, requested_cores, allocated_cores, wait_s, memory_kb (per processor), status, user,
group, executable, queue, partition, preceding_job, think_s; null if unknown. A last column,
run_unknown (boolean), marks tasks whose run time is unknown; it is absent if there are none.

Source: Feitelson, Tsafrir & Krakov, "Experience with using the Parallel Workloads Archive", JPDC
2014.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.settings.ranges import number as number_range
from hindcast.pipeline.traces.field_checks import number, number_fault, value_fault
from hindcast.pipeline.traces.first_look import head_lines, source_file
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.text_rows import Sifted, collect, scan_lines, sift, split_fault
from hindcast.pipeline.workloads.caveats import NO_SIZE, NO_WAIT
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, Provenance, Workload

FORMAT: Final = "swf"
_EXPECTED: Final = "an SWF log (lines `; Key: value`, then rows of 18 numbers)"
_WHAT: Final = "a job of an SWF log"
_QUOTED: Final = ("Computer", "Installation", "Acknowledge", "Information", "Note")
_PROCESSORS, _NODES = "MaxProcs", "MaxNodes"  # keys of the header
# Jobs that may be wider than MaxNodes if these are processors: a share, and a number.
_WIDER: Final = 0.01
_FEW_WIDER: Final = 10
_CLOCK: Final = ("UnixStartTime", "TimeZoneString")
_NOT_KNOWN: Final = re.compile(r"(?:unknown|none|n/?a|not known|-+|\?+)?$", re.IGNORECASE)
# Whole numbers, also as 1,024 or 1.024; "338(batch)" and "128 processors" begin with one, but "2k"
# and "64x8" do not.
_GROUPED: Final = re.compile(r"[0-9]{1,3}(?:[,.'_][0-9]{3})+(?![0-9.,])")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?![0-9]|[.,][0-9]|\s*[x*][0-9\s]|[kKmMgG]\b)")

# Largest plausible values. A row with a larger one is bad if a task needs the field; else the value
# is taken as unknown.
_LONGEST_S: Final = 1e9  # 32 years, of a run, a wait, a request
_LATEST_S: Final = 1e10  # a clock of seconds since 1970 included
_MOST_MEMORY_KB: Final = 1e11  # per processor
_MOST_PROCESSORS: Final = 1e8
_LARGEST: Final[Mapping[str, float]] = {
    "job": 2.0**53,
    "submit": _LATEST_S,
    "wait": _LONGEST_S,
    "run": _LONGEST_S,
    "allocated": _MOST_PROCESSORS,
    "average_cpu": _LONGEST_S,
    "used_memory": _MOST_MEMORY_KB,
    "requested": _MOST_PROCESSORS,
    "requested_time": _LONGEST_S,
    "requested_memory": _MOST_MEMORY_KB,
    "status": 5,
}
_WHOLE: Final = ("job", "allocated", "requested", "status")
_NEEDED: Final = ("job", "submit", "run", "requested")  # of every task

_EXTRA: Final[Mapping[str, tuple[str, pl.DataType]]] = {
    "requested_cores": ("requested", pl.Int64()),
    "allocated_cores": ("allocated", pl.Int64()),
    "wait_s": ("wait", pl.Float64()),
    "memory_kb": ("memory_kb", pl.Float64()),
    "status": ("status", pl.Int64()),
    "user": ("user", pl.Int64()),
    "group": ("group", pl.Int64()),
    "executable": ("executable", pl.Int64()),
    "queue": ("queue", pl.Int64()),
    "partition": ("partition", pl.Int64()),
    "preceding_job": ("preceding_job", pl.Int64()),
    "think_s": ("think", pl.Float64()),
}


@dataclass(frozen=True)
class SwfSettings:
    """Facts about a cluster that the header of its SWF log does not tell.

    Attributes:
        processors: Processors of the cluster; by default MaxProcs of the header.
        further_fields: Whether rows may have fields after the 18 of the format; they are not read.
    """

    processors: int | None = number_range(None, "from 1 to 100,000,000")
    further_fields: bool = False


DEFAULTS: Final = SwfSettings()


def read(path: Path, settings: SwfSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a log or has no usable job.
    """
    lines = head_lines(path, _EXPECTED)
    header = _header(lines)
    if not settings.further_fields:
        _require_width(path, lines)
    processors, key = (settings.processors, "") if settings.processors else _size(path, header)
    fields = scan_fields(path, further=settings.further_fields)
    nodes = None
    if processors is not None and key == _NODES:
        wide = collect(fields.select(wide=_width() > processors), path)["wide"]
        if wide.sum() > max(_WIDER * len(wide), _FEW_WIDER):
            processors, nodes = None, processors
    sifted = sift(path, _with_checks(fields, processors), _WHAT)
    distinct, sifted = distinct_tasks(path, sifted, "a job that ran", key=("job_id",))
    capacity = processors or int(distinct["cores"].to_numpy().max())
    rows = _with_memory(distinct, capacity)
    tasks = _with_extras(in_order(rows), rows)
    provenance = Provenance(
        format=FORMAT,
        files=(source_file(path),),
        counts={
            "rows_read": sifted.read,
            "tasks": tasks.height,
            "jobs": tasks.height,
            "instances": tasks.height,
            "machines": 1,
            **_derived(rows),
        },
        left_out=sifted.all_left_out,
        notes=_notes(header, rows, capacity, sifted, known=processors is not None, nodes=nodes),
    )
    machines = pl.DataFrame(
        [(0, header.get("Computer", [FORMAT])[0], float(capacity), 1.0)],
        schema=dict(MACHINE_COLUMNS),
        orient="row",
    )
    return Workload(tasks=tasks, provenance=provenance, machines=machines), sifted.quarantine


def is_log(lines: Sequence[str]) -> bool:
    """Return whether the first of some lines is a comment or a row of SWF: 18 numbers."""
    words = lines[0].split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return lines[0].lstrip().startswith(";")
    return len(numbers) == len(FIELDS)


def clock_notes(path: Path) -> tuple[str, ...]:
    """Return the header lines about the moment at which a log begins, as notes.

    `read` does not return these notes, so that workloads that recipes read keep their bytes.
    """
    header = _header(head_lines(path, _EXPECTED))
    return tuple(f"{key}: {header[key][0]}" for key in _CLOCK if key in header)


def _header(lines: list[str]) -> dict[str, list[str]]:
    """Return the values of the header by key; a key may occur several times."""
    header: dict[str, list[str]] = {}
    for line in lines:
        if is_comment(line):
            key, colon, value = line.lstrip().lstrip("; \t").partition(":")
            if colon and value.strip():
                header.setdefault(key.strip(), []).append(value.strip())
    return header


def _require_width(path: Path, lines: list[str]) -> None:
    """Raise TraceError if most of the first rows have more than 18 fields."""
    widths = [len(line.split()) for line in lines if line.strip() and not is_comment(line)]
    wide = [width for width in widths if width > len(FIELDS)]
    if 2 * len(wide) > len(widths):
        raise TraceError(
            f"{path}: the rows have {max(wide, key=wide.count)} fields, expected {len(FIELDS)}; "
            "with `--set further_fields=true` the fields after the first "
            f"{len(FIELDS)} are not read"
        )


def is_comment(line: str) -> bool:
    """Return whether a line is one of the header."""
    return line.lstrip().startswith(";")


def _size(path: Path, header: Mapping[str, list[str]]) -> tuple[int | None, str]:
    """Return the size of the cluster and its key: MaxProcs, else MaxNodes, else None."""
    fault = ""
    by_name = {key.lower(): values[0] for key, values in reversed(list(header.items()))}
    for key in (_PROCESSORS, _NODES):
        value = by_name.get(key.lower(), "")
        if _NOT_KNOWN.match(value):
            continue
        grouped = _GROUPED.match(value)
        match = grouped or _NUMBER.match(value)
        size = int(re.sub(r"[^0-9-]", "", match[0])) if match else 0
        if size > 0:
            return size, key
        if size == 0:
            fault = fault or (
                f"{path}: header line {key} is {value!r}, expected a whole number of at least 1, "
                "or -1 for unknown; `--set processors=N` says it in its place"
            )
    if fault:
        raise TraceError(fault)
    return None, ""


def _width() -> pl.Expr:
    """Return the processors of a row: the allocated ones, else the requested ones; null if none."""
    known = [number(name) for name in ("allocated", "requested")]
    return pl.coalesce(pl.when(value > 0).then(value) for value in known)


def _known(name: str) -> pl.Expr:
    """Return a field as a number, null if it is unknown (-1)."""
    return pl.when(number(name) >= 0).then(number(name))


def _with_checks(rows: pl.LazyFrame, processors: int | None) -> pl.LazyFrame:
    """Add numbers, derived columns, `reason` and `left_out` to the rows of a log."""
    rows = _without_unusable(rows, processors)
    positive = {name: pl.when(_known(name) > 0).then(_known(name)) for name in FIELDS}
    cores = pl.coalesce(positive["requested"], positive["allocated"])
    # Less than a byte is no memory; shares of such a number of KB would not be finite.
    memory = {name: pl.when(value >= 2**-10).then(value) for name, value in positive.items()}
    run_s = positive["run"]
    duration = pl.coalesce(
        run_s,
        pl.when(number("run") == 0).then(1.0),
        positive["average_cpu"],
        positive["requested_time"],
    )
    faults = [
        pl.col("reason"),
        *(fault for name in _NEEDED for fault in _faults(name)),
        _width_fault("requested", processors),
        *_faults("allocated"),
        pl.when(positive["requested"].is_null()).then(_width_fault("allocated", processors)),
    ]
    status = number("status")
    left_out = (
        pl.when(status.is_in([2.0, 3.0, 4.0]))
        .then(pl.lit("a partial execution (status 2, 3 or 4) of a job with a row of its own"))
        .when((status == 5.0) & (number("run") < 0))
        .then(pl.lit("cancelled before it ran (status 5)"))
        .when(cores.is_null())
        .then(pl.lit("no number of processors, requested or allocated"))
        .when(duration.is_null())
        .then(pl.lit("no run time, cpu time or requested time"))
    )
    return rows.with_columns(
        pl.coalesce(faults).alias("reason"),
        left_out=left_out,
        job_id=number("job").cast(pl.Int64, strict=False).cast(pl.String),
        submit_s=number("submit"),
        duration_s=duration,
        cores=cores,
        memory_kb=pl.coalesce(memory["requested_memory"], memory["used_memory"]),
        requested_s=pl.coalesce(positive["requested_time"], duration),
        **{name: _known(name) for name in FIELDS if name not in {"job", "submit"}},
        cores_derived=positive["requested"].is_null(),
        requested_derived=positive["requested_time"].is_null(),
        zero_run=number("run") == 0,
        cpu_run=(number("run") < 0) & positive["average_cpu"].is_not_null(),
        requested_run=(number("run") < 0) & positive["average_cpu"].is_null(),
    )


def _without_unusable(rows: pl.LazyFrame, processors: int | None) -> pl.LazyFrame:
    """Take bad values of fields that the task does not need as unknown (-1), and mark them.

    The new column `unusable` is the sum of 2^i over the fields, i their place in FIELDS. Allocated
    processors are needed where the requested ones are unknown, or more than the cluster has.
    """
    bad = {name: pl.coalesce(_faults(name)).is_not_null() for name in FIELDS if name not in _NEEDED}
    bad["allocated"] &= _known("requested").fill_null(0) > 0
    if processors is not None:
        allocated = number("allocated")
        usable = (allocated == allocated.floor()) & allocated.is_between(1, processors)
        bad["requested"] = (number("requested") > processors) & usable
    marks = [pl.when(fault).then(1 << FIELDS.index(name)) for name, fault in bad.items()]
    return rows.with_columns(
        *(
            pl.when(pl.col("reason").is_null() & fault)
            .then(pl.lit("-1"))
            .otherwise(pl.col(name))
            .alias(name)
            for name, fault in bad.items()
        ),
        unusable=pl.sum_horizontal(marks),
    )


def _faults(name: str) -> list[pl.Expr]:
    """Return the checks of one field."""
    value, most = number(name), _LARGEST.get(name)
    faults = [
        number_fault(name, at_least=0 if name in {"job", "submit"} else -1),
        value_fault(name, (value < 0) & (value > -1), "-1 (unknown) or at least 0"),
    ]
    if most is not None:
        faults.append(value_fault(name, value > most, f"at most {most:g}"))
    if name in _WHOLE:
        faults.append(value_fault(name, value != value.floor(), "a whole number"))
    return faults


def _width_fault(name: str, processors: int | None) -> pl.Expr:
    """Return the reason that a job is wider than the cluster, else null.

    `processors` of the cluster is None if that is unknown.
    """
    if processors is None:
        return pl.lit(None, dtype=pl.String)
    reason = pl.format(
        "{} is {}, but the cluster has {} processors",
        pl.lit(name), pl.col(name).str.slice(0, 40), pl.lit(processors),
    )  # fmt: skip
    return pl.when(number(name) > processors).then(reason)


def _with_memory(rows: pl.DataFrame, capacity: int) -> pl.DataFrame:
    """Add the canonical columns that follow from others to rows of one job each."""
    largest = rows["memory_kb"].max() or 1.0
    share = pl.col("memory_kb") * pl.col("cores") / (pl.lit(largest) * capacity)
    return rows.with_columns(
        memory=share.fill_null(0.0),
        instances=pl.lit(1, dtype=pl.Int64),
        task_id=pl.lit("0"),
    )


def _with_extras(tasks: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that only this format has to the canonical tasks."""
    unknown_run = (pl.col("cpu_run") | pl.col("requested_run")).alias("run_unknown")
    extras = rows.select(
        "job_id",
        "requested_s",
        *(
            pl.col(source).cast(kind, strict=False).alias(name)
            for name, (source, kind) in _EXTRA.items()
        ),
        # A log that knows every run time keeps the bytes that its workload had before.
        *([unknown_run] if rows.select(unknown_run.any()).item() else []),
    )
    return tasks.join(extras, on="job_id", how="left", maintain_order="left")


def _derived(rows: pl.DataFrame) -> dict[str, int]:
    """Return the number of rows in which a value was derived, by value and source."""
    counts = {
        "cores from allocated processors": rows["cores_derived"].sum(),
        "duration_s 1 for a run time of 0": rows["zero_run"].sum(),
        "duration_s from average cpu time": rows["cpu_run"].sum(),
        "duration_s from requested time": rows["requested_run"].sum(),
        "requested_s from duration_s": rows["requested_derived"].sum(),
        "memory unknown, taken as 0": rows["memory_kb"].is_null().sum(),
        **{
            f"{name} not usable, taken as unknown": (rows["unusable"] & (1 << i) != 0).sum()
            for i, name in enumerate(FIELDS)
        },
    }
    return {name: int(count) for name, count in counts.items() if count}


def _notes(
    header: Mapping[str, list[str]],
    rows: pl.DataFrame,
    capacity: int,
    sifted: Sifted,
    *,
    known: bool,
    nodes: int | None,
) -> tuple[str, ...]:
    """Return notes on a log; `nodes` is its MaxNodes if jobs are wider, so that it is no size.

    `known` is whether the number of processors is given, not taken from the largest job.
    """
    notes = [f"{key}: {value}" for key in _QUOTED for value in header.get(key, [])]
    notes += [f"{name}: {count:,} rows" for name, count in _derived(rows).items()]
    if nodes is not None:
        notes.append(
            f"{NO_SIZE}, and jobs are wider than its MaxNodes, {nodes}: nodes are not processors, "
            f"and {capacity} is the largest job"
        )
    elif not known:
        notes.append(f"{NO_SIZE} or MaxNodes: {capacity} is the largest job")
    if rows["wait"].is_null().all():
        notes.append(f"{NO_WAIT}: in some logs the submit times are then really start times")
    return (*notes, *sifted.note())


FIELDS: Final = (
    "job", "submit", "wait", "run", "allocated", "average_cpu", "used_memory", "requested",
    "requested_time", "requested_memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding_job", "think",
)  # fmt: skip


def scan_fields(path: Path, *, further: bool = False) -> pl.LazyFrame:
    """Return the rows of a log, plain or gzip: line, text, FIELDS as strings, reason.

    Comments and blank lines are skipped. `line` counts from 1; `reason` says why the row cannot be
    split, null if it can. If `further`, a row may have more fields, which are not returned.
    """
    trimmed = pl.col("text").str.strip_chars().str.replace_all(r"\s+", " ")
    split = pl.col("trimmed").str.split_exact(" ", len(FIELDS) - 1)
    width = pl.col("trimmed").str.count_matches(" ", literal=True) + 1
    if further:
        width = width.clip(upper_bound=len(FIELDS))
    return (
        scan_lines(path)
        .with_columns(trimmed=trimmed)
        .filter(~pl.col("trimmed").str.starts_with(";"))
        .select(
            "line", "text", split.struct.rename_fields(FIELDS).alias("fields"),
            reason=split_fault(width, len(FIELDS), "field"),
        )
        .unnest("fields")  # a row is split once; with an expression per field, once per field
        .select("line", "text", *FIELDS, "reason")
    )  # fmt: skip
