"""Reader of the arrays of Open Bandit Pipeline: a log over a fixed set of arms.

A dictionary, or an .npz file of it, has action, reward, pscore, context, action_context, position,
and `pi_b` (n, arms, positions) if all probabilities are known. All arms are candidates of every
round, but in files of `hindcast export --to obp`: their arrays `hindcast_...` say which ones are,
in which order, and give ids, units, sessions, times, weights and names. Files are never unpickled.
"""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import (
    CANDIDATE_COLUMNS,
    DECISION_COLUMNS,
    TERM,
    Batch,
    Ints,
    frame_of,
)
from hindcast.pipeline.decisions.values import texts
from hindcast.pipeline.errors import TraceError

REWARD: Final = TERM + "reward"
OWN: Final = "hindcast_"  # prefix of the arrays that only Hindcast reads and writes
TEXTS: Final = ("id", "unit", "session", "logger")
NUMBERS: Final = ("time", "weight")
_NEEDED: Final = ("action", "reward", "pscore")
_ROWS: Final = 4_000_000  # candidates of a batch


def load_obp(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file; raise TraceError if it has pickled objects."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ValueError as error:
        raise TraceError(
            f"{path}: this file has pickled objects, which are not read, since they can run code; "
            "save plain arrays: np.savez_compressed(path, action=..., reward=..., pscore=...)"
        ) from error
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise TraceError(f"{path}: this is no .npz file ({error})") from error


def read_obp(arrays: Mapping[str, Any], where: str) -> Iterator[Batch]:
    """Yield the rounds of OBP's arrays."""
    for name in _NEEDED:
        if arrays.get(name) is None:
            raise TraceError(f"{where}: there is no array {name!r}, expected {', '.join(_NEEDED)}")
    action = np.asarray(arrays["action"]).astype(np.int64)
    count = len(action)
    features = arrays.get("action_context")
    arms = len(features) if features is not None else arrays.get("n_actions")
    if features is not None and np.ndim(features) == 3:
        arms = np.shape(features)[1]
    if arms is None:
        raise TraceError(
            f"{where}: there is neither `action_context` nor `n_actions`: the largest action does "
            "not tell how many arms there are"
        )
    arms = int(arms)
    own = [OWN + name for name in ("place", *TEXTS, *NUMBERS)]
    for name in ("reward", "pscore", "context", "position", *own):
        value = arrays.get(name)
        if value is not None and np.ndim(value) and len(value) != count:
            raise TraceError(f"{where}: {name} has {len(value):,} rounds, action has {count:,}")
    position = arrays.get("position")
    position = None if position is None or not np.ndim(position) else np.asarray(position, np.int64)
    context = _context(arrays, arrays.get("context"), position, count)
    places, named = arrays.get(f"{OWN}place"), arrays.get(f"{OWN}arm")
    if places is not None and np.shape(places) != (count, arms):
        raise TraceError(
            f"{where}: {OWN}place has the shape {np.shape(places)}, expected ({count}, {arms})"
        )
    ids = texts(pl.Series([None] * arms if named is not None and not np.size(named) else (
        _names(arrays, "arm", "", arms)), dtype=pl.String))  # fmt: skip
    block = max(1, _ROWS // max(arms, 1))
    for start in range(0, count, block):
        rows = slice(start, min(start + block, count))
        some = np.arange(count)[rows]
        listed = None if places is None else np.asarray(places, np.int64)[rows]
        arm, lengths = _listed(listed, len(some), arms)
        owner = np.repeat(np.arange(len(some)), lengths)
        known = (action[rows] >= 0) & (action[rows] < arms)
        chosen = np.where(known, action[rows], -1)
        if listed is not None:
            place = listed[np.arange(len(some)), np.maximum(chosen, 0)]
            before = ((listed >= 0) & (listed < place[:, None])).sum(axis=1)
            chosen = np.where(known & (place >= 0), before, -1)
        meta = {
            "id": pl.Series(some).cast(pl.String), "line": some + 1, "chosen": chosen,
            "propensity": np.asarray(arrays["pscore"], np.float64)[rows],
            REWARD: np.asarray(arrays["reward"], np.float64)[rows], **_own(arrays, rows),
        }  # fmt: skip
        candidates: dict[str, Any] = {"id": ids[arm]}
        if (probabilities := arrays.get("pi_b")) is not None:
            at = np.zeros(len(some), np.int64) if position is None else position[rows]
            chance = np.asarray(probabilities, np.float64)[rows]
            if chance.ndim == 3:
                chance = chance[np.arange(len(some)), :, at if chance.shape[2] > 1 else 0]
            candidates["probability"] = chance[owner, arm]
        described: dict[str, Any] = {}
        if features is not None:
            values = np.asarray(features, np.float64)
            values = values[arm] if values.ndim == 2 else values[rows][owner, arm]
            called = _names(arrays, "action_context", "a", values.shape[1])
            described = dict(zip(called, values.T, strict=True))
        yield Batch(
            frame_of(meta, DECISION_COLUMNS, len(some)),
            pl.DataFrame([s[rows] for s in context]),
            frame_of(candidates, CANDIDATE_COLUMNS, len(arm)), pl.DataFrame(described), lengths,
        )  # fmt: skip


def _listed(places: Ints | None, count: int, arms: int) -> tuple[Ints, Ints]:
    """Return the arms (C,) of the candidates in their order, and how many each round has.

    `places` (rounds, arms) are their places, -1 for an arm that is no candidate; all by default.
    """
    if places is None:
        return np.tile(np.arange(arms), count), np.full(count, arms, np.int64)
    order = np.argsort(np.where(places < 0, arms, places), axis=1, kind="stable")
    lengths = (places >= 0).sum(axis=1).astype(np.int64)
    return order[np.arange(arms) < lengths[:, None]], lengths


def _own(arrays: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    """Return the columns of decisions that only files of Hindcast have; an empty text is none."""
    found: dict[str, Any] = {}
    for name in TEXTS:
        if (column := arrays.get(OWN + name)) is not None:
            found[name] = pl.Series(np.asarray(column)[rows].tolist(), dtype=pl.String).replace(
                "", None
            )
    for name in NUMBERS:
        if (column := arrays.get(OWN + name)) is not None:
            found[name] = np.asarray(column, np.float64)[rows]
    return found


def _names(arrays: Mapping[str, Any], name: str, letter: str, count: int) -> list[str]:
    """Return the names of an array's columns: those of Hindcast, else a letter and a number."""
    own = arrays.get(OWN + name)
    if own is None or np.shape(own) != (count,):
        return [f"{letter}{k}" for k in range(count)]
    return [str(n) for n in np.asarray(own)]


def _context(arrays: Mapping[str, Any], context: Any, position: Any, count: int) -> list[pl.Series]:
    columns = []
    if context is not None:
        values = np.asarray(context, np.float64).reshape(count, -1)
        called = _names(arrays, "context", "c", values.shape[1])
        columns = [pl.Series(name, column) for name, column in zip(called, values.T, strict=True)]
    if position is not None and len(np.unique(position)) > 1:
        columns.append(texts(pl.Series("position", position)).alias("position"))
    return columns
