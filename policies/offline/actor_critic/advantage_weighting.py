"""A policy from advantages: imitation of the logged choices, weighted by the quality of each.

    loss = - mean over decisions of w(A) * log pi(choice)

The agents that share this code differ in the source of the advantage A. Advantages are divided by
their deviation from 0 within the minibatch (root mean square). In a scheduling log the values of
the candidates of one decision differ by a small part of a return, which shrinks as episodes get
longer. A temperature in units of the reward would need a new search for each objective and episode
length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import drawn_logits, log_probabilities
from hindcast.policies.offline.actor_critic.critics import (
    chosen,
    masked_expectation,
    masked_log_softmax,
)
from hindcast.policies.training.learner import Info
from hindcast.policies.training.minibatches import Minibatch
from hindcast.policies.training.values import ValueSettings

_SMALLEST = 1e-8  # deviation below which advantages count as equal


@dataclass(frozen=True)
class Extraction(ValueSettings):
    """Settings of agents that imitate with weights, in addition to those of ValueSettings.

    Attributes:
        temperature: Deviations of the advantage that multiply the weight of a choice by e, above 0.
            Values near 0 imitate the best choices alone; large values give plain cloning.
        most: Largest weight of a choice, above 0.
        target_rate: Share of the distance that target networks move at every step, 0 to 1.
    """

    temperature: float = number(0.5, "above 0")
    most: float = number(20.0, "above 0")
    target_rate: float = number(0.02, "from 0 to 1")


def standardised_weights(advantage: Tensor, temperature: float, most: float) -> Tensor:
    """Return exp(advantage / (temperature * deviation of the advantages)), at most `most`, (B,)."""
    deviation = advantage.square().mean().sqrt().clamp(min=_SMALLEST)
    return torch.exp((advantage / (temperature * deviation)).clamp(max=20.0)).clamp(max=most)


def weighted_cloning(scores: Tensor, now: Minibatch, weights: Tensor) -> tuple[Tensor, Info]:
    """Return the loss of the module's docstring from scores (B, K) and constant weights (B,)."""
    log_pi = log_probabilities(scores, now.mask, now.choice, now.drawn)
    agreement = (scores.argmax(dim=-1) == now.choice).float().mean()
    loss = -(weights * log_pi).mean()
    return loss, {"policy_loss": loss.detach(), "agreement": agreement.detach()}


def advantage_over(scores: Tensor, now: Minibatch, values: Tensor) -> Tensor:
    """Return advantages (B,) of the logged choices over the policy with these scores.

    `values` (B, K) are those of the candidates. If candidates were cut to K, each one that was not
    chosen carries the share of those it stands for, so that means under the shares estimate means
    over all candidates.
    """
    log_pi = masked_log_softmax(drawn_logits(scores, now.mask, now.choice, now.drawn), now.mask)
    return chosen(values, now.choice) - masked_expectation(log_pi, values, now.mask)
