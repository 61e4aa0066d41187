"""Reader of the accounting log of Slurm: the output of `sacct -P`, as a CSV file, or as JSON.

The path is one file, plain or gzip-compressed, with a header, or with `columns` in the settings.
`sacct --json` and slurmrestd are read too, see hindcast.pipeline.traces.slurm_output.json_jobs.
The command that gives the file:

    SLURM_TIME_FORMAT=%s sacct -a -X -P -S 2024-01-01 -E 2024-07-01 --format=JobID,User,Account,\
Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,ReqNodes,\
ReqMem,ReqTRES,AllocTRES

Columns may have any order; columns that are not known are counted and not read. Other separators
than `|` are recognised (`--delimiter`), and a CSV file may have quotes and the numbers of its rows,
as pandas and R write it. The names are those of sacct, in any case and with any blanks, dots and
underscores, or those of the published sample of NREL's Eagle (job_id, wallclock_req in seconds,
mem_req in MB of the job), or those of the job table of Slurm's database (id_job, time_submit,
tres_alloc, states and unset values as numbers).

    column of the workload    from the first of these that the file has and the row gives
    submit_s, eligible_s      Submit, Eligible
    duration_s                ElapsedRaw, Elapsed; else End - Start
    requested_s               TimelimitRaw (minutes), Timelimit; UNLIMITED (4294967295 in the
                              database) and Partition_Limit (4294967294) are no number, see
                              hindcast.pipeline.traces.job_logs
    requested_cores           ReqCPUS; cpu of ReqTRES
    allocated_cores           AllocCPUS; NCPUS; cpu of AllocTRES
    memory_kb, times cores    mem of ReqTRES; ReqMem (`c` per core, `n` per node, else of the job);
                              mem of AllocTRES
    status                    State: 1 COMPLETED, 5 CANCELLED, 0 other ends
    user, group, account      User; Account, else Group; Account
    queue, partition, qos     Partition; Partition; QOS
    nodes                     AllocNodes; NNodes; node of AllocTRES; ReqNodes; node of ReqTRES
    gpus                      gres/gpu of AllocTRES; of ReqTRES; gpu of AllocGRES; of ReqGRES
    gpus:TYPE                 gres/gpu:TYPE of ReqTRES; else of AllocTRES, ReqGRES, AllocGRES
    memory_mib                mem of AllocTRES; of ReqTRES; ReqMem
    executable, cluster       JobName; Cluster

A list of resources (TRES) has names, or the numbers of Slurm's database: 1 for processors, 2 for
memory, 4 for nodes. Numbers from 1001 on are generic resources, whose names are in the settings
(`tres`), since every database has others. A list of names without GPUs says that a job had none, in
a log that has GPUs at all.

Job names and other free text may hold the separator and line breaks, see
hindcast.pipeline.traces.slurm_output.free_text. Rows of steps, of jobs that wait or run, and of
jobs that ended before they ran are left out. Every task of an array is a job. A job that was
requeued is its last run; sacct prints the earlier ones only with --duplicates. A number that Slurm
used again, with another time of submission, is another job. In the sample of Eagle every row is a
job, since it gives all tasks of an array one job_id.

Sources: sacct(1) of Slurm 23.02; for ReqMem also the versions before 21.08, which wrote `c` or `n`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.traces.field_values import looked_up, require_time_zone
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import (
    FilteredLogSettings,
    chosen,
    sift_jobs,
    workload_of,
)
from hindcast.pipeline.traces.slurm_output import json_jobs
from hindcast.pipeline.traces.slurm_output.fields import (
    GENERIC,
    NO_LIMIT_NUMBER,
    NOT_SET,
    TIMES,
    fields_of,
    gpu_types,
    lists_gpus,
    with_lists_read,
)
from hindcast.pipeline.traces.slurm_output.free_text import whole_rows
from hindcast.pipeline.traces.slurm_output.header import Header, header_of, without_header
from hindcast.pipeline.traces.slurm_output.states import STATES, is_interrupted, state_word
from hindcast.pipeline.traces.text_rows import collect, scan_lines, scan_rows
from hindcast.pipeline.workloads.caveats import CAUTION
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "slurm"
_EXPECTED: Final = "the output of `sacct -P` with its header"
_WHAT: Final = "a job of Slurm"
_FIRST_ROWS: Final = 2000  # that tell whether lists of resources have numbers
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
_UNKNOWN: Final = (
    "unknown", "none", "n/a", "invalid", "not set", "none assigned", "null", "nan", "\\n", *NOT_SET,
)  # fmt: skip
_UNKNOWN_IN_CSV: Final = ("na", "nat", "<na>")
_NO_TIME: Final = ("0", "1970-01-01t00:00:00", NO_LIMIT_NUMBER)
_NO_LIMIT: Final = ("unlimited", "partition_limit", NO_LIMIT_NUMBER, NOT_SET[0])


@dataclass(frozen=True)
class SlurmSettings(FilteredLogSettings):
    """Facts about a cluster that the output of sacct does not tell, and which jobs to read.

    Attributes:
        columns: Names of the columns in file order, if the output has no header (`sacct -n`), as a
            list or as `JobID,State,...`; `-` for a column that is not read.
        time_format: Format of times as of strftime, such as "%d.%m.%Y %H:%M:%S", if they are
            neither as in ISO 8601 nor seconds since 1970.
        tres: Names of generic resources by number, where the lists of resources have numbers, as
            `sacctmgr show tres` prints them: 1001 = "gres/gpu".
    """

    columns: str | tuple[str, ...] = ""
    time_format: str = ""
    tres: Mapping[str, str] = field(default_factory=dict)


DEFAULTS: Final = SlurmSettings()


def read(path: Path, settings: SlurmSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a log and its bad rows (file, line, reason, text).

    Raises TraceError if the path is not such a file, lacks a column, or has no job that ran.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    if json_jobs.begins(path):
        header, labels, raw = None, dict(json_jobs.LABELS), json_jobs.scan_json(path)
    else:
        header, raw = _scan(path, settings)
        labels = header.read
    is_csv = header is not None and header.separator != "|"
    rows = with_lists_read(_without_unknowns(raw, labels, is_csv=is_csv), labels, settings.tres)
    rows = _with_state(rows, labels, header)
    rows = chosen(path, rows, settings).with_columns(
        gpu_types=gpu_types(labels), lists_gpus=lists_gpus(labels, settings.tres)
    )
    limits = [pl.col(f"{name}_text") for name in ("timelimitraw", "timelimit") if name in labels]
    sifted = sift_jobs(
        path,
        rows,
        fields_of(labels, settings.time_zone, settings.time_format or None),
        _WHAT,
        settings,
        no_limit=pl.coalesce(limits).str.to_lowercase().is_in(_NO_LIMIT) if limits else None,
    )
    unread = header.unread if header is not None else []
    notes = [] if not unread else [f"columns that are not read: {len(unread)} ({_some(unread)})"]
    notes += _unnamed_resources(path, rows, labels)
    eagle = labels.get("jobid", "").lower() == "job_id" and "limit_s" in labels
    return workload_of(path, FORMAT, sifted, settings, notes, rows_are_jobs=eagle)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether the first lines of a file are those of a log that this reader reads.

    Output without a header is read if its columns are set.
    """
    names = {part.strip().strip('"').lower() for part in lines[0].split("|")}
    has_header = "|" in lines[0] and {"jobid", "jobidraw"} & names != set() and "submit" in names
    return has_header or json_jobs.is_json(lines) or without_header(lines) is not None


