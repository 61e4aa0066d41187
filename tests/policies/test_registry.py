"""Tests of policy names: a rule, a checkpoint's folder, and a checkpoint's way to choose."""

import dataclasses

import polars as pl
import pytest

from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.entrants import entrants
from hindcast.policies.registry import split_checkpoint_name
from tests.policies.trainings import train_online

SAMPLING = {"trajectories": 2, "windows": 1, "stay": 1}


@pytest.fixture(scope="module")
def agent(tiny_recipe, tmp_path_factory):
    """Return the folder of an agent, whose name contains an @."""
    recipe = dataclasses.replace(
        tiny_recipe, online=OnlineRecipe("reinforce", 1, {"sampling": SAMPLING})
    )
    return train_online(recipe, out=tmp_path_factory.mktemp("agents") / "a@2")


def test_a_folder_and_a_temperature(agent):
    """An @ in the folder's name is part of that name."""
    assert split_checkpoint_name(str(agent)) == (str(agent), 0.0)
    assert split_checkpoint_name(f"{agent}@1") == (str(agent), 1.0)
    assert split_checkpoint_name(f"{agent}@0.5") == (str(agent), 0.5)
    assert split_checkpoint_name("tetris") == ("tetris", 0.0)
    assert split_checkpoint_name("user@host/agent") == ("user@host/agent", 0.0)


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf"])
def test_what_is_no_temperature(agent, given):
    with pytest.raises(InputError, match="is not a temperature; expected a number above 0"):
        split_checkpoint_name(f"{agent}@{given}")


@pytest.mark.parametrize("given", ["tetris", "hot"])
def test_a_rule_behind_a_folder(agent, tiny_recipe, given):
    """The rule is parsed, and a network that chooses candidates as a whole refuses it."""
    assert split_checkpoint_name(f"{agent}@{given}") == (str(agent), given)
    with pytest.raises(InputError, match="is not a temperature; expected a number above 0"):
        entrants(tiny_recipe, [f"{agent}@{given}"])


def test_a_rule_does_not_draw(tiny_recipe):
    with pytest.raises(UnknownName, match="did you mean 'tetris'"):
        entrants(tiny_recipe, ["tetris@1"])


def test_a_checkpoint_is_evaluated_both_ways(agent, tiny_recipe, tmp_path):
    """Best choices are evaluated once, and drawn choices as often as the recipe says."""
    found = entrants(tiny_recipe, [str(agent), f"{agent}@1"])
    assert [c.behaviour.name for c in found] == ["reinforce-seed0", "reinforce@1-seed0"]
    assert [c.group for c in found] == ["reinforce", "reinforce@1"]
    assert [c.behaviour.temperature for c in found] == [0.0, 1.0]
    crowded = dataclasses.replace(tiny_recipe.config, machines=1, machine_cores=4.0)
    recipe = dataclasses.replace(tiny_recipe, config=crowded)  # drawn choices matter here
    evaluate(recipe, found, split="test", out=tmp_path)
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    scores = scores.filter(pl.col("metric") == "mean_completion_s")
    seeds = dict(scores.group_by("policy").agg(pl.col("seed").n_unique()).rows())
    assert seeds == {"reinforce-seed0": 1, "reinforce@1-seed0": tiny_recipe.evaluate.seeds}
    drawn = scores.filter(pl.col("policy") == "reinforce@1-seed0").sort("window", "seed")
    assert drawn.group_by("window").agg(pl.col("value").n_unique())["value"].max() > 1
