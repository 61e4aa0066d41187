"""Readers of logs over a fixed set of arms: OBP's arrays and the Open Bandit Dataset.

OBP has a dictionary, or an .npz file of it: action, reward, pscore, context, action_context,
position, and `pi_b` (n, arms, positions) if all probabilities are known. Files are never unpickled.

The Open Bandit Dataset is a folder with a table of impressions (item_id, position, click,
propensity_score, user features and affinities) and item_context.csv. Positions belong to the
context. All arms are candidates of every decision.
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
    Reading,
    frame_of,
)
from hindcast.pipeline.decisions.tables import Tables
from hindcast.pipeline.decisions.values import numbers, texts, times
from hindcast.pipeline.errors import TraceError

ITEMS: Final = "item_context.csv"
OBD_COLUMNS: Final = ("item_id", "position", "click", "propensity_score")
REWARD: Final = TERM + "reward"
CLICK: Final = TERM + "click"
_AFFINITY: Final = "user-item_affinity_"
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


def read_obp(arrays: Mapping[str, Any], where: str, _reading: Reading) -> Iterator[Batch]:
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


def obd_table(folder: Path) -> Path | None:
    """Return the table of impressions of an Open Bandit folder; None if there is not one."""
    found = [
        path
        for path in sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])
        if path.name != ITEMS and set(OBD_COLUMNS) <= set(Tables([path]).header())
    ]
    return found[0] if len(found) == 1 and (folder / ITEMS).is_file() else None


def read_obd(folder: Path, reading: Reading) -> Iterator[Batch]:
    """Yield the impressions of a folder of the Open Bandit Dataset."""
    table = obd_table(folder)
    if table is None:
        raise TraceError(
            f"{folder}: expected {ITEMS} and one table with the columns {', '.join(OBD_COLUMNS)}"
        )
    items = pl.read_csv(folder / ITEMS, infer_schema=False)
    if "item_id" not in items.columns:
        raise TraceError(f"{folder / ITEMS}: there is no column 'item_id'")
    ids = texts(items["item_id"])
    place = {name: k for k, name in enumerate(ids.cast(pl.String))}
    arms = len(place)
    described = {n: _described(items[n]) for n in items.columns if n.startswith("item_feature")}
    tables = Tables([table])
    for piece in tables.pieces():
        rows, count = piece.rows, piece.rows.height
        users = [c for c in rows.columns if c.startswith("user_feature")]
        chosen = [place.get(name or "", -1) for name in texts(rows["item_id"]).cast(pl.String)]
        when, _, local = times(rows["timestamp"], "UTC") if "timestamp" in rows.columns else (
            np.full(count, np.nan), None, False)  # fmt: skip
        if local:
            reading.note("times without a zone are read as UTC")
        propensity, _ = numbers(rows["propensity_score"])
        click, _ = numbers(rows["click"])
        meta = {
            "id": pl.Series(np.arange(count) + piece.line - 2).cast(pl.String),
            "line": np.arange(count) + piece.line, "chosen": np.array(chosen, np.int64),
            "propensity": propensity, "time": when, CLICK: click,
        }  # fmt: skip
        context = {name: texts(rows[name]) for name in ["position", *users]}
        tiled = np.tile(np.arange(arms), count)
        features = {name: column[tiled] for name, column in described.items()}
        affinity = [f"{_AFFINITY}{name}" for name in place]
        if all(name in rows.columns for name in affinity):
            block = np.stack([numbers(rows[name])[0] for name in affinity], axis=1)
            features[_AFFINITY.rstrip("_")] = pl.Series(block.ravel())
        yield Batch(
            frame_of(meta, DECISION_COLUMNS, count), pl.DataFrame(context),
            frame_of({"id": ids[tiled]}, CANDIDATE_COLUMNS, count * arms), pl.DataFrame(features),
            np.full(count, arms, np.int64),
        )  # fmt: skip


def _described(values: pl.Series) -> pl.Series:
    """Return a feature of the items as numbers, if all are, else as categories."""
    found, bad = numbers(values)
    return pl.Series(found) if not bad.any() else texts(values)
