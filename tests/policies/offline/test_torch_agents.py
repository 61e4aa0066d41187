"""Tests that agents in plain torch solve problems with known optima, with every kind of network."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.simulation.policy import readings
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.checkpoint import load_policy, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.offline.actor_critic.advantage_weighting import standardised_weights
from hindcast.policies.offline.cloning.return_conditioned import conditioned, fold, insert
from tests.policies.logs import SPEC, Log, some_candidates, some_context
from tests.policies.trainings import train_agent
from tests.representatives import nightly_but

SMALL = {"hidden": (16,), "quadratic": False, "context": True}
FAST = {"learning_rate": 1e-2, "network": SMALL}
VALUES = nightly_but({"iql"}, ["awac", "bcq", "cdqac", "crr", "discrete_sac_cql", "iql"])
FIRST = np.array([[0, 1.0, 0, 20.0], [1, 0.0, 1, 20.0]])
MOMENT, BOTH = np.array([[0.0, 20.0]]), np.array([0, 2])


def _train(name, log, steps=200, **settings):
    return train_agent(name, log.build(), SPEC, steps=steps, seed=1, settings={**FAST, **settings})


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_the_largest_gain_is_taken_from_a_random_log(name, bandit, share_of_best):
    assert share_of_best(_train(name, bandit).policy()) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("discount", "opens"), [(0.0, False), (1.0, True)])
def test_they_look_ahead_as_far_as_the_discount(name, discount, opens, two_stages):
    """With a discount of 0 the gain at hand wins, and with 1 the door to the larger gain."""
    policy = _train(name, two_stages, steps=300, discount=discount).policy()
    scores = policy.batch_scores(MOMENT, FIRST, BOTH)
    assert bool(scores[1] > scores[0]) is opens


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"weight": "binary"}, {"weight": "exp", "temperature": 1.0}])
def test_crr_imitates_what_is_above_average_by_either_weight(settings, bandit, share_of_best):
    assert share_of_best(_train("crr", bandit, **settings).policy()) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("name", ["filtered_cloning", "return_conditioned"])
def test_imitating_the_best_episodes_beats_imitating_all(name, noisy_episodes, share_of_best):
    """The log chooses by random priorities, and its returns are noisy sums of gains."""
    all_of_them = share_of_best(_train("behaviour_cloning", noisy_episodes).policy())
    assert share_of_best(_train(name, noisy_episodes).policy()) > max(0.7, all_of_them + 0.2)


def test_what_is_asked_for_is_folded_into_the_first_layer():
    """Scores equal those with z in the context, also with images or rows seen together."""
    rng = np.random.default_rng(0)
    settings = NetworkSettings(hidden=(6, 4), context=True, kind="deepsets", image=3)
    network = Network(
        settings,
        unscaled_map(SPEC.candidates, SPEC.learned_candidates, settings.quadratic),
        unscaled_map(SPEC.context, (0, 1), quadratic=False),
        pixels=5,
    )
    asked = CandidateScorer(conditioned(network), rng)
    rows = torch.from_numpy(rng.normal(size=(5, network.candidates.size)).astype(np.float32))
    context = torch.from_numpy(rng.random((2, 3 + 5)).astype(np.float32))
    context = context[:, : network.context.size + 5]
    row = torch.tensor([0, 0, 1, 1, 1])
    plain = CandidateScorer(network, rng)
    with torch.no_grad():
        for name, value in fold(network, asked.weights(), 1.5).items():
            plain.get_parameter(name.replace(".", "_")).copy_(torch.from_numpy(value))
        expected = asked.ragged(rows, insert(network, context, torch.full((2,), 1.5)), row)
        torch.testing.assert_close(plain.ragged(rows, context, row), expected)


@pytest.mark.slow
def test_asking_for_bad_returns_gives_a_bad_policy(noisy_episodes, share_of_best):
    good, bad = (
        share_of_best(_train("return_conditioned", noisy_episodes, quantile=q).policy())
        for q in (0.95, 0.05)
    )
    assert good > bad + 0.4
    linear = {"network": {"hidden": ()}}
    with pytest.raises(RecipeError, match="hidden layer"):
        _train("return_conditioned", noisy_episodes, steps=1, **linear)
    with pytest.raises(RecipeError, match=r"quantile is 1\.5"):
        _train("return_conditioned", noisy_episodes, steps=1, quantile=1.5)


def test_weights_of_advantages_know_no_unit():
    advantage = torch.tensor([-1.0, 0.0, 2.0])
    weights = standardised_weights(advantage, temperature=1.0, most=20.0)
    torch.testing.assert_close(weights, standardised_weights(1e-6 * advantage, 1.0, 20.0))
    assert standardised_weights(1e3 * advantage, 0.01, 20.0).max() == 20.0
    assert (standardised_weights(torch.zeros(3), 1.0, 20.0) == 1.0).all()


def _turned(rng, windows, image=False):
    """Return episodes of one decision in which another input decides whether a gain pays.

    This input is an image, dark or bright, or the door of one of the candidates.
    """
    log, images = Log(), []
    for window in range(windows):
        candidates, pays, bright = _gains(rng, image)
        images.append(np.full(6, 255 * bright, np.uint8))
        choice = int(rng.integers(4))
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": candidates, "choice": choice,
              "reward": pays[choice]}],
        )  # fmt: skip
    return log, np.array(images)


def _gains(rng, image):
    """Return four candidates, their gains, and whether gains pay."""
    candidates, bright = some_candidates(rng, 4), int(rng.integers(2))
    if not image:
        candidates[:, 2] = 0
        candidates[rng.integers(4), 2] = bright
    return candidates, candidates[:, 1] * (2 * bright - 1), bright


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "solves"), [("mlp", False), ("deepsets", True)])
def test_what_depends_on_the_other_candidates_needs_a_network_that_sees_them(kind, solves):
    """Only one of the four candidates shows whether a gain pays."""
    rng = np.random.default_rng(11)
    network = {"hidden": (16, 16), "quadratic": False, "kind": kind}
    log, _ = _turned(rng, 1200)
    settings = {"learning_rate": 1e-2, "network": network, "discount": 0.0, "minibatch": 128}
    trained = train_agent("crr", log.build(), SPEC, steps=250, seed=1, settings=settings)
    policy = trained.policy()
    right = []
    for _ in range(300):
        candidates, pays, _bright = _gains(rng, image=False)
        scores = policy.batch_scores(some_context(rng)[None], candidates, np.array([0, 4]))
        right.append(pays[scores.argmax()] == pays.max())
    assert bool(np.mean(right) > 0.8) is solves


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iql", "double_dqn", "trajectory_preference"])
def test_an_image_is_read_where_the_network_asks_for_it(name, tmp_path):
    """Only the image shows whether a gain pays or costs."""
    rng = np.random.default_rng(12)
    log, images = _turned(rng, 800, image=True)
    for episode in log.episodes:  # agents that compare episodes need several of them
        episode["window"] //= 10
    network = {"hidden": (16, 16), "quadratic": False, "image": 4}
    spec = dataclasses.replace(SPEC, image_shape=(2, 3))
    plain = log.build()
    decisions = dataclasses.replace(plain, image=images, next_image=np.zeros_like(images))
    settings = {"learning_rate": 1e-2, "network": network}
    if name == "trajectory_preference":
        settings |= {"pairs": 64, "decisions": 1}
    with pytest.raises(DatasetError, match="no image"):
        train_agent(name, plain, spec, steps=1, seed=1, settings=settings)
    trained = train_agent(name, decisions, spec, steps=200, seed=1, settings=settings)
    policy = load_policy(save(trained, tmp_path / name))
    policy.check(spec)
    with pytest.raises(DatasetError, match="images of 6 pixels, this scenario setting has 0"):
        policy.check(SPEC)
    assert readings(policy) == ("image",)
    right = []
    for _ in range(200):
        candidates, pays, bright = _gains(rng, image=True)
        scores = policy.batch_scores(
            some_context(rng)[None], candidates, np.array([0, 4]),
            image=np.full((1, 6), 255 * bright, np.uint8),
        )  # fmt: skip
        right.append(pays[scores.argmax()] == pays.max())
    assert np.mean(right) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iql", "cdqac", "cql", "trajectory_preference"])
def test_padding_changes_nothing_also_where_candidates_see_each_other(name, noisy_episodes):
    """The policy is the same with random numbers behind the mask and a K twice as large."""
    network = {"hidden": (8, 8), "kind": "deepsets", "context": True, "quadratic": False}
    settings = {"network": network}
    decisions = noisy_episodes.build()
    rubbish = dataclasses.replace(
        decisions,
        candidates=np.where(decisions.mask[..., None], decisions.candidates, np.float32(np.inf)),
        next_candidates=np.where(
            decisions.next_mask[..., None], decisions.next_candidates, np.float32(np.nan)
        ),
    )
    rows = np.random.default_rng(0).normal(size=(5, 4)) ** 2
    scores = []
    for log in (decisions, rubbish, noisy_episodes.build(12)):
        trained = train_agent(name, log, SPEC, steps=10, seed=1, settings=settings)
        given = trained.policy().batch_scores(np.ones((1, 2)), rows, np.array([0, 5]))
        scores.append(given - given.mean())
    assert np.array_equal(scores[0], scores[1])
    np.testing.assert_allclose(scores[0], scores[2], atol=1e-3)