def _scan(path: Path, settings: SlurmSettings) -> tuple[Header, pl.LazyFrame]:
    """Return the header of a text file and its rows: line, text, reason, columns as strings."""
    lines = head_lines(path, _EXPECTED)
    given = settings.columns
    names = re.split(r"[,|;\s]+", given.strip()) if isinstance(given, str) and given else given
    header = header_of(path, lines, tuple(names))
    quotes = '"' in header.text
    if header.separator != "|" and not quotes:
        has_quotes = pl.col("text").str.contains('"', literal=True).any()
        quotes = bool(collect(scan_lines(path).select(has_quotes), path).item())
    whole = whole_rows(
        path, scan_lines(path), header.names, header.separator, header.text, quotes=quotes
    )
    rows = scan_rows(
        path, header.in_order, header.line, header.separator, quotes=quotes, lines=whole
    )
    name = next((n for n in ("jobid", "jobidraw") if n in header.names), None)
    if header.separator == "|" or name is None:
        return header, rows
    # pandas writes whole numbers as 1000.0 if one of the column is missing.
    ids = collect(rows.select(pl.col(name).drop_nulls().str.contains(r"^\d+\.0$").all()), path)
    if ids.item():
        rows = rows.with_columns(pl.col(name).str.strip_suffix(".0"))
    return header, rows


