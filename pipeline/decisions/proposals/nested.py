"""Proposal of the mapping of nested records: a list of candidates in each, and values beside it."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.batch import Reading
from hindcast.pipeline.decisions.proposals.foreign_names import in_records, inside, unique_id
from hindcast.pipeline.decisions.proposals.names import Names, find
from hindcast.pipeline.decisions.proposals.parts import (
    MOST,
    DecisionProposal,
    finish,
    is_category,
    is_time,
    lists_of,
    proposal_of,
    tell_zone,
)
from hindcast.pipeline.decisions.shapes.nested import getter, records
from hindcast.pipeline.decisions.values import MISSING, text_of
from hindcast.pipeline.errors import TraceError

JSON: Final = (".jsonl", ".ndjson", ".json")
_RECORDS: Final = 2000
_FILES: Final = 20  # beside a log that are looked at for its outcomes
_LISTS: Final = re.compile(r"candidate|action|arm|option|model|item", re.IGNORECASE)
_OUTCOMES: Final = re.compile(r"outcome|reward|feedback|label", re.IGNORECASE)


def propose_nested(
    path: Path, sample: list[dict[str, Any]], *, by_values: bool
) -> DecisionProposal | None:
    """Return the mapping of nested records; None if they are no decisions."""
    if not sample:
        return None
    leaves = _leaves(sample)
    lists = {
        p: values for p, values in leaves.items()
        if sum(isinstance(v, list) and bool(v) and all(isinstance(c, dict | str) for c in v)
               for v in values) >= MOST * len(sample)
    }  # fmt: skip
    named = (p for p in lists if _LISTS.search(p))
    where = next(named, next(iter(lists), ""))
    if not where:
        return None
    listed = [v if isinstance(v, list) else [] for v in lists[where]]
    objects = [c for candidates in listed for c in candidates if isinstance(c, dict)]
    inner = list(dict.fromkeys(k for c in objects for k in c))
    objects_only = bool(objects) and len(objects) == sum(map(len, listed))
    own = find("candidate", inner) or find("decision", inner) if objects else ""
    if objects_only and not own:
        own = next(iter(inside(listed, inner, what="id")), "")
    ids = [
        [text_of(c.get(own) if isinstance(c, dict) else c) for c in candidates]
        for candidates in listed
    ]
    scalars = {p: v for p, v in leaves.items() if not any(isinstance(x, list) for x in v)}
    chosen = find("chosen", scalars, lambda p: _names_one(scalars[p], ids))
    flagged, shares, given = "", "", list[str]()
    if objects_only and not chosen:  # a flag in each candidate, and perhaps its probability
        flags_of = inside(listed, inner, what="chosen")
        flagged = find("chosen", flags_of) or (flags_of[0] if by_values and flags_of else "")
        given = inside(listed, inner, what="probabilities")
        shares = find("propensity", given) or (given[0] if by_values and given else "")
    chosen = chosen or flagged
    beside = [p for p, v in leaves.items() if p != where and _beside(v, ids)]
    probabilities = find("probabilities", beside)
    guessed: dict[str, str] = {}
    if by_values and not chosen:
        guessed = in_records(scalars, ids, sure=bool(shares or probabilities))
        chosen = guessed.get("chosen", "")
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
    time = of.put("time", lambda p: is_time(as_texts(p)))
    texts = [p for p in of.left if isinstance(scalars[p][0], str) and is_time(as_texts(p))]
    if not time and texts:
        time = guessed["time"] = of.columns["time"] = texts[0]
        of.left.remove(time)
    of.columns["chosen"] = chosen
    of.put("sampled", lambda p: _names_one(scalars[p], ids))
    of.put("overridden")
    if not of.put("propensity", numeric) and "propensity" in guessed:
        of.columns["propensity"] = guessed["propensity"]
        of.left.remove(guessed["propensity"])
    if probabilities or shares:
        of.columns["probabilities"] = probabilities or shares
    reward, cost = of.reward(numeric, numeric)
    of.put("keep", numeric)
    of.put("drop", numeric)
    of.put("logger", lambda p: not numeric(p))
    draws = of.take("draws", numeric)
    found = proposal_of(path, "nested", of.columns)
    maps = _maps(sample, ids)
    left = [p for p in of.left if not any(p.startswith(f"{m}.") for m in maps)]
    if draws:  # what says how the draw was made is no feature
        aside = draws.rpartition(".")[0]
        left = [p for p in left if not aside or not p.startswith(f"{aside}.")]
    figures = [p for p in left if numeric(p)]
    texts = [p for p in left if p not in figures
             and is_category([text_of(v) for v in scalars[p]])]  # fmt: skip
    found.not_read = [p for p in left if p not in figures and p not in texts]
    found.table["context"] = lists_of(figures, texts)
    candidates: dict[str, Any] = {"list": where}
    if objects:
        candidates |= {"id": own} if own else {}
        candidates |= _of_objects(objects, [k for k in inner if k not in (own, flagged, shares)])
    else:
        candidates |= _of_maps({m: v for m, v in maps.items() if m != probabilities})
    found.table["candidates"] = candidates
    has_p = "propensity" in of.columns or "probabilities" in of.columns
    if flagged and given and not has_p:
        found.unsure.append(
            f"{given[0]} sums to 1: if it is a probability, set probabilities and kind = 'exact'"
        )
    if not reward and not cost and decision:
        _outcomes(found, path, {text_of(v) for v in scalars[decision]})
    if guessed:
        told = ", ".join(f"{p} as {what}" for what, p in guessed.items())
        found.unsure.append(f"taken by values, since no name says it: {told}")
    finish(found, has_p, draws, reward, cost, of.units)
    if time:
        tell_zone(found, as_texts(time))
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
    return good >= MOST * len(values)


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
    texts = [n for n in left if n not in figures and is_category([text_of(v) for v in values[n]])]
    return {**({"feasible": feasible} if feasible else {}), **lists_of(figures, texts)}


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
    files = [f for f in path.parent.iterdir() if f != path and f.suffix in JSON and f.is_file()]
    for other in sorted(files, key=lambda f: (not _OUTCOMES.search(f.name), f.name))[:_FILES]:
        try:
            sample = records_in(other)
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
                              and is_time(pl.Series([text_of(x) for x in v]))])  # fmt: skip
        found.table["outcomes"] = {
            "file": other.name, "decision": decision, "reward": reward,
            **({"time": when} if when else {}),
        }  # fmt: skip
        found.unsure.append(f"rewards are taken from {other.name}, {reward} by {decision}")
        return


def records_in(path: Path) -> list[dict[str, Any]]:
    """Return the first records of a file."""
    return [record for _, _, record in islice(records([path], Reading()), _RECORDS)]
