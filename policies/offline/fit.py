"""Training on decisions in memory: checks, the training loop, and its callbacks."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.checkpoint import Metric, Trained
from hindcast.policies.networks.rules import COLUMNS_PER_RULE
from hindcast.policies.networks.settings import Weights
from hindcast.policies.offline import Agent, read_config
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline.sample_cache import rules_of
from hindcast.policies.training.devices import find_device, repeatable
from hindcast.policies.training.episode_stream import Logs
from hindcast.policies.training.learner import Learner, Task
from hindcast.policies.training.loop import Callbacks, Fitted, Point, Progress, Select, fit
from hindcast.policies.training.monitoring import SEEN, make_probe_set, measure
from hindcast.policies.training.resume import INTERVAL_S, ResumeFile


def train_agent(
    agent: str,
    decisions: Decisions,
    spec: Spec,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Trained:
    """Train the agent of that name; `more` are arguments of `train_decisions`.

    Raises UnknownName for the agent, RecipeError for settings that the agent does not have, and the
    errors of `train_decisions`.
    """
    config = read_config(agent, settings)
    return train_decisions(find_agent(agent), decisions, spec, config, **more)


def train_decisions(
    agent: Agent,
    decisions: Decisions,
    spec: Spec,
    config: Any,
    *,
    steps: int,
    seed: int,
    validation: Decisions | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    point: Point | None = None,
    checkpoint_every: int | None = None,
    keep: Callable[[Trained], None] | None = None,
    select: tuple[str, Select] | None = None,
    resume: tuple[Path, str] | None = None,
    resume_s: float = INTERVAL_S,
    logs: Logs | None = None,
) -> Trained:
    """Train an agent with its Config for `steps` gradient steps.

    The same decisions, settings and seed give the same weights, bit for bit, whatever the other
    arguments are.

    Args:
        agent: Agent to train.
        decisions: Decisions to learn from.
        spec: Spec of the scenario that the decisions come from.
        config: The agent's Config.
        steps: Number of gradient steps, at least 1.
        seed: Seed of every random draw.
        validation: Decisions that add points to the curves and select the best checkpoint.
        device: "cpu", "cuda" or "auto".
        progress: Called with (done, steps) about fifty times.
        point: Called with (step, metrics) about fifty times.
        checkpoint_every: Steps between two checkpoints.
        keep: Called with every checkpoint.
        select: A name, and a function that chooses the best checkpoint instead of the agent's
            criterion.
        resume: A folder and a key: the state is left in the folder for a later call with the same
            key.
        resume_s: Least number of seconds between two states.
        logs: Whole logs, which an agent with `whole` reads instead of the decisions.

    Raises:
        DatasetError: The agent cannot learn from these decisions.
        InputError: The device does not exist, or `steps` is below 1.
    """
    check_decisions(agent, decisions, spec, config, steps)
    place = find_device(device)
    with repeatable(place):
        task = Task(decisions, spec, steps, seed, validation, place, logs)
        learner: Learner = agent.implementation().learner(task, config)
        taken = min(steps, learner.most_steps or steps)
        made = untrained(agent, task, config, learner, taken)

        def keep_checkpoint(step: int, weights: Weights, metrics: tuple[Metric, ...]) -> None:
            if keep is not None:
                keep(dataclasses.replace(made, steps=step, weights=weights, metrics=metrics))

        fitted = fit(
            learner,
            taken,
            Callbacks(
                measure=measure_of(made, task),
                progress=progress or (lambda _done, _steps: None),
                point=point,
                every=checkpoint_every,
                keep=keep_checkpoint,
                select=None if select is None else select[1],
                selected_by="" if select is None else select[0],
                resume=None if resume is None else ResumeFile(*resume, interval_s=resume_s),
            ),
        )
        return trained_by(made, learner, fitted)


def untrained(agent: Agent, task: Task, config: Any, learner: Learner, steps: int) -> Trained:
    """Return the result of a training without its weights and curves."""
    settings = dataclasses.asdict(config)
    return Trained(agent.name, task.spec, learner.network, {}, settings, steps, task.seed)


def measure_of(made: Trained, task: Task) -> Callable[[Weights], Mapping[str, float]]:
    """Return the function that measures weights on the decisions of a training."""
    validation = task.validation
    held_out = None if validation is None or len(validation) == 0 else make_probe_set(validation)
    seen = make_probe_set(task.decisions, SEEN)

    def look(weights: Weights) -> Mapping[str, float]:
        now = dataclasses.replace(made, weights=weights)
        metrics = dict(measure(now, seen))
        if held_out is not None:
            metrics |= measure(now, held_out, "validation_")
        return metrics

    return look


def trained_by(made: Trained, learner: Learner, fitted: Fitted) -> Trained:
    """Return the result of a training that has taken its last step."""
    return dataclasses.replace(
        made, weights=learner.weights(), metrics=fitted.metrics, best=fitted.best
    )


def check_decisions(
    agent: Agent, decisions: Decisions, spec: Spec, config: Any, steps: int
) -> None:
    """Raise DatasetError or InputError if the agent cannot learn from these decisions."""
    if steps < 1:
        raise InputError(f"steps is {steps}, expected at least 1")
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
