"""Tests that agents of a stack learn what each learns by itself, on any device."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline import agent
from hindcast.policies.offline.q_learning import agents, double_dqn_stack
from hindcast.policies.offline.q_learning.agents import DOUBLE_DQN, DqnConfig
from hindcast.policies.training.learner import Task
from tests.policies.trainings import train_decisions

STEPS = 12
SETTINGS = (
    {},
    {"learning_rate": 1e-2, "discount": 0.8, "monte_carlo": 0.0, "target_update_interval": 3},
    {"baseline": "none", "discount": 0.9, "discount_per": "second", "reward_scale": 0.5},
    {"target_update_interval": 5},
)
NETWORKS = (
    NetworkSettings((8, 8), quadratic=False, context=True),
    NetworkSettings((6,), activation="tanh"),
    NetworkSettings(()),
)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def _runs(noisy_episodes, spec, network, device="cpu"):
    """Return four runs: three seeds, two logs, and settings that differ in numbers."""
    log, other = noisy_episodes.build(), noisy_episodes.build()
    other.candidates[:] *= 2.0
    place = torch.device(device)
    tasks = [Task(log if seed else other, spec, STEPS, seed, log, place) for seed in (0, 1, 2, 2)]
    return tasks, [DqnConfig(minibatch=16, network=network, **one) for one in SETTINGS]


def _steps(learners):
    return [[learner.step(number) for learner in learners] for number in range(1, STEPS + 1)]


def _furthest(one, other):
    return max(np.abs(value - other[name]).max() for name, value in one.items())


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=["mlp", "tanh", "linear"])
def test_every_agent_of_a_stack_equals_its_own_run(network, noisy_episodes, spec):
    tasks, configs = _runs(noisy_episodes, spec, network)
    alone = [DOUBLE_DQN.learner(*both) for both in zip(tasks, configs, strict=True)]
    stacked = DOUBLE_DQN.stack(tasks, configs)
    for one, other in zip(alone, stacked, strict=True):
        assert _furthest(one.weights(), other.weights()) == 0.0
    for own, found in zip(_steps(alone), _steps(stacked), strict=True):
        for one, other in zip(own, found, strict=True):
            assert one.keys() == other.keys()
            for name, value in one.items():
                assert float(other[name]) == pytest.approx(float(value), abs=1e-5)
    first = stacked[0].weights()
    for one, other in zip(alone, stacked, strict=True):
        assert _furthest(one.weights(), other.weights()) < 1e-5
        assert other.validate() == pytest.approx(one.validate(), abs=1e-5)
        assert one.rng.bit_generator.state == other.rng.bit_generator.state
    assert all(_furthest(first, other.weights()) > 1e-3 for other in stacked[1:])


@pytest.mark.slow
def test_weights_on_a_cpu_do_not_depend_on_the_stack(noisy_episodes, spec):
    tasks, configs = _runs(noisy_episodes, spec, NETWORKS[0])
    together, alone = DOUBLE_DQN.stack(tasks, configs), DOUBLE_DQN.stack(tasks[1:2], configs[1:2])
    _steps(together)
    _steps(alone)
    assert _furthest(alone[0].weights(), together[1].weights()) == 0.0


class _Watched(TorchDispatchMode):
    """A mode that lists operations whose results are not on the device of the stack."""

    def __init__(self):
        super().__init__()
        self.elsewhere = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        for result in found if isinstance(found, tuple | list) else (found,):
            if result.device.type != "meta" and result.dim():  # a number is an argument of a kernel
                self.elsewhere.append(str(operation))
        return found


def test_a_step_stays_on_its_device_and_has_fixed_shapes(noisy_episodes, spec, monkeypatch):
    """The device `meta` has shapes but no values, so reading one, as a graph may not, fails."""
    steps = []
    monkeypatch.setattr(
        double_dqn_stack, "captured", lambda step, _state, _device: steps.append(step) or step
    )
    tasks, configs = _runs(noisy_episodes, spec, NETWORKS[0], "meta")
    learners = DOUBLE_DQN.stack(tasks, configs)
    found = learners[0].step(1)
    assert {value.device.type for value in found.values()} == {"meta"}
    with _Watched() as watched:
        steps[0]()
    assert not watched.elsewhere


@pytest.mark.slow
def test_all_that_a_step_changes_is_put_back_after_the_capture(noisy_episodes, spec, monkeypatch):
    """Steps before the capture change nothing: what the step changes is in `state`."""

    def captured(step, state, _device):
        before = [tensor.clone() for tensor in state]
        for _ in range(3):
            step()
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
        return step

    tasks, configs = _runs(noisy_episodes, spec, NETWORKS[0])
    usual = DOUBLE_DQN.stack(tasks, configs)
    monkeypatch.setattr(double_dqn_stack, "captured", captured)
    other = DOUBLE_DQN.stack(tasks, configs)
    _steps(usual)
    _steps(other)
    for one, two in zip(usual, other, strict=True):
        assert _furthest(one.weights(), two.weights()) == 0.0


class Killed(Exception):
    """Exception raised in the middle of a training."""


@pytest.mark.slow
def test_a_killed_stack_of_one_ends_in_the_same_weights(
    noisy_episodes, spec, tmp_path, monkeypatch
):
    """A single run on a GPU is a stack of one; its state is saved and restored like any other."""
    monkeypatch.setattr(agents.QLearning, "learner", lambda self, t, c: self.stack([t], [c])[0])
    log = noisy_episodes.build()

    def kill(done, _steps):
        if done == 7:
            raise Killed

    def train(**more):
        config = DqnConfig(minibatch=16, target_update_interval=3)
        return train_decisions(
            agent("double_dqn"), log, spec, config, steps=STEPS, seed=3, validation=log, **more
        )

    whole = train()
    with pytest.raises(Killed):
        train(resume=(tmp_path, "key"), resume_s=0.0, progress=kill)
    again = train(resume=(tmp_path, "key"), resume_s=0.0)
    assert _furthest(whole.weights, again.weights) == 0.0
    assert whole.metrics == again.metrics


def test_only_networks_of_one_shape_that_score_each_candidate_alone_are_stacked():
    deepsets = DqnConfig(network=NetworkSettings((4, 4), kind="deepsets"))
    wide, narrow = (DqnConfig(network=NetworkSettings((width,))) for width in (8, 4))
    assert DOUBLE_DQN.alike(deepsets) is None
    assert agents.CQL.alike(agents.CqlConfig()) is None
    assert DOUBLE_DQN.alike(wide) != DOUBLE_DQN.alike(narrow)
    assert DOUBLE_DQN.alike(wide) == DOUBLE_DQN.alike(
        DqnConfig(network=NetworkSettings((8,)), learning_rate=0.5, discount=0.5)
    )


@GPU
@pytest.mark.parametrize("network", NETWORKS, ids=["mlp", "tanh", "linear"])
def test_a_stack_on_a_gpu_equals_one_on_a_cpu(network, noisy_episodes, spec):
    """The graph draws the same minibatches; sums are taken in another order."""
    here, there = (
        DOUBLE_DQN.stack(*_runs(noisy_episodes, spec, network, device))
        for device in ("cpu", "cuda")
    )
    _steps(here)
    _steps(there)
    for one, other in zip(here, there, strict=True):
        assert _furthest(one.weights(), other.weights()) < 1e-4
        assert other.validate() == pytest.approx(one.validate(), abs=1e-3)


@GPU
def test_each_agent_of_a_stack_on_a_gpu_equals_its_own_run_there(noisy_episodes, spec):
    tasks, configs = _runs(noisy_episodes, spec, NETWORKS[0], "cuda")
    stacked = DOUBLE_DQN.stack(tasks, configs)
    alone = [DOUBLE_DQN.learner(*both) for both in zip(tasks, configs, strict=True)]
    _steps(stacked)
    for one, other in zip(alone, stacked, strict=True):
        _steps([one])
        assert _furthest(one.weights(), other.weights()) < 1e-5
