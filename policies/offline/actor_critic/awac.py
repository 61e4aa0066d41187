"""Advantage-weighted actor-critic: values of the policy itself, and imitation weighted by them.

    y    = r + gamma * sum_c pi(c | s') min_j Q'_j(s', c)
    Q_j  minimises  mean (y - Q_j(s, choice))^2
    A    = min_j Q_j(s, choice) - sum_c pi(c | s) min_j Q_j(s, c)
    w    = softmax over the minibatch of A / (temperature * deviation)
    pi   maximises  sum over the minibatch of w * log pi(choice)

Source: Nair, Gupta, Dalal & Levine, "AWAC: Accelerating Online Reinforcement Learning with Offline
Datasets", 2020; the weights are normalised over the minibatch as its authors' code does, the
heaviest cut off before. With
candidates to enumerate, expectations over the policy are sums and not single draws. Advantages are
measured in their deviation, see `policies.offline.actor_critic.advantage_weighting`; no online
phase.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policies.networks.candidate_scorer import CandidateScorer, fit_network
from policies.offline.actor_critic.advantage_weighting import (
    Extraction,
    policy_now,
    standardised_weights,
    weighted_cloning,
)
from policies.offline.actor_critic.critics import Critics, chosen, masked_expectation, policy_value
from policies.offline.actor_critic.td_learner import Parts, assemble, td_metrics
from policies.training.learner import Info, Learner, Task
from policies.training.minibatches import Transitions
from policies.training.values import value_unit


@dataclass(frozen=True)
class Config(Extraction):
    """Settings of AWAC: those of agents that weigh what they imitate."""


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    unit = value_unit(task.decisions, task.spec, config)
    network = fit_network(task.decisions, task.spec, config.network)
    policy = CandidateScorer(network, weights_rng)
    critics = Critics(network, weights_rng)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now, after = batch.now, batch.after
        with torch.no_grad():
            target = unit.target(batch, policy_value(policy, after, critics.least(after)))
        every = critics.values(now)
        values = chosen(every, now.choice)
        critic_loss = (target - values).square().mean(dim=1).sum()
        scores = policy.packed(now.candidates, now.context, now.mask)
        with torch.no_grad():
            least = every.detach().amin(dim=0)
            log_pi = policy_now(scores, now)
            advantage = chosen(least, now.choice) - masked_expectation(log_pi, least, now.mask)
            weights = standardised_weights(advantage, config.temperature, config.most)
        policy_loss, info = weighted_cloning(scores, now, weights / weights.mean())
        return critic_loss + policy_loss, {
            "critic_loss": critic_loss.detach(),
            **info,
            **td_metrics(target - values, values),
        }

    parts = Parts(
        network,
        policy.weights,
        {"policy": policy, "critics": critics},
        loss,
        after=lambda: critics.follow(config.target_rate),
    )
    return assemble(parts, task.decisions, task.validation, config, unit, rng, task.device)
