"""Read datasets with foreign libraries and print rows and sums; imports nothing of this project.

python read.py FOLDER
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def sums(choices: Iterable[int | None], rewards: Iterable[float | None]) -> dict[str, float]:
    """Return rows, decisions and sums of two columns; a closing row has no choice."""
    chosen, earned = list(choices), [r for r in rewards if r is not None]
    decided = [c for c in chosen if c is not None]
    return {
        "rows": len(chosen), "decisions": len(decided), "choice": sum(decided),
        "reward": sum(earned),
    }  # fmt: skip


def plain(folder: Path) -> dict[str, float]:
    """Read the export for Hugging Face as a whole, from the cache where there is one."""
    import datasets

    splits = datasets.load_dataset(str(folder / "huggingface" / "dataset"))
    rows = [row for split in splits.values() for row in split.select_columns(["choice", "reward"])]
    return sums((r["choice"] for r in rows), (r["reward"] for r in rows))


def own(folder: Path) -> dict[str, float]:
    """Read the dataset itself, which has the header too."""
    import datasets

    splits = datasets.load_dataset(str(folder / "own" / "dataset"))
    rows = [row for split in splits.values() for row in split.select_columns(["choice", "reward"])]
    return sums((r["choice"] for r in rows), (r["reward"] for r in rows))


def streaming(folder: Path) -> dict[str, float]:
    """Read the export for Hugging Face row by row."""
    import datasets

    splits = datasets.load_dataset(str(folder / "huggingface" / "dataset"), streaming=True)
    rows = [row for split in splits.values() for row in split]
    return sums((r["choice"] for r in rows), (r["reward"] for r in rows))


def polars(folder: Path) -> dict[str, float]:
    """Read the parts of the dataset."""
    import polars as pl

    rows = pl.read_parquet(folder / "own" / "dataset" / "data" / "*.parquet")
    return sums(rows["choice"], rows["reward"])


def duckdb(folder: Path) -> dict[str, float]:
    """Ask for the sums in SQL."""
    import duckdb as db

    pattern = folder / "own" / "dataset" / "data" / "*.parquet"
    [(rows, decisions, choice, reward)] = db.sql(
        f"select count(*), count(choice), sum(choice), sum(reward) from '{pattern}'"
    ).fetchall()
    return {"rows": rows, "decisions": decisions, "choice": int(choice), "reward": reward}


def mlcroissant(folder: Path) -> dict[str, float]:
    """Read the record set of decisions."""
    import mlcroissant as mlc

    dataset = mlc.Dataset(jsonld=str(folder / "own" / "dataset" / "croissant.json"))
    rows = list(dataset.records("decisions"))
    [choice] = {key for key in rows[0] if key.endswith("/choice") or key == "choice"}
    [reward] = {key for key in rows[0] if key.endswith("/reward") or key == "reward"}

    def value(number: Any) -> Any:
        return None if number is None or math.isnan(number) else number

    return sums((value(r[choice]) for r in rows), (value(r[reward]) for r in rows))


def minari(folder: Path) -> dict[str, float]:
    """Read all episodes; the closing row of an episode is an observation without an action."""
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari" / "dataset")
    import minari as mi

    [name] = mi.list_local_datasets()
    episodes = list(mi.load_dataset(name))
    return {
        "rows": sum(len(e.observations["context"]) for e in episodes),
        "decisions": sum(len(e.actions) for e in episodes),
        "choice": int(sum(e.actions.sum() for e in episodes)),
        "reward": float(sum(e.rewards.sum() for e in episodes)),
    }


READERS: dict[str, Callable[[Path], dict[str, float]]] = {
    "datasets": plain, "datasets (own)": own, "datasets (streaming)": streaming, "polars": polars,
    "duckdb": duckdb, "mlcroissant": mlcroissant, "minari": minari,
}  # fmt: skip

if __name__ == "__main__":
    for name in json.loads((Path(sys.argv[1]) / "expected.json").read_text(encoding="utf-8")):
        for client, read in READERS.items():
            line = {"dataset": name, "client": client, **read(Path(sys.argv[1]) / name)}
            print(json.dumps({k: getattr(v, "item", lambda v=v: v)() for k, v in line.items()}))
