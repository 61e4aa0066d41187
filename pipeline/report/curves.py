"""Training curves of a report: the mean over the runs of an agent, and its interval.

Each run of an agent is one seed. The interval is Student's, mean +- t * s / sqrt(n) over n seeds:
resampling three or five seeds would give intervals far too narrow. Runs with values at different
steps are drawn at the steps that all of them have.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.evaluations import read_table
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.report.plots import curves_plot
from hindcast.pipeline.statistics.intervals import Array
from hindcast.pipeline.storage.run_files import CURVES

_PANELS: Final = 12
_AGENTS: Final = 12
_POINTS: Final = 200  # points of a curve; longer curves are averaged in bins of steps
_SEED: Final = re.compile(r"-seed\d+$")
# 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom; _NORMAL beyond these
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL: Final = 1.960


class Curve(NamedTuple):
    """Metric of an agent over its steps, all (P,); low and high are NaN for a single seed."""

    steps: Array
    mean: Array
    low: Array
    high: Array
    seeds: int


def training_runs(folders: Sequence[Path]) -> list[Path]:
    """Return the folders with metrics.parquet: those given, and those in `training/` or `runs/`."""
    found = [
        run
        for folder in folders
        for inside in ("training", "runs")
        for run in (folder, *sorted((folder / inside).glob("*")))
        if (run / CURVES).is_file()
    ]
    return list(dict.fromkeys(found))


def training_part(folders: Sequence[Path], first: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the values of the section about training, see report.html.jinja; None without runs.

    The plot has a panel per metric with a line per agent and a band over its seeds. It is empty if
    there are no metrics. Metrics of `first` come before the others. `agents` are the agents' names,
    each with a sentence. Raises DatasetError for a metrics.parquet without the columns step, metric
    and value.
    """
    runs = training_runs(folders)
    if not runs:
        return None
    groups = by_agent(runs)
    names = {agent: ", ".join(run.name for run in inside) for agent, inside in groups.items()}
    agents = {agent: f"agent of the training {told}" for agent, told in names.items()}
    shown = dict(list(groups.items())[:_AGENTS])
    curves: dict[str, dict[str, Curve]] = {}
    for agent, inside in shown.items():
        for metric, curve in agent_curves(inside).items():
            curves.setdefault(metric, {})[agent] = curve
    # The metrics of `first`, then those that most agents have, then by order of appearance.
    place = {metric: i for i, metric in enumerate(first)}
    order = sorted(curves, key=lambda m: (place.get(m, len(place)), -len(curves[m])))
    drawn = {metric: curves[metric] for metric in order[:_PANELS]}
    if not drawn:
        return {"plot": "", "text": "", "agents": agents}
    text = f"{count_of(len(runs), 'run')} of {count_of(len(groups), 'agent')}; "
    if any(curve.seeds > 1 for of in drawn.values() for curve in of.values()):
        text += "lines are means over seeds, bands 95 % intervals of single steps (Student's t); "
    text += f"long curves are averaged to {_POINTS} points."
    if len(curves) > _PANELS:
        text += f" Not drawn: {', '.join(order[_PANELS:])}."
    if len(groups) > _AGENTS:
        text += f" Only the first {_AGENTS} agents are drawn."
    return {"plot": curves_plot(drawn, " ".join(shown)), "text": text, "agents": agents}


def by_agent(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Return runs by their name without the seed; equal names in two folders stay apart."""
    places = list(dict.fromkeys(run.parent for run in runs))
    groups: dict[tuple[Path, str], list[Path]] = {}
    for run in runs:
        groups.setdefault((run.parent, _SEED.sub("", run.name)), []).append(run)
    names = [name for _, name in groups]
    return {
        name if names.count(name) == 1 else f"{name} ({places.index(place) + 1})": found
        for (place, name), found in groups.items()
    }


def agent_curves(folders: Sequence[Path]) -> dict[str, Curve]:
    """Return the curves of one agent by metric, in the order of their first appearance."""
    runs = [_curves(folder / CURVES) for folder in folders]
    metrics = dict.fromkeys(metric for run in runs for metric in run)
    found = {m: over_seeds([run[m] for run in runs if m in run]) for m in metrics}
    return {metric: curve for metric, curve in found.items() if curve.steps.size}


def over_seeds(curves: Sequence[tuple[Array, Array]]) -> Curve:
    """Return mean and interval of (steps, values) of several seeds, at their common steps."""
    steps = np.unique(curves[0][0])
    for other, _ in curves[1:]:
        steps = np.intersect1d(steps, other)
    rows = [values[np.searchsorted(own, steps)] for own, values in curves]
    steps, values = _thinned(steps, np.array(rows))
    count = len(values)
    mean = values.mean(axis=0)
    if count == 1:
        nothing = np.full(len(mean), np.nan)
        return Curve(steps, mean, nothing, nothing, 1)
    quantile = _T[count - 2] if count - 2 < len(_T) else _NORMAL
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(count)
    return Curve(steps, mean, mean - half, mean + half, count)


def _curves(path: Path) -> dict[str, tuple[Array, Array]]:
    frame = read_table(path)
    for column in ("step", "metric", "value"):
        if column not in frame.columns:
            raise DatasetError(
                f"{path}: column {column!r} is missing; found {', '.join(frame.columns)}"
            )
    try:
        frame = frame.select(
            pl.col("step").cast(pl.Float64),
            pl.col("metric").cast(pl.String),
            pl.col("value").cast(pl.Float64),
        )
    except pl.exceptions.PolarsError as error:
        raise DatasetError(f"{path}: columns 'step' and 'value' should be numbers") from error
    frame = frame.filter(pl.all_horizontal(pl.col("step", "value").is_finite())).drop_nulls()
    return {
        str(metric): (part["step"].to_numpy(), part["value"].to_numpy())
        for (metric,), part in frame.sort("step", maintain_order=True).group_by(
            "metric", maintain_order=True
        )
    }


def _thinned(steps: Array, values: Array) -> tuple[Array, Array]:
    """Return at most _POINTS of steps (P,) and values (seeds, P), averaged in bins."""
    if steps.size <= _POINTS:
        return steps, values
    edges = np.linspace(0, steps.size, _POINTS + 1).astype(np.int64)
    counts = np.diff(edges)
    return (
        np.add.reduceat(steps, edges[:-1]) / counts,
        np.add.reduceat(values, edges[:-1], axis=1) / counts,
    )
