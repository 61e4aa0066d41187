"""Losses that offline and online agents share."""

import torch
from torch import Tensor

from policies.networks.candidate_scorer import FILL
from policies.training.learner import Info


def tilted_loss(scores: Tensor, mask: Tensor, targets: Tensor) -> tuple[Tensor, Info]:
    """Mean over decisions of KL(targets || softmax of the scores), both (B, K)."""
    log_pi = torch.log_softmax(torch.where(mask, scores, FILL), dim=-1)
    per_candidate = torch.where(mask, torch.xlogy(targets, targets) - targets * log_pi, 0.0)
    agreement = (scores.argmax(dim=-1) == targets.argmax(dim=-1)).float().mean()
    return per_candidate.sum(dim=-1).mean(), {"agreement": agreement.detach()}
