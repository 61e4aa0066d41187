"""An agent outside Hindcast: imitation weighted by the return after each decision.

    loss = - mean over decisions of w log pi(choice),    w = min(exp(a / temperature), 20)

`a` is the return from a decision to the end of its episode, standardised among the decisions in the
same tenth of the episodes on the same window. Source: Peters & Schaal, "Reinforcement learning by
reward-weighted regression for operational space control", ICML 2007, here applied to candidates.

    hindcast train demo/dataset --agent examples/own_agent.py:AGENT --out demo/agents/own

After `export HINDCAST_PLUGINS=examples/own_agent.py`, `--agent weighted_cloning` does the same. The
last lines of this file do the same from Python: python examples/own_agent.py demo/dataset OUT
"""

import sys
from dataclasses import dataclass, field

import numpy as np
import torch

import hindcast
from hindcast.policies.networks.candidate_scorer import (
    CandidateScorer,
    fit_network,
    log_probabilities,
)
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.training.learner import Learner, descend, nothing_to_validate
from hindcast.policies.training.minibatches import Batches, draw_rows
from hindcast.policies.training.returns import standardised_to_go


@dataclass(frozen=True)
class Config:
    """Settings of the agent, which `--set` and [train.settings.weighted_cloning] replace.

    Attributes:
        temperature: Temperature of the weights, above 0. A lower one prefers high returns more.
        minibatch: Number of decisions per gradient step.
        learning_rate: Step size of Adam.
        network: Settings of the network that scores candidates.
    """

    temperature: float = 0.5
    minibatch: int = 256
    learning_rate: float = 2e-3
    network: NetworkSettings = field(default_factory=lambda: NetworkSettings(hidden=(32, 32)))


def learner(task, config):
    """Return the learner of one training run, see `hindcast.policies.training.learner`."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    network = fit_network(task.decisions, task.spec, config.network)
    scorer = CandidateScorer(network, weights_rng).to(task.device)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=config.learning_rate)
    batches = Batches(task.decisions, network, task.device)
    advantage = standardised_to_go(task.decisions) / config.temperature
    weight = torch.from_numpy(np.minimum(np.exp(advantage), 20.0)).to(task.device)

    def step(_number):
        rows = draw_rows(len(task.decisions), config.minibatch, rng)
        batch = batches.at(rows)
        scores = scorer.packed(batch.candidates, batch.context, batch.mask)
        log_pi = log_probabilities(scores, batch.mask, batch.choice, batch.drawn)
        loss = -(weight[torch.from_numpy(rows).to(task.device)] * log_pi).mean()
        descend(optimiser, loss)
        return {"loss": loss.detach()}

    return Learner(
        network=network, weights=scorer.weights, modules={"scorer": scorer}, rng=rng, step=step,
        optimisers={"scorer": optimiser}, validate=nothing_to_validate,
    )  # fmt: skip


AGENT = hindcast.Agent(
    "weighted_cloning", __name__, transitions=False, per_episode=60, candidates=32,
    description="imitates the logged choices, weighted by how well things went after them",
)  # fmt: skip
hindcast.register_agent(AGENT)

if __name__ == "__main__":
    print(hindcast.train(sys.argv[1], "weighted_cloning", out=sys.argv[2], steps=500))
