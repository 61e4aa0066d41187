"""The folder of a training run: what a new run clears, and its curves."""

from pathlib import Path

import polars as pl

from pipeline.storage.files import write_atomically
from pipeline.storage.run_files import BEST, CHECKPOINTS, DESCRIPTION, WEIGHTS
from policies.networks.checkpoint import Metric


def clear(out: Path) -> None:
    """Remove the checkpoints of another training: they would look like this one's."""
    for folder in (out, out / BEST, *sorted((out / CHECKPOINTS).glob("step-*"))):
        for name in (DESCRIPTION, WEIGHTS):
            (folder / name).unlink(missing_ok=True)
        if folder != out and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def write_curves(metrics: tuple[Metric, ...], path: Path) -> None:
    """Write curves as Parquet: step, metric, value."""
    curves = pl.DataFrame(
        [(m.step, m.metric, m.value) for m in metrics],
        schema={"step": pl.Int64, "metric": pl.String, "value": pl.Float64},
        orient="row",
    )
    write_atomically(path, curves.write_parquet)
