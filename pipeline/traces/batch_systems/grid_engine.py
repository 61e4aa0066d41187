"""Reader of accounting of Grid Engine: Sun, Son of, Oracle, Univa and Altair, and Open Cluster.

Three forms are recognised by their first lines:

    file or command                       form
    $SGE_ROOT/CELL/common/accounting      a line a job, fields separated by colons (all versions)
    .../common/accounting.jsonl           a line a job, a JSON object (Open Cluster Scheduler 9)
    qacct -j '*'                          a block a job, lines `key value` below a line of `=`

The fields of the first form are those of accounting(5), 43 in version 6.0 to 53 in Univa 8.6. Names
of jobs and requests may have colons: the numbers beside them tell where they end. `acct` records of
the reporting file, which have a time and their type before these fields, are read as well.

    column of the workload    from
    job_id                    job_number; JOB.TASK for a task of an array
    submit_s, start           submission_time, start_time: s, ms (Univa) or microseconds (JSON)
    duration_s                end_time - start_time; else ru_wallclock
    requested_s               h_rt, else s_rt, of the request (`-l`)
    allocated_cores           slots
    memory_kb, times cores    the first of m_mem_free, mem_free, h_vmem, virtual_free, mem, memory,
    and memory_mib            s_vmem of the request, for each slot
    gpus                      the first of gpu, gpus, ngpus, gpu_count, num_gpu of the request, of
                              the job; 0 if the record has a request without one
    gpus:TYPE                 gpu_type, gpu_model or gpu_name of the request
    status                    1 if failed and exit_status are 0; 5 if deleted (qdel_info,
                              deleted_by of Univa); else 0
    user, group               owner; group
    account                   project; else account, unless it is the default, sge
    executable, queue         job_name; qname

`category` has the request; where it is missing, the line of the submission command. Whether memory
and GPUs are asked for by slot or by job is a setting of each site's complex, see
`GridEngineSettings`. In amounts k, m and g are powers of 1,000, and K, M and G of 1,024.

Records of tasks of tightly integrated parallel jobs (pe_taskid), and of jobs that could not be
started, are left out. A job that was rescheduled (failed 24, 25) is its last run. Of a job that was
killed by a signal (failed 100), the log of most versions does not tell whether it was deleted.

Sources: accounting(5), complex(5) and sge_types(1) of Sun Grid Engine 6.2u5, accounting(5) of Univa
Grid Engine 8.6 and of Open Cluster Scheduler 9.0; qacct(1) of the same.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.batch_systems.records import (
    Record,
    as_text,
    json_lines,
    numbered_lines,
    rows_of,
)
from hindcast.pipeline.traces.field_values import UTC, moment, require_time_zone, span
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import Field, JobLogSettings, sift_jobs, workload_of
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "grid_engine"
_EXPECTED: Final = (
    "accounting of Grid Engine (fields separated by colons, a JSON object a line, or the output of "
    "`qacct -j`)"
)
_WHAT: Final = "a record of a job of Grid Engine"
_KEYS: Final = (
    "qname", "group", "owner", "job_name", "job_number", "task_number", "account", "project",
    "submission_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock", "slots",
    "category", "command", "pe_taskid", "deleted_by",
)  # fmt: skip
_NUMBER: Final = r"-?[\d.]+(?:e[+-]?\d+)?"
# The fields of accounting(5) in their order; names have no colons, but that of the job.
_FIELDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("qname", "hostname", "group", "owner"), "[^:]*"),
    "job_name": ".*?",
    "job_number": r"\d+",
    "account": "[^:]*",
    "priority": r"-?\d+",
    **dict.fromkeys(("submission_time", "start_time", "end_time"), r"-?\d+"),
    **dict.fromkeys(("failed", "exit_status"), r"\d+"),
    "ru_wallclock": _NUMBER,
    "usage": rf"{_NUMBER}(?::{_NUMBER}){{15,16}}",  # of getrusage(2)
    **dict.fromkeys(("project", "department", "granted_pe"), "[^:]*"),
    **dict.fromkeys(("slots", "task_number"), r"\d+"),
    **dict.fromkeys(("cpu", "mem", "io"), _NUMBER),
    "category": ".*?",
    "iow": _NUMBER,
    "pe_taskid": "[^:]*",
    "maxvmem": _NUMBER,
}
_N_FIELDS: Final = len(_FIELDS) + 16
# The reservation, and in Univa's versions the class, who deleted the job and others.
_LATER: Final = r"(?::\d+:\d+(?::[^:]*:(?P<deleted_by>[^:]*)(?::.*)?)?)?$"
_COLONS: Final = re.compile(
    r"(?:\d+:acct:)?" + ":".join(f"(?P<{k}>{p})" for k, p in _FIELDS.items()) + _LATER
)
_REPORTING: Final = re.compile(r"\d+:([a-z_]+):")  # other records of the reporting file
_RULE: Final = re.compile(r"={20,}$")  # above each block of qacct
_QACCT: Final[Mapping[str, str]] = {  # a key of qacct -> the field of accounting(5)
    **{key: key for key in (*_KEYS, "group", "owner")},
    "jobname": "job_name", "jobnumber": "job_number", "taskid": "task_number",
    "qsub_time": "submission_time", "submit_cmd": "command", "submit_cmd_line": "command",
    "pe_task_id": "pe_taskid",
}  # fmt: skip
_NONE: Final = ("NONE", "none", "undefined", "-/-", "")
_DAY: Final = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d\d?) (?=\d)")  # of ctime(3)
_TIME_FORMS: Final = ("%b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S%.f")
_MICROSECONDS, _MILLISECONDS = 1e14, 1e11  # later times are in these units, since 1970
_RESCHEDULED: Final = ("24", "25")  # values of failed
_AFTER_JOB: Final = ("0", "100", *_RESCHEDULED)  # values of failed of jobs that were started
_LIMITS: Final = ("h_rt", "s_rt")
_MEMORY: Final = ("m_mem_free", "mem_free", "h_vmem", "virtual_free", "mem", "memory", "s_vmem")
_GPUS: Final = ("gpu", "gpus", "ngpus", "gpu_count", "num_gpu", "num_gpus")
_GPU_TYPES: Final = ("gpu_type", "gpu_model", "gpu_name")
_REQUEST: Final = re.compile(r"(?:^|\s)-l\s+(\S+)")
_UNITS: Final[Mapping[str, int]] = {
    **{sign: 1000**power for power, sign in enumerate(("", "k", "m", "g", "t"))},
    **{sign: 1024**power for power, sign in enumerate(("K", "M", "G", "T"), start=1)},
}


@dataclass(frozen=True)
class GridEngineSettings(JobLogSettings):
    """Facts about a cluster that its accounting does not tell.

    Attributes:
        memory_of: What a request of memory is for, as `consumable` of the complex says: "slot"
            (YES) or "job" (JOB).
        gpus_of: What a request of GPUs is for: "job" or "slot".
    """

    memory_of: Literal["slot", "job"] = "slot"
    gpus_of: Literal["job", "slot"] = "job"


DEFAULTS: Final = GridEngineSettings()


def read(path: Path, settings: GridEngineSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a log or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    lines = [line for line in head_lines(path, _EXPECTED) if line.strip()]
    form = next((form for form, matches in _FORMS.items() if matches(lines)), _of_colons)
    if form is _of_colons and lines[0].count(":") < 3 and not lines[0].startswith("#"):
        raise TraceError(f"{path}: the first line is {lines[0][:60]!r}, expected {_EXPECTED}")
    fields = _fields(settings)
    gpus = fields["gpus"].value
    rows = _with_outcome(rows_of(form(path), (*_KEYS, *_REQUESTS))).with_columns(
        lists_gpus=pl.col("has_request").is_not_null(),
        gpu_types=pl.when(gpus > 0).then(pl.format("{}:{}", "gpu_type", gpus)),
    )
    sifted = sift_jobs(
        path,
        rows,
        fields,
        _WHAT,
        settings,
        no_limit=pl.col("limit").str.to_lowercase() == "infinity",
    )
    return workload_of(path, FORMAT, sifted, settings)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether some lines are the first ones of such a log."""
    return any(matches(lines) for matches in _FORMS.values())


