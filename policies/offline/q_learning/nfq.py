"""Neural fitted Q iteration as d3rlpy has it: DQN whose targets are its own values.

    y    = r + gamma * max_c Q(s', c)       Q as it was before this step, not differentiated
    loss = mean huber(Q(s, choice) - y)

The paper fits a network to the end between two rounds of targets; this takes one gradient step a
round. Source: Riedmiller, "Neural Fitted Q Iteration", ECML 2005. d3rlpy's algorithm over masked
candidates, see `policies.offline.q_learning.masked_q`.
"""

from dataclasses import dataclass

from policies.training.learner import Learner, Task
from policies.training.values import ValueSettings


@dataclass(frozen=True)
class Config(ValueSettings):
    """Settings of NFQ: those that every agent with values has."""


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    from policies.offline.q_learning.masked_q import (
        q_learner,  # first: it keeps d3rlpy's import quiet
    )

    from d3rlpy.algos import NFQConfig  # isort: skip

    return q_learner(NFQConfig, task, config, interval=1)
