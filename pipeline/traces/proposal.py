"""Proposal of a mapping for a table of jobs, from its names and its first rows.

A column is proposed if its name is a usual one and its values can be read. A conclusion from little
evidence is listed as unsure. It stands in the mapping as a comment, for a person to check.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError, printable
from hindcast.pipeline.traces.field_values import kilobytes, moment, processors, span
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.slurm import is_log
from hindcast.pipeline.traces.slurm_header import refusal
from hindcast.pipeline.traces.slurm_states import STATES
from hindcast.pipeline.traces.table import (
    COLUMNS,
    CORES,
    COUNTS,
    MEMORY,
    SECONDS,
    SPANS,
    TABLE,
    TIMES,
    as_text,
    header_of,
    is_parquet,
    parquet_schema,
)
from hindcast.pipeline.traces.text_rows import collect, scan_rows

_ROWS: Final = 2000  # looked at, except for states
_MOST_GROUPS: Final = 50  # queues of a log
_MOST_STATES: Final = 40
_SEPARATORS: Final = (",", ";", "\t", "|")
# Usual names, without unit, the surest first.
_USUAL: Final[Mapping[str, str]] = {
    "job_id": "job_id jobid job id job_number job_nr jobnr jobidraw task_id taskid pod pod_name",
    "submit": "submit submit_time submitted submitted_at submission submission_time submittime "
    "queued queued_at queue_time created created_at create_time creation_time "
    "creation_timestamp arrival "
    "arrival_time qtime ctime time",
    "eligible": "eligible eligible_time etime",
    "start": "start start_time started started_at starttime begin begin_time dispatched",
    "end": "end end_time ended ended_at endtime finish finished finished_at finish_time stop "
    "completed_at completion_time",
    "duration": "duration run_time runtime run elapsed elapsed_time elapsedraw wallclock "
    "ru_wallclock used_walltime",
    "time_limit": "time_limit timelimit limit wallclock_req requested_time walltime wall_time "
    "walltime_req requested_walltime req_walltime max_runtime estimate",
    "cores": "cores cpus ncpus n_cores num_cpus alloc_cpus alloccpus allocated_cores cpu slots "
    "processors procs cpu_count cpu_request cpu_requests requested_cpu",
    "requested_cores": "requested_cores req_cpus reqcpus processors_req cpus_req requested_cpus "
    "cores_req req_cores",
    MEMORY: "memory mem mem_req req_mem reqmem requested_memory memory_req ram memory_request "
    "memory_requests mem_request",
    "state": "state status job_state job_status outcome result exit_state phase pod_phase",
    "user": "user user_id userid username user_name owner uid",
    "group": "group group_id gid namespace",
    "account": "account account_name project",
    "executable": "executable job_name jobname name command application app",
    "queue": "queue queue_name class",
    "partition": "partition",
    "qos": "qos",
    "cluster": "cluster cluster_name",
    "nodes": "nodes nodes_alloc alloc_nodes num_nodes n_nodes nnodes node_count nodes_req reqnodes",
    "gpus": "gpus num_gpus num_gpu gpu_num n_gpus ngpus gpu_count gpu",
}
_ENDINGS: Final[Mapping[str, str]] = {
    "ns": "ns", "us": "us", "ms": "ms", "s": "s", "sec": "s", "secs": "s", "seconds": "s",
    "min": "min", "mins": "min", "minutes": "min", "h": "h", "hours": "h", "hrs": "h", "d": "d",
    "days": "d", "b": "B", "bytes": "B", "kb": "KB", "kib": "KB", "mb": "MB", "mib": "MB",
    "gb": "GB", "gib": "GB", "tb": "TB", "millicores": "millicores", "percent": "percent",
}  # fmt: skip
_UNITS: Final = ("s", "min", "h", "ms", "d", "us", "ns")  # of durations, the likeliest first
_FORMS: Final = (
    "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
    "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M", "%a %b %d %H:%M:%S %Y",
)  # fmt: skip
# Numbers of this size are times since 1970 in this unit.
_SINCE_1970: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, "datetime"))
_WORDS: Final[Mapping[str, str]] = {
    **{state.lower(): outcome for state, outcome in STATES.items()},
    **dict.fromkeys(("complete", "done", "success", "succeeded", "successful", "finished", "ok",
                     "exited", "terminated"), "completed"),
    **dict.fromkeys(("fail", "error", "killed", "crashed", "aborted", "exit",
                     "timedout"), "failed"),
    **dict.fromkeys(("canceled", "deleted", "removed"), "cancelled"),
    **dict.fromkeys(("queued", "waiting", "pend", "held", "hold", "idle"), "waiting"),
    **dict.fromkeys(("run", "active", "started"), "running"),
}  # fmt: skip
_SWF: Final[Mapping[str, str]] = {"1": "completed", "0": "failed", "5": "cancelled"}
_PBS: Final = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];")
_ABOVE: Final = 0.2  # of the jobs may run longer than limits in s, before another unit is tried
_GOOD: Final = 0.9  # share of the values that have to be as proposed


@dataclass
class Proposal:
    """A mapping that is proposed for a table.

    Attributes:
        columns: Column of the table by what is read from it.
        units: Units by the same names.
        states: Values of the column of states by outcome.
        separator: Character between the fields.
        unused: Columns of the table that are not read.
        unsure: What a person should look at, one sentence each.
    """

    columns: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    states: dict[str, list[str]] = field(default_factory=dict)
    separator: str = ","
    unused: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)


def propose(table: Path) -> Proposal:
    """Return a proposal for a table. Raises TraceError if the file is no table, or a known log."""
    if table.is_dir():
        raise TraceError(f"{table}: this is a folder, expected {TABLE}")
    proposal = Proposal()
    if table.is_file() and is_parquet(table):
        labels, rows = list(parquet_schema(table)), _parquet(table)
    else:
        _refuse_known(table)
        proposal.separator = _separator(table)
        line, labels = header_of(table, proposal.separator)
        if len(labels) < 2:
            raise TraceError(f"{table}: line {line} has one name, expected {TABLE}")
        places = [f"column {place}" for place in range(len(labels))]
        rows = scan_rows(table, places, line, proposal.separator, quotes=True)
        rows = rows.filter(pl.col("reason").is_null())
        rows = rows.select(
            pl.col(place).alias(label)
            for place, label in dict(zip(places, labels, strict=True)).items()
            if labels.index(label) == places.index(place)
        )
    labels = list(dict.fromkeys(label for label in labels if label))
    sample = collect(rows.head(_ROWS), table)
    hints = _match(proposal, labels)
    _times(proposal, sample, hints)
    _spans(proposal, sample, hints)
    _amounts(proposal, sample, hints)
    _states(proposal, rows, table)
    _groups(proposal, sample)
    used = set(proposal.columns.values())
    proposal.unused = [label for label in labels if label not in used]
    _missing(proposal, labels)
    return proposal


def _refuse_known(table: Path) -> None:
    """Raise TraceError if a file is a log that another reader reads without a mapping."""
    lines = [line for line in head_lines(table, TABLE) if line.strip()]
    first = lines[0]
    if why := refusal(lines):
        raise TraceError(f"{table}: this is {why}")
    formats = (
        ("slurm", "the output of sacct", is_log(lines)),
        ("pbs", "an accounting log of PBS", _PBS.match(first) is not None),
        ("swf", "an SWF log", first.lstrip().startswith(";") or len(first.split()) == 18),
    )
    for name, kind, matches in formats:
        if matches:
            raise TraceError(
                f"{table}: this is {kind}, which needs no mapping: `hindcast ingest {name} {table} "
                "--out WORKLOAD`"
            )


def _parquet(table: Path) -> pl.LazyFrame:
    texts = {}
    for label, kind in parquet_schema(table).items():
        if not (kind.is_nested() or kind == pl.Binary):
            texts[label] = as_text(label, kind, str(table))
    return pl.scan_parquet(table, glob=False).select(**texts)


def _separator(table: Path) -> str:
    """Return the separator that occurs as often in every one of the first lines, and most often."""
    lines = [line for line in head_lines(table, TABLE) if line.strip()][:20]
    counts = {sign: [line.count(sign) for line in lines] for sign in _SEPARATORS}
    even = {sign: n for sign, n in counts.items() if len(set(n)) == 1 and n[0]}
    return max(even or counts, key=lambda sign: counts[sign][0])


def _match(proposal: Proposal, labels: Iterable[str]) -> dict[str, str]:
    """Choose columns by their names; return the units that names end in, by field."""
    bare = {label: _without_unit(label) for label in labels}
    ranks: dict[tuple[int, int], tuple[str, str]] = {}
    for name, usual in _USUAL.items():
        for place, word in enumerate(usual.split()):
            for label, (stem, _unit) in bare.items():
                # `submit_time_s` is a usual name with a unit, `req_s` only looks like one.
                if stem == word or _snake_case(label) == word:
                    ranks.setdefault((place, COLUMNS.index(name)), (name, label))
    for _, (name, label) in sorted(ranks.items()):
        if name not in proposal.columns and label not in proposal.columns.values():
            proposal.columns[name] = label
    # As the reader of Slurm's log: an account is a group too, and a partition a queue.
    for name, other in (("group", "account"), ("queue", "partition")):
        if name not in proposal.columns and other in proposal.columns:
            proposal.columns[name] = proposal.columns[other]
    proposal.columns = {n: proposal.columns[n] for n in COLUMNS if n in proposal.columns}
    return {name: bare[label][1] for name, label in proposal.columns.items() if bare[label][1]}


def _snake_case(label: str) -> str:
    """Return a name in lower case with _ between its words: "SubmitTime" is submit_time."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", label)
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


