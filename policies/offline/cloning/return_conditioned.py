"""Return-conditioned cloning: imitates choices given the return, then acts for a high return.

    z      = return to go, standardised among decisions of the same tenth of its window's episodes
    loss   = - mean over decisions of log pi(choice | s, z)
    acts by  pi(c | s, z*),  z* the `quantile` of the z of the training decisions

Source: Chen, Lu, Rajeswaran et al., "Decision Transformer", NeurIPS 2021, and Emmons, Eysenbach,
Kostrikov & Levine, "RvS: What is Essential for Offline RL via Supervised Learning?", ICLR 2022,
which needs no transformer. This agent has none either, since an observation holds the relevant
past. The return to go is standardised because the possible gain differs from window to window and
falls in the course of an episode, so no single number could be the target. z* does not change while
the agent acts. Its part of the first layer is therefore added to the bias, and the checkpoint is an
ordinary scorer; its config holds the quantile.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer, fit_network
from hindcast.policies.networks.settings import Network, Weights
from hindcast.policies.offline.cloning import behaviour_cloning
from hindcast.policies.offline.cloning.behaviour_cloning import cloning_learner, cloning_loss
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.losses import LossAt
from hindcast.policies.training.minibatches import Batches
from hindcast.policies.training.returns import standardised_to_go


@dataclass(frozen=True)
class Config(behaviour_cloning.Config):
    """Settings of return-conditioned cloning, in addition to those of behaviour cloning.

    Attributes:
        quantile: Quantile of the standardised returns to go that the agent acts for, 0 to 1.
    """

    quantile: float = number(0.9, "from 0 to 1")


def conditioned(network: Network) -> Network:
    """Return the network with one more column of context, z, which is the last column."""
    zeros, ones = np.zeros(1), np.ones(1)
    context = network.context._replace(
        mean=np.concatenate([network.context.mean, zeros]),
        inverse=np.concatenate([network.context.inverse, ones]),
    )
    return dataclasses.replace(network, context=context)


def insert(network: Network, context: Tensor, z: Tensor) -> Tensor:
    """Return contexts (B, G + P) with z (B,) after the G columns of context features."""
    g = network.context.size
    return torch.cat([context[:, :g], z.unsqueeze(1), context[:, g:]], dim=1)


def fold(network: Network, weights: Weights, target: float) -> Weights:
    """Return weights of `network` with the outputs of `conditioned(network)` at z = target."""
    at = network.candidates.size + network.context.size
    layer0 = weights["layer0.weight"]
    return {
        **weights,
        "layer0.weight": np.delete(layer0, at, axis=1),
        "layer0.bias": weights["layer0.bias"] + np.float32(target) * layer0[:, at],
    }


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    if not config.network.hidden:
        raise RecipeError(
            "network: hidden is [], but a linear score adds the same term for the target return "
            "to every candidate; give it a hidden layer"
        )
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    network = fit_network(task.decisions, task.spec, config.network)
    scorer = CandidateScorer(conditioned(network), weights_rng).to(task.device)
    to_go = standardised_to_go(task.decisions)
    target = float(np.quantile(to_go, config.quantile))

    def loss_of(decisions: Decisions) -> LossAt:
        batches = Batches(decisions, network, task.device)
        conditions = to_go if decisions is task.decisions else standardised_to_go(decisions)
        z = torch.from_numpy(conditions).to(task.device)

        def loss(rows: NDArray[np.int64]) -> tuple[Tensor, Info]:
            batch = batches.at(rows)
            context = insert(network, batch.context, z[torch.from_numpy(rows).to(task.device)])
            return cloning_loss(scorer, dataclasses.replace(batch, context=context))

        return loss

    def weights() -> Weights:
        return fold(network, scorer.weights(), target)

    return cloning_learner(task, config, network, scorer, weights, loss_of, rng)
