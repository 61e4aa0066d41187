"""QR-DQN with conservative values: quantiles of the return, and unlogged choices kept low.

    loss = loss of QR-DQN + alpha * mean (logsumexp_c Q(s, c) - Q(s, choice))    Q: mean quantile

Targets are chosen by the network that learns and valued by the other one, as in double DQN. It is
the first of the two agents that Offline-LD trains on logs of job-shop scheduling, there over a
graph network and here over the masked candidate scorer. Source: van Remmerden, Bukhsh & Zhang,
"Offline reinforcement learning for learning to dispatch for job shop scheduling", Machine Learning
2025. d3rlpy's algorithm, see `policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass
from functools import partial

from policies.offline.q_learning import qr_dqn
from policies.training.learner import Learner, Task


@dataclass(frozen=True)
class Config(qr_dqn.Config):
    """Settings of QR-DQN with conservative values: those of QR-DQN and one more.

    alpha   weight of the conservative term, see policies.offline.q_learning.cql; the quantile loss
            is a sum over quantiles, so that the same weight counts for less
    """

    alpha: float = 1e-2


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import DiscreteCQLConfig  # isort: skip

    make = partial(DiscreteCQLConfig, alpha=config.alpha)
    return q_learner(
        make, task, config, interval=config.target_update_interval, quantiles=config.quantiles
    )
