"""Discrete BCQ: Q-learning over the candidates that the behaviour might have chosen.

    G    minimises  - mean log G(choice | s) + .01 * mean of its squared scores
    y    = r + gamma * Q'(s', argmax_c Q(s', c))     over c with G(c | s') >= threshold * max G
    Q    minimises  mean huber(Q(s, choice) - y)
    acts by         argmax_c Q(s, c)                 over c with G(c | s) >= threshold * max G

A threshold of 0 is double DQN, a threshold of 1 is cloning. Source: Fujimoto, Conti, Ghavamzadeh &
Pineau, "Benchmarking Batch Deep Reinforcement Learning Algorithms", 2019, after Fujimoto, Meger &
Precup, "Off-Policy Deep Reinforcement Learning without Exploration", ICML 2019. Q and G are two
networks that the checkpoint holds side by side, and the target follows slowly.
"""

import copy
import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer, log_probabilities
from hindcast.policies.offline.actor_critic.critics import chosen, follow, logged_value
from hindcast.policies.offline.actor_critic.side_by_side_networks import (
    merge,
    side_by_side,
)
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Observations, Transitions
from hindcast.policies.training.values import ValueSettings


@dataclass(frozen=True)
class Config(ValueSettings):
    """Settings of discrete BCQ, in addition to those of ValueSettings.

    Attributes:
        threshold: Least probability of a candidate, as a share of the likeliest one's; above 0, at
            most 1.
        target_rate: Share of the distance that the target network moves at every step, 0 to 1.
    """

    threshold: float = number(0.3, "above 0, at most 1")
    target_rate: float = number(0.02, "from 0 to 1")


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    q = CandidateScorer(run.network, run.weights_rng)
    behaviour = CandidateScorer(run.network, run.weights_rng)
    target = copy.deepcopy(q).requires_grad_(requires_grad=False)

    def value_after(after: Observations) -> Tensor:
        """Return Q'(s', the allowed candidate with the highest Q)."""
        inputs = after.candidates, after.context, after.mask
        likely = behaviour.packed(*inputs)
        threshold = likely.amax(dim=1, keepdim=True) + float(np.log(config.threshold))
        best = q.packed(*inputs).masked_fill(likely < threshold, FILL).argmax(dim=1)
        return chosen(target.packed(*inputs), best)

    def loss(batch: Transitions, _step: int) -> tuple[Tensor, Info]:
        now = batch.now
        inputs = now.candidates, now.context, now.mask
        with torch.no_grad():
            y = run.unit.target(batch, value_after(batch.after))
        values = logged_value(q, now)
        critic_loss = smooth_l1_loss(values, y)
        scores = behaviour.packed(*inputs)
        log_g = log_probabilities(scores, now.mask, now.choice, now.drawn)
        size = torch.where(now.mask, scores, 0.0).square().sum() / now.mask.sum()
        cloning_loss = -log_g.mean() + 0.01 * size
        return critic_loss + cloning_loss, {
            "critic_loss": critic_loss.detach(),
            "cloning_loss": cloning_loss.detach(),
            "agreement": (scores.argmax(dim=-1) == now.choice).float().mean(),
            **td_metrics(y - values, values),
        }

    shape = dataclasses.replace(side_by_side(run.network), threshold=config.threshold)
    modules = {"q": q, "behaviour": behaviour, "target": target}
    return td_learner(
        dataclasses.replace(run, network=shape),
        lambda: merge(run.network, q.weights(), behaviour.weights()),
        modules, loss, after=lambda: follow(target, q, config.target_rate),
    )  # fmt: skip
