"""Agents that learn by playing: a registry.

Importing this loads nothing but the registry (the command line's help reads it); an agent's
module, and with it torch, is loaded when it is trained.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from pipeline.errors import unknown_name
from pipeline.plugins import Registry

__all__ = ["ONLINE_AGENTS", "OnlineAgent", "online_agent", "read_online_config"]


@dataclass(frozen=True)
class OnlineAgent:
    """A learner that draws its own episodes.

    module      has Config, a frozen dataclass with `network` and `sampling`, and
                learner(problem, config, network, weights, device), see policies.online.problem;
                and fit(problem, settings) where its network is not a candidate scorer; then also
                an imitator, see policies.online.imitation
    scenarios   the only ones that it is for; () for all
    whole       whether it imitates whole observations: its network reads what is not feasible too
    """

    name: str
    module: str
    description: str
    scenarios: tuple[str, ...] = ()
    whole: bool = False


ONLINE_AGENTS: Final = Registry[OnlineAgent]("online_agents", {
    "reinforce": OnlineAgent(
        "reinforce", "policies.online.reinforce",
        "policy gradient with a baseline over trajectories (DeepJS, DeepRM)",
    ),
    "natural_gradient": OnlineAgent(
        "natural_gradient", "policies.online.natural_gradient",
        "steps of a fixed size in choice probabilities, by Fisher-vector products",
    ),
    "evolution": OnlineAgent(
        "evolution", "policies.online.evolution",
        "CMA-ES: the weights of a small scorer by what its greedy choices earn",
    ),
    "ppo": OnlineAgent(
        "ppo", "policies.online.ppo",
        "several passes over the same decisions within a clip, with values or without",
    ),
    "counterfactual": OnlineAgent(
        "counterfactual", "policies.online.counterfactual",
        "policy iteration: what every candidate would have led to, by rollouts (ours)",
    ),
    "dqn_online": OnlineAgent(
        "dqn_online", "policies.online.dqn",
        "double DQN over a replay of what it played, as the offline double_dqn",
    ),
    "score_ppo": OnlineAgent(
        "score_ppo", "policies.papers.osdec.agent",
        "scores of all jobs of a slot, drawn at once (OSDEC and its variants)",
        scenarios=("deferrable",),
        whole=True,
    ),
    "monte_carlo_value": OnlineAgent(
        "monte_carlo_value", "policies.papers.liu.agent",
        "values known at the end of an episode, a replay, a rule that guides exploration (Liu)",
        scenarios=("multicluster",),
    ),
    "price_evolution": OnlineAgent(
        "price_evolution", "policies.papers.prices.agent",
        "CMA-ES of what a core of the coming slots costs, for an exact knapsack (ours)",
        scenarios=("deferrable",),
        whole=True,
    ),
})  # fmt: skip


def online_agent(name: str) -> OnlineAgent:
    """The agent of that name; UnknownName with the nearest one where there is none."""
    if name not in ONLINE_AGENTS:
        raise unknown_name("online agent", name, ONLINE_AGENTS)
    return ONLINE_AGENTS[name]


def read_online_config(agent: str, settings: Mapping[str, Any], where: str) -> Any:
    """The Config of an agent with these settings, tables within tables, replaced.

    What a table does not name stays as the agent has it, and the whole is what must be valid.
    Raises UnknownName for the agent, RecipeError for settings that it does not have.
    """
    return _replaced(importlib.import_module(online_agent(agent).module).Config(), settings, where)


def _replaced(held: Any, settings: Mapping[str, Any], where: str) -> Any:
    """The dataclass `held` with these settings in place of its own."""
    from pipeline.recipes.settings import read_settings

    merged = {f.name: getattr(held, f.name) for f in fields(held)}
    for key, value in settings.items():
        own = merged.get(key)
        inner = is_dataclass(own) and isinstance(value, Mapping)
        merged[key] = _replaced(own, value, f"{where}.{key}") if inner else value
    return read_settings(type(held), merged, where)
