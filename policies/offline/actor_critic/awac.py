"""Advantage-weighted actor-critic: values of the policy itself, and imitation weighted by them.

    y    = r + gamma * sum_c pi(c | s') min_j Q'_j(s', c)
    Q_j  minimises  mean (y - Q_j(s, choice))^2
    A    = min_j Q_j(s, choice) - sum_c pi(c | s) min_j Q_j(s, c)
    w    = softmax over the minibatch of A / (temperature * deviation)
    pi   maximises  sum over the minibatch of w * log pi(choice)

Source: Nair, Gupta, Dalal & Levine, "AWAC: Accelerating Online Reinforcement Learning with Offline
Datasets", 2020. As in its authors' code, weights are normalised over the minibatch; the largest
weights are cut off first. Differences: expectations over the policy are sums over the candidates,
not single draws; advantages are divided by their deviation, see
`hindcast.policies.offline.actor_critic.advantage_weighting`; there is no online phase.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.offline.actor_critic.advantage_weighting import (
    Extraction,
    advantage_over,
    standardised_weights,
    weighted_cloning,
)
from hindcast.policies.offline.actor_critic.critics import Critics, chosen, policy_value
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Transitions


@dataclass(frozen=True)
class Config(Extraction):
    """Settings of AWAC: those of Extraction."""


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    policy = CandidateScorer(run.network, run.weights_rng)
    critics = Critics(run.network, run.weights_rng)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now, after = batch.now, batch.after
        with torch.no_grad():
            target = run.unit.target(batch, policy_value(policy, after, critics.least(after)))
        every = critics.values(now)
        values = chosen(every, now.choice)
        critic_loss = (target - values).square().mean(dim=1).sum()
        scores = policy.packed(now.candidates, now.context, now.mask)
        with torch.no_grad():
            advantage = advantage_over(scores, now, every.amin(dim=0))
            weights = standardised_weights(advantage, config.temperature, config.most)
        policy_loss, info = weighted_cloning(scores, now, weights / weights.mean())
        return critic_loss + policy_loss, {
            "critic_loss": critic_loss.detach(),
            **info,
            **td_metrics(target - values, values),
        }

    modules = {"policy": policy, "critics": critics}
    return td_learner(
        run, policy.weights, modules, loss, after=lambda: critics.follow(config.target_rate)
    )
