"""Reader of any table of jobs, CSV, Parquet or JSON, by a mapping: a TOML file that names columns.

The path is the mapping, which `hindcast init TABLE --out MAPPING` writes:

    file = "jobs.csv"               # beside this file, or a folder of such files
    names = ["JobNr", "at", ...]    # of the columns of a file without a header
    processors = 1024               # of the cluster; by default the most in use at one moment
    time_zone = "Europe/Berlin"     # of times without an offset; by default UTC

    [columns]                       # what the reader reads -> a column of the file
    job_id = "JobNr"
    submit = "submitted"
    start = "started"
    end = "ended"
    cores = "cpus"                  # or a number, for all jobs
    gpus = "AllocTRES"
    state = "status"

    [parts]                         # of a list such as cpu=4,gres/gpu=2
    gpus = "gres/gpu"

    [units]                         # see TableMapping
    memory = "GB"

    [states]                        # outcomes -> values of the column of `state`
    completed = ["DONE"]
    running = ["RUN"]

    [events]                        # only if rows are events of jobs
    job = ["collection", "instance"]
    type = "type"
    time = "time"
    submit = ["0"]
    start = ["3"]
    end = ["4", "5", "6"]

Every row is a job; jobs of one name are named ID, ID#2, ... Without a column of names they are
named by their line. Without `state`, every row is a job that ran. A limit of UNLIMITED and
slurmdbd's 4294967295 are no limit. The columns of the workload, and how unknown values are derived,
are those of hindcast.pipeline.traces.job_logs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean
from hindcast.pipeline.traces.field_values import (
    counted_gpus,
    is_local,
    kilobytes,
    looked_up,
    moment,
    processors,
    require_time_zone,
    span,
)
from hindcast.pipeline.traces.files.one_log import one_log
from hindcast.pipeline.traces.files.one_log import raw_files as one_log_files
from hindcast.pipeline.traces.job_logs import (
    NAMES,
    Field,
    JobLogSettings,
    sift_jobs,
    workload_of,
)
from hindcast.pipeline.traces.tables.mapping import (
    CORE_UNITS,
    CORES,
    COUNTS,
    DATES,
    DATETIME,
    GPU_SHARE,
    GPU_TYPE,
    GPU_UNITS,
    INSTANCES,
    MEMORY,
    MEMORY_UNITS,
    SECONDS,
    SPANS,
    TIMES,
    Events,
    TableMapping,
    read_mapping,
)
from hindcast.pipeline.traces.tables.sources import TABLE, source_of
from hindcast.pipeline.workloads.caveats import GPUS_ARE_CORES
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "table"
_WHAT: Final = "a job of this mapping"
_SINCE_1970_S: Final = 1e8  # larger times count from 1970
# Names of the fields of hindcast.pipeline.traces.job_logs that differ.
_FIELD: Final[Mapping[str, str]] = {
    "time_limit": "limit",
    "cores": "allocated_cores",
    MEMORY: "memory_kb",
}
_NO_FIELDS: Final = ("job_id", "state", GPU_TYPE, GPU_SHARE, INSTANCES, *NAMES)
UNKNOWN: Final = ("", "unknown", "none", "n/a", "na", "nan", "nat", "null", "-")
# Words of Slurm, and the number of its database, for a job without a limit.
NO_LIMIT: Final = ("unlimited", "partition_limit", "invalid", "infinite", "4294967295")
_ONE_TYPE: Final = r"^[^\s|,;:]+$"  # of GPUs; a job with a list of types asked for any of them


def read(path: Path) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a table by its mapping, and its bad rows (file, line, reason, text).

    Raises TraceError if the mapping or the table cannot be read, or no row is a job that ran.
    """
    mapping = read_mapping(path)
    given = path.parent / mapping.file
    if not given.exists():
        raise TraceError(f"{path}: file: {given}: no such file, expected {TABLE}")
    require_time_zone(mapping.time_zone, f"{path}: time_zone")
    settings = JobLogSettings(mapping.processors, mapping.time_zone)
    with one_log(given) as log:
        table = log.path
        rows = _with_jobs(_scan(table, mapping, path), mapping)
        limited = "time_limit" in mapping.columns
        no_limit = pl.col("limit_word").is_in(NO_LIMIT) if limited else None
        sifted = sift_jobs(table, rows, _fields(mapping), _WHAT, settings, no_limit)
        files = (path, table)
        notes = [_UNKNOWN_WAITS] if mapping.waits_unknown else []
        columns, units = mapping.columns, mapping.units
        if "gpus" in columns and columns["gpus"] == columns.get("cores"):
            notes += [] if {"cores", "gpus"} & units.keys() else [GPUS_ARE_CORES]
        found = workload_of(table, FORMAT, sifted, settings, notes, rows_are_jobs=True, files=files)
        return log.credited(*found, beside=(path,))


