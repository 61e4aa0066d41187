"""Reader of any table of jobs, CSV or Parquet, by a mapping: a TOML file that names its columns.

The path is the mapping, which `hindcast init TABLE --out MAPPING` writes:

    file = "jobs.csv"               # beside this file: CSV or Parquet, or a folder of such files
    processors = 1024               # of the cluster; by default the most in use at one moment
    time_zone = "Europe/Berlin"     # of times without an offset; by default UTC

    [columns]                       # what the reader reads -> a column of the file
    job_id = "JobNr"
    submit = "submitted"
    start = "started"
    end = "ended"
    cores = "cpus"
    state = "status"

    [units]                         # see TableMapping
    memory = "GB"

    [states]                        # outcomes -> values of the column of `state`
    completed = ["DONE"]
    running = ["RUN"]

Every row is a job; jobs of one name are named ID, ID#2, ... Without a column of names they are
named by their line. Without `state`, every row is a job that ran. The columns of the workload, and
how unknown values are derived, are those of hindcast.pipeline.traces.job_logs.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import RecipeError, TraceError, did_you_mean
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.traces.field_values import (
    UTC,
    is_local,
    kilobytes,
    looked_up,
    moment,
    processors,
    require_time_zone,
    span,
)
from hindcast.pipeline.traces.files.compression import PARQUET, first_bytes
from hindcast.pipeline.traces.files.one_log import one_log
from hindcast.pipeline.traces.files.one_log import raw_files as one_log_files
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import (
    NAMES,
    OUTCOMES,
    Field,
    JobLogSettings,
    sift_jobs,
    workload_of,
)
from hindcast.pipeline.traces.text_rows import collect, scan_lines, scan_rows
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "table"
_EXPECTED: Final = "a mapping (TOML), which `hindcast init TABLE --out MAPPING.toml` writes"
TABLE: Final = "a table of jobs with a header (CSV) or a Parquet file"
_WHAT: Final = "a job of this mapping"
_MOST_BYTES: Final = 1 << 20

TIMES: Final = ("submit", "eligible", "start", "end")
SPANS: Final = ("duration", "time_limit")
CORES: Final = ("cores", "requested_cores")
MEMORY: Final = "memory"
COUNTS: Final = ("nodes", "gpus")
COLUMNS: Final = ("job_id", *TIMES, *SPANS, *CORES, *COUNTS, MEMORY, "state", *NAMES)

SECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
_MEMORY_UNITS: Final[Mapping[str, str]] = {
    "B": "b", "KB": "k", "MB": "m", "GB": "g", "TB": "t", "PB": "p",
}  # fmt: skip
_CORE_UNITS: Final[Mapping[str, float]] = {"cores": 1.0, "percent": 100.0, "millicores": 1000.0}
_DATETIME: Final = "datetime"
_ISO: Final = "%Y-%m-%d %H:%M:%S%.6f"
# Names of the fields of hindcast.pipeline.traces.job_logs that differ.
_FIELD: Final[Mapping[str, str]] = {
    "time_limit": "limit",
    "cores": "allocated_cores",
    MEMORY: "memory_kb",
}
_UNKNOWN: Final = ("", "unknown", "none", "n/a", "na", "nan", "nat", "null", "-")


@dataclass(frozen=True)
class TableMapping:
    """Meaning of the columns of a table of jobs.

    Attributes:
        file: The table, relative to the folder of the mapping, or absolute. It may be compressed,
            or a folder of tables with the same columns.
        separator: Character between the fields of a CSV file.
        processors: Processors of the cluster; by default the most in use at one moment.
        time_zone: Time zone of times without an offset from UTC, such as "Europe/Berlin".
        memory_of: What the memory is of: "job" or "core".
        columns: Column of the file by what is read from it, a name of COLUMNS. `submit` is needed,
            `duration` or `start` and `end`, and `cores` or `requested_cores`.
        units: Units by the same names. Times: "datetime" (ISO 8601, or seconds since 1970), a
            format of strftime, or a unit of time since 1970 or since any other moment. Spans:
            "ns", "us", "ms", "s", "min", "h" or "d"; D-HH:MM:SS is read too. Memory: "B", "KB",
            "MB", "GB", "TB" or "PB", if the text has no unit of its own, as 128Mi. Cores: "cores",
            "percent" or "millicores", if the text has no unit of its own, as 500m. Defaults:
            "datetime", "s", "KB" and "cores".
        states: Values of the column `state`, in any case, by the outcomes "completed", "failed",
            "cancelled", "waiting", "running" and "requeued".
    """

    file: str
    separator: str = ","
    processors: int | None = number(None, "from 1 to 100,000,000")
    time_zone: str = UTC
    memory_of: str = "job"
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
        sifted = sift_jobs(table, rows, _fields(mapping), _WHAT, settings)
        files = (path, table)
        found = workload_of(table, FORMAT, sifted, settings, rows_are_jobs=True, files=files)
        return log.credited(*found, beside=(path,))


def raw_files(path: Path) -> tuple[Path, ...]:
    """Return the files that `read` reads: the mapping and the table."""
    return path, *one_log_files(path.parent / read_mapping(path).file)


def read_mapping(path: Path) -> TableMapping:
    """Return a mapping; raise TraceError, which names the key, if it is not valid."""
    table = _toml(path)
    names = [attribute.name for attribute in dataclasses.fields(TableMapping)]
    for key in table:
        if key not in names:
            raise TraceError(f"{path}: unknown key {key!r}; {did_you_mean(key, names)}")
    if "file" not in table:
        raise TraceError(f"{path}: the key 'file' is missing, expected the name of the table")
    for key in ("file", "separator", "time_zone", "memory_of"):
        if not isinstance(table.get(key, ""), str):
            raise TraceError(f"{path}: {key} is {table[key]!r}, expected a text")
    if type(table.get("processors")) not in {int, type(None)}:
        raise TraceError(f"{path}: processors is {table['processors']!r}, expected a whole number")
    sections = {name: table.get(name, {}) for name in ("columns", "units", "states")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise TraceError(f"{path}: {name} is {section!r}, expected a section [{name}]")
    sections["states"] = {
        k: tuple(map(str, v)) if isinstance(v, list) else v for k, v in sections["states"].items()
    }
    mapping = TableMapping(**{**table, **sections})
    try:
        check_ranges(mapping)
    except RecipeError as error:
        raise TraceError(f"{path}: {error}") from error
    _check_columns(path, mapping)
    _check_units(path, mapping)
    _check_states(path, mapping)
    return mapping


def _toml(path: Path) -> dict[str, Any]:
    lines = head_lines(path, _EXPECTED)  # raises the error for a file that is no text
    if path.stat().st_size > _MOST_BYTES:
        raise TraceError(f"{path}: this file is too long, expected {_EXPECTED}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError too
        why = str(error) if "=" in "".join(lines) else f"line 1 is {lines[0][:60]!r}"
        raise TraceError(f"{path}: this is no TOML ({why}), expected {_EXPECTED}") from error


def _check_columns(path: Path, mapping: TableMapping) -> None:
    columns = mapping.columns
    for name, column in columns.items():
        if name not in COLUMNS:
            raise TraceError(f"{path}: unknown key columns.{name}; {did_you_mean(name, COLUMNS)}")
        if not isinstance(column, str) or not column:
            raise TraceError(f"{path}: columns.{name} is {column!r}, expected a column's name")
    if "submit" not in columns:
        raise TraceError(f"{path}: columns.submit is missing, expected the time of submission")
    if "duration" not in columns and not {"start", "end"} <= columns.keys():
        raise TraceError(f"{path}: columns.duration is missing, or columns.start and columns.end")
    if not columns.keys() & set(CORES):
        raise TraceError(f"{path}: columns.cores is missing, or columns.requested_cores")
    if len(mapping.separator) != 1:
        raise TraceError(f"{path}: separator is {mapping.separator!r}, expected one character")


def _check_units(path: Path, mapping: TableMapping) -> None:
    if mapping.memory_of not in {"job", "core"}:
        raise TraceError(f"{path}: memory_of is {mapping.memory_of!r}, expected 'job' or 'core'")
    units_of: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(TIMES, (_DATETIME, *SECONDS)),
        **dict.fromkeys(SPANS, tuple(SECONDS)),
        **dict.fromkeys(CORES, tuple(_CORE_UNITS)),
        MEMORY: tuple(_MEMORY_UNITS),
    }
    for name, unit in mapping.units.items():
        if name not in units_of:
            raise TraceError(f"{path}: unknown key units.{name}; {did_you_mean(name, units_of)}")
        form = name in TIMES and "%" in str(unit)
        if unit not in units_of[name] and not form:
            raise TraceError(
                f"{path}: units.{name} is {unit!r}, expected one of {', '.join(units_of[name])}"
                + (" or a format of strftime" if name in TIMES else "")
            )


def _check_states(path: Path, mapping: TableMapping) -> None:
    outcome_of: dict[str, str] = {}
    for outcome, values in mapping.states.items():
        if outcome not in OUTCOMES:
            hint = did_you_mean(outcome, OUTCOMES)
            raise TraceError(f"{path}: unknown key states.{outcome}; {hint}")
        if not isinstance(values, tuple):
            raise TraceError(f"{path}: states.{outcome} is {values!r}, expected a list")
        for value in values:
            if outcome_of.setdefault(value.lower(), outcome) != outcome:
                raise TraceError(
                    f"{path}: the state {value!r} is {outcome_of[value.lower()]} and {outcome}"
                )
    if "state" in mapping.columns and not outcome_of:
        raise TraceError(f"{path}: columns.state needs the values of the states in [states]")


def is_parquet(table: Path) -> bool:
    """Return whether a file begins as Parquet does."""
    return first_bytes(table).startswith(PARQUET)


def _scan(table: Path, mapping: TableMapping, path: Path) -> pl.LazyFrame:
    """Return the rows of the table: line, text, reason, and the mapped columns as strings."""
    if is_parquet(table):
        return _scan_parquet(table, mapping, path)
    line, labels = header_of(table, mapping.separator)
    _require(labels, mapping, path)
    # A column may be read as several things; of columns of one name the first is read.
    name_of = {label: name for name, label in reversed(list(mapping.columns.items()))}
    in_order = [
        name_of[label] if label in name_of and labels.index(label) == place else ""
        for place, label in enumerate(labels)
    ]
    quoted = collect(
        scan_lines(table).select(pl.col("text").str.contains('"', literal=True).any()), table
    ).item()
    rows = scan_rows(table, in_order, line, mapping.separator, quotes=bool(quoted))
    return rows.with_columns(
        **{n: pl.col(name_of[c]) for n, c in mapping.columns.items() if n != name_of[c]}
    )


def header_of(table: Path, separator: str) -> tuple[int, list[str]]:
    """Return the line of a CSV file's header and its names."""
    lines = head_lines(table, TABLE)
    line = next(n for n, text in enumerate(lines) if text.strip())
    return line + 1, [part.strip(' \t\r"') for part in lines[line].split(separator)]


