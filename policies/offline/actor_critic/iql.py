"""Implicit Q-learning: values of the best logged choices, without values of unlogged ones.

    V    minimises  mean |tau - 1[u < 0]| * u^2,  u = min_j Q'_j(s, choice) - V(s)      expectile
    Q_j  minimises  mean (r + gamma * V(s') - Q_j(s, choice))^2
    pi   maximises  mean exp(A / (temperature * deviation)) * log pi(choice),  A = min Q' - V

A tau near 1 makes V the value of the best logged choices of states like s; the value of an unlogged
choice is never used. Source: Kostrikov, Nair & Levine, "Offline Reinforcement Learning with
Implicit Q-Learning", ICLR 2022. Differences: candidates instead of actions (V pools them, see
`hindcast.policies.offline.actor_critic.critics`); advantages are divided by their deviation within
the minibatch, so that one temperature serves rewards of any size and episodes of any length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.offline.actor_critic.advantage_weighting import (
    Extraction,
    standardised_weights,
    weighted_cloning,
)
from hindcast.policies.offline.actor_critic.critics import Critics, StateValue, expectile_loss
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Transitions


@dataclass(frozen=True)
class Config(Extraction):
    """Settings of implicit Q-learning, in addition to those of Extraction.

    Attributes:
        expectile: Expectile tau, between 0 and 1: .5 gives the value of the behaviour, values near
            1 that of its best choices.
    """

    expectile: float = number(0.8, "above 0, below 1")


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    policy = CandidateScorer(run.network, run.weights_rng)
    critics = Critics(run.network, run.weights_rng)
    state = StateValue(run.network, run.weights_rng)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now = batch.now
        value = state(now)
        advantage = critics.least_logged(now) - value
        value_loss = expectile_loss(advantage, config.expectile)
        with torch.no_grad():
            target = run.unit.target(batch, state(batch.after))
        values = critics.logged(now)
        critic_loss = (target - values).square().mean(dim=1).sum()
        weights = standardised_weights(advantage.detach(), config.temperature, config.most)
        scores = policy.packed(now.candidates, now.context, now.mask)
        policy_loss, info = weighted_cloning(scores, now, weights)
        return value_loss + critic_loss + policy_loss, {
            "value_loss": value_loss.detach(),
            "critic_loss": critic_loss.detach(),
            **info,
            **td_metrics(target - values, values),
        }

    modules = {"policy": policy, "critics": critics, "value": state}
    return td_learner(
        run, policy.weights, modules, loss, after=lambda: critics.follow(config.target_rate)
    )
