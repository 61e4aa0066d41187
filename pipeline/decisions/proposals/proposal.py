"""Proposal of the mapping of a log of decisions, from its names and values.

    rows     an id that repeats, and a column with one 1 (true) per id
    nested   a list of objects or names per record, and a value that names one of them
    wide     columns NAME_1, NAME_2, ... with the same numbers for a column that holds such a number

Values decide where they can: a column with one value in every decision describes the decision, any
other one its candidates. Guesses from names alone are listed as unsure.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.mapping import KIND
from hindcast.pipeline.decisions.proposals.foreign_names import in_rows, in_wide, is_percent
from hindcast.pipeline.decisions.proposals.names import WORDS, Names, any_name, find
from hindcast.pipeline.decisions.proposals.nested import propose_nested
from hindcast.pipeline.decisions.proposals.outcomes import add_outcomes
from hindcast.pipeline.decisions.proposals.parts import (
    JSON,
    MOST,
    DecisionProposal,
    finish,
    is_category,
    is_number,
    is_time,
    lists_of,
    proposal_of,
    records_in,
    tell_zone,
)
from hindcast.pipeline.decisions.reading import recognise
from hindcast.pipeline.decisions.shapes.tables import Tables, is_parquet
from hindcast.pipeline.decisions.values import flags
from hindcast.pipeline.errors import TraceError

_SAMPLE: Final = 20_000  # rows of a table that are looked at
_NUMBERED: Final = re.compile(r"^(.*?[^0-9])(\d+)$")

_CATEGORICAL: Final = ("tier", "kind", "type", "class", "category", "group", "tenant", "region")


def propose(path: Path, *, by_values: bool = False) -> DecisionProposal | None:
    """Return the mapping of a log of decisions; None for a file that is none.

    With `by_values`, values are looked at where names say nothing.
    """
    try:
        if shape := recognise(path):  # it describes itself
            parts = {"columns": {}, "context": lists_of([], []), "candidates": lists_of([], [])}
            return DecisionProposal({"kind": KIND, "file": path.name, "shape": shape, **parts})
        if path.is_dir():
            return None
        tables = Tables([path])
        is_json = any(ending in JSON for ending in path.suffixes)
        schema = {} if is_json else tables.schema()
        has_lists = any(isinstance(dtype, pl.List) for dtype in schema.values())
        if is_json or (has_lists and is_parquet(path)):
            return propose_nested(path, records_in(path), by_values=by_values)
        piece = next(tables.pieces(), None)
    except TraceError:
        return None
    frame = (
        pl.DataFrame(schema=dict.fromkeys(schema, pl.String))
        if piece is None
        else piece.rows.head(_SAMPLE)
    )
    if by_values:
        return _by_values(path, frame)
    return _rows(path, frame) or _wide(path, frame)


def _by_values(path: Path, frame: pl.DataFrame) -> DecisionProposal | None:
    """Return the mapping of a table in whose names no word of a log is known."""
    if not frame.height:
        return None
    _stem, keys, others = _stems(frame.columns)
    for read, columns in ((_rows, in_rows), (_wide, partial(in_wide, keys=keys, others=others))):
        found = columns(frame)
        words = {column: WORDS[what][0] for what, column in found.items()}
        if not words or {*words.values()} & {*frame.columns} - {*words}:
            continue
        proposal = read(path, frame.rename(words))
        if proposal is not None:
            return _with_names(proposal, {word: column for column, word in words.items()})
    return None


def _with_names(found: DecisionProposal, names: Mapping[str, str]) -> DecisionProposal:
    """Return a proposal with the names of the log, and say that they were guessed from values."""

    def named(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: named(v) for k, v in value.items()}
        if isinstance(value, list):
            return [named(v) for v in value]
        return names.get(value, value) if isinstance(value, str) else value

    sides = ("columns", "context", "candidates")
    table = {k: named(v) if k in sides else v for k, v in found.table.items()}
    guessed = ", ".join(
        f"{c} as {what}" for what, c in table["columns"].items() if c in names.values()
    )
    return DecisionProposal(
        table, [f"taken by values, since no name says it: {guessed}", *found.unsure], found.not_read
    )


# Rows


def _rows(path: Path, frame: pl.DataFrame) -> DecisionProposal | None:
    """Return the mapping of a table with a row per candidate; None if it is none."""
    names = frame.columns
    if not frame.height:
        return _header(path, names)

    def repeats(name: str) -> bool:
        column = frame[name]
        return column.null_count() == 0 and 1 < column.n_unique() < frame.height

    decision = find("decision", names, repeats)
    if not decision:
        return None
    groups = frame[decision].rank("dense")
    count = frame[decision].n_unique()

    def one_each(name: str) -> bool:
        said, bad = flags(frame[name])
        if bad.any():
            return False
        taken = pl.DataFrame({"g": groups, "f": said == 1}).group_by("g").agg(pl.col("f").sum())
        return bool((taken["f"] == 1).mean() >= MOST)  # type: ignore[operator]

    chosen = find("chosen", [n for n in names if n != decision], one_each)
    if not chosen:
        return None
    of = Names([n for n in names if n not in (decision, chosen)])
    constant = {n: _constant(frame[n], groups, count) for n in of.left}
    said, _ = flags(frame[chosen])
    taken = pl.Series(said == 1)
    of.columns["decision"] = decision

    def numeric(name: str) -> bool:
        return is_number(frame[name])

    of.put("session", lambda n: constant[n])
    of.put("unit", lambda n: constant[n])
    time = of.put("time", lambda n: constant[n] and is_time(frame[n]))
    of.put("candidate", lambda n: not constant[n])
    of.columns["chosen"] = chosen
    of.put("feasible", lambda n: not flags(frame[n])[1].any())
    of.put("sampled")
    of.put("overridden")
    of.put("keep", numeric)
    of.put("drop", numeric)
    of.put("logger", lambda n: constant[n] and not numeric(n))
    p = of.take("propensity", numeric)
    if p:
        elsewhere = frame[p].filter(~taken).is_not_null().any() and not constant[p]
        of.columns["probability" if elsewhere else "propensity"] = p

    def of_taken(name: str) -> bool:
        others = frame[name].filter(~taken)
        return constant[name] or others.null_count() >= MOST * len(others)

    reward, cost = of.reward(of_taken, lambda n: of_taken(n) and numeric(n))
    draws = of.take("draws", lambda n: constant[n] and numeric(n))
    found = proposal_of(path, "rows", of.columns)
    context = [n for n in of.left if constant[n]]
    _features(found, frame, context, [n for n in of.left if not constant[n]])
    if not reward and not cost:
        add_outcomes(found, path, {*frame[decision].cast(pl.String)})
    finish(found, bool(p), draws, reward, cost, of.units)
    if p and is_percent(frame[p]):
        found.unsure.append("the probabilities look like percent: divide them by 100 first")
    if time:
        tell_zone(found, frame[time])
    return found


def _header(path: Path, names: Sequence[str]) -> DecisionProposal | None:
    """Return the mapping that the names of an empty table suggest."""
    of = Names(list(names))
    columns = of.columns
    for what in ("decision", "session", "unit", "time", "candidate", "chosen", "feasible"):
        of.put(what)
    if not {"decision", "chosen", "candidate"} <= {*columns}:
        return None
    if p := of.take("propensity"):
        columns["probability"] = p
    of.reward(any_name, any_name)
    found = proposal_of(path, "rows", columns)
    before = [n for n in of.left if names.index(n) < names.index(columns["candidate"])]
    after = [n for n in of.left if n not in before]
    for side, mine in (("context", before), ("candidates", after)):
        texts = [n for n in mine if n.lower() in _CATEGORICAL]
        found.table[side] = lists_of([n for n in mine if n not in texts], texts)
    found.table["propensity"] = {"kind": "exact" if "probability" in columns else "none"}
    found.unsure.append("the table has no rows: all of this comes from names")
    return found


def _constant(column: pl.Series, groups: pl.Series, count: int) -> bool:
    """Return whether a column has one value in every decision."""
    table = pl.DataFrame({"g": groups, "v": column})
    return table.drop_nulls("v").unique().height <= count and column.null_count() == 0


def _features(
    found: DecisionProposal, frame: pl.DataFrame, context: list[str], candidates: list[str]
) -> None:
    """Add the columns that are left as features, of the decision or of its candidates."""
    for side, names in (("context", context), ("candidates", candidates)):
        figures, texts = [], []
        for name in names:
            if is_number(frame[name]):
                figures.append(name)
            elif is_category(frame[name].cast(pl.String).to_list()):
                texts.append(name)
            else:
                found.not_read.append(name)
        found.table[side] = lists_of(figures, texts)


# Wide tables


def _stems(names: Sequence[str]) -> tuple[dict[str, set[str]], set[str], list[str]]:
    """Return the NAME_ of the columns NAME_k with their k, all k, and the other names."""
    stems: dict[str, set[str]] = {}
    for name in names:
        if match := _NUMBERED.match(name):
            stems.setdefault(match[1], set()).add(match[2])
    stems = {stem: keys for stem, keys in stems.items() if len(keys) > 1}
    numbered = {f"{stem}{key}" for stem, keys in stems.items() for key in keys}
    return stems, set().union(*stems.values()), [n for n in names if n not in numbered]


def _wide(path: Path, frame: pl.DataFrame) -> DecisionProposal | None:
    """Return the mapping of a table with columns per candidate; None if it is none."""
    stems, keys, others = _stems(frame.columns)
    if not stems or not frame.height:
        return None
    of = Names(others)

    def names_one(name: str) -> bool:
        found = frame[name].drop_nulls().cast(pl.String)
        return len(found) > 0 and float(found.is_in(list(keys)).mean()) >= MOST  # type: ignore[arg-type]

    chosen = of.take("chosen", names_one)
    if not chosen:
        return None
    columns = of.columns
    found = proposal_of(path, "wide", columns)

    def numeric(name: str) -> bool:
        return is_number(frame[name])

    decision = of.put("decision")
    for what in ("session", "unit"):
        of.put(what)
    of.put("time", lambda n: is_time(frame[n]))
    columns["chosen"] = chosen
    p = of.put("propensity", numeric)
    reward, cost = of.reward(numeric, numeric)
    of.put("keep", numeric)
    _features(found, frame, of.left, [])
    patterns = {stem.rstrip("_-. "): f"{stem}*" for stem in stems}
    chance = find("propensity", patterns)
    if chance:
        columns["probability"] = patterns.pop(chance)
    feasible = find("feasible", patterns)
    candidates: dict[str, Any] = {"feasible": patterns.pop(feasible)} if feasible else {}

    def all_numbers(pattern: str) -> bool:
        cells = [frame[f"{pattern[:-1]}{key}"] for key in stems[pattern[:-1]]]
        return all(is_number(c) or c.null_count() == frame.height for c in cells)

    figures = {n: pattern for n, pattern in patterns.items() if all_numbers(pattern)}
    texts = {n: pattern for n, pattern in patterns.items() if n not in figures}
    found.table["candidates"] = {
        **candidates, "numbers": figures, **({"categories": texts} if texts else {}),
    }  # fmt: skip
    if decision and not reward and not cost:
        add_outcomes(found, path, {*frame[decision].cast(pl.String)})
    finish(found, bool(p or chance), "", reward, cost, of.units)
    return found
