"""Reader of the history of HTCondor: classads of jobs, or JSON.

Three forms are recognised by their first lines:

    file or command                         form
    the history files of the schedd         lines `Attribute = value`, `*** ...` after each job
    condor_history -long                    lines `Attribute = value`, a blank line after each job
    condor_history -json, -jsonl            a JSON array of objects, or an object a line

Names of attributes may have any case. A value that is an expression is unknown.

    column of the workload    from
    job_id                    ClusterId.ProcId
    submit_s                  QDate
    start                     JobCurrentStartDate, else JobStartDate
    duration_s                end - start; the end is CompletionDate, or EnteredCurrentStatus of a
                              job that ended or was removed while it ran; else RemoteWallClockTime
    requested_s               AllowedJobDuration, AllowedExecuteDuration or MaxRuntime, s;
                              MaxWallTimeMins
    requested_cores           RequestCpus, times MaxHosts in the parallel universe
    allocated_cores           CpusProvisioned, likewise
    memory_kb, times cores    RequestMemory, MB; MemoryProvisioned
    memory_mib                MemoryProvisioned; RequestMemory
    gpus                      GPUsProvisioned; RequestGPUs; 0 if neither is there
    gpus:TYPE                 the name in RequireGPUs, as in `DeviceName == "NVIDIA A100"`
    nodes                     MaxHosts in the parallel universe
    status                    JobStatus: 4 is 1, or 0 if ExitCode is not 0 or a signal ended the
                              job; 3 (removed) is 5
    user, account             Owner; AcctGroup, AccountingGroup
    executable                Cmd

A job that ran several times is its last run: earlier runs count as waiting, and a note has the
number of such jobs. Jobs that wait or run (JobStatus 1, 2, 5 to 7), that were removed before they
ran, and those of the scheduler and local universes (DAGMan), which take no slot, are left out.

Sources: the HTCondor manual 23.0, appendix "Job ClassAd Attributes", condor_history(1).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.batch_systems.records import (
    Record,
    as_text,
    document,
    json_lines,
    json_objects,
    numbered_lines,
    rows_of,
)
from hindcast.pipeline.traces.field_values import looked_up, require_time_zone
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import Field, JobLogSettings, sift_jobs, workload_of
from hindcast.pipeline.traces.text_rows import collect
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "condor"
DEFAULTS: Final = JobLogSettings()
_EXPECTED: Final = (
    "the history of HTCondor: a history file, or the output of `condor_history -long` or `-json`"
)
_WHAT: Final = "a job of HTCondor"
_KEYS: Final = (
    "clusterid", "procid", "qdate", "jobstartdate", "jobcurrentstartdate", "completiondate",
    "enteredcurrentstatus", "lastjobstatus", "jobstatus", "remotewallclocktime", "numjobstarts",
    "exitcode", "exitstatus", "exitbysignal", "requestcpus", "cpusprovisioned", "requestmemory",
    "memoryprovisioned", "requestgpus", "gpusprovisioned", "requiregpus", "allowedjobduration",
    "allowedexecuteduration", "maxruntime", "maxwalltimemins", "owner", "acctgroup",
    "accountinggroup", "cmd", "jobuniverse", "maxhosts",
)  # fmt: skip
_KNOWN: Final = frozenset(_KEYS)
_TIMES: Final = (
    "qdate", "jobstartdate", "jobcurrentstartdate", "completiondate", "enteredcurrentstatus",
)  # fmt: skip
_ATTRIBUTE: Final = re.compile(r"([A-Za-z_][\w.]*) = (.*)")
_ADS: Final = re.compile(r"(?i)(mytype|clusterid|qdate|jobstatus|globaljobid|procid) = ")
_DEVICE: Final = r'(?i)DeviceName\s*==\s*\\?"([^"\\]+)'
_STATES: Final[Mapping[str, str]] = {
    "1": "waiting", "5": "waiting", **dict.fromkeys(("2", "6", "7"), "running"),
    "3": "cancelled", "4": "completed",
}  # fmt: skip
_NO_SLOT: Final = ("7", "12")  # the scheduler and the local universe
_PARALLEL: Final = "11"


def read(path: Path, settings: JobLogSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a log or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    lines = [line for line in head_lines(path, _EXPECTED) if line.strip()]
    if not lines[0].lstrip().startswith(("[", "{")) and not any(map(_ATTRIBUTE.match, lines[:3])):
        raise TraceError(f"{path}: the first line is {lines[0][:60]!r}, expected {_EXPECTED}")
    fields = _fields()
    gpus = fields["gpus"].value
    device = pl.col("requiregpus").str.extract(_DEVICE)
    rows = _with_outcome(rows_of(_records(path, lines), _KEYS)).with_columns(
        lists_gpus=pl.lit(value=True),
        gpu_types=pl.when(gpus > 0).then(pl.format("{}:{}", device, gpus)),
    )
    again = pl.col("numjobstarts").cast(pl.Float64, strict=False) > 1
    used = pl.col("reason").is_null() & pl.col("left_out").is_null()
    several = int(collect(rows.select((used & again).sum()), path).item())
    notes = [f"started more than once, the last run counts: {several:,} rows"] if several else []
    sifted = sift_jobs(path, rows, fields, _WHAT, settings)
    return workload_of(path, FORMAT, sifted, settings, notes)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether some lines are the first ones of such a log."""
    start = [line.strip() for line in lines[:400]]
    if start[0].startswith(("[", "{")):
        return all(any(f'"{key}"' in line for line in start) for key in ("ClusterId", "QDate"))
    return sum(_ADS.match(line) is not None for line in start) > 1


