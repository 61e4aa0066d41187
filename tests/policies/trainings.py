"""Trainings with keywords, as tests call them."""

from pathlib import Path
from typing import Any

from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline import read_config, training
from hindcast.policies.offline.tasks import check
from hindcast.policies.online import training as online
from hindcast.policies.training.devices import find_device, repeatable
from hindcast.policies.training.job import Options, Reporting
from hindcast.policies.training.learner import Task
from hindcast.policies.training.loop import Callbacks, fit, untrained
from hindcast.policies.training.monitoring import measure_of
from hindcast.policies.training.resume import INTERVAL_S, ResumeFile

OPTIONS = ("steps", "seed", "device", "gate")


def split(given: dict[str, Any]) -> tuple[Options, Reporting]:
    """Take options and reporting out of keywords."""
    options = Options(**{name: given.pop(name) for name in OPTIONS if name in given})
    names = Reporting.__dataclass_fields__
    return options, Reporting(**{name: given.pop(name) for name in names if name in given})


def train(dataset: Path, agent: str, *, out: Path, **given: Any) -> Path:
    """Train offline in a folder."""
    options, reporting = split(given)
    return training.train(dataset, agent, out, options, **given, reporting=reporting)


def train_online(recipe: Any, *, out: Path, iterations: int | None = None, **given: Any) -> Path:
    """Train online in a folder."""
    given["steps"] = iterations
    options, reporting = split(given)
    return online.train_online(recipe, out, options, **given, reporting=reporting)


def train_agent(
    agent: str, decisions: Any, spec: Any, *, settings: dict[str, Any] | None = None, **given: Any
) -> Trained:
    """Train an agent on decisions in memory."""
    config = read_config(agent, settings)
    return train_decisions(find_agent(agent), decisions, spec, config, **given)


def train_decisions(
    agent: Any,
    decisions: Any,
    spec: Any,
    config: Any,
    *,
    steps: int,
    seed: int,
    validation: Any = None,
    logs: Any = None,
    device: str = "cpu",
    checkpoint_every: int | None = None,
    resume: tuple[Path, str] | None = None,
    resume_s: float = INTERVAL_S,
    **callbacks: Any,
) -> Trained:
    """Train an agent with its Config on decisions in memory."""
    task = Task(decisions, spec, steps, seed, validation, find_device(device), logs)
    state = None if resume is None else ResumeFile(*resume, interval_s=resume_s)
    with repeatable(task.device):
        check(agent, config, task)
        learner = agent.implementation().learner(task, config)
        begun = untrained(learner, agent.name, config, spec, steps=steps, seed=seed)
        given = {"measure": measure_of(task), **callbacks}
        return fit(learner, begun, Callbacks(every=checkpoint_every, resume=state, **given))
