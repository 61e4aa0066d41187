"""QR-DQN: Q-learning of the whole distribution of returns, as N quantiles.

    Z(s, c)   = quantiles theta_1 .. theta_N at tau_i = (2 i - 1) / 2 N;  Q(s, c) = their mean
    y_j       = r + gamma * theta_j of Z_target(s', argmax_c Q_target(s', c))
    loss      = mean over j, sum over i of |tau_i - 1[y_j < theta_i]| * huber(y_j - theta_i)

Source: Dabney, Rowland, Bellemare & Munos, "Distributional Reinforcement Learning with Quantile
Regression", AAAI 2018. d3rlpy's algorithm over masked candidates; what a mask means for quantiles
stands in `policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass

from policies.offline.q_learning import dqn
from policies.training.learner import Learner, Task


@dataclass(frozen=True)
class Config(dqn.Config):
    """Settings of QR-DQN: those of DQN and one more.

    quantiles   N
    """

    quantiles: int = 32


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import DQNConfig  # isort: skip

    return q_learner(
        DQNConfig, task, config, interval=config.target_update_interval, quantiles=config.quantiles
    )
