"""What an agent hands to the one training loop: how to take a step, and everything with state.

An agent is a module policies/offline/<name>.py with `Config`, a frozen dataclass, and

    def learner(task, config) -> Learner

The loop (policies.training.loop) owns the rest: the step size, curves, checkpoints, going on after
a kill. For that to end in the same weights, bit for bit, whatever changes from step to step must
be in `modules` (parameters and buffers), `optimisers` or `rng`: a counter or a running mean is a
buffer, a target network a module; the number of the step is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.dataset.decisions import Decisions
from pipeline.simulation.spec import Spec
from policies.networks import AnyNetwork
from policies.networks.settings import Weights
from policies.training.episode_stream import Logs

Info = Mapping[str, Tensor]
Loss = Callable[[], tuple[Tensor, Info]]  # of some decisions, with `agreement` and more
CPU: Final = torch.device("cpu")


@dataclass(frozen=True)
class Task:
    """What one training run is given besides its settings.

    steps        that will be taken
    seed         every random draw of the run descends from it
    validation   decisions that are not learned from, where there are any
    logs         whole logs, for agents that ask for them (Agent.whole)
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
    """The metric by which one of an agent's own checkpoints is called its best.

    It is one of what `validate` returns, or of what the loop measures of any agent
    (policies.training.monitoring). An agent may name its own loss where a lower one means a better
    scheduler or imitator; a TD error does not: its target moves with the values.
    """

    metric: str = "validation_preference"
    better: Literal["lower", "higher"] = "higher"


LOWEST_LOSS: Final = Criterion("validation_loss", "lower")


@dataclass(frozen=True)
class Learner:
    """One training run, before its first step.

    network      shape and feature maps of the scorer that acts
    weights      of the acting scorer, now; float32 arrays by the names of `network.shapes`
    modules      everything with state: scorer, critics, targets
    optimisers   what moves them; the loop sets their step size
    rng          of all draws in `step`; drawn from, never spawned from
    step         one gradient step, counted from 1; its metrics, not yet fetched from the device
    validate     metrics on validation decisions, {} without any
    decays       whether step sizes fall linearly over the run, to `floor` times what they were
    most_steps   how many steps it can use: 1 where the first one is the solution; None for any
    criterion    what the best checkpoint is chosen by
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
    """One step of the optimiser down the gradient of `loss`."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def means(found: Sequence[Info]) -> Info:
    """Means over several steps of what each came to; nothing of none."""
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
    """Return the learner that descends the loss of minibatches, as those of imitators do.

    `loss` is of decisions that it draws with `rng`, `held_out` of the same validation decisions
    every time; the best checkpoint has the lowest `held_out`.
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
    """Return `validate` of a learner whose loss on validation decisions is `held_out`."""
    if held_out is None:
        return nothing_to_validate

    @torch.no_grad()
    def validate() -> Mapping[str, float]:
        loss, info = held_out()
        return {"validation_loss": float(loss), "validation_agreement": float(info["agreement"])}

    return validate


def nothing_to_validate() -> Mapping[str, float]:
    """`validate` of a learner without validation decisions."""
    return {}
