"""Agents that learn from logs: a registry, and one way to train any of them.

Importing this loads neither torch nor d3rlpy; an agent's module is loaded when it is trained.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline.decisions import Decisions
from pipeline.errors import DatasetError, InputError, unknown_name
from pipeline.recipe import read_settings
from pipeline.schema import Spec
from policies.checkpoint import Metric, Trained, save

__all__ = ["AGENTS", "Agent", "Metric", "Trained", "agent", "read_config", "save", "train_agent"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Agent:
    """An offline learner and the decisions that it wants.

    module        has Config, a frozen dataclass, and train(decisions, spec, config, ...)
    transitions   whether it needs what followed each decision (Decisions.next_*)
    per_episode   decisions to draw of every episode, None for all
    candidates    K, to which candidate sets are cut
    """

    name: str
    module: str
    transitions: bool
    per_episode: int | None
    candidates: int
    description: str


AGENTS: Final[Mapping[str, Agent]] = {
    "behaviour_cloning": Agent(
        "behaviour_cloning", "policies.offline.behaviour_cloning", transitions=False,
        per_episode=60, candidates=32,
        description="imitates the log: cross-entropy of the logged choices",
    ),
    "trajectory_preference": Agent(
        "trajectory_preference", "policies.offline.trajectory_preference", transitions=False,
        per_episode=60, candidates=32,
        description="prefers the choices of the better of two episodes of one window",
    ),
    "double_dqn": Agent(
        "double_dqn", "policies.offline.double_dqn", transitions=True,
        per_episode=60, candidates=32,
        description="Q-learning with decoupled targets over masked candidates (d3rlpy)",
    ),
    "cql": Agent(
        "cql", "policies.offline.cql", transitions=True,
        per_episode=60, candidates=32,
        description="double DQN that keeps the values of unlogged choices low (d3rlpy)",
    ),
}  # fmt: skip


def agent(name: str) -> Agent:
    """The agent of that name; UnknownName with the nearest one where there is none."""
    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)
    return AGENTS[name]


_find = agent  # `agent` is also what train_agent's first argument is best called


def read_config(agent: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The Config of an agent with these settings replaced.

    Raises UnknownName for the agent, RecipeError for settings that it does not have.
    """
    module = importlib.import_module(_find(agent).module)
    return read_settings(module.Config, settings or {}, f"settings of {agent}")


def train_agent(
    agent: str,
    decisions: Decisions,
    spec: Spec,
    *,
    steps: int,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    validation: Decisions | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train the agent of that name for `steps` gradient steps.

    The same decisions, settings and seed give the same weights, bit for bit. `validation` adds
    points to the curves; `progress(done, steps)` is called now and then. Raises UnknownName,
    RecipeError for settings the agent does not have, DatasetError for decisions it cannot learn
    from.
    """
    found = _find(agent)
    if steps < 1:
        raise InputError(f"steps is {steps}, expected at least 1")
    if len(decisions) == 0:
        raise DatasetError(f"{agent}: there are no decisions to learn from")
    if found.transitions and decisions.next_mask is None:
        raise DatasetError(f"{agent} needs what followed each decision; load with transitions")
    shape = (decisions.context.shape[1], decisions.candidates.shape[2])
    if shape != (len(spec.context), len(spec.candidates)):
        raise DatasetError(
            f"{agent}: decisions have {shape[0]} context and {shape[1]} candidate features, the "
            f"scenario {len(spec.context)} and {len(spec.candidates)}"
        )
    config = read_config(agent, settings)
    module = importlib.import_module(found.module)
    trained = module.train(
        decisions, spec, config, steps=steps, seed=seed, validation=validation,
        progress=progress or _silent,
    )  # fmt: skip
    assert isinstance(trained, Trained)
    return dataclasses.replace(trained, config=dataclasses.asdict(config))


def _silent(done: int, steps: int) -> None:
    """No progress is shown."""
