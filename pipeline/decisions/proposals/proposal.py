"""Proposal of the mapping of a log of decisions, from its names and values.

    rows     an id that repeats, and a column with one 1 (true) per id
    nested   a list of objects or names per record, and a value that names one of them
    wide     columns NAME_1, NAME_2, ... with the same numbers for a column that holds such a number

Values decide where they can: a column with one value in every decision describes the decision, any
other one its candidates. Guesses from names alone are listed as unsure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.batch import Reading
from hindcast.pipeline.decisions.log import LONGEST_TEXT, NOT_READ
from hindcast.pipeline.decisions.mapping import KIND
from hindcast.pipeline.decisions.proposals.foreign_names import (
    in_records,
    in_rows,
    in_wide,
    is_percent,
    unique_id,
)
from hindcast.pipeline.decisions.proposals.names import WORDS, Names, any_name, find
from hindcast.pipeline.decisions.reading import recognise
from hindcast.pipeline.decisions.shapes.nested import getter, records
from hindcast.pipeline.decisions.shapes.tables import Tables, is_parquet
from hindcast.pipeline.decisions.values import MISSING, flags, numbers, text_of, times
from hindcast.pipeline.errors import TraceError, printable
from hindcast.pipeline.recipes.toml import table_toml

_SAMPLE: Final = 20_000  # rows of a table that are looked at
_RECORDS: Final = 2000
_MOST: Final = 0.8  # share of decisions in which a column must be as it is taken
_JSON: Final = (".jsonl", ".ndjson", ".json")
_LISTS: Final = re.compile(r"candidate|action|arm|option|model|item", re.IGNORECASE)
_OUTCOMES: Final = re.compile(r"outcome|reward|feedback|label", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"^(.*?[^0-9])(\d+)$")

_CATEGORICAL: Final = ("tier", "kind", "type", "class", "category", "group", "tenant", "region")


@dataclass
class DecisionProposal:
    """A proposed mapping.

    Attributes:
        table: The mapping as it is written.
        unsure: Guesses that a person should look at.
        not_read: Columns that the mapping leaves out.
    """

    table: dict[str, Any]
    unsure: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    @property
    def toml(self) -> str:
        """The mapping as TOML."""
        comments = [f"# unsure: {printable(text)}\n" for text in self.unsure]
        return table_toml(self.table) + "".join(comments)


def propose(path: Path, *, by_values: bool = False) -> DecisionProposal | None:
    """Return the mapping of a log of decisions; None for a file that is none.

    With `by_values`, values are looked at where names say nothing.
    """
    try:
        if shape := recognise(path):  # it describes itself
            parts = {"columns": {}, "context": _lists([], []), "candidates": _lists([], [])}
            return DecisionProposal({"kind": KIND, "file": path.name, "shape": shape, **parts})
        if path.is_dir():
            return None
        tables = Tables([path])
        is_json = any(ending in _JSON for ending in path.suffixes)
        schema = {} if is_json else tables.schema()
        has_lists = any(isinstance(dtype, pl.List) for dtype in schema.values())
        if is_json or (has_lists and is_parquet(path)):
            return _nested(path, _records(path), by_values=by_values)
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
    stems, keys = _stems(frame.columns)
    taken = {f"{stem}{key}" for stem, of in stems.items() for key in of}
    others = [n for n in frame.columns if n not in taken]
    for read, found in ((_rows, in_rows(frame)), (_wide, in_wide(frame, keys, others))):
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


def _records(path: Path) -> list[dict[str, Any]]:
    """Return the first records of a file."""
    return [record for _, _, record in islice(records([path], Reading()), _RECORDS)]


def _proposal(path: Path, shape: str, columns: dict[str, str]) -> DecisionProposal:
    table = {"kind": KIND, "file": path.name, "shape": shape, "columns": columns}
    return DecisionProposal(table)


# Rows


def _rows(path: Path, frame: pl.DataFrame) -> DecisionProposal | None:
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
        return bool((taken["f"] == 1).mean() >= _MOST)  # type: ignore[operator]

    chosen = find("chosen", [n for n in names if n != decision], one_each)
    if not chosen:
        return None
    of = Names([n for n in names if n not in (decision, chosen)])
    constant = {n: _constant(frame[n], groups, count) for n in of.left}
    said, _ = flags(frame[chosen])
    taken = pl.Series(said == 1)
    of.columns["decision"] = decision

    def numeric(name: str) -> bool:
        return _is_number(frame[name])

    of.put("session", lambda n: constant[n])
    of.put("unit", lambda n: constant[n])
    time = of.put("time", lambda n: constant[n] and _is_time(frame[n]))
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
        return constant[name] or others.null_count() >= _MOST * len(others)

    reward, cost = of.reward(of_taken, lambda n: of_taken(n) and numeric(n))
    draws = of.take("draws", lambda n: constant[n] and numeric(n))
    found = _proposal(path, "rows", of.columns)
    context = [n for n in of.left if constant[n]]
    _features(found, frame, context, [n for n in of.left if not constant[n]])
    _finish(found, bool(p), draws, reward, cost, of.units)
    if p and is_percent(frame[p]):
        found.unsure.append("the probabilities look like percent: divide them by 100 first")
    if time:
        _zone(found, frame[time])
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
    found = _proposal(path, "rows", columns)
    before = [n for n in of.left if names.index(n) < names.index(columns["candidate"])]
    after = [n for n in of.left if n not in before]
    for side, mine in (("context", before), ("candidates", after)):
        texts = [n for n in mine if n.lower() in _CATEGORICAL]
        found.table[side] = _lists([n for n in mine if n not in texts], texts)
    found.table["propensity"] = {"kind": "exact" if "probability" in columns else "none"}
    found.unsure.append("the table has no rows: all of this comes from names")
    return found


def _constant(column: pl.Series, groups: pl.Series, count: int) -> bool:
    """Return whether a column has one value in every decision."""
    table = pl.DataFrame({"g": groups, "v": column})
    return table.drop_nulls("v").unique().height <= count and column.null_count() == 0


def _is_number(column: pl.Series) -> bool:
    values, bad = numbers(column)
    finite = bad & ~(values == float("inf")) & ~(values == -float("inf"))
    return not finite.any() and column.null_count() < len(column)


def _is_time(column: pl.Series) -> bool:
    if column.dtype.is_numeric():
        return True
    _, bad, _ = times(column, "UTC")
    return bool(bad.mean() <= 1 - _MOST)


def _features(
    found: DecisionProposal, frame: pl.DataFrame, context: list[str], candidates: list[str]
) -> None:
    """Add the columns that are left as features, of the decision or of its candidates."""
    for side, names in (("context", context), ("candidates", candidates)):
        figures, texts = [], []
        for name in names:
            if _is_number(frame[name]):
                figures.append(name)
            elif _is_category(frame[name].cast(pl.String).to_list()):
                texts.append(name)
            else:
                found.not_read.append(name)
        found.table[side] = _lists(figures, texts)


def _is_category(values: Sequence[str | None]) -> bool:
    levels = {v for v in values if v is not None}
    return bool(levels) and len(levels) <= NOT_READ and max(map(len, levels)) <= LONGEST_TEXT and (
        len(levels) <= 20 or len(levels) < len(values) / 2
    )  # fmt: skip


def _lists(figures: list[str], texts: list[str]) -> dict[str, Any]:
    return {"numbers": figures, **({"categories": texts} if texts else {})}


def _finish(
    found: DecisionProposal, has_p: bool, draws: str, reward: str, cost: str, units: list[str],
) -> None:  # fmt: skip
    """Add the kind of the propensities and the split, and what is unsure."""
    kind = "none" if not has_p else "monte_carlo" if draws else "exact"
    found.table["propensity"] = {"kind": kind, **({"draws": draws} if draws and has_p else {})}
    if units:
        found.table["split"] = {"by": "hash", "validation": 0.2, "test": 0.2}
    if cost:
        found.unsure.append(f"{cost} is read as a cost: less is better")
    elif not reward and "outcomes" not in found.table:
        figures = found.table["context"].get("numbers", [])
        some = f" ({', '.join(figures[:6])}?)" if figures else ""
        found.unsure.append(
            f"no column is a reward: name it{some}, or a file of outcomes in [outcomes]"
        )
    if not has_p:
        found.unsure.append("no column is a propensity: weights will need estimated ones")
    if draws:
        found.unsure.append(f"propensities are read as counted from {draws} draws")


def _zone(found: DecisionProposal, column: pl.Series) -> None:
    if times(column, "UTC")[2]:
        found.unsure.append("times have no zone: read as UTC, unless time_zone says otherwise")


# Nested records


def _nested(
    path: Path, sample: list[dict[str, Any]], *, by_values: bool
) -> DecisionProposal | None:
    if not sample:
        return None
    leaves = _leaves(sample)
    lists = {
        p: values for p, values in leaves.items()
        if sum(isinstance(v, list) and bool(v) and all(isinstance(c, dict | str) for c in v)
               for v in values) >= _MOST * len(sample)
    }  # fmt: skip
    named = (p for p in lists if _LISTS.search(p))
    where = next(named, next(iter(lists), ""))
    if not where:
        return None
    listed = [v if isinstance(v, list) else [] for v in lists[where]]
    objects = [c for candidates in listed for c in candidates if isinstance(c, dict)]
    inner = list(dict.fromkeys(k for c in objects for k in c))
    own = find("candidate", inner) or find("decision", inner) if objects else ""
    ids = [
        [text_of(c.get(own) if isinstance(c, dict) else c) for c in candidates]
        for candidates in listed
    ]
    scalars = {p: v for p, v in leaves.items() if not any(isinstance(x, list) for x in v)}
    chosen = find("chosen", scalars, lambda p: _names_one(scalars[p], ids))
    guessed = {} if chosen or not by_values else in_records(scalars, ids)
    chosen = chosen or guessed.get("chosen", "")
    if not chosen:
        return None
    of = Names([p for p in scalars if p != chosen and not p.startswith(f"{where}.")])

    def numeric(name: str) -> bool:
        return _all_numbers(scalars[name])

    def as_texts(name: str) -> pl.Series:
        return pl.Series([text_of(v) for v in scalars[name]])

    decision = of.put("decision", lambda p: "." not in p and len({*map(str, scalars[p])}) > 1)
    if not decision and (unique := unique_id({p: scalars[p] for p in of.left})):
        decision = guessed["decision"] = of.columns["decision"] = unique
        of.left.remove(unique)
    of.put("session")
    of.put("unit")
    time = of.put("time", lambda p: _is_time(as_texts(p)))
    of.columns["chosen"] = chosen
    of.put("sampled", lambda p: _names_one(scalars[p], ids))
    of.put("overridden")
    if not of.put("propensity", numeric) and "propensity" in guessed:
        of.columns["propensity"] = guessed["propensity"]
        of.left.remove(guessed["propensity"])
    beside = [p for p, v in leaves.items() if p != where and _beside(v, ids)]
    if probabilities := find("probabilities", beside):
        of.columns["probabilities"] = probabilities
    reward, cost = of.reward(numeric, numeric)
    of.put("keep", numeric)
    of.put("drop", numeric)
    of.put("logger", lambda p: not numeric(p))
    draws = of.take("draws", numeric)
    found = _proposal(path, "nested", of.columns)
    maps = _maps(sample, ids)
    left = [p for p in of.left if not any(p.startswith(f"{m}.") for m in maps)]
    if draws:  # what says how the draw was made is no feature
        aside = draws.rpartition(".")[0]
        left = [p for p in left if not aside or not p.startswith(f"{aside}.")]
    figures = [p for p in left if numeric(p)]
    texts = [p for p in left if p not in figures
             and _is_category([text_of(v) for v in scalars[p]])]  # fmt: skip
    found.not_read = [p for p in left if p not in figures and p not in texts]
    found.table["context"] = _lists(figures, texts)
    candidates: dict[str, Any] = {"list": where}
    if objects:
        candidates |= {"id": own} if own else {}
        candidates |= _of_objects(objects, [k for k in inner if k != own])
    else:
        candidates |= _of_maps({m: v for m, v in maps.items() if m != probabilities})
    found.table["candidates"] = candidates
    has_p = "propensity" in of.columns or bool(probabilities)
    if not reward and not cost and decision:
        _outcomes(found, path, {text_of(v) for v in scalars[decision]})
    if guessed:
        told = ", ".join(f"{p} as {what}" for what, p in guessed.items())
        found.unsure.append(f"taken by values, since no name says it: {told}")
    _finish(found, has_p, draws, reward, cost, of.units)
    if time:
        _zone(found, as_texts(time))
    return found


def _leaves(sample: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of all dotted paths that are no objects; None where a record lacks one."""
    paths: dict[str, None] = {}
    for record in sample:
        stack = [("", record)]
        while stack:
            prefix, value = stack.pop(0)
            for key, inner in value.items():
                if isinstance(inner, dict):
                    stack.append((f"{prefix}{key}.", inner))
                else:
                    paths[f"{prefix}{key}"] = None
    return {p: [getter(p)(record) for record in sample] for p in paths}