def _is_colons(lines: Sequence[str]) -> bool:
    jobs = [line for line in lines if not line.startswith("#") and len(line) > 1]
    return any(_COLONS.match(line.strip()) for line in jobs[:3])


def _is_json(lines: Sequence[str]) -> bool:
    return lines[0].startswith("{") and all(
        f'"{key}"' in lines[0] for key in ("job_number", "submission_time", "slots")
    )


def _is_qacct(lines: Sequence[str]) -> bool:
    return len(lines) > 1 and _RULE.match(lines[0].strip()) is not None and "qname" in lines[1]


def _of_colons(path: Path) -> Iterator[Record]:
    """Yield the records of a file whose fields are separated by colons."""
    for line in numbered_lines(path):
        record = Record(line.number, line.text, reason=line.reason)
        match = _COLONS.match(line.text)
        if line.text.startswith("#") or len(line.text) == 1:
            record.left_out = "a comment"
        elif match:
            record.values = match.groupdict()
            record.values |= _requests_of(record.values.get("category"))
        elif other := _REPORTING.match(line.text):
            record.left_out = f"a record of type {other[1]}, not acct"
        else:
            fields = line.text.count(":") + 1
            record.reason = line.reason or (
                f"the line is not of the form of accounting(5) ({fields} fields, expected "
                f"{_N_FIELDS} or more, with numbers in their places)"
            )
        yield record