def _require(labels: list[str], mapping: TableMapping, path: Path) -> None:
    for name, label in mapping.columns.items():
        if label not in labels:
            raise TraceError(
                f"{path}: columns.{name}: {mapping.file} has no column {label!r}; "
                f"{did_you_mean(label, labels)[:300]}"
            )


def parquet_schema(table: Path) -> Mapping[str, pl.DataType]:
    """Return the columns of a Parquet file; raise TraceError if it is damaged."""
    try:
        return pl.read_parquet_schema(table)
    except (OSError, pl.exceptions.PolarsError) as error:
        what = str(error).splitlines()[0]
        raise TraceError(
            f"{table}: this Parquet file cannot be read ({what}); download or copy it again"
        ) from error


def _scan_parquet(table: Path, mapping: TableMapping, path: Path) -> pl.LazyFrame:
    schema = parquet_schema(table)
    _require(list(schema), mapping, path)
    columns = {
        name: as_text(label, schema[label], f"{path}: columns.{name}")
        for name, label in mapping.columns.items()
    }
    rows = pl.scan_parquet(table, glob=False).with_row_index("row")
    return rows.select(
        line=pl.col("row").cast(pl.Int64) + 1,
        text=pl.concat_str(*columns.values(), separator=",", ignore_nulls=True),
        reason=pl.lit(None, pl.String),
        **columns,
    )


