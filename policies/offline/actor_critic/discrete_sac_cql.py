"""Discrete soft actor-critic with conservative values, over masked candidates.

    y     = r + gamma * sum_c pi(c | s') min_j Q'_j(s', c)     (soft_targets: see below)
    Q_j   minimises  mean (y - Q_j(s, choice))^2
                     + conservatism * mean (logsumexp_c Q_j(s, c) - Q_j(s, choice))
    pi    maximises  mean over s of  sum_c pi(c | s) min_j Q_j(s, c) / size(Q) + alpha * H(pi(s))
    alpha falls if H(pi(s)) is above entropy_share * log N(s), N(s) the feasible candidates

Source: van Remmerden, Bukhsh & Zhang, "Offline Reinforcement Learning for Learning to Dispatch for
Job Shop Scheduling", Machine Learning 2025 (d-mSAC with CQL), after Christodoulou, "Soft
Actor-Critic for Discrete Action Settings", 2019, and Kumar et al., "Conservative Q-Learning",
NeurIPS 2020. The target entropy depends on the number of candidates, since a decision between two
cannot have the entropy of one among thirty. As in the authors' code, targets leave the entropy out:
over thousands of decisions it would drown the return.

Differences: values are divided by size(Q), their spread among the candidates of a decision, so one
alpha serves rewards of any size. An alpha that is too small at the beginning makes the policy
certain before the values are accurate, and its gradient vanishes. Targets follow slowly. The weight
of the conservative term suits values of order one (`hindcast.policies.offline.q_learning.agents`).
entropy_share is lower, since the agent acts greedily. There is no dropout.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.offline.actor_critic.critics import (
    Critics,
    chosen,
    conservative,
    entropy,
    masked_expectation,
    masked_log_softmax,
    spread_among,
)
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Transitions
from hindcast.policies.training.values import ValueSettings


@dataclass(frozen=True)
class Config(ValueSettings):
    """Settings of discrete SAC with CQL, in addition to those of ValueSettings.

    Attributes:
        conservatism: Weight of CQL's term, 0 or more.
        entropy_share: Target entropy of the policy, as a share of log N: 0 is greedy, 1 uniform.
        alpha: First weight of the entropy, in units of the spread of the candidates' values; above
            0.
        alpha_rate: Largest change of alpha per step, roughly, as a share of alpha; 0 or more.
        soft_targets: True adds size(Q) * alpha * the entropy of later decisions to the reward.
        target_rate: Share of the distance that target networks move at every step, 0 to 1.
    """

    conservatism: float = number(1e-3, "at least 0")
    entropy_share: float = number(0.5, "from 0 to 1")
    alpha: float = number(1.0, "above 0")
    alpha_rate: float = number(1e-2, "at least 0")
    soft_targets: bool = False
    target_rate: float = number(0.02, "from 0 to 1")


class Temperature(nn.Module):
    """Alpha, a positive number: the learned parameter is its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))

    def now(self) -> Tensor:
        """Return alpha without a gradient."""
        return self.log_alpha.detach().exp()


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    policy = CandidateScorer(run.network, run.weights_rng)
    critics = Critics(run.network, run.weights_rng)
    temperature = Temperature(config.alpha)

    def value_after(batch: Transitions) -> Tensor:
        after = batch.after
        scores = policy.packed(after.candidates, after.context, after.mask)
        log_pi = masked_log_softmax(scores, after.mask)
        values = critics.least(after)
        if config.soft_targets:
            values = values - temperature.now() * spread_among(values, after.mask) * log_pi
        return masked_expectation(log_pi, values, after.mask)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now = batch.now
        with torch.no_grad():
            target = run.unit.target(batch, value_after(batch))
        every = critics.values(now)
        values = chosen(every, now.choice)
        critic_loss = (target - values).square().mean(dim=1).sum()
        gap = conservative(every, now.choice).sum()
        log_pi = masked_log_softmax(policy.packed(now.candidates, now.context, now.mask), now.mask)
        min_q = every.detach().amin(dim=0)
        spread = entropy(log_pi, now.mask)
        alpha = temperature.now()
        gain = masked_expectation(log_pi, min_q, now.mask) / spread_among(min_q, now.mask)
        policy_loss = -(gain + alpha * spread).mean()
        target_entropy = config.entropy_share * now.mask.sum(dim=1).log()
        alpha_loss = temperature.log_alpha * (spread.detach() - target_entropy).mean().sign()
        total = critic_loss + config.conservatism * gap + policy_loss + alpha_loss
        return total, {
            "critic_loss": critic_loss.detach(),
            "conservative_gap": gap.detach(),
            "policy_loss": policy_loss.detach(),
            "entropy": spread.detach().mean(),
            "alpha": alpha,
            **td_metrics(target - values, values),
        }

    modules = {"policy": policy, "critics": critics, "temperature": temperature}
    return td_learner(
        run, policy.weights, modules, loss,
        after=lambda: critics.follow(config.target_rate), rates={"temperature": config.alpha_rate},
    )  # fmt: skip
