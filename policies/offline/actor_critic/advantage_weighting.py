"""A policy from advantages: imitation of the logged choices, weighted by how good each was.

    loss = - mean over decisions of w(A) * log pi(choice)

Shared by agents that differ in where the advantage A comes from. Advantages are measured in their
deviation from 0 within the minibatch (root mean square). In a scheduling log the values of the
candidates of one decision differ by a small part of a return, the longer the episode the smaller; a
temperature in units of the reward would have to be searched anew for each objective and episode
length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from policies.networks.candidate_scorer import drawn_logits, log_probabilities
from policies.offline.actor_critic.critics import chosen, masked_expectation, masked_log_softmax
from policies.training.learner import Info
from policies.training.minibatches import Minibatch
from policies.training.values import ValueSettings

_SMALLEST = 1e-8  # deviation below which advantages count as equal


@dataclass(frozen=True)
class Extraction(ValueSettings):
    """Settings of agents that weigh what they imitate.

    temperature   deviations of the advantage that make a choice e times as heavy; towards 0 only
                  the best are imitated, a large one gives cloning
    most          no choice is heavier than this
    target_rate   share of the way that target networks go at every step
    """

    temperature: float = 0.5
    most: float = 20.0
    target_rate: float = 0.02


def standardised_weights(advantage: Tensor, temperature: float, most: float) -> Tensor:
    """exp(advantage / (temperature * its deviation)), at most `most`, (B,)."""
    deviation = advantage.square().mean().sqrt().clamp(min=_SMALLEST)
    return torch.exp((advantage / (temperature * deviation)).clamp(max=20.0)).clamp(max=most)


def weighted_cloning(scores: Tensor, now: Minibatch, weights: Tensor) -> tuple[Tensor, Info]:
    """The loss of the module's head: the policy's scores (B, K), weights (B,) without gradient."""
    log_pi = log_probabilities(scores, now.mask, now.choice, now.drawn)
    agreement = (scores.argmax(dim=-1) == now.choice).float().mean()
    loss = -(weights * log_pi).mean()
    return loss, {"policy_loss": loss.detach(), "agreement": agreement.detach()}


def advantage_over(scores: Tensor, now: Minibatch, values: Tensor) -> Tensor:
    """Values (B, K) of the logged choices over their mean under the policy with these scores, (B,).

    Where candidates were cut to K, each that was not chosen carries the share of those it stands
    for: means under them estimate means over all candidates.
    """
    log_pi = masked_log_softmax(drawn_logits(scores, now.mask, now.choice, now.drawn), now.mask)
    return chosen(values, now.choice) - masked_expectation(log_pi, values, now.mask)
