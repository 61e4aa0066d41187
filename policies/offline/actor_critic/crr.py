"""Critic-regularised regression: imitation of the logged choices that a critic finds above average.

    y    = r + gamma * sum_c pi'(c | s') Q'(s', c)
    Q    minimises  mean (y - Q(s, choice))^2
    A    = Q(s, choice) - sum_c pi(c | s) Q(s, c)
    f    = 1[A > 0]  or  exp(A / (temperature * deviation))
    pi   maximises  mean f(A) * log pi(choice)

Source: Wang, Novikov, Zolna et al., "Critic Regularized Regression", NeurIPS 2020 ("binary" and
"exp", with the mean over the policy as the baseline). Differences: expectations are sums over the
candidates instead of means over a few draws; the critic gives a value where the paper's gives a
distribution; for "exp", advantages are divided by their deviation, see
`hindcast.policies.offline.actor_critic.advantage_weighting`. Unlike `awac`, CRR has one critic, and
targets come from a lagging policy, as in the paper.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.offline.actor_critic.advantage_weighting import (
    Extraction,
    advantage_over,
    standardised_weights,
    weighted_cloning,
)
from hindcast.policies.offline.actor_critic.critics import Critics, chosen, follow, policy_value
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Transitions


@dataclass(frozen=True)
class Config(Extraction):
    """Settings of CRR, in addition to those of Extraction.

    Attributes:
        weight: The function f: "binary" imitates choices above the mean, all alike; "exp" imitates
            all choices, better ones more.
    """

    weight: Literal["binary", "exp"] = "exp"


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    policy = CandidateScorer(run.network, run.weights_rng)
    lagging = copy.deepcopy(policy).requires_grad_(requires_grad=False)
    critics = Critics(run.network, run.weights_rng, count=1)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now, after = batch.now, batch.after
        with torch.no_grad():
            target = run.unit.target(batch, policy_value(lagging, after, critics.least(after)))
        every = critics.values(now)[0]
        values = chosen(every, now.choice)
        critic_loss = (target - values).square().mean()
        scores = policy.packed(now.candidates, now.context, now.mask)
        with torch.no_grad():
            advantage = advantage_over(scores, now, every)
            if config.weight == "binary":
                weights = (advantage > 0.0).float()
            else:
                weights = standardised_weights(advantage, config.temperature, config.most)
        policy_loss, info = weighted_cloning(scores, now, weights)
        return critic_loss + policy_loss, {
            "critic_loss": critic_loss.detach(),
            **info,
            **td_metrics(target - values, values),
        }

    def after() -> None:
        critics.follow(config.target_rate)
        follow(lagging, policy, config.target_rate)

    modules = {"policy": policy, "lagging": lagging, "critics": critics}
    return td_learner(run, policy.weights, modules, loss, after)
