"""Tests of the gate `lookahead` of online trainings, on `binpack` and on `slots`."""

import dataclasses

import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.networks.checkpoint import Trained, read_description
from hindcast.policies.online.gates import decide_by
from hindcast.policies.online.guard import GuardEpisodes
from hindcast.policies.online.training import problem_of
from hindcast.policies.training.delivery.verdict import LAST, rule_policy
from tests.folders import content
from tests.policies.online.test_training import small
from tests.policies.trainings import train_online


@pytest.mark.slow
def test_a_training_compares_its_delivery_with_all_rules_looking_ahead(tiny_recipe, tmp_path):
    """Two windows have no interval; threads and an earlier gate change no byte."""
    recipe = small(tiny_recipe)
    out = train_online(recipe, out=tmp_path / "a", gate="lookahead", iterations=1)
    told = read_description(out / "delivered")["training"]["delivered"]
    found = told.pop("ahead")
    assert (found["policy"], found["windows"]) == ("rollout", 2)
    assert (found["low"], found["high"], found["unguarded"]) == (None, None, False)
    plain = train_online(recipe, out=tmp_path / "b", iterations=1)
    assert told == read_description(plain / "delivered")["training"]["delivered"]
    again = train_online(recipe, out=plain, gate="lookahead", iterations=1, workers=2)
    assert content(again) == content(out)


@pytest.mark.slow
def test_a_guard_has_not_judged_what_looks_ahead():
    """The guard here refuses every checkpoint, so its rule is delivered."""
    splits = ('split.train="0..3"', 'split.validation="4..9"', "config.steps=25")
    problem = problem_of(load_recipe("slots-deeprm-online", splits), 0, 1)
    agent = rule_policy(problem.spec, "hold_5")
    trained = Trained("agent", problem.spec, agent.network, agent.weights, {}, 1, 0)
    guard = GuardEpisodes(
        problem.scenario, problem.spec, (problem.instance_of(0),), ("sjf_now",), 1e9, {}, 0, 1
    )
    guarded = dataclasses.replace(problem, guard=guard)
    for one, unguarded in ((guarded, True), (problem, False)):
        _, verdict = decide_by(one, "lookahead", pytest.fail)({LAST: trained})
        assert (verdict.difference is None) == unguarded
        assert verdict.ahead.unguarded == unguarded
        assert (verdict.ahead.policy, verdict.ahead.windows) == (f"{verdict.rule}@rollout", 6)
        assert verdict.ahead.low <= verdict.ahead.difference <= verdict.ahead.high


def test_a_problem_in_which_nothing_looks_ahead_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"scenario thermal .* expected --gate simulator"):
        train_online(load_recipe("thermal-online"), out=tmp_path / "a", gate="lookahead")
    assert not (tmp_path / "a").exists()
