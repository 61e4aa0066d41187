"""Tests of a window's cost before it is trained on: each is played by the right checkpoint."""

import dataclasses

import numpy as np
import pytest

from hindcast.flows import cli
from hindcast.flows.papers.deepjs.sliding import slide, stretches
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.rollouts.trajectories import sample_trajectory
from tests.policies.trainings import train_online


def sliding(recipe, **sampling):
    """Return the recipe with an agent that stays two iterations on each window."""
    settings = {"trajectories": 2, "windows": 1, "stay": 2, **sampling}
    return dataclasses.replace(recipe, online=OnlineRecipe("reinforce", 7, {"sampling": settings}))


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory):
    """Return a run of two iterations on each of windows 0, 1, 2 and one on window 3."""
    folder = tmp_path_factory.mktemp("sliding") / "run"
    return train_online(sliding(tiny_recipe), out=folder, checkpoint_every=2)


@pytest.mark.slow
def test_every_window_after_the_first_with_the_checkpoint_before_it(run, tiny_recipe):
    found = [(s.window, s.step, s.checkpoint.name) for s in stretches(run, tiny_recipe)]
    assert found == [(1, 2, "step-000002"), (2, 4, "step-000004"), (3, 6, "step-000006")]
    assert [s.window for s in stretches(run, tiny_recipe, last=2)] == [1, 2]


@pytest.mark.slow
def test_the_agent_plays_greedily_and_drawing_and_the_rule_plays_the_same_window(run, tiny_recipe):
    rules = [Behaviour("first_fit", heuristics("binpack")["first_fit"])]
    table = slide(run, tiny_recipe, rules, draws=3)
    assert table["policy"].to_list() == 3 * ["reinforce", "reinforce@1", "first_fit"]
    assert table["draws"].to_list() == 3 * [1, 3, 1]
    scenario = load_scenario("binpack")
    spec = scenario.spec(tiny_recipe.config, tiny_recipe.objective)
    instance = make_instance(tiny_recipe, scenario, load_source(tiny_recipe), 2)
    rng = np.random.default_rng(0)
    agent = load_policy(run / "checkpoints" / "step-000004")
    played = sample_trajectory(scenario, spec, instance, agent, rng, temperature=0.0).episode
    rule = Behaviour("first_fit", heuristics("binpack")["first_fit"])
    other = run_episode(scenario, spec, instance, rule, rng)
    assert table["value"][3] == played.outcomes[0]
    assert table["value"][5] == other.outcomes[0]


@pytest.mark.slow
def test_a_run_without_its_checkpoints_or_of_several_windows_at_once(run, tiny_recipe, tmp_path):
    bare = train_online(sliding(tiny_recipe), out=tmp_path / "bare")
    with pytest.raises(DatasetError, match="train with --checkpoint-every 2"):
        slide(bare, tiny_recipe)
    several = train_online(sliding(tiny_recipe, windows=2), out=tmp_path / "several", iterations=1)
    with pytest.raises(RecipeError, match="played 2 windows at once"):
        slide(several, tiny_recipe)
    with pytest.raises(DatasetError, match="no window was played"):
        slide(run, tiny_recipe, last=0)


@pytest.mark.slow
def test_the_command_prints_csv(run, capsys):
    changed = ("trace.settings.n_jobs=60", "trace.settings.instances_scale=0.05",
               "config.jobs_per_window=5", "config.machines=2", 'split.train="0..5"',
               'split.validation="6..7"', 'split.test="8..11"')  # fmt: skip
    overrides = [part for one in changed for part in ("--set", one)]
    command = ["calibrate", "sliding", str(run), "--recipe"]
    assert cli.main([*command, "binpack-synthetic-v1", *overrides, "--last", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "window,step,policy,draws,value"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == [
        "1,2,reinforce,1", "1,2,reinforce@1,12",
    ]  # fmt: skip
    assert cli.main([*command, "no-such-recipe"]) == 2
    assert "no-such-recipe" in capsys.readouterr().err
