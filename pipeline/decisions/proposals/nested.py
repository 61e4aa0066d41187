"""Proposal of the mapping of nested records: a list of candidates in each, and values beside it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.decisions.proposals.foreign_names import in_records, inside, unique_id
from hindcast.pipeline.decisions.proposals.names import Names, find
from hindcast.pipeline.decisions.proposals.outcomes import add_outcomes
from hindcast.pipeline.decisions.proposals.parts import (
    MOST,
    DecisionProposal,
    all_numbers,
    finish,
    is_category,
    is_time,
    leaves_of,
    lists_of,
    proposal_of,
    tell_zone,
)
from hindcast.pipeline.decisions.values import text_of

_LISTS: Final = re.compile(r"candidate|action|arm|option|model|item", re.IGNORECASE)


def propose_nested(
    path: Path, sample: list[dict[str, Any]], *, by_values: bool
) -> DecisionProposal | None:
    """Return the mapping of nested records; None if they are no decisions."""
    if not sample:
        return None
    leaves = leaves_of(sample)
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
        return all_numbers(scalars[name])

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
        add_outcomes(found, path, {text_of(v) for v in scalars[decision]})
    if guessed:
        told = ", ".join(f"{p} as {what}" for what, p in guessed.items())
        found.unsure.append(f"taken by values, since no name says it: {told}")
    finish(found, has_p, draws, reward, cost, of.units)
    if time:
        tell_zone(found, as_texts(time))
    return found


def _names_one(values: Sequence[Any], ids: Sequence[Sequence[str | None]]) -> bool:
    """Return whether a value names one of the candidates, by its id or its position."""
    good = 0
    for value, known in zip(values, ids, strict=True):
        text = text_of(value)
        at = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(known)
        good += text in known or at
    return good >= MOST * len(values)


def _beside(values: Sequence[Any], ids: Sequence[Sequence[str | None]]) -> bool:
    """Return whether values are lists of numbers as long as those of the candidates."""
    return all(
        isinstance(v, list) and len(v) == len(known) and all_numbers(v)
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
    figures = [n for n in left if all_numbers(values[n])]
    texts = [n for n in left if n not in figures and is_category([text_of(v) for v in values[n]])]
    return {**({"feasible": feasible} if feasible else {}), **lists_of(figures, texts)}


def _of_maps(maps: Mapping[str, list[Any]]) -> dict[str, Any]:
    feasible = find("feasible", maps)
    left = [m for m in maps if m != feasible]
    figures = {_singular(m): m for m in left if all_numbers(maps[m])}
    texts = {_singular(m): m for m in left if m not in figures.values()}
    return {
        **({"feasible": feasible} if feasible else {}), "numbers": figures,
        **({"categories": texts} if texts else {}),
    }  # fmt: skip


def _singular(path: str) -> str:
    """Return the name of a feature that a map holds: base_scores is base_score."""
    name = path.rpartition(".")[2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