def _names_one(values: Sequence[Any], ids: Sequence[Sequence[str | None]]) -> bool:
    """Return whether a value names one of the candidates, by its id or its position."""
    good = 0
    for value, known in zip(values, ids, strict=True):
        text = text_of(value)
        at = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(known)
        good += text in known or at
    return good >= _MOST * len(values)


def _all_numbers(values: Sequence[Any]) -> bool:
    there = [v for v in values if v is not None and str(v).strip().lower() not in MISSING]
    return bool(there) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in there
    )


def _beside(values: Sequence[Any], ids: Sequence[Sequence[str | None]]) -> bool:
    """Return whether values are lists of numbers as long as those of the candidates."""
    return all(
        isinstance(v, list) and len(v) == len(known) and _all_numbers(v)
        for v, known in zip(values, ids, strict=True)
    )


def _maps(
    sample: Sequence[Mapping[str, Any]], ids: Sequence[Sequence[str | None]]
) -> dict[str, list[Any]]:
    """Return the values of maps by the names of candidates, by their paths."""
    found: dict[str, list[Any]] = {}
    for record, known in zip(sample, ids, strict=True):
        stack = [("", record)]
        while stack:
            prefix, value = stack.pop(0)
            for key, inner in value.items():
                if not isinstance(inner, dict) or not inner:
                    continue
                if {*inner} <= {*known}:
                    found.setdefault(f"{prefix}{key}", []).extend(inner.values())
                else:
                    stack.append((f"{prefix}{key}.", inner))
    return found


