"""Tests of greedy episodes in compiled code: those of asking decision by decision, bit for bit."""

import dataclasses

import numpy as np
import pytest

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import plays_episodes, run_episode
from hindcast.policies.networks import player
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import AttentionSettings, NetworkSettings
from tests.policies.play import network_of, some_weights

NETWORKS = {
    "linear": NetworkSettings(),
    "pairs": NetworkSettings(hidden=(3, 9, 6), activation="tanh", quadratic=False),
    "context": NetworkSettings(hidden=(8,), context=True),
    "deepsets": NetworkSettings(hidden=(8, 4), kind="deepsets"),
    "attention": AttentionSettings(hidden=(8, 4), norm=True),
}
IMAGE = NetworkSettings(hidden=(8,), image=5, quadratic=False)


def in_both_ways(problem, policy, window):
    """Return an episode of a policy in compiled code, and decision by decision."""
    asked = problem.scenario, problem.spec
    instance, behaviour = problem.instance_of(window), Behaviour("x", policy)
    rng = np.random.default_rng(0)
    (slow,) = run_batched(*asked, [instance], behaviour, [rng])
    return run_episode(*asked, instance, behaviour, rng), slow


def assert_same(one, other):
    for field in dataclasses.fields(one):
        found, expected = getattr(one, field.name), getattr(other, field.name)
        if isinstance(found, np.ndarray):
            assert found.tobytes() == expected.tobytes()
        else:
            assert found == expected


@pytest.mark.parametrize("kind", NETWORKS)
def test_greedy_episodes_are_those_of_asking_decision_by_decision(
    kind, tiny_recipe, play_problem, policy_of
):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS[kind], size=0.3)
    for window in problem.train[:3]:
        assert_same(*in_both_ways(problem, policy, window))


def test_a_network_with_two_outputs_leaves_out_unlikely_candidates(tiny_recipe, play_problem):
    problem = play_problem(tiny_recipe)
    plain = network_of(problem.spec, NetworkSettings(hidden=(8,), quadratic=False))
    network = dataclasses.replace(plain, threshold=0.5)
    policy = LearnedPolicy(
        "two", network, some_weights(network), problem.spec.context, problem.spec.candidates
    )
    assert_same(*in_both_ways(problem, policy, problem.train[0]))


def test_an_image_is_read_and_episodes_may_be_cut_off(play_problem, policy_of):
    changes = ["config.steps=12", "config.observation=image", "config.max_time_steps=9"]
    problem = play_problem(load_recipe("slots-deeprm-online", changes))
    fast, slow = in_both_ways(problem, policy_of(problem, IMAGE, size=0.3), problem.train[0])
    assert fast.truncated
    assert_same(fast, slow)


def test_long_episodes_are_played_in_stretches(tiny_recipe, play_problem, policy_of, monkeypatch):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["linear"])
    asked = problem.scenario, problem.spec, problem.instance(problem.train[0])

    def traced():
        return policy.episode_runner(*asked, 1.0, 0.1).play(np.random.default_rng(0))

    whole = traced()
    monkeypatch.setattr(player, "_FIRST_ROOM", 7)
    assert len(whole.choices) > 14
    assert_same(traced(), whole)


def test_a_score_that_is_not_a_number_is_an_error(tiny_recipe, play_problem, policy_of):
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NETWORKS["linear"])
    broken = LearnedPolicy(
        "broken", policy.network, {k: np.full_like(w, np.nan) for k, w in policy.weights.items()},
        policy.features_context, policy.features_candidates,
    )  # fmt: skip
    asked = problem.scenario, problem.spec, problem.instance_of(problem.train[0])
    with pytest.raises(HindcastError, match="broken gave a score that is not a number"):
        run_episode(*asked, Behaviour("x", broken), np.random.default_rng(0))


def test_exploring_networks_are_asked_at_every_decision(tiny_recipe, play_problem, policy_of):
    policy = policy_of(play_problem(tiny_recipe), NETWORKS["linear"])
    assert plays_episodes(Behaviour("x", policy))
    assert not plays_episodes(Behaviour("x", policy, epsilon=0.1))
    assert not plays_episodes(Behaviour("x", policy, temperature=1.0))
