"""Reader of a folder of the Open Bandit Dataset: impressions, and the table of the items.

The table of impressions has item_id, position, click, propensity_score, user features and
affinities; item_context.csv is beside it. Positions belong to the context. All items are candidates
of every impression.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

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
from hindcast.pipeline.decisions.shapes.tables import Tables
from hindcast.pipeline.decisions.values import numbers, texts, times
from hindcast.pipeline.errors import TraceError

ITEMS: Final = "item_context.csv"
OBD_COLUMNS: Final = ("item_id", "position", "click", "propensity_score")
CLICK: Final = TERM + "click"
_AFFINITY: Final = "user-item_affinity_"


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