def _of_objects(objects: Sequence[Mapping[str, Any]], names: list[str]) -> dict[str, Any]:
    values = {n: [o.get(n) for o in objects] for n in names}
    left = list(names)
    feasible = find("feasible", left)
    if feasible:
        left.remove(feasible)
    figures = [n for n in left if _all_numbers(values[n])]
    texts = [n for n in left if n not in figures and _is_category([text_of(v) for v in values[n]])]
    return {**({"feasible": feasible} if feasible else {}), **_lists(figures, texts)}


def _of_maps(maps: Mapping[str, list[Any]]) -> dict[str, Any]:
    feasible = find("feasible", maps)
    left = [m for m in maps if m != feasible]
    figures = {_singular(m): m for m in left if _all_numbers(maps[m])}
    texts = {_singular(m): m for m in left if m not in figures.values()}
    return {
        **({"feasible": feasible} if feasible else {}), "numbers": figures,
        **({"categories": texts} if texts else {}),
    }  # fmt: skip


def _singular(path: str) -> str:
    """Return the name of a feature that a map holds: base_scores is base_score."""
    name = path.rpartition(".")[2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _outcomes(found: DecisionProposal, path: Path, known: set[str | None]) -> None:
    """Add the file of outcomes beside a log that has no reward, if there is one."""
    named = sorted(path.parent.iterdir(), key=lambda f: (not _OUTCOMES.search(f.name), f.name))
    for other in named:
        if other == path or other.suffix not in _JSON:
            continue
        try:
            sample = _records(other)
        except TraceError:
            continue
        leaves = _leaves(sample)
        decision = next(
            (p for p, v in leaves.items()
             if sum(text_of(x) in known for x in v) > len(v) / 2), "",
        )  # fmt: skip
        figures = [p for p, v in leaves.items() if p != decision and _all_numbers(v)]
        reward = find("reward", figures) or next(iter(figures), "")
        is_log = any(isinstance(x, list) for values in leaves.values() for x in values)
        if not decision or not reward or is_log:
            continue
        when = find("time", [p for p, v in leaves.items() if p not in (decision, reward)
                              and _is_time(pl.Series([text_of(x) for x in v]))])  # fmt: skip
        found.table["outcomes"] = {
            "file": other.name, "decision": decision, "reward": reward,
            **({"time": when} if when else {}),
        }  # fmt: skip
        found.unsure.append(f"rewards are taken from {other.name}, {reward} by {decision}")
        return


# Wide tables


def _stems(names: Sequence[str]) -> tuple[dict[str, set[str]], set[str]]:
    """Return the NAME_ of the columns NAME_k with their k, and all k."""
    stems: dict[str, set[str]] = {}
    for name in names:
        if match := _NUMBERED.match(name):
            stems.setdefault(match[1], set()).add(match[2])
    stems = {stem: keys for stem, keys in stems.items() if len(keys) > 1}
    return stems, set().union(*stems.values())


def _wide(path: Path, frame: pl.DataFrame) -> DecisionProposal | None:
    stems, keys = _stems(frame.columns)
    if not stems or not frame.height:
        return None
    taken = {f"{stem}{key}" for stem, numbers_of in stems.items() for key in numbers_of}
    of = Names([n for n in frame.columns if n not in taken])

    def names_one(name: str) -> bool:
        found = frame[name].drop_nulls().cast(pl.String)
        return len(found) > 0 and float(found.is_in(list(keys)).mean()) >= _MOST  # type: ignore[arg-type]

    chosen = of.take("chosen", names_one)
    if not chosen:
        return None
    columns = of.columns
    found = _proposal(path, "wide", columns)

    def numeric(name: str) -> bool:
        return _is_number(frame[name])

    for what in ("decision", "session", "unit"):
        of.put(what)
    of.put("time", lambda n: _is_time(frame[n]))
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
        return all(_is_number(c) or c.null_count() == frame.height for c in cells)

    figures = {n: pattern for n, pattern in patterns.items() if all_numbers(pattern)}
    texts = {n: pattern for n, pattern in patterns.items() if n not in figures}
    found.table["candidates"] = {
        **candidates, "numbers": figures, **({"categories": texts} if texts else {}),
    }  # fmt: skip
    _finish(found, bool(p or chance), "", reward, cost, of.units)
    return found
