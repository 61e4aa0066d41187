"""Tests of training from a checkpoint: networks of the agent's form load, others are refused."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.networks.checkpoint import load_policy, read_description
from tests.policies.trainings import train_online

JOBS = ("config.horizon=12", 'split.train="200..203"', 'split.validation="80..81"')
CLUSTERS = ("config.applications=25", 'split.train="0..3"', 'split.validation="4..5"')
FEW = {"trajectories": 4, "windows": 2, "stay": 1}
STILL = 1e-12  # a step size that moves nothing


def recipe_of(agent, **settings):
    """Return a small recipe with the agent, whose first iteration changes almost nothing."""
    name, sets, own = {
        "score_ppo": (
            "deferrable-osdec-online", JOBS,
            {"network": {"width": 6, "rows": 40}, "sampling": FEW, "learning_rate": STILL,
             "value_learning_rate": STILL, "auxiliary_learning_rate": STILL},
        ),
        "price_evolution": ("deferrable-online", JOBS, {"sampling": FEW, "step": STILL}),
        "reinforce": ("deferrable-online", JOBS, {"sampling": FEW, "learning_rate": STILL}),
        "evolution": (
            "multicluster-evolution-online", CLUSTERS, {"sampling": FEW, "step": STILL}
        ),
        "monte_carlo_value": (
            "multicluster-liu-online", CLUSTERS,
            {"network": {"hidden": [16, 8]}, "batch": 40, "replay": 200, "learning_rate": STILL},
        ),
    }[agent]  # fmt: skip
    online = OnlineRecipe(agent, 2, {**own, **settings})
    return dataclasses.replace(load_recipe(name, sets), online=online)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function from an agent to its checkpoint, trained once."""
    made: dict[str, Path] = {}

    def make(agent):
        if agent not in made:
            out = tmp_path_factory.mktemp("start") / agent
            faster = {"score_ppo": {"learning_rate": 1e-2}, "price_evolution": {"step": 0.5},
                      "evolution": {"step": 0.5}}  # fmt: skip
            made[agent] = train_online(recipe_of(agent, **faster.get(agent, {})), out=out)
        return made[agent]

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", ["score_ppo", "price_evolution", "monte_carlo_value", "evolution"]
)
def test_an_agent_goes_on_from_its_own_checkpoint(agent, trained, tmp_path):
    """Before the first update, network, constants and weights are those of the checkpoint."""
    folder = trained(agent)
    again = train_online(recipe_of(agent), out=tmp_path / "a", start=[folder], iterations=1, seed=7)
    begun, before = load_policy(again), load_policy(folder)
    fresh = load_policy(train_online(recipe_of(agent), out=tmp_path / "b", iterations=1, seed=7))
    assert begun.network.settings == before.network.settings
    for which in ("candidates", "context"):
        one, other = (getattr(p.network, which) for p in (begun, before))
        np.testing.assert_array_equal(one.mean, other.mean)
    for name, value in before.weights.items():
        np.testing.assert_allclose(begun.weights[name], value, atol=1e-6)
    assert any(np.abs(fresh.weights[n] - w).max() > 1e-3 for n, w in before.weights.items())
    told = read_description(again)["training"]["online"]["start"]
    assert told == read_description(folder)["weights"]["sha256"]


@pytest.mark.slow
def test_widths_are_those_of_the_checkpoint(trained, tmp_path):
    """The checkpoint's network replaces the network of the settings, as for candidate scorers."""
    recipe = recipe_of("score_ppo", network={"width": 9, "encoder": "mlp"})
    again = train_online(recipe, out=tmp_path / "a", start=[trained("score_ppo")], iterations=1)
    settings = load_policy(again).network.settings
    assert (settings.width, settings.encoder) == (6, "attention")
    assert read_description(again)["training"]["config"]["network"]["width"] == 6


@pytest.mark.parametrize(
    ("agent", "start", "said"),
    [
        ("score_ppo", "price_evolution", "'prices', but score_ppo needs .*'slot_scores'$"),
        ("price_evolution", "score_ppo", "'slot_scores', but price_evolution needs .*'prices'$"),
        (
            "reinforce",
            "price_evolution",
            "'prices', but reinforce needs a candidate scorer$",
        ),
        ("price_evolution", "reinforce", "a candidate scorer, but price_evolution needs"),
    ],
)
def test_a_network_of_another_form_is_refused(agent, start, said, trained, tmp_path):
    """The error names both forms, and no file is written."""
    with pytest.raises(DatasetError, match=said):
        train_online(recipe_of(agent), out=tmp_path / "x", start=[trained(start)])
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_other_features_are_refused(trained, tmp_path):
    """A network for other clusters than the checkpoint's is refused."""
    recipe = load_recipe("multicluster-liu-online", (*CLUSTERS, "config.clusters=[500, 900]"))
    recipe = dataclasses.replace(recipe, online=recipe_of("monte_carlo_value").online)
    with pytest.raises(DatasetError, match="was trained on"):
        train_online(recipe, out=tmp_path / "x", start=[trained("monte_carlo_value")])
