"""Tests of distances between policies on the decisions of a log."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.policies.ope import ope
from hindcast.policies.ope.episodes import pick, read_episodes
from hindcast.policies.ope.probabilities import policy_probabilities
from hindcast.policies.ope.similarity import policy_space
from hindcast.policies.registry import behaviours

pytestmark = pytest.mark.slow  # a dataset is built

SMALL = (
    "config.steps=8",
    'split.train="0..2"',
    'split.validation="3..6"',
    'split.test="7..7"',
)
BEHAVIOURS = (
    BehaviourRecipe("random_linear", epsilon=0.1, episodes=2),
    BehaviourRecipe("sjf_now", epsilon=0.2),
    BehaviourRecipe("packer_now", epsilon=0.2),
)


@pytest.fixture(scope="module")
def recipe():
    return replace(load_recipe("slots-deeprm-v1", SMALL), behaviours=BEHAVIOURS)


@pytest.fixture(scope="module")
def opened(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("similarity") / "dataset"
    build(recipe, behaviours(recipe), out)
    return datasets.open(out)


@pytest.fixture(scope="module")
def log(opened):
    return read_episodes(opened, "validation", limit=10_000)


@pytest.fixture(scope="module")
def space(opened, recipe, log):
    return policy_space(
        log, opened.episodes("train"), behaviours(recipe), opened.spec, np.random.default_rng(0)
    )


def test_picked_decisions_are_those_of_the_log(log):
    at = np.array([0, 3, log.decisions - 1])
    few = pick(log, at)
    assert (len(few), few.decisions) == (3, 3)
    for i, d in enumerate(at):
        own = slice(log.rows[d], log.rows[d + 1])
        assert np.array_equal(few.candidates[few.rows[i] : few.rows[i + 1]], log.candidates[own])
    assert few.choice.tolist() == log.choice[at].tolist()
    assert few.table["episode"].to_list() == [
        log.table["episode"][0], log.table["episode"][0], log.table["episode"][-1],
    ]  # fmt: skip


def test_every_drawn_rule_is_a_policy_of_one_episode(space):
    """Two rules have 7 windows, and each of the 14 draws of random_linear has its own window."""
    assert sorted(space.logged.counts.tolist()) == [1.0] * 14 + [7.0, 7.0]
    assert sorted(set(space.logged.window.tolist())) == list(range(7))
    rules = np.flatnonzero(space.logged.counts == 7.0)
    assert rules.tolist() == [0, 1]  # the policies with the most episodes come first


def test_distances_are_those_of_the_formula(space, recipe):
    """Every decision is written out: (p - q)' K (p - q), and K by its definition."""
    rule = behaviours(recipe)["sjf_now+eps0.2"]
    other = Behaviour("packer", behaviours(recipe)["packer_now+eps0.2"].policy, epsilon=0.5)
    reference = space.reference
    names = ["sjf_now+eps0.2", "packer_now+eps0.2"]
    every = policy_probabilities(other, reference)
    for i, name in enumerate(names):
        difference = every - policy_probabilities(behaviours(recipe)[name], reference)
        total = 0.0
        for start, stop in zip(reference.rows[:-1], reference.rows[1:], strict=True):
            for a in range(start, stop):
                for b in range(start, stop):
                    apart = ((space.columns[a] - space.columns[b]) ** 2).sum()
                    alike = np.exp(-apart / (2 * space.columns.shape[1]))
                    total += difference[a] * alike * difference[b]
        assert space.distances(other)[i] == pytest.approx(total / reference.decisions, abs=1e-9)
    own = space.distances(rule)
    assert own[0] == pytest.approx(0.0, abs=1e-9)
    assert own == pytest.approx(space.logged.distance[0], abs=1e-9)


def test_a_rule_of_the_log_is_estimated_near_its_own_returns(opened):
    settings = ope.OPESettings(estimators=("gp",), truth_seeds=0)
    found = ope.evaluate_offline(opened.folder, ["sjf_now", "packer_now"], settings).rows
    table = opened.episodes("validation")
    spread = table["return"].std()
    for name, value in found.select("policy", "value").rows():
        own = table.filter(table["behaviour"] == f"{name}+eps0.2")["return"].mean()
        assert value == pytest.approx(own, abs=0.5 * spread)


def test_an_unknown_behaviour_leaves_the_estimator_out(opened, monkeypatch):
    """Without the probabilities of a behaviour, its distances are not known."""
    real = ope._observable_behaviours
    monkeypatch.setattr(
        ope,
        "_observable_behaviours",
        lambda r: {k: v for k, v in real(r).items() if "packer" not in k},
    )
    settings = ope.OPESettings(estimators=("gp", "snis"), truth_seeds=0)
    found = ope.evaluate_offline(opened.folder, ["sjf_now"], settings)
    assert found.rows["estimator"].to_list() == ["snis"]
    assert "gp: left out, since packer_now+eps0.2 is not a known" in str(found.description["notes"])
    with pytest.raises(InputError, match="no estimate: gp: left out"):
        ope.evaluate_offline(opened.folder, ["sjf_now"], replace(settings, estimators=("gp",)))
