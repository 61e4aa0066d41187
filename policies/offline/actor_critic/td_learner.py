"""From a loss on transitions to a `Learner`: what agents in plain torch share around their loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.dataset.decisions import Decisions
from policies.networks.settings import Network, Weights
from policies.training.learner import Info, Learner, descend, nothing_to_validate
from policies.training.minibatches import Batches, Transitions, draw_rows, spaced_rows
from policies.training.values import ValueSettings, ValueUnit

_VALIDATED = 1024  # transitions


@dataclass(frozen=True)
class Parts:
    """What an agent is made of.

    network   shape of what acts, and `weights`, those of it now
    modules   everything with parameters; those that need no gradient are not trained
    loss      (steps, number of the step) -> the sum of the losses, each with gradients for its own
              part only, and metrics; called without gradients, with number 0, to validate
    after     what follows a step (targets)
    rates     learning rates of modules that have one of their own
    """

    network: Network
    weights: Callable[[], Weights]
    modules: Mapping[str, nn.Module]
    loss: Callable[[Transitions, int], tuple[Tensor, Info]]
    after: Callable[[], None]
    rates: Mapping[str, float] = field(default_factory=dict)


def assemble(
    parts: Parts,
    decisions: Decisions,
    validation: Decisions | None,
    config: ValueSettings,
    unit: ValueUnit,
    rng: np.random.Generator,
    device: torch.device,
) -> Learner:
    """One run: uniform minibatches, Adam on all parameters, the same loss on validation decisions.

    Metrics are those of the loss and `loss` itself.
    """
    batches = Batches(unit.prepare(decisions), parts.network, device)
    groups = [
        {
            "params": [p for p in module.to(device).parameters() if p.requires_grad],
            "lr": parts.rates.get(name, config.learning_rate),
        }
        for name, module in parts.modules.items()
    ]
    optimiser = torch.optim.Adam([group for group in groups if group["params"]])

    def step(number: int) -> Info:
        rows = draw_rows(len(decisions), config.minibatch, rng)
        loss, info = parts.loss(batches.transitions(rows), number)
        descend(optimiser, loss)
        parts.after()
        return {"loss": loss.detach(), **info}

    validate = nothing_to_validate
    if validation is not None and len(validation) and validation.next_mask is not None:
        held_out = Batches(unit.prepare(validation), parts.network, device)
        steps = held_out.transitions(spaced_rows(len(validation), _VALIDATED))

        @torch.no_grad()
        def validate() -> Mapping[str, float]:
            loss, info = parts.loss(steps, 0)
            found = {"loss": loss, **info}
            return {f"validation_{name}": float(value) for name, value in found.items()}

    return Learner(
        network=parts.network,
        weights=parts.weights,
        modules=parts.modules,
        optimisers={"adam": optimiser},
        rng=rng,
        step=step,
        validate=validate,
    )


def td_metrics(error: Tensor, value: Tensor) -> Info:
    """Curves of anything that learns values: mean size of the TD error, mean value."""
    return {"td_error": error.detach().abs().mean(), "mean_q": value.detach().mean()}