_UNKNOWN_WAITS: Final = (
    "the table has no submissions: a job is taken to be submitted when it starts"
)


def raw_files(path: Path) -> tuple[Path, ...]:
    """Return the files that `read` reads: the mapping and the table."""
    return path, *one_log_files(path.parent / read_mapping(path).file)


def _scan(table: Path, mapping: TableMapping, path: Path) -> pl.LazyFrame:
    """Return the rows of the table: line, text, reason, and the mapped columns as strings."""
    source = source_of(table, mapping.separator, mapping.names)
    labels = mapping.labels
    events = mapping.events
    wanted = {f"columns.{name}": label for name, label in labels.items()}
    if events is not None:
        wanted |= {"events.type": events.type, "events.time": events.time}
        wanted |= {f"events.job: {label}": label for label in events.job}
    for key, label in wanted.items():
        if label not in source.labels:
            raise TraceError(
                f"{path}: {key}: {mapping.file} has no column {label!r}; "
                f"{did_you_mean(label, source.labels)[:300]}"
            )
    needed = list(dict.fromkeys(wanted.values()))
    place = {label: f"column {number}" for number, label in enumerate(needed)}
    names = {label: name for name, label in reversed(labels.items())}
    where = f"{path}: columns.{names.get(needed[0], needed[0])}" if needed else str(path)
    rows = source.scan(needed, where)
    if events is not None:
        rows = _jobs_of_events(rows, events, place, mapping)
    columns = {name: pl.col(place[label]) for name, label in labels.items()}
    if part := mapping.parts.get("gpus"):
        columns["gpus"] = counted_gpus(columns["gpus"])
        columns["gpus_listed"] = (
            columns["gpus"]
            .str.extract_all(rf"\b{re.escape(part)}:[^=:,;\s]+[=:]\d+")
            .list.eval(pl.element().str.replace_all("=", ":", literal=True))
            .list.eval(pl.element().str.extract(r"([^:]+:\d+)$"))
            .list.join(",")
        )
    for name, of_list in mapping.parts.items():
        columns[name] = _part(columns[name], of_list, name)
    constants = {n: pl.lit(c) for n, c in mapping.columns.items() if n not in labels}
    given = [n for n in rows.collect_schema().names() if not n.startswith("column ")]
    return rows.select(*given, **columns, **constants)


def _part(text: pl.Expr, part: str, name: str) -> pl.Expr:
    """Return the value of one part of a list, as text.

    `text` is the list, `part` the name in it, as cpu in "cpu=4,gres/gpu=2", and `name` the column
    that it is for. GPUs may be listed by type, as "gpu:a100:2,gpu:v100:1": a number without a type
    is that of all, and without one the types are added up.
    """
    begin = rf"(?:^|[,;\s]){re.escape(part)}"
    if name != "gpus":
        return text.str.extract(rf"{begin}[=:]([^,;\s]*)")
    total = text.str.extract(rf"{begin}[=:](\d+(?:\.\d+)?)(?:[,;\s(]|$)")
    typed = text.str.extract_all(rf"{begin}:[^=:,;\s]+[=:]\d+")
    counts = typed.list.eval(pl.element().str.extract(r"(\d+)$").cast(pl.Int64)).list.sum()
    # A list without GPUs is that of a job without any.
    return pl.coalesce(total, pl.when(text.is_not_null()).then(counts.cast(pl.String)))


