"""Settings and targets that agents with value functions share, and the unit of their values.

    y = (1 - m) * (r + gamma ** interval * V(s')) + m * G           m: `monte_carlo`

r and G are the reward and the logged return to go, scaled so that values are of order one in any
unit of the reward. If `baseline` is "window", r and G are measured against other episodes of the
window (`hindcast.policies.training.returns.against_window`); this keeps the order of policies.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.statistics.returns import step_discounts
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.training.minibatches import Outcomes
from hindcast.policies.training.returns import against_window, discounted_to_go


@dataclass(frozen=True)
class ValueSettings:
    """Settings of every agent that learns values.

    Attributes:
        minibatch: Transitions per step, at least 1.
        discount: Discount gamma, 0 to 1, or None for the discount of the objective.
        discount_per: Exponent of gamma: 1 per "decision", or the number of "second"s that passed.
        reward_scale: Factor on rewards. 0 means 1 with a baseline, and otherwise one over the mean
            size of a return.
        baseline: "window" measures rewards against other episodes of the window; "none" does not.
        monte_carlo: Share m of the logged return in targets, 0 to 1. With 0, values are those of
            the agent's own policy, but only if they have the time to propagate from the end of an
            episode to its beginning. With 1, values are those of the logged continuation after a
            choice. In between, the influence of later values decays by 1 - m per decision.
        learning_rate: Step size of Adam, above 0.
        network: Shape of the networks.
    """

    minibatch: int = number(256, "from 1 to 1,000,000")
    discount: float | None = number(None, "from 0 to 1")
    discount_per: Literal["decision", "second"] = "decision"
    reward_scale: float = number(0.0, "at least 0")
    baseline: Literal["none", "window"] = "window"
    monte_carlo: float = number(0.5, "from 0 to 1")
    learning_rate: float = number(1e-3, "above 0")
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False, context=True)
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ValueUnit:
    """The unit of rewards and time in a target, for decisions that `prepare` has returned.

        target = gain + remaining * discount ** interval * next value

    Attributes:
        scale: Factor on rewards.
        discount: Discount gamma.
        per_second: True if gamma is per second, False if it is per decision.
        baseline: True if rewards are relative to the window.
        monte_carlo: Share of the logged return in targets.
    """

    scale: float
    discount: float
    per_second: bool
    baseline: bool = False
    monte_carlo: float = 0.0

    def prepare(self, decisions: Decisions) -> Decisions:
        """Return the decisions with the `reward` and `to_go` that targets use."""
        if not (self.baseline or self.monte_carlo):
            return decisions
        share = step_discounts(decisions.elapsed_s, self.discount, per_second=self.per_second)
        reward, to_go = decisions.reward, discounted_to_go(decisions, share)
        if self.baseline:
            reward, to_go = against_window(decisions, to_go, share)
        return replace(decisions, reward=reward, to_go=to_go)

    def gain(self, steps: Outcomes) -> Tensor:
        """Return the value-free part of targets, (B,): reward mixed with the logged return."""
        if not self.monte_carlo:
            return steps.reward * self.scale
        return torch.lerp(steps.reward, steps.to_go, self.monte_carlo) * self.scale

    def remaining(self, steps: Outcomes) -> Tensor:
        """Return the weight of the next value before its discount, (B,); 0 if no state follows."""
        return (1.0 - self.monte_carlo) * (1.0 - steps.terminal)

    def interval(self, steps: Outcomes) -> Tensor:
        """Return the exponent of the discount, (B,)."""
        return steps.elapsed_s if self.per_second else steps.reward.new_ones(len(steps.reward))

    def target(self, steps: Outcomes, following: Tensor) -> Tensor:
        """Return targets from finite values of the next states, (B,), or their quantiles (B, Q)."""
        reward, share = self.gain(steps), self.discount ** self.interval(steps)
        share = share * self.remaining(steps)
        if following.dim() > 1:
            reward, share = reward.unsqueeze(-1), share.unsqueeze(-1)
        return reward + share * following


def value_unit(decisions: Decisions, spec: Spec, settings: ValueSettings) -> ValueUnit:
    """Return the unit of a training: from its settings, or from the log if they leave it open."""
    discount = spec.discount if settings.discount is None else settings.discount
    baseline = settings.baseline == "window"
    scale = settings.reward_scale or (1.0 if baseline else reward_scale(decisions, discount))
    per_second = settings.discount_per == "second"
    return ValueUnit(scale, discount, per_second, baseline, settings.monte_carlo)


def reward_scale(decisions: Decisions, discount: float) -> float:
    """Return one over the mean size of a return, or of the part that a discount leaves of it."""
    returns = np.abs(decisions.episodes["return"].to_numpy()).mean()
    if discount < 1.0:
        returns = min(returns, np.abs(decisions.reward).mean() / (1.0 - discount))
    return 1.0 / float(returns) if returns > 0.0 else 1.0
