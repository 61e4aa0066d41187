"""Columns of a log of decisions that no name tells, found by their values.

    rows     an id whose rows have one flag each, and numbers that sum to 1 (or 100) per id
    wide     a column that names one of the numbers k of NAME_k, and probabilities that are no
             whole numbers
    nested   a text that names one of the listed candidates, and a probability per record

Each of them needs a probability: other tables have ids and flags too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.proposals.parts import MOST
from hindcast.pipeline.decisions.values import flags, numbers, times

PERCENT: Final = 100.0
_SUM: Final = 0.02  # by which rounded probabilities of a decision miss their sum
Found = dict[str, str]  # "decision", "chosen", "propensity", ... -> column


def in_rows(frame: pl.DataFrame) -> Found:
    """Return the columns of a table with a row per candidate; empty if it is none."""
    repeated = [
        c for c in frame.iter_columns()
        if not c.dtype.is_float() and c.null_count() == 0 and 1 < c.n_unique() < len(c)
    ]  # fmt: skip
    said = {c.name: flags(c) for c in frame.iter_columns()}
    marks = {name: taken == 1 for name, (taken, bad) in said.items() if not bad.any()}
    shares = {c.name: a for c in frame.iter_columns() if (a := _shares(c)) is not None}
    for decision in sorted(repeated, key=lambda c: -c.n_unique()):
        group = decision.rank("dense").to_numpy().astype(np.int64) - 1
        several = np.bincount(group) > 1
        if several.mean() <= 1 - MOST:
            continue
        for name, taken in marks.items():
            one = np.bincount(group, taken)[several] == 1
            if name == decision.name or one.mean() < MOST:
                continue
            for share, values in shares.items():
                if share in (name, decision.name):
                    continue
                total = np.bincount(group, np.nan_to_num(values))[several]
                for whole in (1.0, PERCENT):
                    if (np.abs(total / whole - 1.0) < _SUM).mean() >= MOST:
                        found = {"decision": decision.name, "chosen": name, "propensity": share}
                        return found | _texts(frame, decision, found)
    return {}


def _texts(frame: pl.DataFrame, decision: pl.Series, known: Found) -> Found:
    """Return the first column of times, and the first that differs between the candidates."""
    found: Found = {}
    for column in frame.iter_columns():
        if column.dtype != pl.String or column.name in known.values():
            continue
        pairs = pl.DataFrame({"d": decision, "v": column}).n_unique()
        if pairs == frame.height and column.n_unique() < frame.height:
            found.setdefault("candidate", column.name)
        elif not times(column, "UTC")[1].any():
            found.setdefault("time", column.name)
    return found


def in_wide(frame: pl.DataFrame, keys: Iterable[str], others: Sequence[str]) -> Found:
    """Return the columns of a table whose candidate k has the columns that end in k."""
    known = list(keys)
    named = [
        n for n in others
        if frame[n].null_count() == 0 and frame[n].cast(pl.String).is_in(known).all()
        and frame[n].n_unique() > 1
    ]  # fmt: skip
    shares = [n for n in others if (a := _shares(frame[n])) is not None and _is_share(a)]
    if not named or not shares:
        return {}
    texts = [n for n in others if frame[n].dtype == pl.String and n not in named]
    when = [n for n in texts if not times(frame[n], "UTC")[1].any()]
    ids = [
        n for n in others
        if frame[n].n_unique() == frame.height and n not in (*shares, *when)
        and not frame[n].dtype.is_float()
    ]  # fmt: skip
    found = {"decision": ids, "time": when, "chosen": named, "propensity": shares}
    return {what: names[0] for what, names in found.items() if names}


def in_records(
    scalars: Mapping[str, Sequence[Any]], ids: Sequence[Sequence[str | None]], *, sure: bool
) -> Found:
    """Return the columns of nested records whose candidates have these ids.

    Positions in the list name a candidate too. `sure` is whether probabilities are known already.
    """
    named = [
        p for p, values in scalars.items()
        if all(isinstance(v, str) for v in values)
        and np.mean([v in known for v, known in zip(values, ids, strict=True)]) >= MOST
    ]  # fmt: skip
    named += [
        p for p, values in scalars.items()
        if all(type(v) is int and 0 <= v < len(known)
               for v, known in zip(values, ids, strict=True)) and len({*values}) > 1
    ]  # fmt: skip
    shares = [
        p for p, values in scalars.items()
        if all(isinstance(v, float | int) and not isinstance(v, bool) for v in values)
        and _is_share(np.asarray(values, np.float64))
    ]  # fmt: skip
    if not named or not (sure or shares):
        return {}
    return {"chosen": named[0], **({"propensity": shares[0]} if not sure else {})}


Listed = Sequence[Sequence[Any]]  # candidates of each record


def inside(listed: Listed, names: Sequence[str], *, what: str) -> list[str]:
    """Return the fields of listed objects that may be `what`.

    "chosen" flags one of the objects, "probabilities" sum to 1, and "id" names each of them.
    """
    fits = {"chosen": _flags_one, "probabilities": _sums_to_one, "id": _differs}[what]
    return [
        name for name in names
        if np.mean([fits([c.get(name) for c in candidates]) for candidates in listed]) >= MOST
    ]  # fmt: skip


def _flags_one(values: Sequence[Any]) -> bool:
    return all(v in (0, 1, None) for v in values) and sum(v in (True, 1) for v in values) == 1


def _sums_to_one(values: Sequence[Any]) -> bool:
    if not all(isinstance(v, float | int) and not isinstance(v, bool) for v in values):
        return False
    return abs(sum(values) - 1.0) < _SUM and (len(values) == 1 or max(values) < 1.0)


def _differs(values: Sequence[Any]) -> bool:
    return all(isinstance(v, str) for v in values) and len({*values}) == len(values)


def unique_id(scalars: Mapping[str, Sequence[Any]]) -> str:
    """Return the first field that is another short word in every record; "" if there is none."""
    for name, values in scalars.items():
        short = all(isinstance(v, str) and 0 < len(v) <= 64 and " " not in v for v in values)
        if short and "." not in name and len({*values}) == len(values) > 1:
            return name
    return ""


def is_percent(column: pl.Series) -> bool:
    """Return whether probabilities are percentages: one of 20 is above 1, and none above 100."""
    values = _shares(column)
    return values is not None and bool((values > 1.0).mean() > 0.05)


def _shares(column: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the numbers of a column that may hold probabilities or percents, else None.

    They are from 0 to 100, and not all of them are 0 or 1.
    """
    values, bad = numbers(column)
    there = values[~np.isnan(values)]
    if bad.any() or not len(there) or there.min() < 0.0 or there.max() > PERCENT:
        return None
    if np.isin(there, (0.0, 1.0)).all():  # flags
        return None
    return values


def _is_share(values: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Return whether values are probabilities: above 0, at most 1, and not all whole."""
    there = values[~np.isnan(values)]
    inside = bool(len(there)) and bool((there > 0.0).all() and (there <= 1.0).all())
    return inside and bool((there < 1.0).any())
