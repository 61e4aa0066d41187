"""Tests of the replay buffer: drawn transitions are the played ones."""

import itertools

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import RecipeError
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online.dqn_replay import Replay, n_step
from hindcast.policies.rollouts.trajectories import (
    NetworkInputs,
    network_inputs,
    sample_trajectories,
)
from tests.policies.play import CPU, SPEC, looked, network_of

NETWORK = network_of(SPEC, NetworkSettings(hidden=(4,), quadratic=False))


def played(first, second):
    """Return one way through the two decisions of the toy."""
    return [looked(first, second)], np.array([float(first), 10.0 * second])


@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_gains_are_direct_sums(steps):
    """Gains sum n rewards, each discounted by the time that passed before it."""
    rng = np.random.default_rng(1)
    reward, passed = rng.normal(size=6), rng.integers(0, 3, 6).astype(float)
    gain, to_go, interval = n_step(reward, passed, 0.9, steps)
    at = np.concatenate([[0.0], np.cumsum(passed)])
    for t in range(6):
        end = min(t + steps, 6)
        assert gain[t] == pytest.approx(
            sum(0.9 ** (at[k] - at[t]) * reward[k] for k in range(t, end))
        )
        assert to_go[t] == pytest.approx(
            sum(0.9 ** (at[k] - at[t]) * reward[k] for k in range(t, 6))
        )
        assert interval[t] == at[end] - at[t]


def test_a_transition_is_a_decision_and_the_next_one():
    """It has feasible candidates, choice and next observation, which is empty at the end."""
    ring = Replay(10, 3, SPEC, NETWORK)
    for first, second in ((1, 2), (0, 1)):
        parts, reward = played(first, second)
        ring.add(parts, reward, np.ones(2), 1.0, 1, truncated=False)
    assert len(ring) == 4
    steps = ring.transitions(np.array([0, 1, 2, 3]), NETWORK, CPU)
    assert steps.now.choice.tolist() == [1, 2, 0, 1]
    assert steps.now.mask.sum(dim=1).tolist() == [3, 3, 3, 2]
    assert steps.reward.tolist() == [1.0, 20.0, 0.0, 10.0]
    assert steps.to_go.tolist() == [21.0, 20.0, 10.0, 10.0]
    assert steps.terminal.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert steps.after.mask.sum(dim=1).tolist() == [3, 0, 2, 0]
    second = [looked(1, 2).rows[3:], looked(0, 1).rows[3:]]
    assert torch.equal(steps.after.candidates, torch.from_numpy(np.concatenate(second)).float())


def test_the_end_of_a_truncated_episode_is_never_drawn():
    """Its successor is not known. Earlier decisions are drawn with their successors."""
    ring = Replay(10, 3, SPEC, NETWORK)
    parts, reward = played(1, 0)
    ring.add(parts, reward, np.ones(2), 1.0, 1, truncated=True)
    rows = ring.draw(50, np.random.default_rng(0))
    assert set(rows) == {0}
    assert ring.transitions(rows[:1], NETWORK, CPU).after.mask.sum() == 3
    parts, reward = played(1, 0)
    alone = Replay(10, 3, SPEC, NETWORK)
    alone.add(parts, reward, np.ones(2), 1.0, 2, truncated=True)
    assert not len(alone.draw(50, np.random.default_rng(0)))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_full_ring_holds_the_last_decisions(size):
    """This also holds where an episode does not fit, and each stored row has its successor."""
    ring = Replay(size, 3, SPEC, NETWORK)
    ways = list(itertools.product(range(3), range(2)))
    for first, second in ways:
        parts, reward = played(first, second)
        ring.add(parts, reward, np.ones(2), 1.0, 1, truncated=False)
    assert len(ring) == size
    every = ring.transitions(np.arange(size), NETWORK, CPU)
    rewards = [r for way in ways for r in played(*way)[1]]
    assert sorted(every.reward.tolist()) == sorted(rewards[-size:])
    for row in np.flatnonzero(every.terminal.numpy() == 0.0):
        one = ring.transitions(np.array([row]), NETWORK, CPU)
        behind = ring.transitions((np.array([row]) + 1) % size, NETWORK, CPU)
        assert torch.equal(one.after.candidates, behind.now.candidates)


def test_a_ring_larger_than_memory_is_refused():
    """The error names the size that would fit."""
    with pytest.raises(RecipeError, match="at most 59652323 fit"):
        Replay(10**9, 9, SPEC, NETWORK)


def test_an_episode_is_kept_in_pieces_as_in_one(tiny_recipe, play_problem, policy_of):
    """Playing an episode in pieces of any size stores the same rows."""
    problem = play_problem(tiny_recipe)
    policy = policy_of(problem, NetworkSettings(hidden=(4,), context=True))
    instance = problem.instance_of(problem.train[0])
    one = sample_trajectories(
        problem.scenario, problem.spec, [instance], policy, [np.random.default_rng(0)],
        temperature=0.0, epsilon=0.5,
    )[0]  # fmt: skip
    states = []
    for piece in (1 << 20, 50):
        ring = Replay(40, instance.capacity, problem.spec, policy.network)
        parts: list[NetworkInputs] = list(
            network_inputs(problem.scenario, problem.spec, one, policy.network, piece=piece)
        )
        ring.add(parts, one.reward, np.ones(len(one.reward)), 0.9, 3, truncated=False)
        states.append(ring.transitions(np.arange(len(ring)), policy.network, CPU))
    assert len(parts) > 1
    for name in ("candidates", "context", "mask", "choice"):
        assert torch.equal(getattr(states[0].now, name), getattr(states[1].now, name))
    assert torch.equal(states[0].after.candidates, states[1].after.candidates)
    assert states[0].now.mask.gather(1, states[0].now.choice[:, None]).all()
