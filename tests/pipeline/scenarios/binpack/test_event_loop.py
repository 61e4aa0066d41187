"""Tests of `compat = "cloudsimpy"` against published makespans and a simulation in SimPy."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.heuristics.binpack import HEURISTICS
from tests.benchmarks import packing_in_simpy as simulated
from tests.conftest import require_traces
from tests.pipeline.scenarios.binpack.test_binpack import some_workload

SIMULATED = range(0, 60, 6)  # windows that are also simulated in SimPy, which is slow

SCENARIO = load_scenario("binpack")
RULES = {"first_fit": simulated.first_fit, "tetris": simulated.tetris}


def makespan(load: Workload, config: BinpackConfig, window: int, rule: str) -> float:
    """Return the makespan of a window in the compiled simulator."""
    rng = np.random.default_rng(0)
    instance = SCENARIO.instance(config, "makespan", load, window, rng)
    behaviour = Behaviour(rule, HEURISTICS[f"{rule}_reference"])
    spec = SCENARIO.spec(config, "makespan")
    return run_episode(SCENARIO, spec, instance, behaviour, rng).outcomes[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seeds", [range(10), range(10, 20), range(20, 30)], ids=str)
def test_makespans_equal_those_of_the_simulation_in_simpy(rule, seeds):
    config = BinpackConfig(machines=2, machine_cores=64.0, jobs_per_window=6, compat="cloudsimpy")
    for seed in seeds:
        load = some_workload(seed)
        expected, placements = simulated.play(load, 0, RULES[rule], machines=2, jobs=6)
        assert placements == load.tasks["instances"].sum()
        assert makespan(load, config, 0, rule) == expected, seed


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_makespans_of_the_real_workload_equal_the_published_ones(rule):
    """The 261 even windows in the compiled simulator, some of them in SimPy."""
    load, _quarantine = FORMATS["alibaba2017"].read(require_traces("alibaba2017"))
    config = BinpackConfig(machines=5, jobs_per_window=10, compat="cloudsimpy")
    golden = require_traces("../golden/cloudsimpy_makespan.csv")
    published = pl.read_csv(golden).rows_by_key("chunk", named=True, unique=True)
    assert len(published) == 261
    column = f"{rule}_makespan_s"
    expected = {window: row[column] for window, row in published.items()}
    assert {window: makespan(load, config, window, rule) for window in expected} == expected
    for window in SIMULATED:
        assert simulated.play(load, window, RULES[rule])[0] == expected[window]
