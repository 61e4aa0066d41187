"""Logs of batch systems: from rows of one run of a job each to a workload.

A reader gives rows with `line`, `text`, `reason`, `left_out`, `job_id`, `outcome` (one of OUTCOMES,
null if the row does not say), `interrupted`, the columns NAMES as strings, and FIELDS as `Field`s.
Optional columns are `gpu_types`, such as "a100:2,v100:4"; `lists_gpus`, whether the row would name
the GPUs of the job if it had any, so that it has 0 in a log that has GPUs at all; `memory_is_used`,
whether the memory is what the job used, which is none that it asked for.
A job becomes one task with one instance that holds its processors (cores) and memory together:

    wanted          taken from                 if unknown
    cores           allocated processors       requested processors; else the row is left out
    duration_s      recorded run time          end - start
                    a run time of 0            1 s, the resolution of the logs
    wait_s          start - submit             null; also if the start is before the submission
    requested_s     time limit                 duration_s
                    a job without limit        the largest limit of its partition, else of the log
    memory          memory of the job          0
    memory_mib      memory that the job held   memory of the job; else null

Memory is a fraction of the cluster, as in SWF logs. The cluster is one machine. Its processors are
a setting, else the most in use at one moment, else as many as the largest job has. Times since 1970
become seconds since the first submission; the note UnixStartTime has the moment of second 0.

The columns qos, account, cluster, nodes, gpus, request_unknown (boolean: requested_s is the run
time), gpus:TYPE and memory_mib are there if the log has such a value. `gpus` are all GPUs of a job,
a fraction if the log has fractions; `gpus:TYPE` (float64) are those of them that the log gives with
this type, and the others are of any type. Null is unknown, 0 is known to be 0.

Rows of one job that ran several times are one job: its last run. Names become numbers in order of
first appearance. Names of queues, partitions, QOS and clusters are kept in a note each, see
hindcast.pipeline.workloads.log_names; names of people, their groups and accounts are not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean
from hindcast.pipeline.settings.ranges import number
from hindcast.pipeline.traces.field_values import UTC, is_local, looked_up, moment
from hindcast.pipeline.traces.first_look import source_file
from hindcast.pipeline.traces.gpus_by_type import gpus_by_type
from hindcast.pipeline.traces.ordering import distinct_tasks, in_order
from hindcast.pipeline.traces.repeated_hours import LATER, told_apart
from hindcast.pipeline.traces.text_rows import Sifted, collect, sift
from hindcast.pipeline.workloads.caveats import (
    CAUTION,
    NO_REQUESTS,
    NO_WAIT,
    NO_ZONE,
    SIZE_GUESSED,
)
from hindcast.pipeline.workloads.log_names import KEPT_NAMES, names_note, remember
from hindcast.pipeline.workloads.log_units import run_notes
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, Provenance, Workload

# Outcome of a row -> status of an SWF log, or why its row is left out.
OUTCOMES: Final[Mapping[str, int | str]] = {
    "completed": 1,
    "failed": 0,
    "cancelled": 5,
    "waiting": "not started when the log was written",
    "running": "still running when the log was written",
    "requeued": "a run that ended in a requeue; the next run of the job has a row of its own",
}
_FURTHER_NAMES: Final = ("qos", "account", "cluster")  # columns of the logs that have them
NAMES: Final = ("user", "group", "executable", "queue", "partition", *_FURTHER_NAMES)
_NEVER_RAN: Final = "ended before it ran"
_EARLIER: Final = "an earlier run of a job that ran again"
_NO_CORES: Final = "no number of processors, requested or allocated"
_REQUEUED_S: Final = 86_400  # a requeue is a submission at the end of the run that was interrupted
_EPOCH_S: Final = 1e8  # larger times are seconds since 1970, smaller ones a clock of the log
_TIMES: Final = (-1e10, 1e10)
_SPANS: Final = (0.0, 1e9)  # 32 years
_PROCESSORS: Final = (0.0, 1e8)
_MEMORY_KB: Final = (0.0, 1e15)
# Field -> smallest and largest plausible value.
FIELDS: Final[Mapping[str, tuple[float, float]]] = {
    "submit": _TIMES,
    "eligible": _TIMES,
    "start": _TIMES,
    "end": _TIMES,
    "deadline": _TIMES,
    "duration": _SPANS,
    "limit": _SPANS,
    "requested_cores": _PROCESSORS,
    "allocated_cores": _PROCESSORS,
    "memory_kb": _MEMORY_KB,
    "nodes": _PROCESSORS,
    "gpus": _PROCESSORS,
    "held_memory_kb": _MEMORY_KB,
}
_OPTIONAL: Final = ("eligible", "limit", "memory_kb", "nodes", "gpus", "deadline")
_KEPT: Final = (
    "line", "text", "reason", "left_out", "job_id", "status", "interrupted", *NAMES, "submit_s",
    "start", "eligible", "duration_s", "cores", "memory_kb", "limit", "no_limit", "wait_s",
    "requested_cores", "allocated_cores", "nodes", "gpus", "zero_run", "early_start", "repeated",
    "local", "unusable", "gpu_types", "lists_gpus", "memory_mib",
    "run_by_ends", "deadline",
)  # fmt: skip


@dataclass(frozen=True)
class JobLogSettings:
    """Facts about a cluster that the log of its jobs does not tell.

    Attributes:
        processors: Processors of the cluster; by default the most in use at one moment of the log.
        time_zone: Time zone of times without an offset from UTC, such as "Europe/Berlin".
    """

    processors: int | None = number(None, "from 1 to 100,000,000")
    time_zone: str = UTC


@dataclass(frozen=True)
class FilteredLogSettings(JobLogSettings):
    """Facts about a cluster that the log of its jobs does not tell, and which of its jobs to read.

    Attributes:
        cluster: Cluster, or list of clusters, whose jobs are read, if the log names several; ""
            for all.
        partition: Partition, or list of partitions, whose jobs are read; "" for all.
    """

    cluster: str | tuple[str, ...] = ""
    partition: str | tuple[str, ...] = ""


@dataclass(frozen=True)
class Field:
    """A field of a job in the rows of a log.

    Attributes:
        label: Name of its column in the file, for messages.
        text: What the file says; null if the value is unknown.
        value: The value, null if `text` cannot be read: seconds, processors, or KB of the job.
        expected: What a readable text is, such as "a time".
        local: Whether `text` is a time without an offset from UTC; None where it cannot be.
        later: The second value of a time in the hour that clocks repeat in autumn, else the value.
            Null or None where it is not asked for.
    """

    label: str
    text: pl.Expr
    value: pl.Expr
    expected: str
    local: pl.Expr | None = None
    later: pl.Expr | None = None


def time_field(label: str, text: pl.Expr, zone: str, form: str | None = None) -> Field:
    """Return the field of a time; `zone` and `form` are as in `moment`."""
    expected = "a time" + (f" as {form}" if form else "")
    later = moment(text, zone, form, later=True) if zone != UTC else None
    return Field(label, text, moment(text, zone, form), expected, is_local(text, form), later)


def chosen(path: Path, rows: pl.LazyFrame, settings: FilteredLogSettings) -> pl.LazyFrame:
    """Leave out the rows of other clusters and partitions than those in `settings`.

    `rows` has `left_out` and the columns that `settings` names. Raises TraceError, which says the
    nearest name, if no row is of a cluster or partition.
    """
    for column in ("cluster", "partition"):
        given = getattr(settings, column)
        names = [given] if isinstance(given, str) else list(given)
        if not any(names):
            continue
        known = pl.Series(dtype=pl.String)
        if column in rows.collect_schema().names():
            used = rows.filter(pl.col("left_out").is_null(), pl.col(column).is_not_null())
            known = collect(used.select(pl.col(column).unique().sort()), path)[column]
        if known.is_empty():
            raise TraceError(
                f"{path}: {column} is {given!r}, but the log does not say the {column} of its jobs"
            )
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known.to_list())
                raise TraceError(f"{path}: {column} is {name!r}, which no row has; {hint}")
        elsewhere = (~pl.col(column).is_in(names)).fill_null(value=True)
        other = pl.when(elsewhere).then(pl.lit(f"a job of another {column}"))
        rows = rows.with_columns(left_out=pl.coalesce("left_out", other))
    return rows


def sift_jobs(
    path: Path,
    rows: pl.LazyFrame,
    fields: Mapping[str, Field],
    what: str,
    settings: JobLogSettings,
    no_limit: pl.Expr | None = None,
) -> Sifted:
    """Sort the rows of a log into jobs that ran, bad rows, and rows that are no such job.

    `fields` has at least "submit", one of "duration" and "end" (which needs "start"), and one of
    the two numbers of cores. `no_limit` says whether the job was submitted without a time limit.
    """
    unknown = pl.lit(None, dtype=pl.Float64)
    given = rows.collect_schema().names()
    rows = rows.with_columns(
        **{name: pl.lit(None, pl.String) for name in (*NAMES, "gpu_types") if name not in given},
        **{f"{name}_text": field.text for name, field in fields.items()},
        **{name: _within(field.value, *FIELDS[name]) for name, field in fields.items()},
        **{name: unknown for name in FIELDS if name not in fields},
        lists_gpus=_or_false(pl.col("lists_gpus") if "lists_gpus" in given else None),
        memory_is_used=_or_false(pl.col("memory_is_used") if "memory_is_used" in given else None),
        no_limit=_or_false(no_limit),
        local=_or_false(fields["submit"].local),
        **{
            name + LATER: _within(field.later, *_TIMES)
            for name, field in fields.items()
            if field.later is not None
        },
    )
    rows = told_apart(rows, [name for name, field in fields.items() if field.later is not None])
    positive = {
        name: pl.when(pl.col(name) > 0).then(pl.col(name))
        for name in ("requested_cores", "allocated_cores")
    }
    cores = pl.coalesce(positive["allocated_cores"], positive["requested_cores"])
    # Seconds since 1970 are exact to less than a microsecond.
    duration = pl.coalesce("duration", (pl.col("end") - pl.col("start")).round(6))
    by_ends = pl.when(pl.col("duration").is_not_null()).then(pl.col("end") - pl.col("start"))
    wait = (pl.col("start") - pl.col("submit")).round(6)
    rows = rows.with_columns(
        duration=duration,
        run_by_ends=by_ends,
        cores=cores,
        left_out=pl.coalesce("left_out", _left_out(fields)),
        unusable=pl.sum_horizontal(
            pl.when(_unreadable(name)).then(1 << place)
            for place, name in enumerate(_OPTIONAL)
            if name in fields
        ) if set(_OPTIONAL) & set(fields) else pl.lit(0),
    )  # fmt: skip
    faults = [pl.when(pl.col("left_out").is_null()).then(f) for f in _faults(fields, settings)]
    run_s = pl.when(pl.col("duration") == 0).then(1.0).otherwise(pl.col("duration"))
    # Less than a byte is no memory; shares of such a number of KB would not be finite.
    memory = pl.when(pl.col("memory_kb") >= 2**-10).then(pl.col("memory_kb"))
    held = pl.when(pl.col("held_memory_kb") > 0).then(pl.col("held_memory_kb"))
    rows = rows.with_columns(
        reason=pl.coalesce("reason", *faults),
        submit_s=pl.col("submit"),
        duration_s=run_s,
        memory_kb=memory / pl.col("cores"),
        memory_mib=pl.coalesce(held, pl.when(~pl.col("memory_is_used")).then("memory_kb")) / 1024,
        wait_s=pl.when(wait >= 0).then(wait),
        early_start=(wait < 0).fill_null(value=False),
        zero_run=(pl.col("duration") == 0).fill_null(value=False),
        status=looked_up(
            pl.col("outcome"), {o: code for o, code in OUTCOMES.items() if isinstance(code, int)}
        ).cast(pl.Int64),
    )
    return sift(path, rows.select(_KEPT), what)


def _or_false(flag: pl.Expr | None) -> pl.Expr:
    return pl.lit(value=False) if flag is None else flag.fill_null(value=False)


def _within(value: pl.Expr, least: float, most: float) -> pl.Expr:
    return pl.when(value.is_between(least, most)).then(value)


def _unreadable(name: str) -> pl.Expr:
    """Return whether a field has a text that is no plausible value."""
    return pl.col(f"{name}_text").is_not_null() & pl.col(name).is_null()


def _left_out(fields: Mapping[str, Field]) -> pl.Expr:
    """Return the reason that a row is no job that ran; null if it ran or its outcome is unknown."""
    reasons = {name: text for name, text in OUTCOMES.items() if isinstance(text, str)}
    reason = looked_up(pl.col("outcome"), reasons)
    ended = (pl.col("outcome") != "completed").fill_null(value=False)
    missing = {name: pl.col(f"{name}_text").is_null() for name in fields}
    never_ran = missing["start"] if "start" in fields else missing["duration"]
    # Slurm before 20.11 gives such jobs a start, which is their end, and no processors.
    if "allocated_cores" in fields:
        never_ran |= (pl.col("allocated_cores") == 0) & (pl.col("duration").fill_null(0) == 0)
    zeros = [
        missing[name] | (pl.col(name) == 0)
        for name in ("requested_cores", "allocated_cores")
        if name in fields
    ]
    return pl.coalesce(
        reason,
        pl.when(ended & never_ran).then(pl.lit(_NEVER_RAN)),
        pl.when(pl.all_horizontal(~missing["submit"], *zeros)).then(pl.lit(_NO_CORES)),
    )


def _faults(fields: Mapping[str, Field], settings: JobLogSettings) -> list[pl.Expr]:
    """Return the reasons for which a row is bad, those of the first columns first."""

    def unreadable(name: str) -> pl.Expr:
        field = fields[name]
        value = pl.col(f"{name}_text").str.slice(0, 40)
        return pl.when(_unreadable(name)).then(
            pl.format("{} is '{}', expected {}", pl.lit(field.label), value, pl.lit(field.expected))
        )

    def missing(name: str) -> pl.Expr:
        field = fields[name]
        return pl.when(pl.col(f"{name}_text").is_null()).then(
            pl.lit(f"{field.label} is missing, expected {field.expected}")
        )

    def columns(*names: str) -> list[str]:
        return [name for name in names if name in fields]

    faults = [
        pl.when(pl.col("job_id").is_null()).then(pl.lit("the name of the job is missing")),
        unreadable("submit"),
        missing("submit"),
        *(fault("start") for fault in (unreadable, missing) if "start" in fields),
    ]
    unknown = pl.col("duration").is_null()
    faults += [pl.when(unknown).then(unreadable(name)) for name in columns("duration", "end")]
    sources = columns("end") or columns("duration")
    faults += [pl.when(unknown).then(missing(name)) for name in sources]
    if "end" in fields:
        faults.append(
            pl.when(pl.col("duration") < 0).then(
                pl.lit(f"{fields['end'].label} is before {fields['start'].label}")
            )
        )
    faults.append(pl.when(unknown).then(pl.lit("the run time is not known")))
    too_long = pl.col("duration") > _SPANS[1]
    faults.append(pl.when(too_long).then(pl.lit(f"the run is longer than {_SPANS[1]:g} s")))
    without = pl.col("cores").is_null()
    cores = columns("allocated_cores", "requested_cores")
    faults += [pl.when(without).then(unreadable(name)) for name in cores]
    faults.append(pl.when(without).then(pl.lit(_NO_CORES)))
    if settings.processors is not None:
        too_wide = pl.format(
            "{} processors, but the cluster has {}",
            pl.col("cores").cast(pl.Int64, strict=False),
            pl.lit(settings.processors),
        )
        faults.append(pl.when(pl.col("cores") > settings.processors).then(too_wide))
    return faults


def workload_of(
    path: Path,
    name: str,
    sifted: Sifted,
    settings: JobLogSettings,
    notes: Iterable[str] = (),
    *,
    rows_are_jobs: bool = False,
    files: Iterable[Path] = (),
) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of the jobs of a log, and its bad rows.

    If `rows_are_jobs`, every row is a job, also if several have one name. Else two rows of one
    name, submission and start are a repetition, and others are several runs of one job or several
    jobs, see `_last_runs`. `name` is that of the trace format; `files` are the raw files, `path`
    alone by default.
    """
    rows = collect(sifted.rows.drop("text"), path) if rows_are_jobs else pl.DataFrame()
    if rows.is_empty():
        rows, sifted = distinct_tasks(
            path, sifted, "a job that ran", key=("job_id", "submit_s", "start")
        )
        rows, sifted = _last_runs(rows, sifted)
    rows, renamed = _named_apart(rows)
    rows, origin = _since_first(rows)
    local = settings.time_zone == UTC and rows["local"].any()
    rows = _requested(rows)
    capacity, in_use = _capacity(rows, settings)
    rows, name_notes = _numbered(rows)
    largest = rows["memory_kb"].max() or 1.0
    share = pl.col("memory_kb") * pl.col("cores") / (pl.lit(largest) * capacity)
    rows = rows.with_columns(
        memory=share.fill_null(0.0), instances=pl.lit(1, dtype=pl.Int64), task_id=pl.lit("0")
    )
    tasks = in_order(rows).join(_extras(rows), on="job_id", how="left", maintain_order="left")
    derived = _counts(rows, renamed)
    cautions = [] if settings.processors else [_size_note(capacity, in_use=in_use)]
    cautions += _cautions(rows)
    provenance = Provenance(
        format=name,
        files=tuple(map(source_file, files or (path,))),
        counts={
            "rows_read": sifted.read,
            "tasks": tasks.height,
            "jobs": tasks.height,
            "instances": tasks.height,
            "machines": 1,
            **derived,
        },
        left_out=sifted.all_left_out,
        notes=(
            *notes,
            *([f"{NO_ZONE}; set time_zone if not so"] if local else []),
            *([f"UnixStartTime: {origin}"] if origin else []),
            *([f"TimeZoneString: {zone}"] if (zone := settings.time_zone) != UTC else []),
            *(f"{what}: {count:,} rows" for what, count in derived.items()),
            *name_notes,
            *cautions,
            *sifted.note(),
        ),
    )
    machines = pl.DataFrame(
        [(0, name, float(capacity), 1.0)], schema=dict(MACHINE_COLUMNS), orient="row"
    )
    return Workload(tasks=tasks, provenance=provenance, machines=machines), sifted.quarantine