def _jobs_of_events(
    rows: pl.LazyFrame, events: Events, place: Mapping[str, str], mapping: TableMapping
) -> pl.LazyFrame:
    """Return a row for each job of the events, and the bad rows."""
    time, kind = pl.col(place[events.time]), pl.col(place[events.type])
    seconds = _time(time, mapping.units.get("submit"), mapping)[0]
    key = pl.concat_str(*(pl.col(place[label]) for label in events.job), separator="/")
    sound = rows.filter(pl.col("reason").is_null()).with_columns(job_id=key, seconds=seconds)

    def times(kinds: tuple[str, ...], column: pl.Expr) -> pl.Expr:
        chosen = kind.is_in(kinds)
        return column.filter(chosen).sort_by(pl.col("seconds").filter(chosen))

    others = [name for name in place.values() if name not in {place[label] for label in events.job}]
    jobs = sound.group_by("job_id").agg(
        pl.col("line").min(),
        pl.col("text").first(),
        pl.col("reason").first(),
        *(pl.col(name).sort_by("seconds").drop_nulls().last() for name in others),
        *(pl.col(place[label]).first() for label in events.job),
        submit=times(events.submit, time).first(),
        start=times(events.start, time).last(),
        end=times(events.end, time).last(),
        state=times(events.end, kind).last(),
    )
    return pl.concat([jobs, rows.filter(pl.col("reason").is_not_null())], how="diagonal")


def _with_jobs(rows: pl.LazyFrame, mapping: TableMapping) -> pl.LazyFrame:
    """Add the name and the outcome of the job to the rows of a table."""
    names = set(rows.collect_schema().names())
    rows = rows.with_columns(
        pl.when(~pl.col(name).str.to_lowercase().is_in(UNKNOWN)).then(pl.col(name))
        for name in mapping.columns
        if name not in {"job_id", "state"}
    )
    if {"submit", "start"} <= names and mapping.units.get("submit", DATETIME) == DATETIME:
        # 0 is no time where others count from 1970.
        since_1970 = pl.col("submit").cast(pl.Float64, strict=False) > _SINCE_1970_S
        rows = rows.with_columns(
            pl.when(~((pl.col(name) == "0") & since_1970).fill_null(value=False)).then(pl.col(name))
            for name in names & {"eligible", "start", "end", "deadline"}
        )
    if MEMORY in names:  # a request of 0 is one for whatever there is
        none = (kilobytes(pl.col(MEMORY)) == 0).fill_null(value=False)
        rows = rows.with_columns(pl.when(~none).then(pl.col(MEMORY)).alias(MEMORY))
    if "time_limit" in names:
        word = pl.col("time_limit").str.to_lowercase()
        rows = rows.with_columns(
            limit_word=word,
            time_limit=pl.when(~word.is_in(NO_LIMIT)).then(pl.col("time_limit")),
        )
    outcomes = {v.strip().lower(): o for o, values in mapping.states.items() for v in values}
    outcome, fault = pl.lit(None, pl.String), pl.lit(None, pl.String)
    if "state" in names:
        state = pl.col("state").fill_null("").str.to_lowercase()
        outcome = pl.coalesce(
            looked_up(state, outcomes), looked_up(state.str.extract(r"^(\S+)"), outcomes)
        )
        if mapping.events is not None:  # a job without an event that ends it
            begun = pl.when(pl.col("start").is_null()).then(pl.lit("waiting"))
            outcome = pl.coalesce(
                outcome, pl.when(state == "").then(begun.otherwise(pl.lit("running")))
            )
        reason = pl.format(
            "{} is '{}', which [states] does not name",
            pl.lit(mapping.columns.get("state", "the last event")),
            pl.col("state").fill_null("").str.slice(0, 40),
        )
        fault = pl.when(outcome.is_null()).then(reason)
    return rows.with_columns(
        job_id=pl.col("job_id") if "job_id" in names else pl.col("line").cast(pl.String),
        outcome=outcome,
        interrupted=pl.lit(value=False),
        left_out=pl.lit(None, pl.String),
        reason=pl.coalesce("reason", fault),
        **_gpu_types(mapping),
    )


def _gpu_types(mapping: TableMapping) -> dict[str, pl.Expr]:
    """Return the GPUs that a job asked for by type, if the table says it."""
    gpus = _gpus(mapping)
    if gpus is None:
        return {}
    if "gpus" in mapping.parts:
        # A list of generic resources alone (GRES) is empty for a job without any.
        return {
            "gpu_types": pl.when(pl.col("gpus_listed") != "").then("gpus_listed"),
            "lists_gpus": pl.lit(mapping.parts["gpus"] == "gpu"),
        }
    if GPU_TYPE in mapping.columns:
        kind = pl.col(GPU_TYPE)
        named = kind.str.contains(_ONE_TYPE) & (gpus > 0)
        return {"gpu_types": pl.when(named).then(pl.format("{}:{}", kind, gpus))}
    return {}


