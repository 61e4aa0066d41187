"""The folder of a training run: clearing it for a new run, and writing its curves."""

from pathlib import Path

import polars as pl

from hindcast.pipeline.storage.files import table_writer, write_atomically
from hindcast.pipeline.storage.provenance import PROVENANCE
from hindcast.pipeline.storage.run_files import BEST, CHECKPOINTS, DELIVERED, DESCRIPTION, WEIGHTS
from hindcast.policies.networks.checkpoint import Metric


def clear(out: Path) -> None:
    """Remove the checkpoints of another training, which would look like those of this one."""
    for folder in (out, out / BEST, out / DELIVERED, *sorted((out / CHECKPOINTS).glob("step-*"))):
        for name in (DESCRIPTION, WEIGHTS, PROVENANCE):
            (folder / name).unlink(missing_ok=True)
        if folder != out and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def write_curves(metrics: tuple[Metric, ...], path: Path) -> None:
    """Write curves as Parquet with the columns step, metric and value."""
    curves = pl.DataFrame(
        [(m.step, m.metric, m.value) for m in metrics],
        schema={"step": pl.Int64, "metric": pl.String, "value": pl.Float64},
        orient="row",
    )
    write_atomically(path, table_writer(curves))
