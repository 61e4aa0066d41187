"""Tests of `thermal` baselines against the table of its spec: -ineff - .005 heat per step."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics import heuristics

SCENARIO = load_scenario("thermal")
EPISODES = 30
PROTOTYPE = {
    "random": (-4.258, -3.267),
    "spread": (-4.682, -3.625),
    "max_usage": (-1.297, -0.588),
    "max_distance": (-1.065, -0.573),
    "greedy": (-1.584, -0.757),
    "busy_first_far": (-1.041, -0.522),
    "window_greedy": (-0.988, -0.433),
}
TABLE = [
    (policy, k, value)
    for policy, values in PROTOTYPE.items()
    for k, value in zip((1.0, 10.0), values, strict=True)
]


def level_per_step(policy: str, k: float) -> np.ndarray:
    """Return one value per episode, each on a separate instance."""
    config = ThermalConfig(k=k)
    spec = SCENARIO.spec(config, "level")
    nothing = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    behaviour = Behaviour(policy, heuristics("thermal")[policy], epsilon=float(policy == "random"))
    values = []
    for window in range(EPISODES):
        rng = np.random.default_rng([7, window])
        instance = SCENARIO.instance(config, "level", nothing, window, rng)
        values.append(run_episode(SCENARIO, spec, instance, behaviour, rng).outcomes[0])
    return np.array(values)


@pytest.mark.parametrize(("policy", "k", "value"), TABLE)
def test_a_baseline_is_as_good_as_in_the_prototype(policy, k, value):
    """Values agree within three standard errors of a difference of two means of ten episodes.

    The number of episodes of the prototype is not known. busy_first_far at k = 1 is better than in
    the prototype: the price on delay is not in the spec, and .7 grid steps is the best for both k.
    """
    found = level_per_step(policy, k)
    error = found.std(ddof=1) * np.sqrt(1 / EPISODES + 1 / 10)
    if (policy, k) == ("busy_first_far", 1.0):
        assert value < found.mean() < value + 0.04
    else:
        assert abs(found.mean() - value) < 3 * error


@pytest.mark.slow
def test_consolidation_and_distance_are_best_together():
    """Both of the report's expectations hold for the best rules, at either k."""
    for k in (1.0, 10.0):
        means = {policy: level_per_step(policy, k).mean() for policy in PROTOTYPE}
        assert max(means, key=means.__getitem__) == "window_greedy"
        assert min(means, key=means.__getitem__) == "spread"
        assert means["busy_first_far"] > means["max_distance"]
        assert means["busy_first_far"] > means["max_usage"]


@pytest.mark.parametrize("k", [1.0, 10.0])
def test_little_work_ahead_is_a_better_rule(k):
    """window_short beats window_greedy on the same instances by three standard errors."""
    gain = level_per_step("window_short", k) - level_per_step("window_greedy", k)
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(EPISODES)