def _of_json(path: Path) -> Iterator[Record]:
    """Yield the records of a file with a JSON object a line."""
    for record, found in json_lines(path):
        usage: Any = found.get("usage")
        rusage = usage.get("rusage") if isinstance(usage, dict) else None
        given = {**found, **(rusage if isinstance(rusage, dict) else {})}
        record.values = {
            _QACCT.get(key, key): as_text(value) for key, value in given.items() if key in _QACCT
        }
        request = record.values.get("category") or record.values.get("command")
        # A JSON record of a job without a request has no category.
        record.values |= _requests_of(request or "")
        yield record


def _of_qacct(path: Path) -> Iterator[Record]:
    """Yield the records of the output of `qacct -j`."""
    record: Record | None = None
    for line in numbered_lines(path):
        is_total = line.text.startswith("Total System Usage")
        if record is None or is_total or _RULE.match(line.text):
            if record is not None:
                yield _of_block(record)
            record = Record(line.number, line.text)
        if is_total:
            record.left_out = "the totals of qacct"
            break
        key, _, value = line.text.partition(" ")
        record.reason = record.reason or line.reason
        if key in _QACCT:
            day = _DAY.match(value := " ".join(value.split()))
            value = f"{day[1]} {day[2]:0>2} {value[day.end() :]}" if day else value
            record.values[_QACCT[key]] = value
        if key == "jobnumber":
            record.text = line.text
    if record is not None:
        yield _of_block(record)


def _of_block(record: Record) -> Record:
    """Return the record of a block of qacct whose lines were all added."""
    values = record.values
    if not values and record.left_out is None:
        record.reason = record.reason or "the block has no field of qacct -j"
    values |= {
        "failed": (values.get("failed") or "").partition(" ")[0],
        "ru_wallclock": (values.get("ru_wallclock") or "").removesuffix("s"),
    }
    values |= _requests_of(values.get("category") or values.get("command"))
    return record


_FORMS: Final = {_of_json: _is_json, _of_qacct: _is_qacct, _of_colons: _is_colons}
_REQUESTS: Final = ("limit", "memory", "gpus", "gpu_type", "has_request")


@lru_cache(maxsize=4096)
def _requests_of(category: str | None) -> dict[str, str | None]:
    """Return what the `-l` options of a category or a command ask for, by key of `_REQUESTS`.

    `category` None is unknown; "" and NONE ask for nothing.
    """
    if category is None:
        return {}
    asked: dict[str, str] = {}
    for options in _REQUEST.findall(category):
        for option in options.split(","):
            name, _, value = option.strip("'\"").partition("=")
            asked[name] = value
    return {
        "has_request": "1",
        **{
            key: next((asked[name] for name in names if asked.get(name)), None)
            for key, names in (
                ("limit", _LIMITS), ("memory", _MEMORY), ("gpus", _GPUS), ("gpu_type", _GPU_TYPES),
            )
        },
    }  # fmt: skip