def as_text(label: str, kind: pl.DataType, where: str) -> pl.Expr:
    """Return a column of a Parquet file as the text that a CSV file would have.

    Raises TraceError, which begins with `where`, for lists, structures and binary values.
    """
    column = pl.col(label)
    if isinstance(kind, pl.Date):
        return column.cast(pl.Datetime("us")).dt.to_string(_ISO)
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is None:
            return column.dt.to_string(_ISO)
        return column.dt.convert_time_zone(UTC).dt.to_string(_ISO) + "Z"
    if isinstance(kind, pl.Duration):
        return (column.dt.total_microseconds() / 1e6).cast(pl.String)
    if kind.is_nested() or kind == pl.Binary:
        raise TraceError(f"{where}: the column {label!r} has values of type {kind}, expected texts")
    return column.cast(pl.String)


def _with_jobs(rows: pl.LazyFrame, mapping: TableMapping) -> pl.LazyFrame:
    """Add the name and the outcome of the job to the rows of a table."""
    columns = mapping.columns
    rows = rows.with_columns(
        pl.when(~pl.col(name).str.to_lowercase().is_in(_UNKNOWN)).then(pl.col(name))
        for name in columns
        if name not in {"job_id", "state"}
    )
    outcomes = {v.strip().lower(): o for o, values in mapping.states.items() for v in values}
    outcome, fault = pl.lit(None, pl.String), pl.lit(None, pl.String)
    if "state" in columns:
        state = pl.col("state").fill_null("").str.to_lowercase()
        outcome = looked_up(state, outcomes)
        reason = pl.format(
            "{} is '{}', which [states] does not name",
            pl.lit(columns["state"]),
            pl.col("state").fill_null("").str.slice(0, 40),
        )
        fault = pl.when(outcome.is_null()).then(reason)
    return rows.with_columns(
        job_id=pl.col("job_id") if "job_id" in columns else pl.col("line").cast(pl.String),
        outcome=outcome,
        interrupted=pl.lit(value=False),
        left_out=pl.lit(None, pl.String),
        reason=pl.coalesce("reason", fault),
    )


