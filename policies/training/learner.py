"""The interface between an agent and the training loop: its steps, and everything with state.

An agent is a module policies/offline/<name>.py with `Config`, a frozen dataclass, and

    def learner(task, config) -> Learner

The loop (hindcast.policies.training.loop) does the rest: step sizes, curves, checkpoints and
resuming after a kill. A resumed run ends in the same weights, bit for bit, only if everything that
changes from step to step is in `modules` (parameters and buffers), `optimisers` or `rng`. So a
counter or a running mean is a buffer, and a target network is a module; the number of the step is
an argument.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks import AnyNetwork
from hindcast.policies.networks.settings import Weights
from hindcast.policies.training.episode_stream import Logs

Info = Mapping[str, Tensor]
Loss = Callable[[], tuple[Tensor, Info]]  # loss of some decisions, and metrics with `agreement`
CPU: Final = torch.device("cpu")


@dataclass(frozen=True)
class Task:
    """The input of one training run, besides its settings.

    Attributes:
        decisions: Decisions to learn from.
        spec: Spec of the scenario that the decisions come from.
        steps: Number of steps of the run.
        seed: Seed of every random draw of the run.
        validation: Decisions that the agent does not learn from, if there are any.
        device: Device to train on.
        logs: Whole logs, for agents with `Agent.whole`.
    """

    decisions: Decisions
    spec: Spec
    steps: int
    seed: int
    validation: Decisions | None = None
    device: torch.device = CPU
    logs: Logs | None = None


@dataclass(frozen=True)
class Criterion:
    """The metric that selects the best of an agent's checkpoints.

    The metric is one that `validate` returns, or one that the loop measures for every agent
    (hindcast.policies.training.monitoring). An agent may name its own loss if a lower loss means a
    better scheduler or imitator. A TD error is no such loss: its target moves with the values.

    Attributes:
        metric: Name of the metric.
        better: "lower" or "higher", the direction of improvement.
    """

    metric: str = "validation_preference"
    better: Literal["lower", "higher"] = "higher"

    def score(self, metrics: Mapping[str, float]) -> float | None:
        """Return the score of a checkpoint with these metrics, higher is better, or None."""
        value = metrics.get(self.metric)
        return -value if value is not None and self.better == "lower" else value


LOWEST_LOSS: Final = Criterion("validation_loss", "lower")


@dataclass(frozen=True)
class Learner:
    """One training run, before its first step.

    Attributes:
        network: Shape and feature maps of the scorer that acts.
        weights: Function that returns the current weights of that scorer: float32 arrays by the
            names of `network.shapes`.
        modules: Everything with state: scorer, critics, targets.
        optimisers: Optimisers of the modules; the loop sets their step sizes.
        rng: Generator of all draws in `step`; it may be drawn from, never spawned from.
        step: Function that takes one gradient step, numbered from 1, and returns its metrics, not
            yet fetched from the device.
        validate: Function that returns metrics on the validation decisions, {} if there are none.
        decays: True if step sizes fall linearly over the run, to `floor` times their first value.
        floor: Share of the step size that is left at the end of the run, 0 to 1.
        most_steps: Largest number of steps that the learner can use (1 if the first step is the
            solution), or None for no limit.
        criterion: Metric that selects the best checkpoint.
    """

    network: AnyNetwork
    weights: Callable[[], Weights]
    modules: Mapping[str, nn.Module]
    optimisers: Mapping[str, torch.optim.Optimizer]
    rng: np.random.Generator
    step: Callable[[int], Info]
    validate: Callable[[], Mapping[str, float]]
    decays: bool = True
    floor: float = 0.0
    most_steps: int | None = None
    criterion: Criterion = Criterion()


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step of the optimiser down the gradient of `loss`."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def means(found: Sequence[Info]) -> Info:
    """Return the means of each metric over several steps; {} for no steps."""
    return {name: torch.stack([one[name] for one in found]).mean() for name in (found or [{}])[0]}


def descent(
    network: AnyNetwork,
    scorer: nn.Module,
    weights: Callable[[], Weights],
    optimiser: torch.optim.Optimizer,
    rng: np.random.Generator,
    loss: Loss,
    held_out: Loss | None,
) -> Learner:
    """Return the learner that descends the loss of minibatches, as imitation does.

    `loss` draws its decisions with `rng`. `held_out` is the loss of the same validation decisions
    at every call; the best checkpoint is the one with the lowest `held_out`.
    """

    def step(_number: int) -> Info:
        found, info = loss()
        descend(optimiser, found)
        return {"loss": found.detach(), **info}

    return Learner(
        network=network,
        weights=weights,
        modules={"scorer": scorer},
        optimisers={"scorer": optimiser},
        rng=rng,
        step=step,
        validate=validation_of(held_out),
        criterion=LOWEST_LOSS,
    )


def validation_of(held_out: Loss | None) -> Callable[[], Mapping[str, float]]:
    """Return the `validate` of a learner whose loss on validation decisions is `held_out`."""
    if held_out is None:
        return nothing_to_validate

    @torch.no_grad()
    def validate() -> Mapping[str, float]:
        loss, info = held_out()
        return {"validation_loss": float(loss), "validation_agreement": float(info["agreement"])}

    return validate


def nothing_to_validate() -> Mapping[str, float]:
    """Return no metrics: the `validate` of a learner without validation decisions."""
    return {}
