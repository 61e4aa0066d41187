"""Choice of the columns of a table, by their names and their values."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.field_values import kilobytes, processors, span
from hindcast.pipeline.traces.tables.draft import (
    Proposal,
    any_time,
    is_absolute,
    share_of,
    values_of,
)
from hindcast.pipeline.traces.tables.fitting import GOOD
from hindcast.pipeline.traces.tables.known import KnownTable
from hindcast.pipeline.traces.tables.mapping import CORES, DATES, GPU_SHARE, MEMORY, SPANS, TIMES
from hindcast.pipeline.traces.tables.names import Candidate, candidates, snake_case
from hindcast.pipeline.traces.tables.states import MOST, words_of

_MOST_GROUPS: Final = 50  # queues of a log
_DISTINCT: Final = 0.99  # share of different names, from which they name jobs
_JOB_IDS: Final = ("job_id", "jobid", "id_job", "job_number", "job_nr", "jid", "job_id_raw")
_LISTS: Final[Mapping[str, tuple[str, ...]]] = {  # names of lists of resources, by what they are
    "allocated": ("alloctres", "tresalloc", "tresallocstr", "allocgres", "gresused"),
    "requested": ("reqtres", "tresreq", "tresreqstr", "reqgres"),
}
# Field -> parts of a list that give it: names of Slurm, and numbers of its database.
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cores": ("cpu", "1"), "requested_cores": ("cpu", "1"), "memory": ("mem", "2"),
    "nodes": ("node", "4"), "gpus": ("gres/gpu", "gpu", "1001"),
}  # fmt: skip
_CHECKS: Final[Mapping[str, tuple[pl.Expr, str]]] = {
    **dict.fromkeys(DATES, (any_time(pl.col("x")), "times")),
    **dict.fromkeys(SPANS, (span(pl.col("x")), "time spans")),
    **dict.fromkeys((*CORES, "nodes", "gpus", GPU_SHARE), (processors(pl.col("x")), "numbers")),
    MEMORY: (kilobytes(pl.col("x").str.to_lowercase()), "amounts of memory"),
}


def adopt(proposal: Proposal, known: KnownTable, sample: pl.DataFrame, table: Path) -> None:
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
            if part and not _has_part(values_of(sample, label), part):
                continue
            proposal.columns[name] = label
            if part:
                proposal.parts[name] = part
            break
    if known.events:
        proposal.sections["events"] = dict(known.events)


def settle(proposal: Proposal, known: KnownTable, settled: AbstractSet[str]) -> None:
    """Take the units of the `settled` fields and the states of a known table as they are known."""
    units = {name: unit for name, unit in known.units.items() if name in settled}
    proposal.units |= units
    doubts = tuple(f"{name}: " for name in (*units, *(["state"] if known.states else [])))
    proposal.unsure = [text for text in proposal.unsure if not text.startswith(doubts or "\0")]
    if known.states:
        proposal.states = {outcome: list(values) for outcome, values in known.states.items()}


def choose(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> dict[str, str]:
    """Choose columns by their names and values; return the units in which names end, by field."""
    found = candidates(labels)
    absolute = any(is_absolute(sample, each.label) for each in found if each.name in TIMES)
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
        if each.name in {"queue", "partition"} and (many := _many(each, sample)):
            proposal.unsure.append(f"{each.name}: {each.label!r} has {many}: are they its names?")
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
    values = values_of(sample, each.label)
    small = absolute and each.name in TIMES and not is_absolute(sample, each.label)
    if small and share_of(values, pl.col("x").cast(pl.Float64, strict=False)) >= GOOD:
        return "its values are no times since 1970, as those of other columns"
    if check is not None:
        reading, expected = check
        return "" if share_of(values, reading) >= GOOD else f"its values are no {expected}"
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
    if not _many(each, sample):
        return ""
    values = sample[each.label].drop_nulls()
    distinct = values.n_unique()
    spans = share_of(values, span(pl.col("x"))) >= GOOD
    if not spans:
        return "" if each.name != "cluster" else f"it has {distinct:,} values"
    told = f"it has {distinct:,} different numbers in {sample.height:,} rows"
    waits = _waits(columns)
    if waits is not None and _share_equal(span(pl.col(each.label)), waits, sample) >= GOOD:
        return f"{told}, and equals start - submit: the time that a job waited"
    return f"{told}, as times that jobs waited have"


def _many(each: Candidate, sample: pl.DataFrame) -> str:
    """Return how many values a column has in words if they are too many for queues, or ""."""
    distinct = sample[each.label].drop_nulls().n_unique()
    if distinct <= max(_MOST_GROUPS, sample.height // 10):
        return ""
    return f"{distinct:,} values in {sample.height:,} rows"


def _waits(columns: Mapping[str, str]) -> pl.Expr | None:
    if not {"submit", "start"} <= columns.keys():
        return None
    start, submit = (any_time(pl.col(columns[name])) for name in ("start", "submit"))
    return start - submit


def _share_equal(given: pl.Expr, expected: pl.Expr, sample: pl.DataFrame) -> float:
    equal = sample.select(((given - expected).abs() <= 1.0).mean()).item()
    return float(equal or 0.0)


def choose_by_values(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> None:
    """Find times among columns without names: submission, start and end come in this order."""
    times = [label for label in labels if is_absolute(sample, label)]
    middle = {
        label: sample.select(any_time(pl.col(label)).median()).item() or 0.0 for label in times
    }
    times = sorted(times, key=lambda label: middle[label])
    names = {2: ("start", "end"), 3: ("submit", "start", "end"), 4: TIMES}.get(len(times), ())
    proposal.columns |= dict(zip(names, times, strict=False))
    first = {label: values_of(sample, label).head(1).to_list() for label in labels}
    shown = ", ".join(f"{label} {value[0]!r}" for label, value in first.items() if value)
    proposal.unsure.append(
        f"the table has no header: `names` is to be filled in; the first values are {shown}"
    )
    if names:
        proposal.unsure.append(
            f"{', '.join(names)} are {', '.join(times)} by the order of their times alone"
        )


def find_in_lists(proposal: Proposal, sample: pl.DataFrame, labels: Sequence[str]) -> None:
    """Find fields inside lists of resources, such as cpu=4,gres/gpu=2 of AllocTRES."""
    bare = {re.sub(r"[^a-z]", "", label.lower()): label for label in labels}
    for kind, names in _LISTS.items():
        for label in (bare[name] for name in names if name in bare):
            values = values_of(sample, label)
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
