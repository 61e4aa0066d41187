"""What agents that learn values have in common: their settings, the unit of values, targets.

    y = (1 - m) * (r + gamma ** interval * V(s')) + m * G           m: `monte_carlo`

with r, G the reward and the logged return to go, scaled so that values are of order one whatever
the unit of the reward. Where `baseline` is "window" they are measured against other episodes of the
window (`policies.training.returns.against_window`); policies keep their order either way.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pipeline.dataset.decisions import Decisions
from pipeline.recipes.settings import require_numbers
from pipeline.simulation.spec import Spec
from pipeline.statistics.returns import step_discounts
from policies.networks.settings import NetworkSettings
from policies.training.minibatches import Transitions
from policies.training.returns import against_window, discounted_to_go


@dataclass(frozen=True)
class ValueSettings:
    """Settings of every agent that learns values.

    minibatch       transitions per step
    discount        gamma, or None for the one that the objective is meant for
    discount_per    what gamma is raised to: 1 per decision, or the seconds that passed
    reward_scale    rewards are multiplied by it; 0: one over the mean size of a return, or, with
                    a baseline, 1
    baseline        "window": rewards against what other episodes of the window came to; "none"
    monte_carlo     m, the share of the logged return in targets. 0 learns of what the agent itself
                    would go on to do, if its values have the time to come back from the end of an
                    episode: m of what is known is forgotten per decision. 1 learns how well
                    the log went on after a choice
    """

    minibatch: int = 256
    discount: float | None = None
    discount_per: Literal["decision", "second"] = "decision"
    reward_scale: float = 0.0
    baseline: Literal["none", "window"] = "window"
    monte_carlo: float = 0.5
    learning_rate: float = 1e-3
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False, context=True)
    )


@dataclass(frozen=True)
class ValueUnit:
    """How rewards and time enter a target, of decisions that `prepare` has returned.

    gain + remaining * discount ** interval * next value
    """

    scale: float
    discount: float
    per_second: bool
    baseline: bool = False
    monte_carlo: float = 0.0

    def prepare(self, decisions: Decisions) -> Decisions:
        """The decisions with `reward` and `to_go` as targets take them; untouched where they do."""
        if not (self.baseline or self.monte_carlo):
            return decisions
        share = step_discounts(decisions.elapsed_s, self.discount, per_second=self.per_second)
        reward, to_go = decisions.reward, discounted_to_go(decisions, share)
        if self.baseline:
            reward, to_go = against_window(decisions, to_go, share)
        return replace(decisions, reward=reward, to_go=to_go)

    def gain(self, steps: Transitions) -> Tensor:
        """What a target knows without a value, (B,): the reward mixed with the logged return."""
        if not self.monte_carlo:
            return steps.reward * self.scale
        return torch.lerp(steps.reward, steps.to_go, self.monte_carlo) * self.scale

    def remaining(self, steps: Transitions) -> Tensor:
        """The weight of the next value before it is discounted, (B,); 0 where there is none."""
        return (1.0 - self.monte_carlo) * (1.0 - steps.terminal)

    def interval(self, steps: Transitions) -> Tensor:
        """What the discount is raised to, (B,)."""
        return steps.elapsed_s if self.per_second else steps.reward.new_ones(len(steps.reward))

    def target(self, steps: Transitions, following: Tensor) -> Tensor:
        """Targets from finite values of what followed, (B,) or the quantiles (B, Q) of it."""
        reward, share = self.gain(steps), self.discount ** self.interval(steps)
        share = share * self.remaining(steps)
        if following.dim() > 1:
            reward, share = reward.unsqueeze(-1), share.unsqueeze(-1)
        return reward + share * following


def value_unit(decisions: Decisions, spec: Spec, settings: ValueSettings) -> ValueUnit:
    """The unit of a training: from its settings, or where they leave it open, from the log."""
    require_numbers(settings, "from 0 to 1", "monte_carlo")
    discount = spec.discount if settings.discount is None else settings.discount
    baseline = settings.baseline == "window"
    scale = settings.reward_scale or (1.0 if baseline else reward_scale(decisions, discount))
    per_second = settings.discount_per == "second"
    return ValueUnit(scale, discount, per_second, baseline, settings.monte_carlo)


def reward_scale(decisions: Decisions, discount: float) -> float:
    """One over the mean size of an episode's return, or of what a discount leaves of it."""
    returns = np.abs(decisions.episodes["return"].to_numpy()).mean()
    if discount < 1.0:
        returns = min(returns, np.abs(decisions.reward).mean() / (1.0 - discount))
    return 1.0 / float(returns) if returns > 0.0 else 1.0
