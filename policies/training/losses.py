"""Losses that offline and online agents share."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer
from hindcast.policies.networks.settings import Network
from hindcast.policies.training.learner import Info, Loss
from hindcast.policies.training.minibatches import Batches, draw_rows, spaced_rows

LossAt = Callable[[NDArray[np.int64]], tuple[Tensor, Info]]  # of decisions at rows (B,)


def drawn_loss(loss: LossAt, count: int, size: int, rng: np.random.Generator) -> Loss:
    """Return the loss of `size` of `count` decisions, drawn again at every call."""
    return lambda: loss(draw_rows(count, size, rng))


def spaced_loss(loss: LossAt, count: int, most: int) -> Loss:
    """Return the loss of at most `most` of `count` decisions, the same ones at every call."""
    rows = spaced_rows(count, most)
    return lambda: loss(rows)


def tilted_loss(scores: Tensor, mask: Tensor, targets: Tensor) -> tuple[Tensor, Info]:
    """Return the mean over decisions of KL(targets || softmax of the scores), both (B, K)."""
    log_pi = torch.log_softmax(torch.where(mask, scores, FILL), dim=-1)
    per_candidate = torch.where(mask, torch.xlogy(targets, targets) - targets * log_pi, 0.0)
    agreement = (scores.argmax(dim=-1) == targets.argmax(dim=-1)).float().mean()
    return per_candidate.sum(dim=-1).mean(), {"agreement": agreement.detach()}


def imitation_loss(
    scorer: CandidateScorer,
    network: Network,
    decisions: Decisions,
    targets: NDArray[np.float32],
    device: torch.device,
) -> LossAt:
    """Return the `tilted_loss` of a scorer on some of these decisions, with targets (D, K)."""
    batches = Batches(decisions, network, device)
    wanted = torch.from_numpy(targets).to(device)

    def loss(rows: NDArray[np.int64]) -> tuple[Tensor, Info]:
        batch = batches.at(rows)
        scores = scorer.packed(batch.candidates, batch.context, batch.mask)
        return tilted_loss(scores, batch.mask, wanted[torch.from_numpy(rows).to(device)])

    return loss
