"""Double DQN: Q-learning whose targets choose with one network and value with another.

    y    = r + gamma * Q_target(s', argmax_c Q(s', c))          over the candidates c of s'
    loss = mean huber(Q(s, choice) - y)

Source: van Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016.
d3rlpy's algorithm over masked candidates, see `policies.offline.masked_q`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.checkpoint import Trained
from policies.learned import NetworkSettings


@dataclass(frozen=True)
class Config:
    """Settings of double DQN.

    minibatch                transitions per step
    discount                 gamma, or None for the one that the objective is meant for
    discount_per             what gamma is raised to: 1 per decision, or the seconds that passed
    reward_scale             rewards are multiplied by it; 0: one over the mean size of a return
    target_update_interval   steps between two copies of Q into Q_target
    """

    minibatch: int = 256
    discount: float | None = None
    discount_per: Literal["decision", "second"] = "decision"
    reward_scale: float = 0.0
    learning_rate: float = 1e-3
    target_update_interval: int = 100
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False, context=True)
    )


def train(
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,
    seed: int,
    validation: Decisions | None,
    progress: Callable[[int, int], None],
) -> Trained:
    """Train; called through `policies.offline.train_agent`, which checks what goes in."""
    from policies.offline.masked_q import train_q  # first: it keeps d3rlpy's import quiet

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    return train_q(
        "double_dqn", DoubleDQNConfig, decisions, spec, config,
        steps=steps, seed=seed, validation=validation, progress=progress,
    )  # fmt: skip
