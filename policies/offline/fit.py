"""Training on decisions in memory: the checks and the learner."""

from dataclasses import replace
from typing import Any

from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.rules import COLUMNS_PER_RULE
from hindcast.policies.offline import Agent
from hindcast.policies.offline.sample_cache import rules_of
from hindcast.policies.training.devices import repeatable
from hindcast.policies.training.job import Prepared, prepared
from hindcast.policies.training.learner import Task
from hindcast.policies.training.loop import NO_CALLBACKS, Callbacks, fit


def train_decisions(
    agent: Agent, config: Any, task: Task, callbacks: Callbacks = NO_CALLBACKS
) -> Trained:
    """Train an agent with its Config on the decisions of a task.

    The same decisions, settings and seed give the same weights, bit for bit, whatever the callbacks
    are. Their `measure` is replaced by that of `prepared`.

    Raises:
        DatasetError: The agent cannot learn from these decisions.
        InputError: The number of steps is below 1.
    """
    with repeatable(task.device):
        prepared = prepare(agent, config, task)
        measured = replace(callbacks, measure=prepared.callbacks.measure)
        return fit(prepared.learner, prepared.begun, measured)


def prepare(agent: Agent, config: Any, task: Task) -> Prepared:
    """Return the training on the decisions of a task before its first step.

    Raises DatasetError or InputError as `check_decisions` does.
    """
    check_decisions(agent, config, task)
    return prepared(agent.name, agent.implementation().learner(task, config), config, task)


def check_decisions(agent: Agent, config: Any, task: Task) -> None:
    """Raise DatasetError or InputError if the agent cannot learn from the decisions of a task."""
    decisions, spec = task.decisions, task.spec
    if task.steps < 1:
        raise InputError(f"steps is {task.steps}, expected at least 1")
    if agent.scenarios and spec.scenario not in agent.scenarios:
        raise InputError(
            f"{agent.name} is for {' and '.join(agent.scenarios)}, these decisions are of "
            f"{spec.scenario}"
        )
    if len(decisions) == 0:
        raise DatasetError(f"{agent.name}: there are no decisions to learn from")
    if agent.transitions and decisions.next_mask is None:
        raise DatasetError(f"{agent.name} needs what followed each decision; load with transitions")
    rules = rules_of(config)
    shape = (decisions.context.shape[1], decisions.candidates.shape[2])
    expected = (len(spec.context), len(spec.candidates) + COLUMNS_PER_RULE * len(rules))
    if shape != expected:
        raise DatasetError(
            f"{agent.name}: decisions have {shape[0]} context and {shape[1]} candidate features, "
            f"the scenario has {expected[0]} and {len(spec.candidates)}"
            + f", and {len(rules)} rules have {COLUMNS_PER_RULE} columns each"
            * bool(rules)
        )
