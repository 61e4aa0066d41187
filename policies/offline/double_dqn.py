"""Double DQN: Q-learning whose targets choose with one network and value with another.

    y    = r + gamma * Q_target(s', argmax_c Q(s', c))          over the candidates c of s'
    loss = mean huber(Q(s, choice) - y)

Source: van Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016.
d3rlpy's algorithm over masked candidates, see `policies.offline.masked_q`.
"""

from dataclasses import dataclass

import torch

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.offline import dqn
from policies.offline.learner import Learner


@dataclass(frozen=True)
class Config(dqn.Config):
    """Settings of double DQN: those of DQN."""


def learner(
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,  # noqa: ARG001
    seed: int,
    validation: Decisions | None,
    device: torch.device,
) -> Learner:
    """One training run, see `policies.offline.learner`."""
    from policies.offline.masked_q import q_learner  # first: it keeps d3rlpy's import quiet

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    return q_learner(
        DoubleDQNConfig, decisions, spec, config, interval=config.target_update_interval,
        seed=seed, validation=validation, device=device,
    )  # fmt: skip
