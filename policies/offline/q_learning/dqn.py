"""DQN: Q-learning towards a target network that is replaced now and then.

    y    = r + gamma * max_c Q_target(s', c)                    over the candidates c of s'
    loss = mean huber(Q(s, choice) - y)

Source: Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015.
d3rlpy's algorithm over masked candidates, see `policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass

from policies.training.learner import Learner, Task
from policies.training.values import ValueSettings


@dataclass(frozen=True)
class Config(ValueSettings):
    """Settings of DQN.

    target_update_interval   steps between two copies of Q into Q_target
    """

    target_update_interval: int = 100


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import DQNConfig  # isort: skip

    return q_learner(DQNConfig, task, config, interval=config.target_update_interval)
