"""Proposal of a mapping for a table of jobs, from its names and its first rows.

A column is proposed if its name is a usual one and its values can be read; if they cannot, the next
column with such a name is tried. A conclusion from little evidence is listed as unsure. It stands
in the mapping as a comment, for a person to check.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.field_values import kilobytes, moment, processors, span
from hindcast.pipeline.traces.files.one_log import one_log
from hindcast.pipeline.traces.files.unreadable import refuse_unreadable
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.slurm_header import without_header
from hindcast.pipeline.traces.table import NO_LIMIT
from hindcast.pipeline.traces.tables.fitting import (
    GOOD,
    exceeds_log,
    is_limit,
    is_since_submission,
    moment_of,
    unit_of_limits,
    unit_of_memory,
    unit_of_runs,
    unit_of_times,
)
from hindcast.pipeline.traces.tables.known import KnownTable, known_by_names, known_by_values
from hindcast.pipeline.traces.tables.mapping import (
    COLUMNS,
    CORES,
    DATETIME,
    GPU_SHARE,
    MEMORY,
    SECONDS,
    SPANS,
    TIMES,
)
from hindcast.pipeline.traces.tables.names import Candidate, candidates, memory_of, snake_case
from hindcast.pipeline.traces.tables.sources import (
    TABLE,
    Source,
    is_json,
    is_parquet,
    source_of,
    split_line,
)
from hindcast.pipeline.traces.tables.states import MOST, states_of, words_of
from hindcast.pipeline.traces.text_rows import collect

_ROWS: Final = 2000  # looked at, except for states
_MOST_GROUPS: Final = 50  # queues of a log
_DISTINCT: Final = 0.99  # share of different names, from which they name jobs
_SEPARATORS: Final = (",", ";", "\t", "|")
_FORMS: Final = (
    "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
    "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M", "%a %b %d %H:%M:%S %Y",
)  # fmt: skip
# Numbers of this size are times since 1970 in this unit.
_SINCE_1970: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, DATETIME))
_JOB_IDS: Final = ("job_id", "jobid", "id_job", "job_number", "job_nr", "jid", "job_id_raw")
_LISTS: Final[Mapping[str, tuple[str, ...]]] = {  # names of lists of resources, by what they are
    "allocated": ("alloctres", "tresalloc", "allocgres", "gresused"),
    "requested": ("reqtres", "tresreq", "reqgres"),
}
# Field -> parts of a list that give it: names of Slurm, and numbers of its database.
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cores": ("cpu", "1"), "requested_cores": ("cpu", "1"), "memory": ("mem", "2"),
    "nodes": ("node", "4"), "gpus": ("gres/gpu", "gpu", "1001"),
}  # fmt: skip
_NOT_NUMBERS: Final = (
    "", "none", "unknown", "n/a", "na", "nan", "nat", "null", "-", *NO_LIMIT,
)  # fmt: skip


@dataclass
class Proposal:
    """A mapping that is proposed for a table.

    Attributes:
        columns: Column of the table by what is read from it.
        parts: Part of a list of resources by the same names.
        units: Units by the same names.
        states: Values of the column of states by outcome.
        separator: Character between the fields.
        names: Names of the columns of a table without a header.
        memory_of: What the memory is of.
        unused: Columns of the table that are not read.
        unsure: What a person should look at, one sentence each.
        notes: What is known of the table beside its columns, one sentence each.
        known: What the table is, if it is one of the public tables that are known; else "".
        sections: Further sections of the mapping of a known table.
        is_json: Whether the table is JSON.
    """

    columns: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    states: dict[str, list[str]] = field(default_factory=dict)
    separator: str = ","
    names: list[str] = field(default_factory=list)
    memory_of: str = "job"
    unused: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    known: str = ""
    sections: dict[str, dict[str, str | list[str]]] = field(default_factory=dict)
    is_json: bool = False


def propose(path: Path) -> Proposal:
    """Return a proposal for a table: a file, compressed or not, or a folder of such files.

    Raises TraceError if it is no table, or a known log.
    """
    with one_log(path) as log:
        return _propose(log.path, path)


def _propose(table: Path, given: Path) -> Proposal:
    proposal = Proposal()
    if table.is_file() and is_parquet(table):
        source = source_of(table)
    else:
        _refuse_known(table, given)
        if not is_json(table):
            proposal.separator = _separator(table)
            proposal.names = _invented_names(table, proposal.separator)
        source = source_of(table, proposal.separator, proposal.names)
    labels = list(dict.fromkeys(label for label in source.labels if label))
    proposal.is_json = source.objects is not None
    if len(labels) < 2 and not proposal.is_json:
        raise TraceError(f"{table}: line {source.header} has one name, expected {TABLE}")
    rows = _rows(source, labels)
    sample = collect(rows.head(_ROWS), table)
    known = known_by_values(sample) if proposal.names else known_by_names(labels)
    hints: dict[str, str] = {}
    if known is not None:
        if proposal.names:
            proposal.names = list(known.has)
            renamed = dict(zip(labels, known.has, strict=True))
            rows, sample, labels = rows.rename(renamed), sample.rename(renamed), proposal.names
        _adopt(proposal, known, sample, table)
    else:
        hints = _choose(proposal, sample, labels)
        if proposal.names:
            _by_values(proposal, sample, labels)
        _lists(proposal, sample, labels)
    _times(proposal, sample, hints)
    _spans(proposal, sample, hints)
    _amounts(proposal, sample, hints)
    _states(proposal, rows, table)
    if known is not None:
        _settle(proposal, known)
    proposal.columns = {n: proposal.columns[n] for n in COLUMNS if n in proposal.columns}
    used = set(proposal.columns.values())
    proposal.unused = [label for label in labels if label not in used]
    _missing(proposal, labels)
    return proposal


def _adopt(proposal: Proposal, known: KnownTable, sample: pl.DataFrame, table: Path) -> None:
    """Take the columns of a known table; raise TraceError if it is none of jobs."""
    if known.refuse:
        raise TraceError(f"{table}: this is {known.title}; {known.refuse}")
    proposal.known = known.title
    proposal.notes += known.notes
    for name, options in known.columns.items():
        for option in options:
            label, _, part = option.partition(":")
            constant = label.startswith("=")
            if not constant and label not in sample.columns:
                continue
            if part and not _has_part(_values(sample, label), part):
                continue
            proposal.columns[name] = label
            if part:
                proposal.parts[name] = part
            break
    if known.events:
        proposal.sections["events"] = dict(known.events)


def _settle(proposal: Proposal, known: KnownTable) -> None:
    """Take the units and states of a known table in place of those that fit."""
    settled = proposal.columns.keys() | ({"submit"} if known.events else set())
    proposal.units |= {name: unit for name, unit in known.units.items() if name in settled}
    doubts = tuple(f"{name}: " for name in (*known.units, *(["state"] if known.states else [])))
    proposal.unsure = [text for text in proposal.unsure if not text.startswith(doubts or "\0")]
    if known.states:
        proposal.states = {outcome: list(values) for outcome, values in known.states.items()}


def _refuse_known(table: Path, given: Path) -> None:
    """Raise TraceError if a file is a log that another reader reads without a mapping."""
    lines = [line for line in head_lines(table, TABLE) if line.strip()]
    if how := without_header(lines):
        raise TraceError(f"{table}: {how}")
    for name, form in FORMATS.items():
        if form.recognises is not None and form.recognises(lines):
            raise TraceError(
                f"{table}: this is {form.kind}, which needs no mapping: `hindcast ingest {name} "
                f"{given} --out WORKLOAD`"
            )
    refuse_unreadable(table, lines)


def _rows(source: Source, labels: Sequence[str]) -> pl.LazyFrame:
    """Return the columns that have texts, and those of lists as null."""
    types = source.types or {}
    nested = {label for label in labels if label in types and not _is_text(types[label])}
    texts = [label for label in labels if label not in nested]
    rows = source.scan(texts).filter(pl.col("reason").is_null())
    return rows.select(
        pl.lit(None, pl.String).alias(label)
        if label in nested
        else pl.col(f"column {texts.index(label)}").alias(label)
        for label in labels
    )


def _is_text(kind: pl.DataType) -> bool:
    return not (kind.is_nested() or kind == pl.Binary)


def _separator(table: Path) -> str:
    """Return the separator that occurs as often in every one of the first lines, and most often."""
    lines = [line for line in head_lines(table, TABLE) if line.strip()][:20]
    counts = {sign: [len(split_line(line, sign)) - 1 for line in lines] for sign in _SEPARATORS}
    even = {sign: n for sign, n in counts.items() if len(set(n)) == 1 and n[0]}
    return max(even or counts, key=lambda sign: counts[sign][0])


def _invented_names(table: Path, separator: str) -> list[str]:
    """Return the names column_1, column_2, ... for a table whose first line has values, else []."""
    first = next(line for line in head_lines(table, TABLE) if line.strip())
    fields = split_line(first, separator)
    values = pl.DataFrame({"x": fields}).select(
        pl.coalesce(pl.col("x").cast(pl.Float64, strict=False), moment(pl.col("x"))).is_not_null()
    )
    if known_by_names(fields) is not None or not values["x"].any():
        return []
    return [f"column_{n + 1}" for n in range(len(fields))]


def _choose(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> dict[str, str]:
    """Choose columns by their names and values; return the units in which names end, by field."""
    found = candidates(labels)
    absolute = any(_is_absolute(sample, each.label) for each in found if each.name in TIMES)
    hints: dict[str, str] = {}
    refused: dict[str, str] = {}
    columns = proposal.columns
    for each in found:
        if each.name in columns or each.label in columns.values():
            continue
        fault = _fault(each, sample, columns, absolute=absolute)
        if fault:
            told = f"the column {each.label!r} looks like {each.name} by its name, but {fault}"
            refused.setdefault(each.name, told)
            continue
        columns[each.name] = each.label
        if each.unit:
            hints[each.name] = each.unit
    # As the reader of Slurm's log: an account is a group too, and a partition a queue.
    for name, other in (("group", "account"), ("queue", "partition")):
        if name not in columns and other in columns:
            columns[name] = columns[other]
    # Names that all differ are those of the jobs themselves, as of pods.
    of_jobs = Candidate("job_id", columns.get("executable", ""), "", 0)
    if (
        of_jobs.label
        and "job_id" not in columns
        and not _fault(of_jobs, sample, columns, absolute=False)
    ):
        columns["job_id"] = columns.pop("executable")
    proposal.unsure += refused.values()
    return hints


def _fault(
    each: Candidate, sample: pl.DataFrame, columns: Mapping[str, str], *, absolute: bool
) -> str:
    """Return why a column cannot be what its name says, or ""."""
    check = _CHECKS.get(each.name)
    values = _values(sample, each.label)
    small = absolute and each.name in TIMES and not _is_absolute(sample, each.label)
    if small and _share(values, pl.col("x").cast(pl.Float64, strict=False)) >= GOOD:
        return "its values are no times since 1970, as those of other columns"
    if check is not None:
        reading, expected = check
        return "" if _share(values, reading) >= GOOD else f"its values are no {expected}"
    if each.name == "state":
        distinct = len(words_of(values.unique().to_list()))
        return "" if 0 < distinct <= MOST else f"has {distinct} values, too many for states"
    if each.name == "job_id" and snake_case(each.label) not in _JOB_IDS:
        share = values.n_unique() / len(values) if len(values) else 0.0
        return "" if share >= _DISTINCT else "several rows have the same value"
    if each.name in {"queue", "partition", "qos", "cluster"}:
        return _no_names(each, sample, columns)
    return ""


def _no_names(each: Candidate, sample: pl.DataFrame, columns: Mapping[str, str]) -> str:
    """Return why a column cannot hold names of queues or partitions, or ""."""
    values = sample[each.label].drop_nulls()
    distinct = values.n_unique()
    if distinct <= max(_MOST_GROUPS, sample.height // 10):
        return ""
    spans = _share(values, span(pl.col("x"))) >= GOOD
    if not spans:
        return "" if each.name != "cluster" else f"it has {distinct:,} values"
    told = f"it has {distinct:,} different numbers in {sample.height:,} rows"
    waits = _waits(columns)
    if waits is not None and _share_equal(span(pl.col(each.label)), waits, sample) >= GOOD:
        return f"{told}, and equals start - submit: the time that a job waited"
    return f"{told}, as times that jobs waited have"


def _waits(columns: Mapping[str, str]) -> pl.Expr | None:
    if not {"submit", "start"} <= columns.keys():
        return None
    start, submit = (_any_time(pl.col(columns[name])) for name in ("start", "submit"))
    return start - submit


def _share_equal(given: pl.Expr, expected: pl.Expr, sample: pl.DataFrame) -> float:
    equal = sample.select(((given - expected).abs() <= 1.0).mean()).item()
    return float(equal or 0.0)


def _any_time(text: pl.Expr) -> pl.Expr:
    return pl.coalesce(moment(text), *(moment(text, form=form) for form in _FORMS))


_CHECKS: Final[Mapping[str, tuple[pl.Expr, str]]] = {
    **dict.fromkeys(TIMES, (_any_time(pl.col("x")), "times")),
    **dict.fromkeys(SPANS, (span(pl.col("x")), "time spans")),
    **dict.fromkeys((*CORES, "nodes", "gpus", GPU_SHARE), (processors(pl.col("x")), "numbers")),
    MEMORY: (kilobytes(pl.col("x").str.to_lowercase()), "amounts of memory"),
}


def _is_absolute(sample: pl.DataFrame, label: str) -> bool:
    """Return whether times of a column count from 1970, or are dates."""
    values = _values(sample, label)
    numbers = values.cast(pl.Float64, strict=False).drop_nulls()
    if len(numbers) < GOOD * len(values):
        return _share(values, _any_time(pl.col("x"))) >= GOOD
    return len(numbers) > 0 and float(str(numbers.median())) >= _SINCE_1970[-1][0]


def _values(sample: pl.DataFrame, label: str) -> pl.Series:
    """Return the known values of a column."""
    values = sample[label].drop_nulls()
    return values.filter(~values.str.to_lowercase().is_in(_NOT_NUMBERS))


def _share(values: pl.Series, reading: pl.Expr) -> float:
    """Return the share of the values that an expression over the column `x` can read."""
    if not len(values):
        return 0.0
    return float(pl.DataFrame({"x": values}).select(reading.is_not_null().mean()).item())


def _by_values(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> None:
    """Find times among columns without names: submission, start and end come in this order."""
    times = [label for label in labels if _is_absolute(sample, label)]
    middle = {
        label: sample.select(_any_time(pl.col(label)).median()).item() or 0.0 for label in times
    }
    times = sorted(times, key=lambda label: middle[label])
    names = {2: ("start", "end"), 3: ("submit", "start", "end"), 4: TIMES}.get(len(times), ())
    proposal.columns |= dict(zip(names, times, strict=False))
    first = {label: _values(sample, label).head(1).to_list() for label in labels}
    shown = ", ".join(f"{label} {value[0]!r}" for label, value in first.items() if value)
    proposal.unsure.append(
        f"the table has no header: `names` is to be filled in; the first values are {shown}"
    )
    if names:
        proposal.unsure.append(
            f"{', '.join(names)} are {', '.join(times)} by the order of their times alone"
        )


def _lists(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> None:
    """Find fields inside lists of resources, such as cpu=4,gres/gpu=2 of AllocTRES."""
    bare = {re.sub(r"[^a-z]", "", label.lower()): label for label in labels}
    for kind, names in _LISTS.items():
        for label in (bare[name] for name in names if name in bare):
            values = _values(sample, label)
            for field_name, parts in _PARTS.items():
                is_asked = field_name == "requested_cores"
                wanted = {"cores": "allocated", "requested_cores": "requested"}.get(
                    field_name, kind
                )
                if field_name in proposal.columns or wanted != kind:
                    continue
                if is_asked and "cores" in proposal.columns:
                    continue
                part = next((p for p in parts if _has_part(values, p)), None)
                if part is None:
                    continue
                proposal.columns[field_name] = label
                proposal.parts[field_name] = part
                if part.isdigit() and field_name == "gpus":
                    proposal.unsure.append(
                        f"gpus: number {part} of {label!r} is taken as GPUs; the table of Slurm's "
                        "resources (tres_table) says what it is"
                    )


def _has_part(values: pl.Series, part: str) -> bool:
    return bool(values.str.contains(rf"(?:^|[,;\s]){re.escape(part)}[=:]").any())


def _times(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    local = False
    doubts: dict[str, str] = {}
    for name in [name for name in TIMES if name in proposal.columns]:
        values, label = _values(sample, proposal.columns[name]), proposal.columns[name]
        numbers = values.cast(pl.Float64, strict=False).drop_nulls()
        if len(numbers) >= GOOD * len(values):
            unit, doubt = _unit_of_times(float(str(numbers.median())), hints.get(name))
            if doubt:
                doubts[name] = f"{name}: {label!r} {doubt}"
        elif _share(values, moment(pl.col("x"))) >= GOOD:
            unit = DATETIME
            zoned = values.str.contains(r"(Z|[+-]\d\d:?\d\d)$").all()
            local = local or not zoned
        else:
            forms = [f for f in _FORMS if _share(values, moment(pl.col("x"), form=f)) >= GOOD]
            unit, local = forms[0], True
            if len(forms) > 1:
                proposal.unsure.append(
                    f"{name}: {label!r} is read as {forms[0]}, or is it {forms[1]}?"
                )
        if unit != DATETIME:
            proposal.units[name] = unit
    if {"start", "end"} <= doubts.keys() and "duration" in proposal.columns:
        run = _values(sample, proposal.columns["duration"])
        is_clock = run.cast(pl.Float64, strict=False).is_null().mean() or 0.0
        of_one = 1.0 if float(str(is_clock)) >= GOOD else SECONDS.get(hints.get("duration", ""))
        of_times = unit_of_times(proposal.columns, of_one, sample) if of_one else None
        if of_times:
            proposal.units |= dict.fromkeys(doubts, of_times)
            doubts = {}
    proposal.unsure += doubts.values()
    if local:
        proposal.unsure.append("times have no offset and are read as UTC: set time_zone if not so")


def _unit_of_times(size: float, hint: str | None) -> tuple[str, str]:
    """Return the unit of times of this size, and a doubt about the unit in words, or "".

    A name that ends in a unit decides, since times need not count from 1970. If that unit puts the
    times thousands of years after 1970, the name is wrong, and the size decides.
    """
    since_1970 = next((unit for least, unit in _SINCE_1970 if size >= least), None)
    if hint is None or hint not in SECONDS:
        return since_1970 or "s", "" if since_1970 else "counts in an unknown unit, taken as s"
    if since_1970 is None:
        return hint, ""
    hinted, likely = SECONDS[hint], SECONDS.get(since_1970, 1.0)
    if hinted < likely:
        return hint, ""
    doubt = f"is named {hint}, but looks like {since_1970}"
    return since_1970, "" if hinted == likely else doubt


def _spans(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    """Find the units of run times and limits, and tell one from the other by fit."""
    columns = proposal.columns
    if "duration" in columns and _is_number(sample, columns["duration"]):
        _unit_of_duration(proposal, sample, hints.get("duration"))
    if "duration" in columns and is_limit(
        columns, proposal.units, sample, proposal.units.get("duration", "s")
    ):
        label = columns.pop("duration")
        proposal.units.pop("duration", None)
        told = (
            f"the column {label!r} looks like duration by its name, but is longer than end - start"
        )
        if "time_limit" not in columns:
            columns["time_limit"] = label
            told += ": it is taken as the time limit"
        proposal.unsure.append(told)
    limit = columns.get("time_limit")
    if limit is None or not _is_number(sample, limit):
        return
    is_run = unit_of_runs(columns, proposal.units, sample, "time_limit")
    if is_run and "duration" not in columns:
        columns["duration"] = columns.pop("time_limit")
        proposal.units["duration"] = is_run
        proposal.unsure.append(
            f"the column {limit!r} looks like time_limit by its name, but is end - start"
        )
        return
    hint = hints.get("time_limit")
    unit, why = unit_of_limits(columns, proposal.units, sample)
    is_slurm = re.sub(r"[^a-z]", "", limit.lower()) in {"timelimit", "timelimitraw"}
    if unit is None:
        unit = hint or ("min" if is_slurm and _is_slurm(columns) else "s")
        if not hint:
            known = "as Slurm writes it" if unit == "min" else "has no unit"
            proposal.unsure.append(f"time_limit: {limit!r} {known}, taken as {unit}")
    elif hint and hint in SECONDS and hint != unit:
        proposal.unsure.append(
            f"time_limit: {limit!r} is named {hint}, but fits {unit} better ({why})"
        )
    elif not hint and unit != "s":
        proposal.unsure.append(f"time_limit: {limit!r} is taken as {unit}, since {why}")
    proposal.units["time_limit"] = unit


def _is_slurm(columns: Mapping[str, str]) -> bool:
    """Return whether other columns have names of Slurm or of its database."""
    names = {re.sub(r"[^a-z]", "", label.lower()) for label in columns.values()}
    return len(names & {"idjob", "timesubmit", "timestart", "timeend", "jobid", "alloccpus",
                        "reqcpus", "elapsedraw", "alloctres", "idgroup"}) >= 2  # fmt: skip


def _is_number(sample: pl.DataFrame, label: str) -> bool:
    """Return whether spans are numbers, which need a unit; texts such as 1:00:00 do not."""
    values = _values(sample, label)
    clock = values.cast(pl.Float64, strict=False).is_null().mean()
    return len(values) > 0 and float(str(clock)) < GOOD


def _unit_of_duration(proposal: Proposal, sample: pl.DataFrame, hint: str | None) -> None:
    columns, label = proposal.columns, proposal.columns["duration"]
    fitting = unit_of_runs(columns, proposal.units, sample, "duration")
    unit = fitting or (hint if hint in SECONDS else None)
    if fitting and hint in SECONDS and hint != fitting:
        proposal.unsure.append(
            f"duration: {label!r} is named {hint}, but end - start has it in {fitting}"
        )
    if unit is None:
        smaller = exceeds_log(columns, proposal.units, sample)
        unit = smaller or "s"
        why = ", since in s most runs would be longer than the log" if smaller else ""
        proposal.unsure.append(f"duration: {label!r} has no unit, taken as {unit}{why}")
    proposal.units["duration"] = unit
    if fitting is None and is_since_submission(columns, proposal.units, sample):
        del columns["duration"], proposal.units["duration"]
        proposal.unsure.append(f"duration: {label!r} is end - submit, and is not read")
    elif fitting is None and {"start", "end"} <= columns.keys():
        run = moment_of(columns, proposal.units, "end") - moment_of(
            columns, proposal.units, "start"
        )
        given = span(pl.col(label)) * SECONDS[unit]
        far = (given - run).abs() > pl.max_horizontal(pl.lit(2.0), run * 0.01)
        share = float(sample.select(far.mean()).item() or 0.0)
        proposal.unsure.append(f"duration: {label!r} is not end - start in {share:.0%} of the rows")


def _amounts(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    columns = proposal.columns
    for name in [n for n in CORES if n in columns and not columns[n].startswith("=")]:
        values = _values(sample, columns[name])
        if hints.get(name) == "milli":
            proposal.units[name] = "millicores"
        elif hints.get(name) in {"percent", "millicores"}:
            proposal.units[name] = hints[name]
        elif (
            name not in proposal.parts
            and (values.cast(pl.Float64, strict=False).fill_null(1) % 100 == 0).all()
        ):
            proposal.unsure.append(
                f"{name}: all values of {columns[name]!r} are multiples of 100; is 100 "
                f'one core? Then add {name} = "percent" to [units]'
            )
    if GPU_SHARE in columns:
        proposal.units[GPU_SHARE] = "milligpus"
    if "gpus" in columns and not columns.keys() & set(CORES):
        proposal.unsure.append(
            f"no column of processors: {columns['gpus']!r} is a number of GPUs; to play the GPUs "
            f'as the machine, write cores = "{columns["gpus"]}" into [columns]'
        )
    if MEMORY in columns:
        _memory(proposal, sample, hints.get(MEMORY))


def _memory(proposal: Proposal, sample: pl.DataFrame, hint: str | None) -> None:
    columns, label = proposal.columns, proposal.columns[MEMORY]
    values = _values(sample, label)
    of = memory_of(label)
    if of != "job" and {"node": "nodes", "gpu": "gpus"}.get(of, of) in {*columns, "core"}:
        proposal.memory_of = of
    if MEMORY in proposal.parts:
        proposal.units[MEMORY] = "MB"
        return
    if not values.str.contains(r"[A-Za-z]").all():
        unit = hint
        if unit is None:
            cores = next((columns[n] for n in CORES if n in columns), None)
            unit = unit_of_memory(cores, label, sample, proposal.memory_of) or "MB"
            proposal.unsure.append(f"memory: {label!r} has no unit, taken as {unit}")
        proposal.units[MEMORY] = unit
    if of == "job":
        proposal.unsure.append(f"memory: is {label!r} that of the job, or of one core (memory_of)?")


def _states(proposal: Proposal, rows: pl.LazyFrame, table: Path) -> None:
    """Sort the values of the column of states, of all rows, by outcome."""
    columns = proposal.columns
    if "events" in proposal.sections:
        return
    if "state" not in columns:
        proposal.unsure.append("no column of states: every row is taken as a job that ran")
        return
    label = columns["state"]
    run = columns.get("end", columns.get("duration"))
    ended = pl.lit(value=True) if run is None else _is_known(pl.col(run))
    counted = collect(
        rows.filter(pl.col(label).is_not_null())
        .group_by(pl.col(label).alias("value"))
        .agg(pl.len().alias("rows"), ended.sum().alias("ended")),
        table,
    ).sort("value")
    words = words_of(counted["value"].to_list())
    if not 0 < len(words) <= MOST:
        columns.pop("state")
        proposal.unsure.append(f"the column {label!r} has {len(words)} values, too many for states")
        return
    numbers = {value: (rows, over) for value, rows, over in counted.iter_rows()}
    found = states_of(
        label,
        {word: numbers.get(word, (0, 0))[0] for word in words},
        {word: numbers.get(word, (0, 0))[1] for word in words},
    )
    proposal.states = found.values
    proposal.unsure += found.unsure


def _is_known(text: pl.Expr) -> pl.Expr:
    return (~text.str.to_lowercase().is_in([*_NOT_NUMBERS, "0"])).fill_null(value=False)


def _missing(proposal: Proposal, labels: Sequence[str]) -> None:
    """Add an unsure line for each needed column that was not found."""
    read_as = proposal.columns.keys() | (set(TIMES) if "events" in proposal.sections else set())
    needed = {
        "submit": "submit" in read_as or {"end", "duration"} <= read_as,
        "duration (or start and end)": "duration" in read_as or {"start", "end"} <= read_as,
        "cores": bool(read_as & set(CORES)),
    }
    for name, present in needed.items():
        if not present:
            listed = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
            proposal.unsure.append(
                f"no column was found for {name}, which is needed; the columns are {listed}"
            )
    if needed["submit"] and "submit" not in read_as:
        proposal.unsure.append(
            "no submit: a job is taken to be submitted when it starts, so that waits are unknown"
        )
    if "time_limit" not in read_as:
        proposal.unsure.append("no time_limit: rules that read it will know how long jobs run")
    if "job_id" not in read_as and "events" not in proposal.sections:
        proposal.unsure.append("no job_id: jobs are named by their line")
