"""Behaviour cloning: the softmax over the candidates imitates the logged choices.

    loss = - mean over decisions of log pi(choice)

With several behaviours in a log it imitates their mixture, the worst of them included; it stands in
tables for what imitation alone is worth. Source: Pomerleau, "Efficient Training of Artificial
Neural Networks for Autonomous Navigation", Neural Computation 1991.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.checkpoint import Trained
from policies.learned import Network, NetworkSettings
from policies.networks import CandidateScorer, fit_network, log_probabilities
from policies.offline.minibatches import Minibatch, draw_rows, gather
from policies.offline.optimisation import Info, minimise, one_thread

_VALIDATED = 4096  # decisions


@dataclass(frozen=True)
class Config:
    """Settings of behaviour cloning.

    minibatch   decisions per step
    """

    minibatch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), context=True)
    )


def cloning_loss(scorer: CandidateScorer, batch: Minibatch) -> tuple[Tensor, Info]:
    """Mean negative log-probability of the logged choices."""
    scores = scorer.packed(batch.candidates, batch.context, batch.mask)
    log_pi = log_probabilities(scores, batch.mask, batch.choice, batch.drawn)
    agreement = (scores.argmax(dim=-1) == batch.choice).float().mean()
    return -log_pi.mean(), {"agreement": agreement.detach()}


def train(
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,
    seed: int,
    validation: Decisions | None,
    progress: Callable[[int, int], None],
) -> Trained:
    """Train; called through `policies.offline.train_agent`, which checks what goes in."""
    weights_rng, batch_rng = np.random.default_rng(seed).spawn(2)
    network = fit_network(decisions, spec, config.network)
    with one_thread():
        scorer = CandidateScorer(network, weights_rng)
        metrics = minimise(
            scorer,
            lambda: cloning_loss(
                scorer,
                gather(decisions, network, draw_rows(len(decisions), config.minibatch, batch_rng)),
            ),
            steps=steps,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            validate=lambda: _validate(scorer, network, validation),
            progress=progress,
        )
    return Trained("behaviour_cloning", spec, network, scorer.weights(), {}, steps, seed, metrics)


@torch.no_grad()
def _validate(
    scorer: CandidateScorer, network: Network, validation: Decisions | None
) -> Mapping[str, float]:
    """Loss and agreement on evenly spaced validation decisions."""
    if validation is None or len(validation) == 0:
        return {}
    rows = np.arange(0, len(validation), -(-len(validation) // _VALIDATED))
    loss, info = cloning_loss(scorer, gather(validation, network, rows))
    return {"validation_loss": float(loss), "validation_agreement": float(info["agreement"])}
