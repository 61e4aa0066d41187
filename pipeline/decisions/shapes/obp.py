"""Reader of the arrays of Open Bandit Pipeline: a log over a fixed set of arms.

A dictionary, or an .npz file of it, has action, reward, pscore, context, action_context, position,
and `pi_b` (n, arms, positions) if all probabilities are known. All arms are candidates of every
round. Files are never unpickled.
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
    frame_of,
)
from hindcast.pipeline.decisions.values import texts
from hindcast.pipeline.errors import TraceError

REWARD: Final = TERM + "reward"
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
    for name in ("reward", "pscore", "context", "position"):
        value = arrays.get(name)
        if value is not None and np.ndim(value) and len(value) != count:
            raise TraceError(f"{where}: {name} has {len(value):,} rounds, action has {count:,}")
    position = arrays.get("position")
    position = None if position is None or not np.ndim(position) else np.asarray(position, np.int64)
    context = _context(arrays.get("context"), position, count)
    ids = pl.Series([str(k) for k in range(arms)], dtype=pl.String).cast(pl.Categorical)
    block = max(1, _ROWS // max(arms, 1))
    for start in range(0, count, block):
        rows = slice(start, min(start + block, count))
        some = np.arange(count)[rows]
        meta = {
            "id": pl.Series(some).cast(pl.String), "line": some + 1,
            "chosen": np.where((action[rows] >= 0) & (action[rows] < arms), action[rows], -1),
            "propensity": np.asarray(arrays["pscore"], np.float64)[rows],
            REWARD: np.asarray(arrays["reward"], np.float64)[rows],
        }  # fmt: skip
        candidates: dict[str, Any] = {"id": ids[np.tile(np.arange(arms), len(some))]}
        if (probabilities := arrays.get("pi_b")) is not None:
            at = np.zeros(len(some), np.int64) if position is None else position[rows]
            chance = np.asarray(probabilities, np.float64)[rows]
            if chance.ndim == 3:
                chance = chance[np.arange(len(some)), :, at if chance.shape[2] > 1 else 0]
            candidates["probability"] = chance.ravel()
        described: dict[str, Any] = {}
        if features is not None:
            values = np.asarray(features, np.float64)
            for k in range(values.shape[-1]):
                column = values[..., k]
                described[f"a{k}"] = (
                    column[rows].ravel() if column.ndim == 2 else np.tile(column, len(some))
                )
        yield Batch(
            frame_of(meta, DECISION_COLUMNS, len(some)),
            pl.DataFrame([s[rows] for s in context]),
            frame_of(candidates, CANDIDATE_COLUMNS, len(some) * arms), pl.DataFrame(described),
            np.full(len(some), arms, np.int64),
        )  # fmt: skip


def _context(context: Any, position: Any, count: int) -> list[pl.Series]:
    columns = []
    if context is not None:
        values = np.asarray(context, np.float64).reshape(count, -1)
        columns = [pl.Series(f"c{k}", values[:, k]) for k in range(values.shape[1])]
    if position is not None and len(np.unique(position)) > 1:
        columns.append(texts(pl.Series("position", position)).alias("position"))
    return columns
