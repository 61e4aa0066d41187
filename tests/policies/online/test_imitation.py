"""Tests of imitation before play: it helps from the first episode, repeats, and can be resumed."""

import dataclasses
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import ONLINE_AGENTS
from hindcast.policies.online.imitation import Imitation, distributions
from hindcast.policies.registry import behaviours
from hindcast.policies.training import losses as module
from tests.folders import content
from tests.policies.trainings import train_online

SETTINGS = {
    "sampling": {"trajectories": 6, "windows": 6, "stay": 1},
    "network": {"hidden": [8], "quadratic": False},
}


def small(recipe, agent="reinforce", **settings):
    return dataclasses.replace(recipe, online=OnlineRecipe(agent, 3, {**SETTINGS, **settings}))


@pytest.fixture(scope="module")
def rules():
    """Return a setting in which rules are far better than uniform choices."""
    splits = ['split.train="0..5"', 'split.validation="200..201"', 'split.test="250..251"']
    return load_recipe("slots-deeprm-heuristic-v1", ["config.steps=20", *splits])


@pytest.fixture(scope="module")
def logged(rules, tmp_path_factory):
    """Return a dataset of the rules."""
    folder = tmp_path_factory.mktemp("logged") / "d"
    build(rules, behaviours(rules), folder)
    return folder


@pytest.fixture(scope="module")
def imitated(rules, logged, tmp_path_factory):
    out = tmp_path_factory.mktemp("imitated") / "a"
    return train_online(small(rules), out=out, imitation=Imitation(logged, 150), workers=2)


def first(folder: Path, metric: str) -> float:
    """Return the result of the first iteration's episodes, played before the first update."""
    curves = pl.read_parquet(folder / "metrics.parquet").filter(pl.col("metric") == metric)
    return float(curves.sort("step")["value"][0])


@pytest.mark.slow
def test_the_first_episodes_are_better_than_those_of_random_weights(imitated, rules, tmp_path):
    """Network, windows and seeds are the same; only the weights differ."""
    beginner = train_online(small(rules), out=tmp_path / "b", iterations=1)
    assert first(imitated, "mean_slowdown") < 0.9 * first(beginner, "mean_slowdown")
    assert first(imitated, "return") > first(beginner, "return")


@pytest.mark.slow
def test_the_lineage_names_the_dataset(imitated, logged):
    told = read_description(imitated)["training"]["online"]["imitated"]
    manifest = json.loads((logged / "manifest.json").read_text())
    assert (told["digest"], told["recipe"]) == (manifest["digest"], manifest["id"])
    assert told["steps"] == 150
    assert load_policy(imitated / "imitation").network.settings.hidden == (8,)


@pytest.mark.slow
def test_weights_of_a_network_with_other_constants_are_not_taken(rules, logged, tmp_path):
    """Inputs are standardised on the windows of the recipe, not on the dataset."""
    other = load_recipe("slots-deeprm-heuristic-v1", ["config.steps=20", 'split.train="40..45"'])
    for recipe, name in ((rules, "a"), (other, "a"), (other, "b")):
        train_online(small(recipe), out=tmp_path / name, iterations=1,
                     imitation=Imitation(logged, 5))  # fmt: skip
    again, fresh = (content(tmp_path / name / "imitation") for name in "ab")
    assert again == fresh


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_interrupted_while_imitating_and_while_playing_it_ends_in_the_same_bytes(
    imitated, rules, logged, tmp_path, monkeypatch
):
    asked = []
    draw = module.draw_rows

    def stop_at_90(*arguments):
        asked.append(1)
        if len(asked) == 90:
            raise Interrupted
        return draw(*arguments)

    def stop_at_2(done, _all):
        if done == 2:
            raise Interrupted

    def again(**more):
        return train_online(
            small(rules), out=tmp_path / "c", imitation=Imitation(logged, 150),
            resume_s=0.0, **more,
        )  # fmt: skip

    with monkeypatch.context() as patched:
        patched.setattr(module, "draw_rows", stop_at_90)
        with pytest.raises(Interrupted):
            again()
        with pytest.raises(Interrupted):
            again(progress=stop_at_2)
    assert len(asked) == 90 + 150 - 89  # step 90 was not taken, as imitation continued after it
    assert not (tmp_path / "c" / "checkpoint.json").exists()
    again()
    assert content(tmp_path / "c") == content(imitated)


def test_what_cannot_be_imitated_is_refused(rules, tiny_recipe, tiny_dataset, tmp_path):
    with pytest.raises(DatasetError, match="was trained on"):
        train_online(small(rules), out=tmp_path / "o", imitation=Imitation(tiny_dataset, 5))
    with pytest.raises(InputError, match="steps is 0"):
        train_online(small(tiny_recipe), out=tmp_path / "o", imitation=Imitation(tiny_dataset, 0))
    with pytest.raises(DatasetError, match="no such folder"):
        train_online(small(tiny_recipe), out=tmp_path / "o", imitation=Imitation(tmp_path / "x"))
    with pytest.raises(InputError, match="to start from or a dataset"):
        train_online(small(tiny_recipe), out=tmp_path / "o", start=[tmp_path],
                     imitation=Imitation(tiny_dataset))  # fmt: skip


@pytest.mark.parametrize("name", ONLINE_AGENTS)
def test_every_agent_can_imitate(name):
    """Each agent either trains a candidate scorer or has an `imitator`."""
    agent = import_module(ONLINE_AGENTS[name].module)
    assert isinstance(agent.Config().network, NetworkSettings) != hasattr(agent, "imitator")


def test_choices_stand_for_distributions_that_are_not_known():
    decisions = Decisions.__new__(Decisions)
    for name, value in {
        "mask": np.ones((2, 3), np.bool_), "choice": np.array([2, 0]), "probabilities": None,
    }.items():  # fmt: skip
        object.__setattr__(decisions, name, value)
    object.__setattr__(decisions, "episode", np.zeros(2, np.int64))
    assert distributions(decisions).tolist() == [[0, 0, 1], [1, 0, 0]]
