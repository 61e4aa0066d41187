"""Proposal of a mapping for a table of jobs, from its names and its first rows.

A column is proposed if its name is a usual one and its values can be read; if they cannot, the next
column with such a name is tried. A conclusion from little evidence is listed as unsure. It stands
in the mapping as a comment, for a person to check.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.field_values import moment
from hindcast.pipeline.traces.files.one_log import one_log
from hindcast.pipeline.traces.files.unreadable import refuse_unreadable
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.slurm_output.header import without_header
from hindcast.pipeline.traces.tables.choice import (
    adopt,
    choose,
    choose_by_values,
    find_in_lists,
    settle,
)
from hindcast.pipeline.traces.tables.draft import NOT_NUMBERS, Proposal
from hindcast.pipeline.traces.tables.known import known_by_names, known_by_values
from hindcast.pipeline.traces.tables.mapping import (
    COLUMNS,
    CORES,
    TIMES,
)
from hindcast.pipeline.traces.tables.sources import (
    TABLE,
    Source,
    is_json,
    is_parquet,
    source_of,
    split_line,
)
from hindcast.pipeline.traces.tables.states import MOST, states_of, words_of
from hindcast.pipeline.traces.tables.units import units_of_amounts, units_of_spans, units_of_times
from hindcast.pipeline.traces.text_rows import collect

_ROWS: Final = 2000  # looked at, except for states
_SEPARATORS: Final = (",", ";", "\t", "|")


def propose(path: Path) -> Proposal:
    """Return a proposal for a table: a file, compressed or not, or a folder of such files.

    Raises TraceError if it is no table, or a known log.
    """
    with one_log(path) as log:
        return _propose(log.path, path)


def _propose(table: Path, given: Path) -> Proposal:
    """Return a proposal for the columns of a table; raise TraceError if it is no table."""
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
        raise TraceError(f"{table}: line {source.header or 1} has one name, expected {TABLE}")
    rows = _rows(source, labels)
    sample = collect(rows.head(_ROWS), table)
    known = known_by_values(sample) if proposal.names else known_by_names(labels)
    hints: dict[str, str] = {}
    settled: set[str] = set()
    if known is not None:
        if proposal.names:
            proposal.names = list(known.has)
            renamed = dict(zip(labels, known.has, strict=True))
            rows, sample, labels = rows.rename(renamed), sample.rename(renamed), proposal.names
        adopt(proposal, known, sample, table)
        settled = {*proposal.columns, *(["submit"] if known.events else [])}
        if not known.events:
            hints = choose(proposal, sample, [n for n in labels if n not in known.skip])
    else:
        hints = choose(proposal, sample, labels)
        if proposal.names:
            choose_by_values(proposal, sample, labels)
        find_in_lists(proposal, sample, labels)
    units_of_times(proposal, sample, hints)
    units_of_spans(proposal, sample, hints)
    units_of_amounts(proposal, sample, hints)
    _states(proposal, rows, table)
    if known is not None:
        settle(proposal, known, settled)
    proposal.columns = {n: proposal.columns[n] for n in COLUMNS if n in proposal.columns}
    used = set(proposal.columns.values())
    proposal.unused = [label for label in labels if label not in used]
    _missing(proposal, labels)
    return proposal


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
    return (~text.str.to_lowercase().is_in([*NOT_NUMBERS, "0"])).fill_null(value=False)


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
