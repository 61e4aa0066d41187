"""From a loss on transitions to a `Learner`: what agents in plain torch share around their loss."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from policies.networks.candidate_scorer import fit_network
from policies.networks.settings import Network, Weights
from policies.training.learner import Info, Learner, Task, descend, nothing_to_validate
from policies.training.minibatches import Batches, Transitions, draw_rows, spaced_rows
from policies.training.values import ValueSettings, ValueUnit, value_unit

_VALIDATED = 1024  # transitions


def begin(
    task: Task, config: ValueSettings
) -> tuple[np.random.Generator, np.random.Generator, ValueUnit, Network]:
    """Generators of first weights and of minibatches, the unit of values, the network's shape."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    unit = value_unit(task.decisions, task.spec, config)
    return weights_rng, rng, unit, fit_network(task.decisions, task.spec, config.network)


def td_learner(
    task: Task,
    config: ValueSettings,
    unit: ValueUnit,
    rng: np.random.Generator,
    network: Network,
    weights: Callable[[], Weights],
    modules: Mapping[str, nn.Module],
    loss_of: Callable[[Transitions, int], tuple[Tensor, Info]],
    after: Callable[[], None],
    rates: Mapping[str, float] | None = None,
) -> Learner:
    """One run: uniform minibatches, Adam on all parameters, the same loss on validation decisions.

    Metrics are those of the loss and `loss` itself.

    network   shape of what acts, and `weights`, those of it now
    modules   everything with parameters; those that need no gradient are not trained
    loss_of   (steps, number of the step) -> the sum of the losses, each with gradients for its own
              part only, and metrics; called without gradients, with number 0, to validate
    after     what follows a step (targets)
    rates     learning rates of modules that have one of their own
    """
    validation, own = task.validation, rates or {}
    batches = Batches(unit.prepare(task.decisions), network, task.device)
    groups = [
        {
            "params": [p for p in module.to(task.device).parameters() if p.requires_grad],
            "lr": own.get(name, config.learning_rate),
        }
        for name, module in modules.items()
    ]
    optimiser = torch.optim.Adam([group for group in groups if group["params"]])

    def step(number: int) -> Info:
        rows = draw_rows(len(task.decisions), config.minibatch, rng)
        loss, info = loss_of(batches.transitions(rows), number)
        descend(optimiser, loss)
        after()
        return {"loss": loss.detach(), **info}

    validate = nothing_to_validate
    if validation is not None and len(validation) and validation.next_mask is not None:
        held_out = Batches(unit.prepare(validation), network, task.device)
        steps = held_out.transitions(spaced_rows(len(validation), _VALIDATED))

        @torch.no_grad()
        def validate() -> Mapping[str, float]:
            loss, info = loss_of(steps, 0)
            return {f"validation_{k}": float(v) for k, v in {"loss": loss, **info}.items()}

    return Learner(
        network=network, weights=weights, modules=modules, optimisers={"adam": optimiser},
        rng=rng, step=step, validate=validate,
    )  # fmt: skip


def td_metrics(error: Tensor, value: Tensor) -> Info:
    """Curves of anything that learns values: mean size of the TD error, mean value."""
    return {"td_error": error.detach().abs().mean(), "mean_q": value.detach().mean()}
