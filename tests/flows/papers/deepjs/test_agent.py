"""Tests that the recipe `binpack-deepjs` is the published agent: network, schedule and updates."""

import numpy as np

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.policies.networks.features import expanded_size
from hindcast.policies.networks.settings import layer_shapes
from hindcast.policies.online.problem import Problem
from hindcast.policies.online.training import settings_of

RECIPE = load_recipe("binpack-deepjs")
AGENT, CONFIG = settings_of(RECIPE)


def test_the_network_has_the_124_weights_of_table_1():
    """The network is 6-3-9-6-1 over the six raw features.

    These are free and requested resources, duration and unplaced instances. The machine's number is
    an identifier, which no scorer reads.
    """
    spec = load_scenario("binpack").spec(RECIPE.config, RECIPE.objective)
    columns, own = spec.learned_candidates, CONFIG.network
    assert "machine" not in [spec.candidates[c].name for c in columns]
    assert len(columns) == expanded_size(spec.candidates, columns, own.quadratic, own.logs) == 6
    shapes = layer_shapes(own, 6)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 124
    assert [shape[0] for name, shape in shapes.items() if "bias" in name] == [3, 9, 6, 1]
    assert CONFIG.network.activation == "tanh"


def test_two_hundred_chunks_ten_iterations_each_twelve_trajectories():
    """Each chunk is used once, and each trajectory is one step of Adam."""
    assert (AGENT, CONFIG.updates, CONFIG.learning_rate) == ("reinforce", "trajectory", 1e-3)
    sampling = CONFIG.sampling
    assert (sampling.trajectories, sampling.baseline, sampling.discount) == (12, "decision", 1.0)
    assert not sampling.normalise
    scenario = load_scenario("binpack")
    spec = scenario.spec(RECIPE.config, RECIPE.objective)
    problem = Problem(scenario, spec, lambda _: None, RECIPE.windows("train"), [])
    played = [problem.windows_of(i, sampling) for i in range(1, RECIPE.online.iterations + 1)]
    assert played == [[chunk] for chunk in range(200) for _ in range(10)]
    assert min(RECIPE.windows("test")) == 200