def _fields(mapping: TableMapping) -> dict[str, Field]:
    """Return the fields of a job that the mapping names."""
    fields = {}
    for name, label in mapping.columns.items():
        if name in {"job_id", "state", *NAMES}:
            continue
        value, expected = _value(name, mapping)
        unit = mapping.units.get(name)
        form = unit if unit and "%" in unit else None
        local = is_local(pl.col(name), form) if name in TIMES and unit not in SECONDS else None
        fields[_FIELD.get(name, name)] = Field(label, pl.col(name), value, expected, local)
    return fields


def _value(name: str, mapping: TableMapping) -> tuple[pl.Expr, str]:
    """Return the value of a mapped column, and a description of a readable text."""
    text, unit = pl.col(name), mapping.units.get(name)
    plain = text.cast(pl.Float64, strict=False)
    if name in TIMES:
        if unit is not None and unit in SECONDS:
            return plain * SECONDS[unit], f"a time in {unit}"
        form = None if unit in {None, _DATETIME} else unit
        return moment(text, mapping.time_zone, form), "a time" + (f" as {form}" if form else "")
    if name in SPANS:
        clock = pl.when(text.str.contains(":", literal=True)).then(span(text))
        return pl.coalesce(clock, plain * SECONDS[unit or "s"]), "a time span"
    if name in CORES:
        return processors(text, _CORE_UNITS[unit or "cores"]), "a number of processors"
    if name in COUNTS:
        return plain, f"a number of {name}"
    amount = kilobytes(text, _MEMORY_UNITS[unit or "KB"])
    if mapping.memory_of == "core":
        amount *= pl.coalesce(_value(n, mapping)[0] for n in CORES if n in mapping.columns)
    return amount, "an amount of memory"
