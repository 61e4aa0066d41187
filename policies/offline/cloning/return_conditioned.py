"""Return-conditioned cloning: imitate, knowing how well the rest of the episode went; ask for well.

    z      = return to go, standardised among decisions of the same tenth of its window's episodes
    loss   = - mean over decisions of log pi(choice | s, z)
    acts by  pi(c | s, z*),  z* the `quantile` of the z of the training decisions

Source: Chen, Lu, Rajeswaran et al., "Decision Transformer", NeurIPS 2021, and Emmons, Eysenbach,
Kostrikov & Levine, "RvS: What is Essential for Offline RL via Supervised Learning?", ICLR 2022,
which needs no transformer for it; nor is there one here, an observation holds what counts of the
past. The return to go is standardised because what can be gained differs from window to window and
falls as an episode goes on, so that no number of it could be asked for. Since z* does not change
while it acts, its part of the first layer is added to the bias and the checkpoint is an ordinary
scorer; quantile stands in its config.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.dataset.decisions import Decisions
from pipeline.errors import RecipeError
from pipeline.recipes.settings import require_numbers
from policies.networks.candidate_scorer import CandidateScorer, fit_network
from policies.networks.settings import Network, Weights
from policies.offline.cloning import behaviour_cloning
from policies.training.learner import Learner, Task, descent
from policies.training.losses import LossAt, drawn_loss, spaced_loss
from policies.training.minibatches import Batches, Minibatch
from policies.training.returns import standardised_to_go

_VALIDATED: Final = 4096  # decisions


@dataclass(frozen=True)
class Config(behaviour_cloning.Config):
    """Settings of return-conditioned cloning: those of behaviour cloning and one more.

    quantile   of the standardised returns to go that is asked for when it acts, 0 to 1
    """

    quantile: float = 0.9


def conditioned(network: Network) -> Network:
    """The network with one more column of context, z, which is the last of them."""
    zero, one = np.zeros(1), np.ones(1)
    context = network.context._replace(
        mean=np.concatenate([network.context.mean, zero]),
        inverse=np.concatenate([network.context.inverse, one]),
    )
    return dataclasses.replace(network, context=context)


def insert(network: Network, context: Tensor, z: Tensor) -> Tensor:
    """Contexts (B, G + P) with z (B,) after the G columns of the moment."""
    g = network.context.size
    return torch.cat([context[:, :g], z.unsqueeze(1), context[:, g:]], dim=1)


def fold(network: Network, weights: Weights, target: float) -> Weights:
    """Weights of `network` that give what those of `conditioned(network)` give at z = target."""
    at = network.candidates.size + network.context.size
    first = weights["layer0.weight"]
    return {
        **weights,
        "layer0.weight": np.delete(first, at, axis=1),
        "layer0.bias": weights["layer0.bias"] + np.float32(target) * first[:, at],
    }


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    require_numbers(config, "from 0 to 1", "quantile")
    if not config.network.hidden:
        raise RecipeError(
            "network: hidden is [], but a linear score adds the return that is asked for to every "
            "candidate alike; give it a hidden layer"
        )
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    network = fit_network(task.decisions, task.spec, config.network)
    scorer = CandidateScorer(conditioned(network), weights_rng).to(task.device)
    optimiser = torch.optim.AdamW(
        scorer.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    to_go = standardised_to_go(task.decisions)
    target = float(np.quantile(to_go, config.quantile))

    def loss_of(decisions: Decisions, z: NDArray[np.float32]) -> LossAt:
        batches = _Conditioned(decisions, network, z, task.device)
        return lambda rows: behaviour_cloning.cloning_loss(scorer, batches.at(rows))

    decisions, validation, held_out = task.decisions, task.validation, None
    loss = drawn_loss(loss_of(decisions, to_go), len(decisions), config.minibatch, rng)
    if validation is not None and len(validation):
        others = loss_of(validation, standardised_to_go(validation))
        held_out = spaced_loss(others, len(validation), _VALIDATED)
    return descent(
        network, scorer, lambda: fold(network, scorer.weights(), target), optimiser, rng, loss,
        held_out,
    )  # fmt: skip


class _Conditioned:
    """Minibatches whose contexts hold z."""

    def __init__(
        self, decisions: Decisions, network: Network, z: NDArray[np.float32], device: torch.device
    ) -> None:
        self._network, self._batches = network, Batches(decisions, network, device)
        self._z = torch.from_numpy(z).to(device)

    def at(self, rows: NDArray[np.int64]) -> Minibatch:
        batch = self._batches.at(rows)
        z = self._z[torch.from_numpy(rows).to(self._z.device)]
        return dataclasses.replace(batch, context=insert(self._network, batch.context, z))
