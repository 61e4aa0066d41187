"""Tests of the behaviours around a rule: near the rule, drawn once per episode, verifiable."""

import dataclasses

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.policies.entrants import entrants
from hindcast.policies.heuristics import find_rule, heuristics
from hindcast.policies.heuristics.around import STRENGTH, around
from hindcast.policies.heuristics.linear import RANDOM_LINEAR
from hindcast.policies.registry import behaviours, recorded_behaviours

SPLITS = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"', "config.steps=25")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return spec and observations of a small log of `slots`."""
    recipe = load_recipe("slots-deeprm-v1", SPLITS)
    one = dataclasses.replace(recipe, behaviours=(BehaviourRecipe("random", episodes=1),))
    folder = tmp_path_factory.mktemp("log") / "dataset"
    build(one, behaviours(one), folder)
    opened = ds.open(folder)
    found = []
    for t in opened.iter_episodes("train"):
        for d in range(len(t)):
            rows = slice(t.offsets[d], t.offsets[d + 1])
            found.append((t.context[d], t.candidates[rows], t.feasible[rows]))
    return opened.spec, found


def scores_of(rule, parameters, observation):
    context, candidates, feasible = (np.array(part) for part in observation)
    scores = np.empty(len(feasible))
    rule.score(context.astype(float), candidates.astype(float), feasible, parameters, scores)
    return scores


@pytest.mark.slow
def test_scores_are_ranks_and_the_drawn_priority(seen):
    spec, observations = seen
    rule = heuristics("slots")["sjf_now"]
    near, rng = around(rule), np.random.default_rng(0)
    parameters = near.parameters(spec, rng)
    assert len(observations) > 20
    for one in observations:
        able = np.flatnonzero(one[2])
        own = scores_of(rule, parameters[:0], one)[able]
        share = (own[:, None] > own).sum(axis=1) / max(len(able) - 1, 1)
        linear = scores_of(RANDOM_LINEAR, parameters, one)[able]
        expected = STRENGTH * share + linear
        np.testing.assert_allclose(scores_of(near, parameters, one)[able], expected, rtol=1e-12)


@pytest.mark.slow
def test_rows_behind_the_observation_are_not_read(seen):
    """Compiled loops pass buffers that are longer than an observation, with rows of others."""
    spec, observations = seen
    near = around(heuristics("slots")["sjf_now"])
    parameters = near.parameters(spec, np.random.default_rng(0))
    context, candidates, feasible = (np.array(part) for part in observations[5])
    longer = np.concatenate([candidates, candidates]).astype(float)
    mask = np.concatenate([feasible, np.ones(len(feasible), np.bool_)])
    scores = np.full(2 * len(feasible), 7.0)
    near.score(context.astype(float), longer, mask, parameters, scores[: len(feasible)])
    expected = scores_of(near, parameters, observations[5])
    np.testing.assert_array_equal(scores[: len(feasible)][feasible], expected[feasible])
    assert (scores[len(feasible) :] == 7.0).all()


@pytest.mark.slow
def test_without_weights_it_is_the_rule(seen):
    spec, observations = seen
    rule = heuristics("slots")["hold_5"]
    parameters = around(rule).parameters(spec, np.random.default_rng(0))
    parameters[2::3] = 0.0
    for one in observations:
        able = np.flatnonzero(one[2])
        found = scores_of(around(rule), parameters, one)[able].argmax()
        assert found == scores_of(rule, parameters[:0], one)[able].argmax()


@pytest.mark.slow
def test_every_deterministic_rule_over_rows_has_one():
    assert find_rule("slots", "around_hold_5").needs == heuristics("slots")["hold_5"].needs
    assert find_rule("binpack", "around_random") is None
    assert find_rule("binpack", "around_random_linear") is None
    assert find_rule("binpack", "around_nothing") is None
    assert find_rule("binpack", "tetris") is heuristics("binpack")["tetris"]
    assert "around_hold_5" not in heuristics("slots")


@pytest.mark.slow
def test_a_log_around_a_rule_is_verified(tmp_path):
    """Its parameters are in the log, so that every probability can be computed again."""
    recipe = load_recipe("slots-deeprm-v1", SPLITS)
    near = BehaviourRecipe("around_hold_5", epsilon=0.1, episodes=3)
    recipe = dataclasses.replace(recipe, behaviours=(near, BehaviourRecipe("hold_5", episodes=1)))
    folder = tmp_path / "dataset"
    build(recipe, behaviours(recipe), folder)
    checks = dict(verify(folder, recorded_behaviours(folder)).checks)
    assert "recomputed" in checks["behaviours"]
    assert "drawn again" in checks["draws"]
    episodes = ds.open(folder).episodes()
    drawn = episodes.filter(episodes["behaviour"].str.starts_with("around"))
    assert drawn["behaviour_parameters"].n_unique() == len(drawn) == 9


@pytest.mark.slow
def test_it_is_evaluated_like_random_linear():
    recipe = load_recipe("slots-deeprm-v1", SPLITS)
    (found,) = entrants(recipe, ["around_hold_5"])
    assert (found.kind, found.group) == ("random", "around_hold_5")
    scenario = load_scenario("slots")
    assert found.behaviour.policy.parameters(
        scenario.spec(recipe.config, recipe.objective), np.random.default_rng(0)
    ).any()


def test_an_unknown_rule_is_named():
    recipe = load_recipe("slots-deeprm-v1", SPLITS)
    wrong = dataclasses.replace(recipe, behaviours=(BehaviourRecipe("around_hold"),))
    with pytest.raises(UnknownName, match="unknown policy 'around_hold'"):
        behaviours(wrong)
    with pytest.raises(InputError, match="unknown policy 'around_hold'"):
        entrants(recipe, ["around_hold"])
