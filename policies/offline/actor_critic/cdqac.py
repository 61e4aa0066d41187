"""Conservative discrete quantile actor-critic (CDQAC), with delayed policy updates.

    Z_j(s, c)   N quantiles, v_i(s) + a_i(s, c) - mean_c' a_i(s, c')         dueling, j = 1, 2
    Q_j         mean over the quantiles of Z_j
    y           r + gamma * sum_c pi(c | s') Z'_k(s', c),  k = argmin_j sum_c pi(c | s') Q'_j(s', c)
    Z_j         minimises  quantile Huber loss of Z_j(s, choice) against the samples y
                           + conservatism * mean (logsumexp_c Q_j(s, c) - Q_j(s, choice))
    pi          maximises, every `delay` steps,
                mean sum_c pi(c | s) min_j Q_j(s, c) / size(Q) + alpha * H(pi(s))

Source: van Remmerden, Bukhsh & Zhang, "Generalizing Beyond Suboptimality: Offline Reinforcement
Learning Learns Effective Scheduling through Random Data" (CDQAC), TMLR 2026. This implementation
follows the abstract and the public descriptions, without the code. From them it has a conservative
dueling quantile critic per candidate and delayed policy updates. Possible differences: there are
two critics, and targets use the lower one; the target averages quantiles over the policy one by one
(exact for the mean, and, unlike one drawn candidate, free of noise and of the order of candidates);
the weight of the entropy is fixed; values are divided by their spread among the candidates of a
decision; and every number in the settings. The candidate scorer replaces the authors' graph
network.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.offline.actor_critic.critics import (
    DuelingQuantiles,
    conservative,
    entropy,
    follow,
    masked_expectation,
    masked_log_softmax,
    quantile_loss,
    spread_among,
)
from hindcast.policies.offline.actor_critic.td_learner import begin, td_learner, td_metrics
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.minibatches import Transitions
from hindcast.policies.training.values import ValueSettings


@dataclass(frozen=True)
class Config(ValueSettings):
    """Settings of CDQAC, in addition to those of ValueSettings.

    Attributes:
        quantiles: Number N of quantiles, at least 1.
        kappa: Error up to which the quantile loss is quadratic, in units of a return; above 0.
        conservatism: Weight of CQL's term, 0 or more.
        alpha: Weight of the policy's entropy, in units of the spread of the candidates' values; 0
            or more.
        delay: Steps of the critics per step of the policy, at least 1.
        target_rate: Share of the distance that target networks move at every step, 0 to 1.
    """

    quantiles: int = number(16, "from 1 to 65,536")
    kappa: float = number(0.1, "above 0")
    conservatism: float = number(1e-3, "at least 0")
    alpha: float = number(0.2, "at least 0")
    delay: int = number(2, "at least 1")
    target_rate: float = number(0.02, "from 0 to 1")


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    run = begin(task, config)
    policy = CandidateScorer(run.network, run.weights_rng)
    critics = nn.ModuleList(
        [DuelingQuantiles(run.network, run.weights_rng, config.quantiles) for _ in range(2)]
    )
    targets = copy.deepcopy(critics).requires_grad_(requires_grad=False)

    def samples(batch: Transitions) -> Tensor:
        """Return targets, the quantiles (B, N) of the return under the lower target critic."""
        after = batch.after
        scores = policy.packed(after.candidates, after.context, after.mask)
        share = masked_log_softmax(scores, after.mask).exp() * after.mask
        quantiles = torch.stack([z(after, share)[1] for z in targets])  # (2, B, N)
        lower = quantiles.mean(dim=2).argmin(dim=0)
        rows = torch.arange(quantiles.shape[1], device=quantiles.device)
        return run.unit.target(batch, quantiles[lower, rows])

    def loss(batch: Transitions, step: int) -> tuple[Tensor, Info]:
        now = batch.now
        with torch.no_grad():
            target = samples(batch)
        logged_share = one_hot(now.choice, now.mask.shape[1]).float()
        outputs = [z(now, logged_share) for z in critics]
        values = torch.stack([quantiles[0] for quantiles in outputs])  # (2, B, K)
        logged = torch.stack([quantiles[1] for quantiles in outputs])  # (2, B, N)
        critic_loss = 2.0 * quantile_loss(logged, target, config.kappa)
        gap = conservative(values, now.choice).sum()
        total = critic_loss + config.conservatism * gap
        info = {
            "critic_loss": critic_loss.detach(),
            "conservative_gap": gap.detach(),
            **td_metrics(target.mean(dim=1) - logged.mean(dim=2), logged),
        }
        if step % config.delay:
            return total, info
        lower_q = values.detach().amin(dim=0)
        size = spread_among(lower_q, now.mask)
        log_pi = masked_log_softmax(policy.packed(now.candidates, now.context, now.mask), now.mask)
        spread = entropy(log_pi, now.mask)
        gain = masked_expectation(log_pi, lower_q, now.mask) / size
        policy_loss = -(gain + config.alpha * spread).mean()
        info |= {"policy_loss": policy_loss.detach(), "entropy": spread.detach().mean()}
        return total + policy_loss, info

    modules = {"policy": policy, "critics": critics, "targets": targets}
    return td_learner(
        run,
        policy.weights,
        modules,
        loss,
        after=lambda: follow(targets, critics, config.target_rate),
    )
