"""Mapping of a table of jobs: the TOML file that says what its columns are."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import RecipeError, TraceError, did_you_mean
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.traces.field_values import UTC
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import NAMES, OUTCOMES

EXPECTED: Final = "a mapping (TOML), which `hindcast init TABLE --out MAPPING.toml` writes"
_MOST_BYTES: Final = 1 << 20

TIMES: Final = ("submit", "eligible", "start", "end")
DEADLINE: Final = "deadline"
DATES: Final = (*TIMES, DEADLINE)
SPANS: Final = ("duration", "time_limit")
CORES: Final = ("cores", "requested_cores")
MEMORY: Final = "memory"
COUNTS: Final = ("nodes", "gpus")
GPU_TYPE: Final = "gpu_type"
GPU_SHARE: Final = "gpu_share"
INSTANCES: Final = "instances"
COLUMNS: Final = (
    "job_id", *DATES, *SPANS, *CORES, *COUNTS, GPU_SHARE, GPU_TYPE, MEMORY, INSTANCES, "state",
    *NAMES,
)  # fmt: skip
_CONSTANTS: Final = (*CORES, *COUNTS)  # may be one number for all jobs

SECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
MEMORY_UNITS: Final[Mapping[str, str]] = {
    "B": "b", "KB": "k", "MB": "m", "GB": "g", "TB": "t", "PB": "p",
}  # fmt: skip
MEMORY_OF: Final = ("job", "core", "node", "gpu")
# Number in the table that is one core or one GPU.
CORE_UNITS: Final[Mapping[str, float]] = {
    "cores": 1.0, "percent": 100.0, "millicores": 1000.0, "machines": 1e-3,
}  # fmt: skip
GPU_UNITS: Final[Mapping[str, float]] = {"gpus": 1.0, "percent": 100.0, "milligpus": 1000.0}
DATETIME: Final = "datetime"


@dataclass(frozen=True)
class Events:
    """Rule that makes a row of a job from its rows of events.

    Attributes:
        job: Columns that name the job of an event.
        type: Column of the kind of event.
        time: Column of its time.
        submit: Kinds of event that are the submission of a job; the first of them counts.
        start: Kinds that are its start; the last of them counts.
        end: Kinds that are its end; the last of them counts, and is the state of the job.
    """

    job: tuple[str, ...]
    type: str
    time: str
    submit: tuple[str, ...]
    start: tuple[str, ...]
    end: tuple[str, ...]


@dataclass(frozen=True)
class TableMapping:
    """Meaning of the columns of a table of jobs.

    Attributes:
        file: The table, relative to the folder of the mapping, or absolute. It may be compressed,
            or a folder of tables with the same columns.
        separator: Character between the fields of a CSV file.
        names: Names of the columns of a file without a header, in order.
        processors: Processors of the cluster; by default the most in use at one moment.
        time_zone: Time zone of times without an offset from UTC, such as "Europe/Berlin".
        memory_of: What the memory is of: "job", "core", "node" or "gpu".
        columns: Column of the file by what is read from it, a name of COLUMNS. `submit` is needed,
            or `end` and `duration`; `duration` or `start` and `end`; and `cores` or
            `requested_cores`, which may be a number. If `submit` and `start` are one column,
            the table has no submissions, and waits are unknown. `gpu_share` is what a job has of
            each of its GPUs. With `instances` cores, memory and GPUs are those of one of so many.
        parts: Part of a list such as cpu=4,gres/gpu=2 that is read, by the same names.
        units: Units by the same names. Times: "datetime" (ISO 8601, or seconds since 1970), a
            format of strftime, or a unit of time since 1970 or since any other moment. Spans:
            "ns", "us", "ms", "s", "min", "h" or "d"; D-HH:MM:SS and others are read too. Memory:
            "B", "KB", "MB", "GB", "TB" or "PB", if the text has no unit of its own, as 128Mi.
            Cores: "cores", "percent", "millicores", or "machines" (a processor is a thousandth of
            a machine), if the text has no unit of its own, as 500m. GPUs: "gpus", "percent" or
            "milligpus". Defaults: "datetime", "s", "KB", "cores" and "gpus".
        states: Values of the column `state`, in any case, by the outcomes "completed", "failed",
            "cancelled", "waiting", "running" and "requeued". Of `CANCELLED by 1000` the first word
            is enough.
        events: Rule for a table of events; None if every row is a job.
    """

    file: str
    separator: str = ","
    names: tuple[str, ...] = ()
    processors: int | None = number(None, "from 1 to 100,000,000")
    time_zone: str = UTC
    memory_of: str = "job"
    columns: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: Events | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Columns of the file by what is read from them; without numbers that hold for all jobs."""
        return {n: c for n, c in self.columns.items() if not (n in _CONSTANTS and _is_number(c))}

    @property
    def waits_unknown(self) -> bool:
        """True if jobs are taken to be submitted when they start."""
        columns = self.columns
        return self.events is None and (
            "submit" not in columns or columns["submit"] == columns.get("start")
        )


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def read_mapping(path: Path) -> TableMapping:
    """Return a mapping; raise TraceError, which names the key, if it is not valid."""
    return mapping_of(_toml(path), path)