def _without_unknowns(
    rows: pl.LazyFrame, labels: Mapping[str, str], *, is_csv: bool
) -> pl.LazyFrame:
    """Replace the words of sacct for an unknown value by null; keep texts of limits beside them."""
    texts = {}
    for name in labels:
        words = (*_UNKNOWN, *_UNKNOWN_IN_CSV) if is_csv else _UNKNOWN
        if name in TIMES:
            words = (*words, *_NO_TIME)
        if name.startswith("timelimit"):
            words = (*words, *_NO_LIMIT)
        texts[name] = pl.when(~pl.col(name).str.to_lowercase().is_in(words)).then(pl.col(name))
    limit_texts = {f"{name}_text": pl.col(name) for name in labels if name.startswith("timelimit")}
    return rows.with_columns(**texts, **limit_texts)


def _with_state(
    rows: pl.LazyFrame, labels: Mapping[str, str], header: Header | None
) -> pl.LazyFrame:
    """Add the name, the outcome and the names of users and queues; find steps and headers."""
    ids = pl.coalesce(name for name in ("jobid", "jobidraw") if name in labels)
    word = state_word(pl.col("state"))
    outcome = looked_up(word, STATES)
    fault = pl.format(
        "{} is '{}', expected a state of Slurm such as COMPLETED",
        pl.lit(labels["state"]),
        pl.col("state").str.slice(0, 40).fill_null(""),
    )
    is_header = pl.col("text").str.strip_chars() == (header.text.strip() if header else "{")
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
        interrupted=is_interrupted(word),
        left_out=left_out,
        reason=pl.coalesce("reason", pl.when(outcome.is_null() & left_out.is_null()).then(fault)),
        **{
            name: pl.coalesce(pl.lit(None, pl.String), *(c for c in options if c in labels))
            for name, options in _NAMED.items()
        },
    )


def _unnamed_resources(path: Path, rows: pl.LazyFrame, labels: Mapping[str, str]) -> list[str]:
    """Return a caution if jobs held generic resources whose names are not known."""
    lists = [name for name in ("alloctres", "reqtres") if name in labels]
    if not lists or {"allocgres", "reqgres"} & labels.keys():
        return []
    number = pl.coalesce(pl.col(name).str.extract(GENERIC) for name in lists)
    used = rows.filter(pl.col("left_out").is_null(), pl.col("reason").is_null())
    if collect(used.head(_FIRST_ROWS).select(number.is_null().all()), path).item():
        return []
    found = collect(
        used.select(number=number)
        .filter(pl.col("number").is_not_null())
        .group_by("number")
        .len()
        .sort("number"),
        path,
    )
    numbers = ", ".join(found["number"])
    text = (
        f"{CAUTION}generic resources by number ({numbers}) are in the lists of resources of "
        f"{found['len'].sum():,} jobs, and the log does not name them, so that GPUs among them are "
        f"not known: `sacctmgr show tres` has the names; set tres.{found['number'][0]}=gres/gpu"
    )
    return [text]


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
