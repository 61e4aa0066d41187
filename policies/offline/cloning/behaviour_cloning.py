"""Behaviour cloning: the softmax over the candidates imitates the logged choices.

    loss = - mean over decisions of log pi(choice)

With several behaviours in a log it imitates their mixture, the worst of them included. In tables of
results it shows the worth of imitation alone. Source: Pomerleau, "Efficient Training of Artificial
Neural Networks for Autonomous Navigation", Neural Computation 1991.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.policies.networks.candidate_scorer import (
    CandidateScorer,
    fit_network,
    log_probabilities,
)
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.training.learner import Info, Learner, Task, descent
from hindcast.policies.training.losses import LossAt, drawn_loss, spaced_loss
from hindcast.policies.training.minibatches import Batches, Minibatch

_VALIDATED: Final = 4096  # decisions


@dataclass(frozen=True)
class Config:
    """Settings of behaviour cloning.

    Attributes:
        minibatch: Decisions per step, at least 1.
        learning_rate: Step size of AdamW, above 0.
        weight_decay: Weight decay of AdamW, 0 or more.
        network: Shape of the scorer.
    """

    minibatch: int = number(256, "from 1 to 1,000,000")
    learning_rate: float = number(2e-3, "above 0")
    weight_decay: float = number(0.0, "at least 0")
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), context=True)
    )

    def __post_init__(self) -> None:
        check_ranges(self)


def cloning_loss(scorer: CandidateScorer, batch: Minibatch) -> tuple[Tensor, Info]:
    """Return the mean negative log-probability of the logged choices."""
    scores = scorer.packed(batch.candidates, batch.context, batch.mask)
    log_pi = log_probabilities(scores, batch.mask, batch.choice, batch.drawn)
    agreement = (scores.argmax(dim=-1) == batch.choice).float().mean()
    return -log_pi.mean(), {"agreement": agreement.detach()}


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    network = fit_network(task.decisions, task.spec, config.network)
    scorer = CandidateScorer(network, weights_rng).to(task.device)

    def loss_of(decisions: Decisions) -> LossAt:
        batches = Batches(decisions, network, task.device)
        return lambda rows: cloning_loss(scorer, batches.at(rows))

    return cloning_learner(task, config, network, scorer, scorer.weights, loss_of, rng)


def cloning_learner(
    task: Task,
    config: Config,
    network: Network,
    scorer: CandidateScorer,
    weights: Callable[[], Weights],
    loss_of: Callable[[Decisions], LossAt],
    rng: np.random.Generator,
) -> Learner:
    """Return the learner that trains `scorer` with AdamW on the loss that `loss_of` gives."""
    optimiser = torch.optim.AdamW(
        scorer.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    decisions, validation, held_out = task.decisions, task.validation, None
    loss = drawn_loss(loss_of(decisions), len(decisions), config.minibatch, rng)
    if validation is not None and len(validation):
        held_out = spaced_loss(loss_of(validation), len(validation), _VALIDATED)
    return descent(network, scorer, weights, optimiser, rng, loss, held_out)
