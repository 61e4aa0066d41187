"""Registry of the online agents, which learn by playing.

Importing this package loads only the registry, which the help of the command line reads. An agent's
module, and torch with it, is imported when the agent is trained.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.plugins import Registry

__all__ = ["ONLINE_AGENTS", "OnlineAgent", "online_agent", "read_online_config"]


@dataclass(frozen=True)
class OnlineAgent:
    """An agent that learns by playing episodes.

    Attributes:
        name: Name in the registry, on the command line and in checkpoints.
        module: Module with Config, a frozen dataclass that has `network` and `sampling`, and
            learner(problem, config, network, weights, device), see
            hindcast.policies.online.problem. If the network is not a candidate scorer, the module
            also has fit(problem, settings) and an imitator, see hindcast.policies.online.imitation.
        description: One line for the help of the command line.
        scenarios: Scenarios that the agent supports; () for all.
        whole: Whether the network reads infeasible candidates too, so that imitation needs whole
            observations.
    """

    name: str
    module: str
    description: str
    scenarios: tuple[str, ...] = ()
    whole: bool = False


ONLINE_AGENTS: Final = Registry[OnlineAgent]("online_agents", {
    "reinforce": OnlineAgent(
        "reinforce", "hindcast.policies.online.reinforce",
        "policy gradient with a baseline over trajectories (DeepJS, DeepRM)",
    ),
    "natural_gradient": OnlineAgent(
        "natural_gradient", "hindcast.policies.online.natural_gradient",
        "natural policy gradient: steps of fixed KL divergence, by Fisher-vector products",
    ),
    "evolution": OnlineAgent(
        "evolution", "hindcast.policies.online.evolution",
        "CMA-ES on the weights of a small scorer, by the return of its greedy choices",
    ),
    "ppo": OnlineAgent(
        "ppo", "hindcast.policies.online.ppo",
        "proximal policy optimisation, with or without a value network",
    ),
    "counterfactual": OnlineAgent(
        "counterfactual", "hindcast.policies.online.counterfactual",
        "policy iteration from rollouts of every candidate of a decision (ours)",
    ),
    "dqn_online": OnlineAgent(
        "dqn_online", "hindcast.policies.online.dqn",
        "double DQN over a replay buffer of played decisions, as the offline double_dqn",
    ),
})  # fmt: skip


def online_agent(name: str) -> OnlineAgent:
    """Return the agent of that name; raise UnknownName with the nearest name."""
    if name not in ONLINE_AGENTS:
        raise unknown_name("online agent", name, ONLINE_AGENTS)
    return ONLINE_AGENTS[name]


def read_online_config(agent: str, settings: Mapping[str, Any], where: str) -> Any:
    """Return the Config of an agent with these settings replaced, tables within tables too.

    Settings that a table does not name keep the agent's defaults; the result as a whole must be
    valid. Raises UnknownName for the agent, RecipeError for unknown or invalid settings.
    """
    return _replaced(importlib.import_module(online_agent(agent).module).Config(), settings, where)


def _replaced(config: Any, settings: Mapping[str, Any], where: str) -> Any:
    """Return the dataclass `config` with these settings replaced."""
    from hindcast.pipeline.settings.reading import read_settings

    merged = {f.name: getattr(config, f.name) for f in fields(config)}
    for key, value in settings.items():
        default = merged.get(key)
        inner = is_dataclass(default) and isinstance(value, Mapping)
        merged[key] = _replaced(default, value, f"{where}.{key}") if inner else value
    return read_settings(type(config), merged, where)
