"""Tests of `deferrable` on a trace: capacity left by the on-demand load, and other VMs as jobs."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics.deferrable import HEURISTICS
from tests.conftest import require_traces

SCENARIO = load_scenario("deferrable")
CONFIG = DeferrableConfig(
    jobs="trace", horizon=4, slot_s=10.0, capacity=6.0, jobs_per_slot=100.0, longest_notice=2
)


def workload(*vms: tuple[float, float, float, int | None]) -> Workload:
    """Return a workload of VMs (submit_s, duration_s, cores, priority) in order of submission."""
    frame = pl.DataFrame(
        vms,
        schema={
            "submit_s": pl.Float64, "duration_s": pl.Float64, "cores": pl.Float64,
            "priority": pl.Int64,
        },
        orient="row",
    )  # fmt: skip
    return Workload(frame.with_columns(instances=pl.lit(1, dtype=pl.Int64)), Provenance("test"))


ON_DEMAND = (
    (-30.0, 45.0, 4.0, 0),  # runs from before the trace to the middle of slot 1
    (0.0, 80.0, 2.0, 0),
    (40.0, 10.0, 8.0, 0),  # in slot 4, which is in the second window
    (75.0, 100.0, 1.0, 0),
)
JOBS = ((12.0, 25.0, 2.2, 1), (15.0, 5.0, 1.0, 1), (41.0, 300.0, 1.0, 1), (55.0, 9.0, 3.0, None))


def a_trace() -> Workload:
    return workload(*sorted(ON_DEMAND + JOBS))


def make(window: int, config: DeferrableConfig = CONFIG, load: Workload | None = None):
    return SCENARIO.instance(
        config, "revenue", load or a_trace(), window, np.random.default_rng(window)
    )


def test_capacity_is_what_the_on_demand_load_leaves_of_its_maximum():
    """Load by slot is 6 4 2 2 | 10 2 2 2.5; mean free cores of 6.1875 are scaled to 6."""
    free = 10 - np.array([6, 4, 2, 2, 10, 2, 2, 2.5])
    expected = np.rint(6.0 * free / free.mean())
    for window in (0, 1):
        found = m.block(make(window).ints, m.CAPACITY_AT, 4)
        assert found.tolist() == expected[4 * window : 4 * window + 4].tolist()


def test_jobs_are_the_other_vms_that_start_in_the_window():
    """Cores and duration are rounded up. The VM of 30 slots is too long for a job."""
    ints = make(0).ints
    assert ints[m.JOBS] == 2
    assert m.block(ints, m.CORES_AT, 2).tolist() == [3, 1]
    assert m.block(ints, m.DURATION_AT, 2).tolist() == [3, 1]
    assert m.block(ints, m.EARLIEST_AT, 2).tolist() == [1, 1]
    ints = make(1).ints
    assert ints[m.JOBS] == 1
    assert m.block(ints, m.CORES_AT, 1).tolist() == [3]
    assert m.block(ints, m.EARLIEST_AT, 1).tolist() == [1]


def test_windows_are_full_stretches_of_the_trace_times_the_draws():
    assert SCENARIO.windows(CONFIG, a_trace()) == 2
    config = DeferrableConfig(jobs="trace", horizon=3, slot_s=10.0, draws_per_window=5)
    assert SCENARIO.windows(config, a_trace()) == 10
    with pytest.raises(
        InputError, match="window 2 does not exist: the 8 slots of the trace make 2"
    ):
        make(2)


def test_a_window_without_jobs_says_so():
    with pytest.raises(InputError, match="no deferrable VM of at most 8 slots starts between 0 s"):
        make(0, load=workload(*ON_DEMAND))


def test_a_flat_load_leaves_nothing():
    with pytest.raises(InputError, match="leaves no capacity"):
        make(0, load=workload((-10.0, 1000.0, 4.0, 0), *JOBS, (75.0, 1.0, 1.0, 1)))


@pytest.mark.slow
def test_the_recipe_of_the_derived_table_conforms():
    require_traces()
    recipe = load_recipe("deferrable-azure2020-v1")
    load = load_source(recipe)
    last = max(recipe.windows("all"))
    assert SCENARIO.windows(recipe.config, load) == last + 1 == 168
    check_scenario(
        SCENARIO,
        recipe.config,
        recipe.objective,
        lambda n: SCENARIO.instance(
            recipe.config, recipe.objective, load, last - n, np.random.default_rng(n)
        ),
        {"knapsack": HEURISTICS["knapsack"], "fifo": HEURISTICS["fifo"]},
        episodes=2,
    )
