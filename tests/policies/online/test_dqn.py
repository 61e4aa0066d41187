"""Tests of double DQN by playing: it finds the way that pays late, and checks its settings."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.simulation.policy import choose
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import dqn as dqn_online
from hindcast.policies.online.problem import Sampling
from tests.policies.play import (
    CPU,
    FIRST,
    PAYS,
    SECOND,
    SPEC,
    ToyProblem,
    looked,
    network_of,
    rewards,
    ways,
)

NETWORK = NetworkSettings(hidden=(16,), quadratic=False)


def toy_problem():
    """Return the two decisions of the toy, played by the current policy of the learner."""

    def acting(network, weights):
        return LearnedPolicy("toy", network, weights, SPEC.context, SPEC.candidates)

    def once(policy, epsilon, rng):
        def choice(rows):
            scores = policy.batch_scores(np.zeros((1, 1)), rows, np.array([0, len(rows)]))
            return choose(scores, np.ones(len(rows), bool), rng, epsilon=epsilon)[0]

        first = choice(FIRST)
        return first, choice(SECOND[first])

    def play(policy, iteration, sampling, *, temperature, epsilon):
        assert temperature == 0.0
        rng = np.random.default_rng([5, iteration])
        found = [once(policy, epsilon, rng) for _ in range(sampling.trajectories)]
        episode = SimpleNamespace(truncated=False)
        return [
            [
                SimpleNamespace(way=w, choices=w, reward=rewards(*w), elapsed_s=np.ones(2),
                                episode=episode)
                for w in found
            ]
        ]  # fmt: skip

    return ToyProblem(
        scenario=None, spec=SPEC, train=[0], seed=0, acting=acting, play=play,
        instance_of=lambda _window: SimpleNamespace(capacity=3),
        summary=lambda _played: {}, validate=lambda _network, _weights: {},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 2])
def test_the_way_that_pays_late_is_found(n_steps, monkeypatch):
    """Values are those of the best later choices, in the unit of the first returns."""
    monkeypatch.setattr(
        dqn_online, "network_inputs", lambda _scenario, _spec, one, _network: [looked(*one.way)]
    )
    problem, network = toy_problem(), network_of(SPEC, NETWORK)
    config = dqn_online.Config(
        network=NETWORK, sampling=Sampling(20, 1, 1, "none"), gradient_steps=40, minibatch=32,
        replay=400, epsilon_iterations=10, epsilon_last=0.3, n_steps=n_steps, learning_rate=1e-2,
        target_update_interval=20, reward_scale=0.5,
    )  # fmt: skip
    learner = dqn_online.learner(problem, config, network, None, CPU)
    for iteration in range(1, 31):
        told = learner.step(iteration)
    assert set(told) >= {"loss", "td_error", "mean_q", "epsilon", "decisions"}
    policy = problem.acting(network, learner.weights())
    first = policy.batch_scores(np.zeros((1, 1)), FIRST, np.array([0, 3]))
    best = max(ways(), key=lambda way: rewards(*way).sum())
    assert first.argmax() == best[0] == 1
    second = policy.batch_scores(np.zeros((1, 1)), SECOND[1], np.array([0, 3]))
    assert second.argmax() == best[1]
    assert second == pytest.approx(0.5 * np.array(PAYS[1]), abs=0.15)
    if n_steps == 1:  # of two choices, the second was played
        assert first[1] == pytest.approx(0.5 * rewards(*best).sum(), abs=0.15)


def test_a_warm_start_is_the_value_and_the_target():
    """The given network becomes both the acting network and the target network."""
    network = network_of(SPEC, NETWORK)
    rng = np.random.default_rng(0)
    weights = {n: rng.normal(size=s).astype(np.float32) for n, s in network.shapes.items()}
    learner = dqn_online.learner(
        toy_problem(), dqn_online.Config(network=NETWORK), network, weights, CPU
    )
    for name, value in learner.weights().items():
        assert np.array_equal(value, weights[name])
    for one, other in zip(
        learner.modules["q"].parameters(), learner.modules["target"].parameters(), strict=True
    ):
        assert torch.equal(one, other)


def test_epsilon_falls_linearly_and_stays():
    config = dqn_online.Config(epsilon=1.0, epsilon_last=0.2, epsilon_iterations=4)
    found = [config.exploring(iteration) for iteration in range(1, 8)]
    assert found == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replay": 0}, "at least 1"),
        ({"epsilon": 1.5}, "from 0 to 1"),
        ({"discount": 0.0}, "at most 1"),
        ({"learning_rate": 0.0}, "above 0"),
    ],
    ids=["replay", "epsilon", "discount", "rate"],
)
def test_settings_that_make_no_agent_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        dqn_online.Config(**settings)
