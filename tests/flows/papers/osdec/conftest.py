"""Half days of `deferrable`, and small networks that score their slots."""

import numpy as np
import pytest

from hindcast.flows.papers.osdec.agent import fit as fit_slots
from hindcast.flows.papers.osdec.network import SlotScoresSettings
from hindcast.flows.papers.osdec.policy import SlotScoresPolicy
from hindcast.flows.papers.osdec.rollouts import play_slots
from hindcast.flows.papers.osdec.torch_network import SlotNetwork
from hindcast.pipeline.recipes.loading import load_recipe
from tests.policies.play import CPU


@pytest.fixture(scope="session")
def slot_problem(play_problem):
    """Return half days of `deferrable`."""
    small = ("config.horizon=12", 'split.train="200..203"', 'split.validation="80..81"')
    return play_problem(load_recipe("deferrable-osdec-online", small))


@pytest.fixture(scope="session")
def slot_net(slot_problem):
    """Return a function from settings to a small slot network: torch, shape, policy."""

    def make(**settings):
        shape = SlotScoresSettings(**{"width": 6, "rows": 40, **settings})
        network = fit_slots(slot_problem, shape)
        net = SlotNetwork(network, np.random.default_rng(0))
        spec = slot_problem.spec
        policy = SlotScoresPolicy("s", network, net.weights(), spec.context, spec.candidates)
        return net, network, policy

    return make


@pytest.fixture(scope="session")
def slot_rollout(slot_problem):
    """Return a function from a network and a number of episodes to drawn rollouts."""

    def make(net, network, episodes=2):
        instances = [slot_problem.instance_of(w) for w in slot_problem.train[:episodes]]
        rngs = [np.random.default_rng(k) for k in range(episodes)]
        return play_slots(net, network, slot_problem.spec, instances, rngs, CPU)

    return make