def mapping_of(table: Mapping[str, Any], path: Path) -> TableMapping:
    """Return the mapping that a TOML table of the file `path` holds; raise as `read_mapping`."""
    keys = [attribute.name for attribute in dataclasses.fields(TableMapping)]
    for key in table:
        if key not in keys:
            raise TraceError(f"{path}: unknown key {key!r}; {did_you_mean(key, keys)}")
    if "file" not in table:
        raise TraceError(f"{path}: the key 'file' is missing, expected the name of the table")
    for key in ("file", "separator", "time_zone", "memory_of"):
        if not isinstance(table.get(key, ""), str):
            raise TraceError(f"{path}: {key} is {table[key]!r}, expected a text")
    if type(table.get("processors")) not in {int, type(None)}:
        raise TraceError(f"{path}: processors is {table['processors']!r}, expected a whole number")
    names = table.get("names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TraceError(f"{path}: names is {names!r}, expected a list of names of columns")
    sections = {name: table.get(name, {}) for name in ("columns", "parts", "units", "states")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise TraceError(f"{path}: {name} is {section!r}, expected a section [{name}]")
    sections["columns"] = {
        k: str(v) if k in _CONSTANTS and type(v) in {int, float} else v
        for k, v in sections["columns"].items()
    }
    sections["states"] = {
        k: tuple(map(str, v)) if isinstance(v, list) else v for k, v in sections["states"].items()
    }
    events = _events(table["events"], path) if "events" in table else None
    mapping = TableMapping(**{**table, **sections, "names": tuple(names), "events": events})
    try:
        check_ranges(mapping)
    except RecipeError as error:
        raise TraceError(f"{path}: {error}") from error
    _check_columns(path, mapping)
    _check_units(path, mapping)
    _check_states(path, mapping)
    return mapping


def _toml(path: Path) -> dict[str, Any]:
    lines = head_lines(path, EXPECTED)  # raises the error for a file that is no text
    if path.stat().st_size > _MOST_BYTES:
        raise TraceError(f"{path}: this file is too long, expected {EXPECTED}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError too
        why = str(error) if "=" in "".join(lines) else f"line 1 is {lines[0][:60]!r}"
        raise TraceError(f"{path}: this is no TOML ({why}), expected {EXPECTED}") from error


def _events(given: Any, path: Path) -> Events:
    """Return the section [events] of a mapping; raise TraceError for what it cannot be."""
    keys = [attribute.name for attribute in dataclasses.fields(Events)]
    if not isinstance(given, dict):
        raise TraceError(f"{path}: events is {given!r}, expected a section [events]")
    for key in given:
        if key not in keys:
            raise TraceError(f"{path}: unknown key events.{key}; {did_you_mean(key, keys)}")
    for key in keys:
        value = given.get(key)
        if key in {"type", "time"}:
            if not isinstance(value, str):
                raise TraceError(f"{path}: events.{key} is {value!r}, expected a column's name")
        elif not isinstance(value, list) or not value:
            raise TraceError(f"{path}: events.{key} is {value!r}, expected a list of values")
    lists = {key: tuple(map(str, given[key])) for key in ("job", "submit", "start", "end")}
    return Events(type=given["type"], time=given["time"], **lists)


def _check_columns(path: Path, mapping: TableMapping) -> None:
    """Raise TraceError for a column that is unknown, or for one that is missing."""
    columns = mapping.columns
    for name, column in columns.items():
        if name not in COLUMNS:
            raise TraceError(f"{path}: unknown key columns.{name}; {did_you_mean(name, COLUMNS)}")
        if not isinstance(column, str) or not column:
            raise TraceError(f"{path}: columns.{name} is {column!r}, expected a column's name")
    timed = columns.keys() | ({"submit", "start", "end"} if mapping.events else set())
    if "submit" not in timed and not {"end", "duration"} <= timed:
        raise TraceError(f"{path}: columns.submit is missing, expected the time of submission")
    if "duration" not in timed and not {"start", "end"} <= timed:
        raise TraceError(f"{path}: columns.duration is missing, or columns.start and columns.end")
    if not columns.keys() & set(CORES):
        raise TraceError(f"{path}: columns.cores is missing, or columns.requested_cores")
    if len(mapping.separator) != 1:
        raise TraceError(f"{path}: separator is {mapping.separator!r}, expected one character")
    for name, part in mapping.parts.items():
        if name not in mapping.labels:
            hint = did_you_mean(name, columns)
            raise TraceError(f"{path}: parts.{name} is of no column of [columns]; {hint}")
        if not isinstance(part, str) or not part:
            raise TraceError(f"{path}: parts.{name} is {part!r}, expected a text such as gres/gpu")


def _check_units(path: Path, mapping: TableMapping) -> None:
    """Raise TraceError for a unit that its column cannot have."""
    if mapping.memory_of not in MEMORY_OF:
        known = ", ".join(map(repr, MEMORY_OF[:-1])) + f" or {MEMORY_OF[-1]!r}"
        raise TraceError(f"{path}: memory_of is {mapping.memory_of!r}, expected {known}")
    needed = {"node": "nodes", "gpu": "gpus"}.get(mapping.memory_of)
    if needed and MEMORY in mapping.columns and needed not in mapping.columns:
        raise TraceError(
            f"{path}: memory_of is {mapping.memory_of!r}, but columns.{needed} is missing"
        )
    units_of: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(DATES, (DATETIME, *SECONDS)),
        **dict.fromkeys(SPANS, tuple(SECONDS)),
        **dict.fromkeys(CORES, tuple(CORE_UNITS)),
        **dict.fromkeys(("gpus", GPU_SHARE), tuple(GPU_UNITS)),
        MEMORY: tuple(MEMORY_UNITS),
    }
    for name, unit in mapping.units.items():
        if name not in units_of:
            raise TraceError(f"{path}: unknown key units.{name}; {did_you_mean(name, units_of)}")
        form = name in DATES and "%" in str(unit)
        if unit not in units_of[name] and not form:
            raise TraceError(
                f"{path}: units.{name} is {unit!r}, expected one of {', '.join(units_of[name])}"
                + (" or a format of strftime" if name in DATES else "")
            )


def _check_states(path: Path, mapping: TableMapping) -> None:
    """Raise TraceError for an unknown outcome, or a state with two outcomes."""
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
