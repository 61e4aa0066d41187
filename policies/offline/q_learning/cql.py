"""Conservative Q-learning: double DQN that keeps the values of choices nobody logged low.

    loss = loss of double DQN + alpha * mean (logsumexp_c Q(s, c) - Q(s, choice))

Source: Kumar, Zhou, Tucker & Levine, "Conservative Q-Learning for Offline Reinforcement Learning",
NeurIPS 2020, the variant CQL(H). d3rlpy's algorithm over masked candidates, see
`policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass
from functools import partial

from policies.offline.q_learning import dqn
from policies.training.learner import Learner, Task


@dataclass(frozen=True)
class Config(dqn.Config):
    """Settings of CQL: those of DQN and one more.

    alpha   weight of the conservative term. Rewards are scaled so that values are of order one, and
            candidates of one decision then differ by about one over the length of an episode; a
            weight that is not of that order turns CQL into cloning
    """

    alpha: float = 1e-3


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import DiscreteCQLConfig  # isort: skip

    make = partial(DiscreteCQLConfig, alpha=config.alpha)
    return q_learner(make, task, config, interval=config.target_update_interval)
