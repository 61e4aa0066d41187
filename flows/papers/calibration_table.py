"""Functions that the calibrations share: play policies on drawn instances, and make a table.

    setting, policy, metric    what was measured
    ours                       mean over the episodes
    standard_error             of `ours`; null for a number that is not a mean
    spec                       number that the prototype of the settings achieved
    difference_percent         `ours` relative to `spec`, in percent
    paper                      number printed in the paper

A number that does not exist is null.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.progress import progress
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.inspection.columns import aligned
from hindcast.pipeline.recipes.workload_source import GENERATED
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics import heuristics

Progress: TypeAlias = Callable[[int, int], None]
Row: TypeAlias = tuple[
    str, str, str, float | None, float | None, float | None, float | None, float | None
]

_COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    "setting": pl.String,
    "policy": pl.String,
    "metric": pl.String,
    "ours": pl.Float64,
    "standard_error": pl.Float64,
    "spec": pl.Float64,
    "difference_percent": pl.Float64,
    "paper": pl.Float64,
}


def require_two(episodes: int) -> None:
    """Raise InputError for fewer episodes than a standard error needs."""
    if episodes < 2:
        raise InputError(
            f"episodes is {episodes}, expected at least 2, because one has no standard error"
        )


def play_windows(
    scenario: Scenario, config: Any, policies: Mapping[str, Heuristic], episodes: int, seed: int
) -> Iterator[tuple[Instance, list[dict[str, float]]]]:
    """Yield every drawn instance with the outcomes of each policy on it, by name."""
    objective = scenario.objectives[0]
    spec = scenario.spec(config, objective)
    names = [o.name for o in spec.outcomes]
    nothing = Workload(pl.DataFrame(), Provenance(GENERATED))
    for window in range(episodes):
        rng = generator(seed, "instance", window)
        instance = scenario.instance(config, objective, nothing, window, rng)
        played = [
            run_episode(scenario, spec, instance, Behaviour(name, rule), rng).outcomes.tolist()
            for name, rule in policies.items()
        ]
        yield instance, [dict(zip(names, outcomes, strict=True)) for outcomes in played]


def table_row(
    setting: str,
    policy: str,
    metric: str,
    values: NDArray[np.float64] | None,
    expected: float | None,
    published: float | None,
) -> Row:
    """Return a row: the mean of `values` beside the numbers of the prototype and the paper.

    `values` (episodes,) is None for a policy that was not run. A single value has no standard
    error.
    """
    ours = error = difference = None
    if values is not None:
        ours = float(values.mean())
        if len(values) > 1:
            error = float(values.std(ddof=1) / np.sqrt(len(values)))
        if expected:
            difference = 100.0 * (ours / expected - 1.0)
    return setting, policy, metric, ours, error, expected, difference, published


def table_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Return the table of these rows."""
    return pl.DataFrame(rows, schema=dict(_COLUMNS), orient="row")


def scenario_table(request: Any, calibrate: Callable[..., pl.DataFrame]) -> dict[str, Any]:
    """Return the lines and rows of the calibration of a scenario, whose name the request gives."""
    sized = {} if request.episodes is None else {"episodes": request.episodes}
    with progress(f"calibrate {request.table}") as tell:
        table = calibrate(heuristics(request.table), seed=request.seed, progress=tell, **sized)
    rows: list[dict[str, Any]] = table.to_dicts()
    columns = list(rows[0])
    cells = [columns, *([_cell(row[c]) for c in columns] for row in rows)]
    return {"lines": aligned(cells), "rows": rows}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if 0.0 < abs(value) < 0.005 else f"{value:.2f}"