def _with_outcome(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the name and the outcome of jobs, and the names of users and queues."""
    known = {
        key: pl.when(~pl.col(key).is_in(_NONE)).then(pl.col(key))
        for key in ("task_number", "pe_taskid", "project", "account", "deleted_by", "start_time",
                    "end_time")
    }  # fmt: skip
    rows = rows.with_columns(**known).with_columns(
        **{k: pl.when(pl.col(k) != "0").then(pl.col(k)) for k in ("start_time", "end_time")}
    )
    failed, status = pl.col("failed"), pl.col("exit_status")
    never = ~failed.is_in(_AFTER_JOB) & (_end().is_null() | (_end() <= _start()))
    left_out = (
        pl.when(pl.col("pe_taskid").is_not_null())
        .then(pl.lit("a task of a parallel job, which has a record of its own"))
        .when(never.fill_null(value=False))
        .then(pl.lit("ended before it ran: it could not be started"))
    )
    task = pl.when(pl.col("task_number") != "0").then("task_number")
    return rows.with_columns(
        job_id=pl.when(task.is_null())
        .then("job_number")
        .otherwise(pl.format("{}.{}", "job_number", task)),
        outcome=pl.when(pl.col("deleted_by").is_not_null())
        .then(pl.lit("cancelled"))
        .when((failed == "0") & (status == "0"))
        .then(pl.lit("completed"))
        .when(failed.is_not_null() | status.is_not_null())
        .then(pl.lit("failed")),
        interrupted=failed.is_in(_RESCHEDULED).fill_null(value=False),
        left_out=pl.coalesce("left_out", pl.when(pl.col("reason").is_null()).then(left_out)),
        user="owner",
        executable="job_name",
        queue="qname",
        account=pl.coalesce("project", pl.when(pl.col("account") != "sge").then("account")),
    )


def _time(text: pl.Expr, zone: str, *, later: bool = False) -> pl.Expr:
    """Return a time as seconds since 1970; `later` is as in `moment`."""
    number = text.cast(pl.Float64, strict=False)
    seconds = (
        pl.when(number >= _MICROSECONDS)
        .then(number / 1e6)
        .when(number >= _MILLISECONDS)
        .then(number / 1e3)
        .otherwise(number)
    )
    forms = [moment(text, zone, form, later=later) for form in (None, *_TIME_FORMS)]
    return pl.coalesce(seconds, *forms)


def _start() -> pl.Expr:
    return _time(pl.col("start_time"), "UTC")


def _end() -> pl.Expr:
    return _time(pl.col("end_time"), "UTC")


def _amount(text: pl.Expr) -> pl.Expr:
    """Return an amount of memory in KB: a number of bytes, or with k, K, m, M, ..."""
    parts = text.str.extract_groups(r"^(\d+(?:\.\d+)?)([kKmMgGtT]?)[bB]?$")
    number = parts.struct.field("1").cast(pl.Float64, strict=False)
    unit = parts.struct.field("2").replace_strict(_UNITS, default=None, return_dtype=pl.Float64)
    return number * unit / 1024


def _fields(settings: GridEngineSettings) -> dict[str, Field]:
    """Return what is read of a line of Grid Engine, by the names of the columns of job logs."""
    times = {"submit": "submission_time", "start": "start_time", "end": "end_time"}
    fields = {
        name: Field(
            key,
            pl.col(key),
            _time(pl.col(key), settings.time_zone),
            "a time",
            local=pl.col(key).str.contains(":", literal=True),
            later=_time(pl.col(key), settings.time_zone, later=True)
            if settings.time_zone != UTC
            else None,
        )
        for name, key in times.items()
    }
    both = pl.col("start_time").is_not_null() & pl.col("end_time").is_not_null()
    run = pl.when(~both).then(pl.col("ru_wallclock"))
    slots = pl.col("slots").cast(pl.Float64, strict=False)
    per_slot = {"slot": slots, "job": pl.lit(1.0)}
    memory = _amount(pl.col("memory")) * per_slot[settings.memory_of]
    gpus = pl.col("gpus").cast(pl.Float64, strict=False) * per_slot[settings.gpus_of]
    limit = pl.when(pl.col("limit").str.to_lowercase() != "infinity").then(pl.col("limit"))
    return {
        **fields,
        "duration": Field("ru_wallclock", run, span(run), "a number of seconds"),
        "limit": Field("h_rt", limit, span(limit), "a time span"),
        "allocated_cores": Field("slots", pl.col("slots"), slots, "a number of slots"),
        "memory_kb": Field("h_vmem", pl.col("memory"), memory, "an amount of memory"),
        "gpus": Field("gpu", pl.col("gpus"), gpus, "a number of GPUs"),
    }
