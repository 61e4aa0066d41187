"""Double DQN: Q-learning whose targets choose with one network and value with another.

    y    = r + gamma * Q_target(s', argmax_c Q(s', c))          over the candidates c of s'
    loss = mean huber(Q(s, choice) - y)

Source: van Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016.
d3rlpy's algorithm over masked candidates, see `policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass

from policies.offline.q_learning import dqn
from policies.training.learner import Learner, Task


@dataclass(frozen=True)
class Config(dqn.Config):
    """Settings of double DQN: those of DQN."""


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    return q_learner(DoubleDQNConfig, task, config, interval=config.target_update_interval)
