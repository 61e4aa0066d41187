"""Tests of the bounds of `deferrable`: above every plan, close to the best rule and the optimum."""

import sys

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable import make_instance
from hindcast.pipeline.scenarios.deferrable.bounds import upper_bound
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.scenarios.deferrable.optimum import available, optimum
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.deferrable import HEURISTICS

SCENARIO = load_scenario("deferrable")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
needs_highs = pytest.mark.skipif(
    not available(), reason="needs HiGHS: highspy (the extra 'bounds') is not installed"
)


def test_the_bound_holds_where_violations_cost_little():
    """10 cores start while there are 10 and run on for 3 slots without any, which costs nothing."""
    job = Jobs(*(np.array([value]) for value in (10, 4, 0, 0, 0)))
    assert upper_bound(job, np.array([10, 0, 0, 0]), 2.0, 0.0) == 40
    assert upper_bound(job, np.array([10, 0, 0, 0]), 2.0, 0.3) >= 40 - 0.3 * 30


def random_problem(seed: int) -> tuple[Jobs, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, horizon = int(rng.integers(1, 9)), 5
    earliest = np.sort(rng.integers(0, horizon, n))
    jobs = Jobs(
        cores=rng.integers(1, 5, n),
        duration=rng.integers(1, 4, n),
        earliest=earliest,
        latest=earliest + rng.integers(0, 3, n),
        submitted=np.maximum(earliest - rng.integers(0, 3, n), 0),
    )
    return jobs, rng.integers(0, 8, horizon)


def best_plan(jobs: Jobs, capacity: np.ndarray) -> float:
    """Return the optimum by exhaustive search, violations allowed."""
    horizon = len(capacity)

    def best(job: int, load: np.ndarray) -> float:
        if job == len(jobs.cores):
            return -10.0 * float(np.maximum(load - capacity, 0).sum())
        value = best(job + 1, load)
        for start in range(jobs.earliest[job], min(jobs.latest[job], horizon - 1) + 1):
            more = load.copy()
            more[start : start + jobs.duration[job]] += jobs.cores[job]
            gain = jobs.cores[job] * jobs.duration[job] - 2.0 * (start - jobs.earliest[job])
            value = max(value, gain + best(job + 1, more))
        return value

    return best(0, np.zeros(horizon))


@pytest.mark.parametrize("seed", range(25))
def test_the_bound_is_above_the_best_of_all_plans_and_the_optimum_is_it(seed):
    jobs, capacity = random_problem(seed)
    best = best_plan(jobs, capacity)
    bound = upper_bound(jobs, capacity, 2.0, 10.0)
    assert bound >= best - 1e-9
    if available():
        instance = make_instance(DeferrableConfig(), "revenue", jobs, capacity)
        relaxed = optimum(instance, relaxed=True)
        assert optimum(instance).value == pytest.approx(best, abs=1e-6)
        assert best - 1e-6 <= relaxed.value <= bound + 1e-6


def test_the_bound_is_close_to_the_best_rule():
    """Over five weeks the bound is within 2 % of the revenue of knapsack_patient."""
    spec = SCENARIO.spec(DeferrableConfig(), "revenue")
    for window in range(5):
        instance = SCENARIO.instance(
            DeferrableConfig(), "revenue", NOTHING, window, np.random.default_rng(window)
        )
        behaviour = Behaviour("p", HEURISTICS["knapsack_patient"])
        total = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(0)).total
        assert total <= instance.floats[m.UPPER_BOUND] <= 1.02 * total


@pytest.mark.slow
@needs_highs
def test_the_optimum_of_a_week_is_feasible_and_below_the_relaxation():
    """Replayed starts cost what the optimum states, and the Lagrangian bound is 0.1 % above."""
    for window in range(2):
        instance = SCENARIO.instance(
            DeferrableConfig(), "revenue", NOTHING, window, np.random.default_rng(window)
        )
        found, relaxed = optimum(instance), optimum(instance, relaxed=True)
        assert found.proven
        assert found.value <= found.bound + 1e-6 <= relaxed.value + 2e-6
        assert relaxed.value <= instance.floats[m.UPPER_BOUND] <= 1.001 * relaxed.value
        n, horizon = instance.ints[m.JOBS], instance.ints[m.HORIZON]
        cores, duration, earliest, latest = (
            m.block(instance.ints, at, n)
            for at in (m.CORES_AT, m.DURATION_AT, m.EARLIEST_AT, m.LATEST_AT)
        )
        started = found.starts >= 0
        delay = (found.starts - earliest)[started]
        assert ((delay >= 0) & (delay <= (latest - earliest)[started])).all()
        load = np.zeros(horizon + 8)
        for job in np.flatnonzero(started):
            load[found.starts[job] : found.starts[job] + duration[job]] += cores[job]
        over = load[:horizon] - m.block(instance.ints, m.CAPACITY_AT, horizon)
        value = (cores * duration)[started].sum() - 2 * delay.sum()
        assert found.value == pytest.approx(value - 10 * np.maximum(over, 0).sum())


def test_without_highs_the_optimum_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    jobs, capacity = random_problem(0)
    with pytest.raises(InputError, match=r"highspy.*pip install 'hindcast-scheduling\[bounds\]'"):
        optimum(make_instance(DeferrableConfig(), "revenue", jobs, capacity))
