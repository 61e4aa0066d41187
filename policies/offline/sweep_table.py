"""The table of a sweep's results: one row per training, the best choice of settings first.

agent, settings (JSON), seed, steps, checkpoint   the training
criterion, best_step, best_score                  its best checkpoint, by the agent's criterion
preference            preference on the validation split at the best checkpoint
                      (hindcast.policies.training.monitoring), the one metric that all agents share
mean_preference       mean preference over the seeds of one choice; rows are sorted by it
validation_...        metrics after the last step
error                 reason for a missing checkpoint
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.storage.run_files import CURVES
from hindcast.policies.networks.checkpoint import read_description
from hindcast.policies.offline.sweep import Run

NAME: Final = "sweep.parquet"
_PREFERENCE: Final = "validation_preference"
_SCORED: Final = ("criterion", "best_step", "best_score", "preference")


def tabulate(
    runs: Sequence[Run], folders: Sequence[Path], errors: Mapping[str, str]
) -> pl.DataFrame:
    """Return the table of finished runs; `errors` are by the names of the runs that failed."""
    rows = [
        _row(run, folder, errors.get(run.name)) for run, folder in zip(runs, folders, strict=True)
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    order = ["agent", "settings", "seed", "steps", "checkpoint", *_SCORED, "error"]
    measured = sorted(c for c in table.columns if c not in order)
    choice = ["agent", "settings"]
    return (
        table.with_columns(mean_preference=pl.col("preference").mean().over(choice))
        .select([*order[:-1], "mean_preference", *measured, "error"])
        .sort(
            ["mean_preference", *choice, "seed"],
            descending=[True, False, False, False],
            nulls_last=True,
        )
    )


def _row(run: Run, folder: Path, error: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "agent": run.agent,
        "settings": run.choice.partition(" ")[2],
        "seed": run.seed,
        "steps": run.steps,
        "checkpoint": str(folder),
        **dict.fromkeys(_SCORED),
        "error": error,
    }
    if error is not None:
        return row
    training = read_description(folder)["training"]
    best = training.get("best", {})
    row |= zip(_SCORED, (best.get(key) for key in ("metric", "step", "score")), strict=False)
    curves = pl.read_parquet((folder / CURVES).read_bytes())
    validation = curves.filter(pl.col("metric").str.starts_with("validation_"))
    step = validation["step"].max()
    at_end = validation.filter(pl.col("step") == step)
    row |= dict(zip(at_end["metric"], at_end["value"], strict=True))
    at_best = validation.filter(
        (pl.col("step") == best.get("step", step)) & (pl.col("metric") == _PREFERENCE)
    )
    row["preference"] = at_best["value"][0] if len(at_best) else None
    return row


def summary(table: pl.DataFrame) -> list[str]:
    """Return lines for people: choices of settings, best first, with means over their seeds."""
    means = table.group_by(["agent", "settings"], maintain_order=True).agg(
        pl.len().alias("seeds"),
        pl.col("preference").mean(),
        pl.col("best_step").mean(),
        pl.col("criterion").drop_nulls().first(),
        pl.col("best_score").mean(),
        pl.col("error").drop_nulls().first(),
    )
    lines = ["preference  seeds  best step  agent and settings"]
    for row in means.iter_rows(named=True):
        value = "-" if row["preference"] is None else f"{row['preference']:.4f}"
        at = "-" if row["best_step"] is None else f"{row['best_step']:,.0f}"
        error = f"  ({row['error']})" if row["error"] else ""
        lines.append(
            f"{value:>10}  {row['seeds']:>5}  {at:>9}  {row['agent']} {row['settings']}{error}"
        )
    return lines
