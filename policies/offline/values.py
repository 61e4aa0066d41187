"""What agents that learn values have in common: their settings, the unit of values, discounting.

Values are learned of reward * scale, with `scale` one over the typical size of a return, so that
they are of order one whatever the unit of the reward; the order of the candidates is unchanged.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from torch import Tensor

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.learned import NetworkSettings
from policies.offline.minibatches import Transitions


@dataclass(frozen=True)
class ValueSettings:
    """Settings of every agent that learns values.

    minibatch       transitions per step
    discount        gamma, or None for the one that the objective is meant for
    discount_per    what gamma is raised to: 1 per decision, or the seconds that passed
    reward_scale    rewards are multiplied by it; 0: one over the mean size of a return
    """

    minibatch: int = 256
    discount: float | None = None
    discount_per: Literal["decision", "second"] = "decision"
    reward_scale: float = 0.0
    learning_rate: float = 1e-3
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False, context=True)
    )


@dataclass(frozen=True)
class ValueUnit:
    """How rewards and time enter a target: reward * scale + discount ** interval * next value."""

    scale: float
    discount: float
    per_second: bool

    def reward(self, steps: Transitions) -> Tensor:
        """Scaled rewards, (B,)."""
        return steps.reward * self.scale

    def interval(self, steps: Transitions) -> Tensor:
        """What the discount is raised to, (B,)."""
        return steps.elapsed_s if self.per_second else steps.reward.new_ones(len(steps.reward))

    def target(self, steps: Transitions, following: Tensor) -> Tensor:
        """Targets from finite values of what followed, (B,) or the quantiles (B, Q) of it."""
        reward, share = self.reward(steps), self.discount ** self.interval(steps)
        share = share * (1.0 - steps.terminal)
        if following.dim() > 1:
            reward, share = reward.unsqueeze(-1), share.unsqueeze(-1)
        return reward + share * following


def value_unit(decisions: Decisions, spec: Spec, settings: ValueSettings) -> ValueUnit:
    """The unit of a training: from its settings, or where they leave it open, from the log."""
    discount = spec.discount if settings.discount is None else settings.discount
    scale = settings.reward_scale or reward_scale(decisions, discount)
    return ValueUnit(scale, discount, settings.discount_per == "second")


def reward_scale(decisions: Decisions, discount: float) -> float:
    """One over the mean size of an episode's return, or of what a discount leaves of it."""
    returns = np.abs(decisions.episodes["return"].to_numpy()).mean()
    if discount < 1.0:
        returns = min(returns, np.abs(decisions.reward).mean() / (1.0 - discount))
    return 1.0 / float(returns) if returns > 0.0 else 1.0