def _last_runs(rows: pl.DataFrame, sifted: Sifted) -> tuple[pl.DataFrame, Sifted]:
    """Keep the last run of every job.

    An earlier row of the same name is an earlier run if the next row has its submission time, or
    was submitted within a day of the end of a run that was interrupted. Otherwise it is another
    job: the batch system restarted its numbering.
    """
    if rows["job_id"].n_unique() == rows.height:
        return rows, sifted
    rows = rows.sort("start", "line", nulls_last=False)
    following = pl.col("submit_s").shift(-1).over("job_id")
    ended = pl.coalesce("start", "submit_s") + pl.col("duration_s")
    again = pl.col("interrupted") & (following <= ended + _REQUEUED_S)
    earlier = (again | (following == pl.col("submit_s"))).fill_null(value=False)
    kept = rows.filter(~earlier)
    if dropped := rows.height - kept.height:
        counts = dict(sifted.left_out)
        sifted = replace(sifted, left_out={**counts, _EARLIER: counts.get(_EARLIER, 0) + dropped})
    return kept.sort("line"), sifted


def _named_apart(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Give jobs of one name the names ID, ID#2, ID#3, ...; return also the number of new names."""
    rows = rows.sort("line")
    if rows["job_id"].n_unique() == rows.height:
        return rows, 0
    nth = pl.int_range(1, pl.len() + 1).over("job_id")
    unique_id = pl.when(nth > 1).then(pl.format("{}#{}", "job_id", nth)).otherwise("job_id")
    renamed = rows.with_columns(job_id=unique_id)
    if renamed["job_id"].n_unique() < rows.height:  # the log has a job called ID#2
        renamed = rows.with_columns(job_id=pl.format("{}#line {}", "job_id", "line"))
    return renamed, rows.height - rows["job_id"].n_unique()


def _since_first(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Count times since 1970 from the first submission, and return that moment; else 0."""
    origin = int(np.floor(rows["submit_s"].to_numpy().min()))
    if origin < _EPOCH_S:
        return rows, 0
    moved = ("submit_s", "start", "eligible", "deadline")
    return rows.with_columns((pl.col(name) - origin).round(6) for name in moved), origin


def _requested(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `requested_s`, and whether it was taken from the run time."""
    limit = pl.when(pl.col("limit") > 0).then(pl.col("limit"))
    largest_limit = pl.coalesce(limit.max().over("partition"), limit.max())
    assumed_limit = pl.when(pl.col("no_limit")).then(pl.max_horizontal(largest_limit, "duration_s"))
    return rows.with_columns(
        requested_s=pl.coalesce(limit, assumed_limit, "duration_s"),
        requested_derived=limit.is_null() & ~pl.col("no_limit"),
    )


def _capacity(rows: pl.DataFrame, settings: JobLogSettings) -> tuple[int, bool]:
    """Return the processors of the cluster, and whether they are the most in use at one moment."""
    cores = rows["cores"].to_numpy()
    if settings.processors is not None:
        return settings.processors, False
    started = rows.filter(pl.col("start").is_not_null())
    if started.height < rows.height:
        return int(np.ceil(cores.max())), False
    start, run = started["start"].to_numpy(), started["duration_s"].to_numpy()
    moments = np.concatenate([start, start + run])
    change = np.concatenate([cores, -cores])
    # At one moment, processors are released before they are taken.
    in_use = np.cumsum(change[np.lexsort((change, moments))])
    return max(int(np.ceil(in_use.max() - 1e-6)), int(np.ceil(cores.max()))), True


def _size_note(capacity: int, *, in_use: bool) -> str:
    source = "the most in use at one moment" if in_use else "the largest job"
    return (
        f"{CAUTION}{SIZE_GUESSED} the cluster has: {capacity:,} is "
        f"{source}, so that the cluster may be too small; set `processors` if you know it"
    )


def _cautions(rows: pl.DataFrame) -> list[str]:
    early = rows["early_start"].sum()
    why = (
        f"{early:,} starts are before their submissions" if early else "the log has no start times"
    )
    notes = [f"{CAUTION}{NO_REQUESTS}"] if rows["requested_derived"].all() else []
    notes += [f"{NO_WAIT}: {why}"] if rows["wait_s"].is_null().all() else []
    return [*notes, *run_notes(rows)]


def _numbered(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Replace names by numbers in order of first appearance; return also the notes on them."""
    notes = []
    for name in NAMES:
        names = rows[name].drop_nulls().unique(maintain_order=True)
        numbers = pl.Series(range(1, len(names) + 1), dtype=pl.Int64)
        column = rows[name].replace_strict(names, numbers, default=None, return_dtype=pl.Int64)
        rows = rows.with_columns(column.alias(name))
        remember(name, names.to_list())
        if len(names) and name in KEPT_NAMES:
            notes.append(names_note(name, names.to_list()))
        elif len(names):
            notes.append(
                f"{name}: {len(names):,} names became numbers in order of first appearance; the "
                "names are not kept"
            )
    return rows, notes


def _extras(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the columns after the canonical ones, by job_id: first those of SWF logs."""
    counts = ("requested_cores", "allocated_cores")
    gpus = pl.col("gpus").fill_null(pl.when(pl.col("lists_gpus")).then(0.0))
    if (rows["gpus"] % 1 == 0).fill_null(value=True).all():
        gpus = gpus.cast(pl.Int64)
    further = {
        **{name: pl.col(name) for name in _FURTHER_NAMES},
        "nodes": pl.col("nodes").ceil().cast(pl.Int64, strict=False),
        "gpus": gpus,
    }
    known = {name: column for name, column in further.items() if rows[name].is_not_null().any()}
    if rows["requested_derived"].any():
        known["request_unknown"] = pl.col("requested_derived")
    known |= gpus_by_type(rows, gpus)
    if rows["memory_mib"].is_not_null().any():
        known["memory_mib"] = pl.col("memory_mib")
    if rows["deadline"].is_not_null().any():
        known["deadline_s"] = pl.col("deadline")
    return rows.select(
        "job_id",
        "requested_s",
        *(pl.col(name).ceil().cast(pl.Int64, strict=False) for name in counts),
        "wait_s",
        "memory_kb",
        "status",
        *(name for name in NAMES if name not in _FURTHER_NAMES),
        eligible_s="eligible",
        **known,
    )


def _counts(rows: pl.DataFrame, renamed: int) -> dict[str, int]:
    """Return the number of rows in which a value was derived, by value and source."""
    no_limit = rows["no_limit"] & rows["limit"].is_null()
    counts = {
        "cores from requested processors": (rows["allocated_cores"].fill_null(0) <= 0).sum(),
        "duration_s 1 for a run time of 0": rows["zero_run"].sum(),
        "requested_s from duration_s": rows["requested_derived"].sum(),
        "requested_s of a job without limit, the largest limit": no_limit.sum(),
        "memory unknown, taken as 0": rows["memory_kb"].is_null().sum(),
        "wait_s unknown, since the start is before the submission": rows["early_start"].sum(),
        "a time in the hour that clocks repeat, taken as the earlier one": rows["repeated"].sum(),
        "eligible later than submitted": (rows["eligible"] > rows["submit_s"]).sum(),
        "named ID#2, ID#3, ... since several jobs have one name": renamed,
        **{
            f"{name} not usable, taken as unknown": (rows["unusable"] & (1 << place) != 0).sum()
            for place, name in enumerate(_OPTIONAL)
        },
    }
    return {name: int(count) for name, count in counts.items() if count}