def _without_unit(label: str) -> tuple[str, str]:
    """Return a name without the unit that it ends in, and the unit or ""."""
    stem, _, last = _snake_case(label).rpartition("_")
    return (stem, _ENDINGS[last]) if stem and last in _ENDINGS else (_snake_case(label), "")


def _values(sample: pl.DataFrame, label: str) -> pl.Series:
    """Return the known values of a column."""
    values = sample[label].drop_nulls()
    return values.filter(~values.str.to_lowercase().is_in(
        ["", "none", "unknown", "n/a", "na", "nan", "null", "-", "unlimited"]))  # fmt: skip


def _share(values: pl.Series, reading: pl.Expr) -> float:
    """Return the share of the values that an expression over the column `x` can read."""
    if not len(values):
        return 0.0
    return float(pl.DataFrame({"x": values}).select(reading.is_not_null().mean()).item())


def _drop(proposal: Proposal, name: str, expected: str) -> None:
    label = proposal.columns.pop(name)
    proposal.unsure.append(
        f"the column {label!r} looks like {name} by its name, but its values are no {expected}"
    )


def _times(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    local = False
    for name in [name for name in TIMES if name in proposal.columns]:
        values, label = _values(sample, proposal.columns[name]), proposal.columns[name]
        numbers = values.cast(pl.Float64, strict=False).drop_nulls()
        if len(values) and len(numbers) >= _GOOD * len(values):
            unit, doubt = _unit_of_times(float(str(numbers.median())), hints.get(name))
            if doubt:
                proposal.unsure.append(f"{name}: {label!r} {doubt}")
        elif _share(values, moment(pl.col("x"))) >= _GOOD:
            unit = "datetime"
            zoned = values.str.contains(r"(Z|[+-]\d\d:?\d\d)$").all()
            local = local or not zoned
        else:
            forms = [f for f in _FORMS if _share(values, moment(pl.col("x"), form=f)) >= _GOOD]
            if not forms:
                _drop(proposal, name, "times")
                continue
            unit, local = forms[0], True
            if len(forms) > 1:
                proposal.unsure.append(
                    f"{name}: {label!r} is read as {forms[0]}, or is it {forms[1]}?"
                )
        if unit != "datetime":
            proposal.units[name] = unit
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
    for name in [name for name in SPANS if name in proposal.columns]:
        label = proposal.columns[name]
        values = _values(sample, label)
        if _share(values, span(pl.col("x"))) < _GOOD:
            _drop(proposal, name, "time spans")
        elif values.str.contains(":", literal=True).mean() < _GOOD:  # type: ignore[operator]
            fitting = (_fitting if name == "duration" else _fitting_limit)(proposal, sample)
            unit = hints.get(name) or fitting or ""
            if unit not in SECONDS:
                unit = "s"
                proposal.unsure.append(f"{name}: {label!r} has no unit, taken as s")
            proposal.units[name] = unit


def _fitting(proposal: Proposal, sample: pl.DataFrame) -> str | None:
    """Return the unit in which the durations are end - start, or None."""
    if not {"start", "end"} <= proposal.columns.keys():
        return None
    runs = sample.select(
        duration=span(pl.col(proposal.columns["duration"])),
        start=_moment_of(proposal, "start"),
        end=_moment_of(proposal, "end"),
    ).filter(pl.col("duration") > 0, pl.col("end") > pl.col("start"))
    for unit in _UNITS:
        seconds = SECONDS[unit]
        error_s = (pl.col("duration") * seconds - (pl.col("end") - pl.col("start"))).abs()
        agrees = error_s <= pl.max_horizontal(pl.lit(2.0), pl.lit(seconds))
        if runs.height and runs.select(agrees.mean()).item() >= _GOOD:
            return unit
    return None


def _fitting_limit(proposal: Proposal, sample: pl.DataFrame) -> str | None:
    """Return the unit in which runs seldom exceed their limits, None if seconds are."""
    if "duration" in proposal.units:
        run = pl.col(proposal.columns["duration"]).cast(pl.Float64, strict=False)
        run *= SECONDS[proposal.units["duration"]]
    elif {"start", "end"} <= proposal.columns.keys():
        run = _moment_of(proposal, "end") - _moment_of(proposal, "start")
    else:
        return None
    limit = span(pl.col(proposal.columns["time_limit"]))
    runs = sample.select(run=run, limit=limit).filter(pl.col("run") > 0, pl.col("limit") > 0)
    for unit in ("s", "min", "h"):
        kept = runs.select((pl.col("run") <= pl.col("limit") * SECONDS[unit]).mean()).item()
        if kept is not None and kept >= (1 - _ABOVE if unit == "s" else _GOOD):
            return None if unit == "s" else unit
    return None


def _moment_of(proposal: Proposal, name: str) -> pl.Expr:
    unit = proposal.units.get(name)
    column = pl.col(proposal.columns[name])
    if unit is not None and unit in SECONDS:
        seconds: pl.Expr = column.cast(pl.Float64, strict=False) * SECONDS[unit]
        return seconds
    return moment(column, form=unit)


def _amounts(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    for name in [name for name in CORES if name in proposal.columns]:
        values = _values(sample, proposal.columns[name])
        if _share(values, processors(pl.col("x"))) < _GOOD:
            _drop(proposal, name, "numbers")
        elif hints.get(name) in {"percent", "millicores"}:
            proposal.units[name] = hints[name]
        elif (values.cast(pl.Float64, strict=False).fill_null(1) % 100 == 0).all():
            proposal.unsure.append(
                f"{name}: all values of {proposal.columns[name]!r} are multiples of 100; is 100 "
                f'one core? Then add {name} = "percent" to [units]'
            )
    for count in [name for name in COUNTS if name in proposal.columns]:
        if _share(_values(sample, proposal.columns[count]), processors(pl.col("x"))) < _GOOD:
            _drop(proposal, count, "numbers")
    if MEMORY in proposal.columns:
        label = proposal.columns[MEMORY]
        values = _values(sample, label)
        if _share(values, kilobytes(pl.col("x"))) < _GOOD:
            _drop(proposal, MEMORY, "amounts of memory")
            return
        if not values.str.contains(r"[A-Za-z]").all():
            proposal.units[MEMORY] = hints.get(MEMORY, "MB")
            if MEMORY not in hints:
                proposal.unsure.append(f"memory: {label!r} has no unit, taken as MB")
        proposal.unsure.append(f"memory: is {label!r} that of the job, or of one core (memory_of)?")


def _states(proposal: Proposal, rows: pl.LazyFrame, table: Path) -> None:
    """Sort the values of the column of states, of all rows, by outcome."""
    if "state" not in proposal.columns:
        proposal.unsure.append("no column of states: every row is taken as a job that ran")
        return
    label = proposal.columns["state"]
    values = collect(rows.select(pl.col(label).drop_nulls().unique().sort()), table)[label]
    if not 0 < len(values) <= _MOST_STATES:
        proposal.columns.pop("state")
        proposal.unsure.append(
            f"the column {label!r} has {len(values)} values, too many for states"
        )
        return
    numeric = set(values) <= {"-1", *"012345"}
    if numeric:
        proposal.unsure.append(f"state: the numbers of {label!r} are taken as those of SWF logs")
    for value in values:
        match = re.match(r"[a-z_]*", value.lower().replace(" ", "_").replace("-", "_"))
        state = match[0] if match else ""
        outcome = (
            _SWF.get(value) if numeric else _WORDS.get(state) or _WORDS.get(state.split("_")[0])
        )
        if outcome is None:
            proposal.unsure.append(
                f"state: {value!r} is not known; its rows are quarantined unless [states] has it"
            )
        else:
            proposal.states.setdefault(outcome, []).append(value)


def _groups(proposal: Proposal, sample: pl.DataFrame) -> None:
    """Add an unsure line for a column of queues or partitions that has too many values."""
    for name in ("queue", "partition"):
        label = proposal.columns.get(name)
        if label is None:
            continue
        values = sample[label].drop_nulls().n_unique()
        if values > max(_MOST_GROUPS, sample.height // 10):
            proposal.unsure.append(
                f"{name}: {label!r} has {values:,} values in {sample.height:,} rows: are they "
                "names, or the time that a job waited?"
            )


def _missing(proposal: Proposal, labels: list[str]) -> None:
    """Add an unsure line for each needed column that was not found."""
    read_as = proposal.columns.keys()
    needed = {
        "submit": "submit" in read_as,
        "duration (or start and end)": "duration" in read_as or {"start", "end"} <= read_as,
        "cores": bool(read_as & set(CORES)),
    }
    for name, present in needed.items():
        if not present:
            listed = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
            proposal.unsure.append(
                f"no column was found for {name}, which is needed; the columns are {listed}"
            )
    if "time_limit" not in read_as:
        proposal.unsure.append("no time_limit: rules that read it will know how long jobs run")
    if "job_id" not in read_as:
        proposal.unsure.append("no job_id: jobs are named by their line")


def toml_of(proposal: Proposal, file: str) -> str:
    """Return a proposal as the TOML of a mapping of the table `file`."""
    lines = [f"file = {_quoted(file)}"]
    if proposal.separator != ",":
        lines.append(f"separator = {_quoted(proposal.separator)}")
    lines += [
        "# processors = 1024            # of the cluster; else the most in use at one moment",
        '# time_zone = "Europe/Berlin"  # of times without an offset; else UTC',
    ]
    if MEMORY in proposal.columns:
        lines.append('memory_of = "job"')
    lines += ["", *(_comment(f"unsure: {question}") for question in proposal.unsure)]
    lines += ["", "[columns]"]
    lines += [f"{name} = {_quoted(label)}" for name, label in proposal.columns.items()]
    if proposal.unused:
        lines.append(_comment(f"not read: {', '.join(proposal.unused)}"))
    if proposal.units:
        lines += ["", "[units]"]
        lines += [f"{name} = {_quoted(unit)}" for name, unit in proposal.units.items()]
    if proposal.states:
        lines += ["", "[states]"]
        lines += [
            f"{outcome} = [{', '.join(map(_quoted, values))}]"
            for outcome, values in proposal.states.items()
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return f"# {printable(text)}"
