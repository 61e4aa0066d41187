"""`python -m docs.generate.bounds EVALUATION...`: mean bounds as CSV, for docs/results/bounds.csv.

A bound is an outcome of a window, whatever the policy; one rule per recipe is enough.
"""

import json
import sys
from pathlib import Path

import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage.provenance import NOT_RECORDED


def main(folders: list[str]) -> None:
    """Print one row per evaluation: recipe, bound, its kind, its mean over windows."""
    print("recipe,bound,kind,windows,mean,provenance")
    for folder in map(Path, folders):
        about = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        scenario = load_scenario(about["scenario"])
        scores = pl.read_parquet(folder / "scores.parquet").filter(metric=scenario.bound)
        by_window = scores.group_by("window").agg(pl.col("value").first())
        mean = by_window["value"].to_numpy().mean()
        row = (
            about["recipe"],
            scenario.bound,
            scenario.bound_kind,
            len(by_window),
            f"{mean:.6g}",
            " ".join(about.get("provenance", {}).get("sessions", [NOT_RECORDED])),
        )
        print(*row, sep=",")


if __name__ == "__main__":
    main(sys.argv[1:])