def _records(path: Path, lines: Sequence[str]) -> Iterator[Record]:
    first = lines[0].strip()
    if not first.startswith(("[", "{")):
        yield from _of_ads(path)
        return
    is_by_line = first.startswith("{") and _is_json(first)
    for record, found in json_lines(path) if is_by_line else json_objects(document(path)):
        values = {key.lower(): value for key, value in found.items()}
        record.values = {key: as_text(values[key]) for key in _KNOWN & values.keys()}
        yield record


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _of_ads(path: Path) -> Iterator[Record]:
    """Yield the records of classads: a blank line, `***` or an attribute again ends one."""
    record: Record | None = None
    last = 0
    for line in numbered_lines(path):
        is_banner = line.text.startswith("***")
        match = _ATTRIBUTE.match(line.text)
        key = match[1].lower() if match else ""
        ends = is_banner or line.number > last + 1 or (record and key in record.values)
        if record is not None and ends:
            yield record
            record = None
        last = line.number
        if is_banner:
            continue
        record = record or Record(line.number, line.text)
        if line.reason or match is None:
            fault = line.reason or "expected an attribute = a value"
            text = f"line {line.number} is {line.text[:40]!r}: {fault}"
            record.reason = record.reason or text
        elif key in _KNOWN:
            record.values[key] = _value(match[2])
    if record is not None:
        yield record


def _value(text: str) -> str | None:
    """Return a value of a classad as text, strings without quotes; None if it is undefined."""
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    lower = text.lower()
    if lower in {"undefined", "error"}:
        return None
    return {"true": "1", "false": "0"}.get(lower, text)


def _with_outcome(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the name and the outcome of jobs, and the names of users."""
    rows = rows.with_columns(
        **{key: pl.when(pl.col(key) != "0").then(pl.col(key)) for key in _TIMES}
    )
    universe = pl.col("jobuniverse")
    no_slot = pl.lit("a job of the scheduler or local universe, which takes no slot")
    code = pl.coalesce("exitcode", "exitstatus").cast(pl.Float64, strict=False)
    failed = (code != 0).fill_null(value=False) | (pl.col("exitbysignal") == "1")
    outcome = looked_up(pl.col("jobstatus"), _STATES)
    return rows.with_columns(
        job_id=pl.format("{}.{}", "clusterid", pl.col("procid").fill_null("0")),
        outcome=pl.when((outcome == "completed") & failed.fill_null(value=False))
        .then(pl.lit("failed"))
        .otherwise(outcome),
        reason=pl.coalesce(
            "reason",
            pl.when(outcome.is_null()).then(
                pl.format("JobStatus is '{}', expected 1 to 7", pl.col("jobstatus").fill_null(""))
            ),
        ),
        left_out=pl.coalesce("left_out", pl.when(universe.is_in(_NO_SLOT)).then(no_slot)),
        interrupted=pl.lit(value=False),
        user="owner",
        account=pl.coalesce("acctgroup", "accountinggroup"),
        executable="cmd",
    )


def _number(key: str) -> pl.Expr:
    return pl.col(key).cast(pl.Float64, strict=False)


def _nodes() -> pl.Expr:
    return pl.when(pl.col("jobuniverse") == _PARALLEL).then(_number("maxhosts"))


def _hosts() -> pl.Expr:
    """Return the number of hosts for each of which a job asks."""
    return pl.coalesce(pl.when(_nodes() > 0).then(_nodes()), 1.0)


def _fields() -> dict[str, Field]:
    """Return what is read of an ad of HTCondor, by the names of the columns of job logs."""
    start = pl.coalesce("jobcurrentstartdate", "jobstartdate")
    removed = (pl.col("jobstatus") == "3") & (pl.col("lastjobstatus") == "2")
    ran_to_its_end = (pl.col("jobstatus") == "4") | removed
    end = pl.coalesce("completiondate", pl.when(ran_to_its_end).then("enteredcurrentstatus"))
    run = pl.when(end.is_null() | start.is_null()).then("remotewallclocktime")
    limit = pl.coalesce("allowedjobduration", "allowedexecuteduration", "maxruntime")
    limit_s = pl.coalesce(limit.cast(pl.Float64, strict=False), _number("maxwalltimemins") * 60)
    nodes, hosts = _nodes(), _hosts()

    def of_job(name: str, key: str, expected: str, factor: float = 1.0) -> Field:
        return Field(name, pl.col(key), _number(key) * hosts * factor, expected)

    gpus = pl.coalesce("gpusprovisioned", "requestgpus")
    return {
        "submit": _time("QDate", pl.col("qdate")),
        "start": _time("JobStartDate", start),
        "end": _time("CompletionDate", end),
        "duration": Field(
            "RemoteWallClockTime", run, run.cast(pl.Float64, strict=False), "a number of seconds"
        ),
        "limit": Field(
            "AllowedJobDuration", pl.coalesce(limit, "maxwalltimemins"), limit_s, "seconds"
        ),
        "requested_cores": of_job("RequestCpus", "requestcpus", "a number of processors"),
        "allocated_cores": of_job("CpusProvisioned", "cpusprovisioned", "a number of processors"),
        "memory_kb": Field(
            "RequestMemory",
            pl.coalesce("requestmemory", "memoryprovisioned"),
            pl.coalesce(_number("requestmemory"), _number("memoryprovisioned")) * hosts * 1024,
            "MB",
        ),
        "held_memory_kb": of_job("MemoryProvisioned", "memoryprovisioned", "MB", 1024),
        "gpus": Field("RequestGPUs", gpus, gpus.cast(pl.Float64, strict=False) * hosts, "a number"),
        "nodes": Field("MaxHosts", nodes.cast(pl.String), nodes, "a number of nodes"),
    }


def _time(label: str, text: pl.Expr) -> Field:
    return Field(label, text, text.cast(pl.Float64, strict=False), "seconds since 1970")