def _gpus(mapping: TableMapping) -> pl.Expr | None:
    """Return the GPUs of a job; None if the table has none."""
    if not {"gpus", GPU_SHARE} & mapping.columns.keys():
        return None
    numbers = [
        pl.col(name).cast(pl.Float64, strict=False) / GPU_UNITS[mapping.units.get(name, "gpus")]
        for name in ("gpus", GPU_SHARE)
        if name in mapping.columns
    ]
    product = numbers[0]
    for number in numbers[1:]:
        product *= number
    return _of_all(product, mapping)


def _of_all(amount: pl.Expr, mapping: TableMapping) -> pl.Expr:
    """Return what all instances of a job hold, given what one of them does."""
    if INSTANCES not in mapping.columns:
        return amount
    return amount * pl.col(INSTANCES).cast(pl.Float64, strict=False)


def _fields(mapping: TableMapping) -> dict[str, Field]:
    """Return the fields of a job that the mapping names."""
    fields = {}
    columns = dict(mapping.columns)
    if mapping.events is not None:
        columns |= dict.fromkeys(("submit", "start", "end"), mapping.events.time)
    for name, label in columns.items():
        if name in _NO_FIELDS:
            continue
        value, expected = _value(name, mapping)
        unit = mapping.units.get(name)
        form = unit if unit and "%" in unit else None
        local = later = None
        if name in TIMES and unit not in SECONDS:
            local = is_local(pl.col(name), form)
            later = moment(pl.col(name), mapping.time_zone, form, later=True)
        fields[_FIELD.get(name, name)] = Field(label, pl.col(name), value, expected, local, later)
    gpus = _gpus(mapping)
    if gpus is not None:
        name = "gpus" if "gpus" in columns else GPU_SHARE
        fields["gpus"] = Field(columns[name], pl.col(name), gpus, "a number of GPUs")
    if mapping.waits_unknown:
        return _without_submission(fields)
    if "start" not in fields and {"end", "duration"} <= fields.keys():
        fields["start"] = _before(fields["end"], fields["duration"])
    return fields


def _before(end: Field, run: Field) -> Field:
    """Return the start of a job by its end and its run time."""
    text = pl.when(run.text.is_not_null()).then(end.text)
    return Field(end.label, text, end.value - run.value, end.expected, end.local)


def _without_submission(fields: dict[str, Field]) -> dict[str, Field]:
    """Return the fields of a job whose submission the table lacks: its start is taken for it."""
    run, end, start = (fields.get(name) for name in ("duration", "end", "start"))
    if "submit" not in fields and run is not None and end is not None:
        fields["submit"] = _before(end, run)
    if run is None and end is not None and start is not None:
        text = pl.when(start.text.is_not_null()).then(end.text)
        run = Field(end.label, text, end.value - start.value, "a time")
    assert run is not None  # read_mapping requires it, or start and end
    kept = {name: field for name, field in fields.items() if name not in {"start", "end"}}
    return kept | {"duration": run}


def _time(text: pl.Expr, unit: str | None, mapping: TableMapping) -> tuple[pl.Expr, str]:
    if unit is not None and unit in SECONDS:
        return text.cast(pl.Float64, strict=False) * SECONDS[unit], f"a time in {unit}"
    form = None if unit in {None, DATETIME} else unit
    return moment(text, mapping.time_zone, form), "a time" + (f" as {form}" if form else "")


def _value(name: str, mapping: TableMapping) -> tuple[pl.Expr, str]:
    """Return the value of a mapped column, and a description of a readable text."""
    text, unit = pl.col(name), mapping.units.get(name)
    plain = text.cast(pl.Float64, strict=False)
    if name in DATES:
        return _time(text, unit if mapping.events is None else mapping.units.get("submit"), mapping)
    if name in SPANS:
        clock = pl.when(plain.is_null()).then(span(text))
        return pl.coalesce(clock, plain * SECONDS[unit or "s"]), "a time span"
    if name in CORES:
        cores = processors(text, CORE_UNITS[unit or "cores"])
        return _of_all(cores, mapping), "a number of processors"
    if name in COUNTS:
        return plain, f"a number of {name}"
    amount = kilobytes(text, MEMORY_UNITS[unit or "KB"])
    of = mapping.memory_of
    if of == "core":  # of the processors that ran, and so before instances
        amount *= pl.coalesce(_value(n, mapping)[0] for n in CORES if n in mapping.columns)
    elif of == "node":
        amount *= pl.col("nodes").cast(pl.Float64, strict=False)
    elif of == "gpu":
        amount *= _gpus(mapping)
    return amount if of in {"core", "gpu"} else _of_all(amount, mapping), "an amount of memory"
