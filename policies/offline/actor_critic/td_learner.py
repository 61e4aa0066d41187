"""The parts of a training run that agents in plain torch share: everything around their loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.settings import Network, Weights
from hindcast.policies.training.learner import Info, Learner, Task, descend, nothing_to_validate
from hindcast.policies.training.minibatches import Batches, Transitions, draw_rows, spaced_rows
from hindcast.policies.training.values import ValueSettings, ValueUnit, value_unit

_VALIDATED = 1024  # transitions


@dataclass(frozen=True)
class TDRun:
    """Shared parts of agents with values, before their loss.

    Attributes:
        task: Input of the run.
        config: Settings of the agent.
        weights_rng: Generator of the first weights.
        rng: Generator of the minibatches.
        unit: Unit of values.
        network: Shape of the network that acts.
    """

    task: Task
    config: ValueSettings
    weights_rng: np.random.Generator
    rng: np.random.Generator
    unit: ValueUnit
    network: Network


def begin(task: Task, config: ValueSettings) -> TDRun:
    """Return a run with new generators, and a network for the decisions of the task."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    unit = value_unit(task.decisions, task.spec, config)
    network = fit_network(task.decisions, task.spec, config.network)
    return TDRun(task, config, weights_rng, rng, unit, network)


def td_learner(
    run: TDRun,
    weights: Callable[[], Weights],
    modules: Mapping[str, nn.Module],
    loss_of: Callable[[Transitions, int], tuple[Tensor, Info]],
    after: Callable[[], None],
    rates: Mapping[str, float] | None = None,
) -> Learner:
    """Return the learner with uniform minibatches and Adam, which validates with the same loss.

    The metrics are `loss` and those of the loss function.

    Args:
        run: What precedes the loss.
        weights: Returns the current weights of the network that acts.
        modules: Everything with parameters; parameters without a gradient are not trained.
        loss_of: Function of transitions and the number of the step. It returns the sum of the
            losses, where each loss has gradients for its own module only, and metrics. To validate,
            it is called without gradients and with the number 0.
        after: Called after every step, to move targets.
        rates: Learning rates of modules that do not use that of the settings.
    """
    task, config, unit, network = run.task, run.config, run.unit, run.network
    validation, rate_of = task.validation, rates or {}
    batches = Batches(unit.prepare(task.decisions), network, task.device)
    groups = [
        {
            "params": [p for p in module.to(task.device).parameters() if p.requires_grad],
            "lr": rate_of.get(name, config.learning_rate),
        }
        for name, module in modules.items()
    ]
    optimiser = torch.optim.Adam([group for group in groups if group["params"]])

    def step(number: int) -> Info:
        rows = draw_rows(len(task.decisions), config.minibatch, run.rng)
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
        rng=run.rng, step=step, validate=validate,
    )  # fmt: skip


def td_metrics(error: Tensor, value: Tensor) -> Info:
    """Return the curves of every agent with values: mean size of the TD error, and mean value."""
    return {"td_error": error.detach().abs().mean(), "mean_q": value.detach().mean()}
