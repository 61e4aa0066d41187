"""Reader of the accounting log of Slurm: the output of `sacct -P`, or the same as a CSV file.

The path is one file, plain or gzip-compressed, with a header. The command that gives the file:

    SLURM_TIME_FORMAT=%s sacct -a -X -P -S 2024-01-01 -E 2024-07-01 --format=JobID,User,Account,\
Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,ReqNodes,\
ReqMem,ReqTRES,AllocTRES

Columns may have any order; columns that are not known are counted and not read. Other separators
than `|` are recognised (`--delimiter`). The names are those of sacct, in any case, or those of the
published sample of NREL's Eagle (job_id, wallclock_req in seconds, mem_req in MB of the job).

    column of the workload    from the first of these that the file has and the row gives
    submit_s, eligible_s      Submit, Eligible
    duration_s                ElapsedRaw, Elapsed; else End - Start
    requested_s               TimelimitRaw (minutes), Timelimit; UNLIMITED and Partition_Limit are
                              no number, see hindcast.pipeline.traces.job_logs
    requested_cores           ReqCPUS; cpu of ReqTRES
    allocated_cores           AllocCPUS; NCPUS; cpu of AllocTRES
    memory_kb, times cores    mem of ReqTRES; ReqMem (`c` per core, `n` per node, else of the job);
                              mem of AllocTRES
    status                    State: 1 COMPLETED, 5 CANCELLED, 0 other ends
    user, group, account      User; Account, else Group; Account
    queue, partition, qos     Partition; Partition; QOS
    nodes                     AllocNodes; NNodes; node of AllocTRES; ReqNodes; node of ReqTRES
    gpus                      gres/gpu of AllocTRES; of ReqTRES; gpu of AllocGRES; of ReqGRES
    executable, cluster       JobName; Cluster

Rows of steps, of jobs that wait or run, and of jobs that ended before they ran are left out. Every
task of an array is a job. A job that was requeued is its last run; sacct prints the earlier ones
only with --duplicates. In the sample of Eagle every row is a job, since it gives all tasks of an
array one job_id.

Sources: sacct(1) of Slurm 23.02; for ReqMem also the versions before 21.08, which wrote `c` or `n`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, nearest
from hindcast.pipeline.traces.field_values import (
    UTC,
    is_local,
    kilobytes,
    looked_up,
    moment,
    require_time_zone,
    resource,
    span,
)
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import (
    Field,
    FilteredLogSettings,
    chosen,
    sift_jobs,
    workload_of,
)
from hindcast.pipeline.traces.text_rows import scan_rows
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "slurm"
_SEPARATORS: Final = ("|", ",", ";", "\t")
_EXPECTED: Final = "the output of `sacct -P` with its header"
_WHAT: Final = "a job of Slurm"

# Names of the sample of Eagle that sacct does not have -> the column that they are read as.
_EAGLE: Final[Mapping[str, str]] = {
    "job_id": "jobid",
    "submit_time": "submit",
    "start_time": "start",
    "end_time": "end",
    "run_time": "elapsedraw",
    "wallclock_req": "limit_s",
    "processors_req": "reqcpus",
    "nodes_req": "reqnodes",
    "mem_req": "memory_mb",
    "name": "jobname",
}
_TIMES: Final = ("submit", "eligible", "start", "end")
_READ: Final = (
    "jobid", "jobidraw", "state", *_TIMES, "elapsedraw", "elapsed", "timelimitraw", "timelimit",
    "limit_s", "reqcpus", "alloccpus", "ncpus", "reqtres", "alloctres", "reqmem", "memory_mb",
    "reqnodes", "allocnodes", "nnodes", "allocgres", "reqgres", "user", "account", "group",
    "jobname", "qos", "partition", "cluster",
)  # fmt: skip
_CORES: Final = ("alloccpus", "ncpus", "alloctres", "reqcpus", "reqtres")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {  # one of each
    "JobID": ("jobid", "jobidraw"),
    "State": ("state",),
    "Submit": ("submit",),
    "Start": ("start",),
    "ElapsedRaw": ("elapsedraw", "elapsed", "end"),
    "AllocCPUS": _CORES,
}
_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("user",),
    "group": ("account", "group"),
    "executable": ("jobname",),
    "queue": ("partition",),
    "partition": ("partition",),
    "qos": ("qos",),
    "account": ("account",),
    "cluster": ("cluster",),
}
_UNKNOWN: Final = ("unknown", "none", "n/a", "invalid", "not set", "none assigned", "null", "nan")
_NO_TIME: Final = ("0", "1970-01-01t00:00:00")
_NO_LIMIT: Final = ("unlimited", "partition_limit")
STATES: Final[Mapping[str, str]] = {
    "COMPLETED": "completed", "CD": "completed",
    **dict.fromkeys((
        "FAILED", "F", "TIMEOUT", "TO", "OUT_OF_MEMORY", "OUT_OF_ME", "OOM", "NODE_FAIL", "NF",
        "BOOT_FAIL", "BF", "DEADLINE", "DL", "PREEMPTED", "PR", "LAUNCH_FAILED",
        "RECONFIG_FAIL"), "failed"),
    "CANCELLED": "cancelled", "CA": "cancelled", "REVOKED": "cancelled", "RV": "cancelled",
    **dict.fromkeys((
        "PENDING", "PD", "REQUEUE_HOLD", "RESV_DEL_HOLD", "REQUEUE_FED",
        "SPECIAL_EXIT"), "waiting"),
    **dict.fromkeys((
        "RUNNING", "R", "SUSPENDED", "S", "COMPLETING", "CG", "CONFIGURING", "CF", "RESIZING",
        "RS", "SIGNALING", "STAGE_OUT", "STOPPED", "ST", "POWER_UP_NODE", "UPDATE_DB"), "running"),
    "REQUEUED": "requeued", "RQ": "requeued",
}  # fmt: skip
_INTERRUPTED: Final = ("NODE_FAIL", "NF", "BOOT_FAIL", "BF", "PREEMPTED", "PR")


@dataclass(frozen=True)
class SlurmSettings(FilteredLogSettings):
    """Facts about a cluster that the output of sacct does not tell, and which jobs to read."""


DEFAULTS: Final = SlurmSettings()


def read(path: Path, settings: SlurmSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a file, lacks a column, or has no job that ran.
    """
    if path.is_dir():
        raise TraceError(f"{path}: this is a folder, expected the file of {_EXPECTED}")
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    lines = head_lines(path, _EXPECTED)
    first = next(n for n, line in enumerate(lines) if line.strip())
    header = lines[first]
    separator = max(_SEPARATORS, key=header.count)
    labels, unread = _columns(path, first + 1, header, separator)
    raw = scan_rows(path, labels_in_order(labels, header, separator), first + 1, separator)
    zone = settings.time_zone
    rows = _with_state(_without_unknowns(raw, labels), labels, header)
    rows = chosen(path, rows, settings)
    fields = _fields(labels, zone)
    limits = [pl.col(f"{name}_text") for name in ("timelimitraw", "timelimit") if name in labels]
    sifted = sift_jobs(
        path,
        rows,
        fields,
        _WHAT,
        settings,
        no_limit=pl.coalesce(limits).str.to_lowercase().is_in(_NO_LIMIT) if limits else None,
    )
    notes = [] if not unread else [f"columns that are not read: {len(unread)} ({_some(unread)})"]
    eagle = labels.get("jobid", "").lower() == "job_id"
    return workload_of(path, FORMAT, sifted, settings, notes, rows_are_jobs=eagle)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether the first of some lines is the header of a file that this reader reads."""
    names = {part.strip().strip('"').lower() for part in lines[0].split("|")}
    return "|" in lines[0] and {"jobid", "jobidraw"} & names != set() and "submit" in names


def _columns(
    path: Path, line: int, header: str, separator: str
) -> tuple[dict[str, str], list[str]]:
    """Return the columns to read with their names in the file, and the names of the others."""
    labels: dict[str, str] = {}
    unread: list[str] = []
    for label, name in zip(*_names(header, separator), strict=True):
        if name in _READ and name not in labels:
            labels[name] = label
        elif label:
            unread.append(label)
    for wanted, options in _NEEDED.items():
        if not labels.keys() & set(options):
            close = nearest(wanted.lower(), [label.lower() for label in unread])
            hint = f"; is it the column {close!r}?" if close else ""
            raise TraceError(
                f"{path}: line {line} has no column {wanted}, expected the header of `sacct -P "
                f"--format=JobID,State,Submit,Start,End,ElapsedRaw,AllocCPUS,...`{hint}"
            )
    return labels, unread


def _names(header: str, separator: str) -> tuple[list[str], list[str]]:
    """Return the names of a header as written, and as the names of `_READ`."""
    labels = [part.strip(' \t\r"') for part in header.split(separator)]
    lowercase = [label.lower() for label in labels]
    # Formats such as `JobID%20` set a width, which is no part of the name.
    bare = [name.split("%")[0] for name in lowercase]
    return labels, [_EAGLE.get(name, name) for name in bare]


def labels_in_order(labels: Mapping[str, str], header: str, separator: str) -> list[str]:
    """Return the columns in file order, "" for those that are not read."""
    columns: list[str] = []
    for name in _names(header, separator)[1]:
        columns.append(name if name in labels and name not in columns else "")
    return columns


def _without_unknowns(rows: pl.LazyFrame, labels: Mapping[str, str]) -> pl.LazyFrame:
    """Replace the words of sacct for an unknown value by null; keep texts of limits beside them."""
    texts = {}
    for name in labels:
        lower = pl.col(name).str.to_lowercase()
        words = (*_UNKNOWN, *_NO_TIME) if name in _TIMES else _UNKNOWN
        if name.startswith("timelimit"):
            words = (*words, *_NO_LIMIT)
        texts[name] = pl.when(~lower.is_in(words)).then(pl.col(name))
    limit_texts = {f"{name}_text": pl.col(name) for name in labels if name.startswith("timelimit")}
    return rows.with_columns(**texts, **limit_texts)


def _with_state(rows: pl.LazyFrame, labels: Mapping[str, str], header: str) -> pl.LazyFrame:
    """Add the name, the outcome and the names of users and queues; find steps and headers."""
    ids = pl.coalesce(name for name in ("jobid", "jobidraw") if name in labels)
    word = pl.col("state").str.extract(r"^([A-Za-z_]+)").str.to_uppercase()
    outcome = looked_up(word, STATES)
    fault = pl.format(
        "{} is '{}', expected a state of Slurm such as COMPLETED",
        pl.lit(labels["state"]),
        pl.col("state").str.slice(0, 40).fill_null(""),
    )
    is_header = pl.col("text").str.strip_chars() == header.strip()
    is_step = ids.str.contains(".", literal=True)
    left_out: pl.Expr = (
        pl.when(is_header)
        .then(pl.lit("the header again"))
        .when(is_step & pl.col("reason").is_null())
        .then(pl.lit("a step of a job that has a row of its own"))
    )
    return rows.with_columns(
        job_id=ids,
        outcome=outcome,
        interrupted=word.is_in(_INTERRUPTED).fill_null(value=False),
        left_out=left_out,
        reason=pl.coalesce("reason", pl.when(outcome.is_null() & left_out.is_null()).then(fault)),
        **{
            name: pl.coalesce(pl.lit(None, pl.String), *(c for c in options if c in labels))
            for name, options in _NAMED.items()
        },
    )


def _fields(labels: Mapping[str, str], zone: str) -> dict[str, Field]:
    """Return the fields of a job that the columns give."""
    fields = {
        name: Field(
            labels[name],
            pl.col(name),
            moment(pl.col(name), zone),
            "a time",
            local=is_local(pl.col(name)),
            later=moment(pl.col(name), zone, later=True) if zone != UTC else None,
        )
        for name in _TIMES
        if name in labels
    }
    spans = {name: pl.col(name) for name in ("elapsedraw", "elapsed") if name in labels}
    if spans:
        text = pl.coalesce(list(spans.values()))
        fields["duration"] = Field(labels[next(iter(spans))], text, span(text), "a time span")
    limits = {
        "timelimitraw": pl.col("timelimitraw").cast(pl.Float64, strict=False) * 60,
        "timelimit": span(pl.col("timelimit")),
        "limit_s": pl.col("limit_s").cast(pl.Float64, strict=False),
    }
    limits = {name: value for name, value in limits.items() if name in labels}
    if limits:
        name = next(iter(limits))
        fields["limit"] = Field(
            labels[name], pl.coalesce(list(limits)), pl.coalesce(list(limits.values())), "a limit"
        )
    for field, columns, tres in (
        ("requested_cores", ("reqcpus",), "reqtres"),
        ("allocated_cores", ("alloccpus", "ncpus"), "alloctres"),
    ):
        texts = {name: pl.col(name) for name in columns if name in labels}
        texts |= {tres: resource(pl.col(tres), "cpu")} if tres in labels else {}
        if texts:
            fields[field] = _number_of(labels, texts, "a number of processors")
    nodes = _nodes(labels)
    if nodes:
        fields["nodes"] = _number_of(labels, nodes, "a number of nodes")
    gpus = {n: _gpus(pl.col(n)) for n in ("alloctres", "reqtres", "allocgres", "reqgres")}
    if gpus := {name: text for name, text in gpus.items() if name in labels}:
        fields["gpus"] = _number_of(labels, gpus, "a number of GPUs")
    return fields | _memory(labels, fields)


def _number_of(labels: Mapping[str, str], texts: Mapping[str, pl.Expr], expected: str) -> Field:
    """Return the field of a whole number that the first of some columns gives."""
    text = pl.coalesce(list(texts.values()))
    number = text.cast(pl.Int64, strict=False).cast(pl.Float64)
    return Field(labels[next(iter(texts))], text, number, expected)


def _nodes(labels: Mapping[str, str]) -> dict[str, pl.Expr]:
    """Return the texts of the number of nodes by column, the surest first."""
    texts = {
        **{name: pl.col(name) for name in ("allocnodes", "nnodes")},
        "alloctres": resource(pl.col("alloctres"), "node"),
        "reqnodes": pl.col("reqnodes"),
        "reqtres": resource(pl.col("reqtres"), "node"),
    }
    return {name: text for name, text in texts.items() if name in labels}


def _gpus(text: pl.Expr) -> pl.Expr:
    """Return the GPUs of a TRES as `gres/gpu=4,gres/gpu:a100=4`, or of a GRES as `gpu:a100:4`."""
    kinds = text.str.extract_all(r"gres/gpu:[^=,]+=\d+").list.eval(
        pl.element().str.extract(r"=(\d+)$").cast(pl.Int64, strict=False)
    )
    listed = pl.when(kinds.list.len() > 0).then(kinds.list.sum()).cast(pl.String)
    return pl.coalesce(
        resource(text, "gres/gpu"), listed, text.str.extract(r"\bgpu(?::[^:,()=]+)?:(\d+)\b")
    )


def _memory(labels: Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the field of the job's memory, if a column gives it."""
    cores = pl.coalesce(
        [fields[name].value for name in ("requested_cores", "allocated_cores") if name in fields]
    )
    # Memory is requested for the requested nodes; older logs give the allocated ones alone.
    known = _nodes(labels)
    requested = [known[name] for name in ("reqnodes", "reqtres") if name in known]
    nodes = pl.coalesce(*requested, *known.values(), pl.lit("1")).cast(pl.Float64, strict=False)
    sources: dict[str, tuple[pl.Expr, pl.Expr]] = {}  # column -> text, value
    if "reqtres" in labels:
        text = resource(pl.col("reqtres"), "mem")
        sources["reqtres"] = text, kilobytes(text, "m")
    if "reqmem" in labels:
        text = pl.col("reqmem")
        last = text.str.slice(-1)
        units = pl.when(last == "c").then(cores).when(last == "n").then(nodes).otherwise(1.0)
        sources["reqmem"] = text, kilobytes(text, "m") * units
    if "memory_mb" in labels:
        text = pl.col("memory_mb")
        sources["memory_mb"] = text, text.cast(pl.Float64, strict=False) * 1024
    if "alloctres" in labels:
        text = resource(pl.col("alloctres"), "mem")
        sources["alloctres"] = text, kilobytes(text, "m")
    if not sources:
        return {}
    texts, values = zip(*sources.values(), strict=True)
    label = labels[next(iter(sources))]
    return {"memory_kb": Field(label, pl.coalesce(texts), pl.coalesce(values), "an amount")}


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
