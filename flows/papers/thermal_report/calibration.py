"""The record that the data-centre report prints in its Figure 4, from our simulator.

The record is a decision of its generated history: a job of 10 units for 3 steps goes to server 5,
which is empty, and a job of 9 units for 4 steps goes there in the next step. The report prints the
total heat after both placements, and the reward of the first. Its weights are not in its text; the
reward fixes them: alpha is 5, and the heat term has the opposite sign, 1000 (H(t) - H(t - 1)).
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers.calibration_table import (
    Progress,
    Row,
    scenario_table,
    table_of,
    table_row,
)
from hindcast.pipeline.scenarios.thermal import SCENARIO
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig, settled
from hindcast.pipeline.scenarios.thermal.features import OBJECTIVES, TERM
from hindcast.pipeline.scenarios.thermal.instances import Jobs, make_instance
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.workloads.schema import Provenance, Workload

SERVER: Final = 5
SETTING: Final = "figure 4"
METRICS: Final = ("total heat after job 0", "total heat after job 1", "reward of job 0")
# resources, process time and deadline; the last job only ends the step of the second
_JOBS: Final = ((10, 3, 1795), (9, 4, 1086), (5, 1, 1086))
_ALPHA: Final = 5.0
_BETA: Final = -1000.0


def calibrate(
    policies: Mapping[str, Heuristic],  # noqa: ARG001 - the record names its server
    seed: int = 0,  # noqa: ARG001 - nothing is drawn
    progress: Progress | None = None,  # noqa: ARG001 - it takes milliseconds
) -> pl.DataFrame:
    """Return one row per number of the record (see hindcast.flows.papers.calibration_table)."""
    config = settled(ThermalConfig(preset="paper", jobs=len(_JOBS), alpha=_ALPHA, beta=_BETA))
    nothing = Workload(pl.DataFrame(), Provenance("generated"))
    environment = CompiledEnvironment(SCENARIO, config, "difference", nothing, 0)
    jobs = Jobs(*np.array(_JOBS, np.int64).T)
    environment.begin(make_instance(config, OBJECTIVES.index("difference"), jobs))
    first, second = environment.step(SERVER), environment.step(SERVER)
    values = (first.terms[TERM.heat], second.terms[TERM.heat], first.reward)
    rows: list[Row] = [
        table_row(SETTING, f"server {SERVER}", metric, np.array([value]), None, None)
        for metric, value in zip(METRICS, values, strict=True)
    ]
    return table_of(rows)


def table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate`."""
    return scenario_table(request, calibrate)
