"""Reader of wide tables: a row is a decision, candidate k has the columns that end in k.

    id, price_1, price_2, price_3, chosen, ...         numbers = {price = "price_*"}

A candidate whose cells are all empty is not one of the decision.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import (
    CANDIDATE_COLUMNS,
    DECISION_COLUMNS,
    TERM,
    Batch,
    Ints,
    Reading,
    Reasons,
    always,
    frame_of,
    not_as,
)
from hindcast.pipeline.decisions.mapping import DecisionMapping
from hindcast.pipeline.decisions.shapes.rows import columns_of_decisions, decision_columns
from hindcast.pipeline.decisions.shapes.tables import Tables, name_of
from hindcast.pipeline.decisions.values import Array, Flags, flags, numbers, strings, texts
from hindcast.pipeline.errors import TraceError, did_you_mean

_STAR: Final = "*"


def matches(pattern: str, columns: list[str]) -> dict[str, str]:
    """Return the columns of a pattern such as "price_*", by the text in place of the star."""
    before, star, after = pattern.partition(_STAR)
    if not star:
        return {}
    least = len(before) + len(after)
    return {
        name[len(before) : len(name) - len(after)]: name
        for name in columns
        if len(name) > least and name.startswith(before) and name.endswith(after)
    }


def read_wide(tables: Tables, mapping: DecisionMapping, reading: Reading) -> Iterator[Batch]:
    """Yield the decisions of wide tables."""
    header, columns = tables.header(), mapping.columns
    patterns = {
        "feasible": mapping.candidates.feasible or columns.feasible,
        "probability": columns.probability or columns.probabilities,
    }
    found: dict[str, dict[str, str]] = {}
    features = {**mapping.candidates.numbers, **mapping.candidates.categories}
    for name, pattern in [*patterns.items(), *((f"x:{n}", p) for n, p in features.items())]:
        if pattern:
            found[name] = matches(pattern, header)
            if not found[name]:
                raise TraceError(
                    f"{name_of(tables.parts[0])}: there is no column like {pattern!r}, expected a "
                    f"name with `*` in place of the candidate; {did_you_mean(pattern, header)}"
                )
    keys = list(dict.fromkeys(key for places in found.values() for key in places))
    if all(key.isdigit() for key in keys):
        keys.sort(key=int)
    if not keys:
        raise TraceError(f"{name_of(tables.parts[0])}: the mapping names no columns of candidates")
    wanted = tables.require([
        columns.decision, *columns_of_decisions(mapping), columns.chosen, columns.sampled,
        columns.propensity, *columns.terms,
        *(c for places in found.values() for c in places.values()),
    ])  # fmt: skip
    for piece in tables.pieces(wanted):
        yield _decisions(piece.rows, piece.file, piece.line, keys, found, mapping, reading)


def _decisions(
    rows: pl.DataFrame, file: int, line: int, keys: list[str], found: dict[str, dict[str, str]],
    mapping: DecisionMapping, reading: Reading,
) -> Batch:  # fmt: skip
    """Return the decisions of rows from `line` on; `keys` are the candidates of the columns."""
    columns, count = mapping.columns, rows.height
    reasons = Reasons([None] * count)
    there = np.zeros((count, len(keys)), bool)
    for name, places in found.items():
        if name.startswith("x:") or len(found) == 1:
            for key, column in places.items():
                there[:, keys.index(key)] |= strings(rows[column]).is_not_null().to_numpy()
    lengths = there.sum(axis=1)
    position = np.cumsum(there, axis=1) - 1  # of candidate k among those of its decision

    def flat(name: str, read: Callable[[pl.Series], tuple[Any, Flags]], empty: float) -> Array:
        block = np.full((count, len(keys)), empty)
        for key, column in found[name].items():
            values, bad = read(rows[column])
            reasons.mark(bad, not_as(column, rows[column], "a finite number or a flag"))
            block[:, keys.index(key)] = values
        return block[there]

    meta: dict[str, object] = {
        "file": np.full(count, file), "line": np.arange(line, line + count),
        "content": rows.hash_rows(seed=1),
        "chosen": _place(rows[columns.chosen], keys, there, position, reasons, "chosen"),
    }  # fmt: skip
    if columns.decision:
        meta["id"] = strings(rows[columns.decision])
    if columns.sampled:
        meta["sampled"] = _place(rows[columns.sampled], keys, there, position, reasons, "sampled")
    for name in columns.terms:
        values, bad = numbers(rows[name])
        reasons.mark(bad, not_as(name, rows[name], "a finite number"))
        meta[TERM + name] = values
    if columns.propensity:
        values, bad = numbers(rows[columns.propensity])
        reasons.mark(bad, not_as("the propensity", rows[columns.propensity], "a number"))
        meta["propensity"] = values
    reasons.mark(lengths == 0, always("no candidates"))
    ids = np.broadcast_to(np.array(keys, object), there.shape)[there]
    candidates: dict[str, object] = {"id": pl.Series(ids.tolist(), dtype=pl.String)}
    if "feasible" in found:
        candidates["feasible"] = flat("feasible", flags, -1.0) != 0
    if "probability" in found:
        candidates["probability"] = flat("probability", numbers, np.nan)
    features: dict[str, object] = {
        name: flat(f"x:{name}", numbers, np.nan) for name in mapping.candidates.numbers
    }
    for name in mapping.candidates.categories:
        block = np.full((count, len(keys)), None, object)
        for key, column in found[f"x:{name}"].items():
            block[:, keys.index(key)] = texts(rows[column]).cast(pl.String).to_numpy()
        features[name] = texts(pl.Series(block[there].tolist(), dtype=pl.String))
    context = decision_columns({c: rows[c] for c in rows.columns}, mapping, meta, reasons, reading)
    meta["reason"] = reasons.series
    return Batch(
        frame_of(meta, DECISION_COLUMNS, count), pl.DataFrame(context),
        frame_of(candidates, CANDIDATE_COLUMNS, len(ids)), pl.DataFrame(features),
        lengths.astype(np.int64),
    )  # fmt: skip


def _place(
    values: pl.Series, keys: list[str], there: Flags, position: Ints,
    reasons: Reasons, what: str,
) -> Ints:  # fmt: skip
    """Return the positions of the candidates that a column names by their keys."""
    numbered = {key: k for k, key in enumerate(keys)}
    at = np.array([numbered.get(str(v), -1) for v in texts(values).cast(pl.String)], np.int64)
    rows = np.arange(len(at))
    empty = values.is_null().to_numpy()
    known = (at >= 0) & there[rows, np.maximum(at, 0)]
    if what == "chosen":
        reasons.mark(empty, always("no candidate is chosen"))
    reasons.mark(~known & ~empty, lambda d: f"{what} {values[d]!r} is not among the candidates")
    return np.where(known, position[rows, np.maximum(at, 0)], -1)
