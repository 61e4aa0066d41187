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
from hindcast.pipeline.decisions.shapes.records import MOST_CANDIDATES
from hindcast.pipeline.decisions.values import Array, texts
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.files.compression import DAMAGED

REWARD: Final = TERM + "reward"
OWN: Final = "hindcast_"  # prefix of the arrays that only Hindcast reads and writes
TEXTS: Final = ("id", "unit", "session", "logger")
NUMBERS: Final = ("time", "weight")
_NEEDED: Final = ("action", "reward", "pscore")
_DIMENSIONS: Final = {
    "action": (1,), "reward": (1,), "pscore": (1,), "context": (1, 2), "action_context": (2, 3),
    "position": (0, 1), "pi_b": (2, 3), "n_actions": (0,),
}  # fmt: skip
_ROWS: Final = 4_000_000  # candidates of a batch


def load_obp(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file.

    Raises TraceError if the file is damaged or no .npz file, or has pickled objects.
    """
    if not zipfile.is_zipfile(path):
        raise TraceError(f"{path}: this is no .npz file, expected np.savez_compressed(path, ...)")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (*DAMAGED, ValueError, KeyError, MemoryError) as error:
        if "pickle" in str(error):
            raise TraceError(
                f"{path}: this file has pickled objects, which are not read, since they can run "
                "code; save plain arrays: np.savez_compressed(path, action=..., reward=..., "
                "pscore=...)"
            ) from error
        raise TraceError(f"{path}: this .npz file is damaged ({error})") from error


def read_obp(rounds: Mapping[str, Any], where: str) -> Iterator[Batch]:
    """Yield the rounds of OBP's arrays."""
    arrays = _arrays(rounds, where)
    action, features = arrays["action"], arrays.get("action_context")
    position: Ints | None = None
    count, arms = len(action), _arms(arrays, where)
    known = (action >= 0) & (action < arms) & (action % 1 == 0)
    taken = np.where(known, action, -1).astype(np.int64)
    if "position" in arrays and arrays["position"].ndim:
        position = arrays["position"].astype(np.int64)
    chances = arrays.get("pi_b")
    if chances is not None and chances.shape[1] != arms:
        raise TraceError(f"{where}: pi_b has {chances.shape[1]:,} arms, expected {arms:,}")
    if chances is not None and chances.ndim == 3 and position is not None:
        position = _within(position, chances.shape[2], where)
    places = _own(rounds, count, arms, where)
    context = _context(rounds, arrays.get("context"), position, count)
    named = rounds.get(f"{OWN}arm")
    ids = texts(pl.Series([None] * arms if named is not None and not np.size(named) else (
        _names(rounds, "arm", "", arms)), dtype=pl.String))  # fmt: skip
    block = max(1, _ROWS // max(arms, 1))
    for start in range(0, count, block):
        rows = slice(start, min(start + block, count))
        some = np.arange(count)[rows]
        listed = None if places is None else places[rows]
        arm, lengths = _listed(listed, len(some), arms)
        owner, chosen = np.repeat(np.arange(len(some)), lengths), taken[rows]
        if listed is not None:
            place = listed[np.arange(len(some)), np.maximum(chosen, 0)]
            before = ((listed >= 0) & (listed < place[:, None])).sum(axis=1)
            chosen = np.where((chosen >= 0) & (place >= 0), before, -1)
        meta = {
            "id": pl.Series(some).cast(pl.String), "line": some + 1, "chosen": chosen,
            "propensity": arrays["pscore"][rows], REWARD: arrays["reward"][rows],
            **_further(rounds, rows),
        }  # fmt: skip
        candidates: dict[str, Any] = {"id": ids[arm]}
        if chances is not None:
            at = np.zeros(len(some), np.int64) if position is None else position[rows]
            chance = chances[rows]
            if chance.ndim == 3:
                chance = chance[np.arange(len(some)), :, at if chance.shape[2] > 1 else 0]
            candidates["probability"] = chance[owner, arm]
        described: dict[str, Any] = {}
        if features is not None:
            values = features[arm] if features.ndim == 2 else features[rows][owner, arm]
            called = _names(rounds, "action_context", "a", values.shape[1])
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


def _own(rounds: Mapping[str, Any], count: int, arms: int, where: str) -> Ints | None:
    """Return the places of arms in files of Hindcast; refuse its arrays of another form."""
    places = rounds.get(f"{OWN}place")
    if places is not None and np.shape(places) != (count, arms):
        raise TraceError(
            f"{where}: {OWN}place has the shape {np.shape(places)}, expected ({count}, {arms})"
        )
    for name in (OWN + n for n in (*TEXTS, *NUMBERS)):
        if rounds.get(name) is not None and np.shape(rounds[name]) != (count,):
            raise TraceError(
                f"{where}: {name} has the shape {np.shape(rounds[name])}, expected ({count},)"
            )
    return None if places is None else np.asarray(places, np.int64)


def _further(arrays: Mapping[str, Any], rows: slice) -> dict[str, Any]:
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


def _arrays(rounds: Mapping[str, Any], where: str) -> dict[str, Array]:
    """Return the arrays that a log has, with the dimensions of OBP; refuse others."""
    for name in _NEEDED:
        if rounds.get(name) is None:
            raise TraceError(f"{where}: there is no array {name!r}, expected {', '.join(_NEEDED)}")
    arrays: dict[str, Array] = {}
    for name, dimensions in _DIMENSIONS.items():
        if rounds.get(name) is None:
            continue
        try:
            array = np.asarray(rounds[name], np.float64)
        except (TypeError, ValueError) as error:
            raise TraceError(f"{where}: {name} is no array of numbers ({error})") from error
        if array.ndim not in dimensions:
            wanted = " or ".join(map(str, dimensions))
            raise TraceError(f"{where}: {name} has {array.ndim} dimensions, expected {wanted}")
        arrays[name] = array
    count = len(arrays["action"])
    for name in ("reward", "pscore", "context", "position", "pi_b"):
        array = arrays.get(name, arrays["action"])
        if array.ndim and len(array) != count:
            raise TraceError(f"{where}: {name} has {len(array):,} rounds, action has {count:,}")
    return arrays


def _arms(arrays: Mapping[str, Array], where: str) -> int:
    """Return the number of arms; the largest action does not tell it."""
    if "action_context" in arrays:
        arms = float(arrays["action_context"].shape[-2])
    elif "n_actions" in arrays:
        arms = float(arrays["n_actions"])
    else:
        raise TraceError(
            f"{where}: there is neither `action_context` nor `n_actions`: the largest action does "
            "not tell how many arms there are"
        )
    if not (1 <= arms <= MOST_CANDIDATES and arms % 1 == 0):
        raise TraceError(f"{where}: {arms:g} arms, expected 1 to {MOST_CANDIDATES:,}")
    return int(arms)


def _within(position: Ints, positions: int, where: str) -> Ints:
    """Return the positions of the rounds; raise TraceError for one that pi_b does not have."""
    if len(position) and not 0 <= position.min() <= position.max() < positions:
        raise TraceError(
            f"{where}: position is {position.min()} to {position.max()}, pi_b has {positions}"
        )
    return position


def _context(
    rounds: Mapping[str, Any], context: Array | None, position: Ints | None, count: int
) -> list[pl.Series]:
    columns = []
    if context is not None:
        values = context.reshape(count, -1)
        called = _names(rounds, "context", "c", values.shape[1])
        columns = [pl.Series(name, column) for name, column in zip(called, values.T, strict=True)]
    if position is not None and len(np.unique(position)) > 1:
        columns.append(texts(pl.Series("position", position)).alias("position"))
    return columns
