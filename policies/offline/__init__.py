"""Agents that learn from logs: a registry, and their settings.

Importing this loads nothing but the registry (the command line's help reads it); an agent's
module, and with it torch, is loaded when it is trained.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.errors import unknown_name
from pipeline.plugins import Registry

ALL: Final = "all"  # in a recipe: every agent that is for its scenario


@dataclass(frozen=True)
class Agent:
    """An offline learner and the decisions that it wants.

    module        where its implementation is; loaded when the agent is used
    attribute     name of the implementation in the module; "": the module itself. It has Config,
                  a frozen dataclass, and learner(task, config), see policies.training.learner
    transitions   whether it needs what followed each decision (Decisions.next_*)
    per_episode   decisions to draw of every episode, None for all
    candidates    K, to which candidate sets are cut
    scenarios     the only ones that it is for; () for all
    probabilities whether it needs Decisions.probabilities
    whole         whether it goes through whole logs too: its learner takes `logs`, see
                  policies.training.episode_stream
    """

    name: str
    module: str
    transitions: bool
    description: str
    per_episode: int | None = 60
    candidates: int = 32
    scenarios: tuple[str, ...] = ()
    probabilities: bool = False
    whole: bool = False
    attribute: str = ""

    def implementation(self) -> Any:
        """Return the object that has the agent's `Config` and `learner`; loads its module."""
        module = importlib.import_module(self.module)
        return getattr(module, self.attribute) if self.attribute else module


_ALL: Final = (
    Agent("behaviour_cloning", "policies.offline.cloning.behaviour_cloning", transitions=False,
          description="imitates the log: cross-entropy of the logged choices"),
    Agent("trajectory_preference", "policies.offline.preference.trajectory_preference",
          transitions=False,
          description="prefers the choices of the better of two episodes of one window"),
    Agent("dqn", "policies.offline.q_learning.agents", transitions=True, attribute="DQN",
          description="Q-learning towards a target network, over masked candidates (d3rlpy)"),
    Agent("nfq", "policies.offline.q_learning.agents", transitions=True, attribute="NFQ",
          description="Q-learning without a target network, over masked candidates (d3rlpy)"),
    Agent("qr_dqn", "policies.offline.q_learning.agents", transitions=True, attribute="QR_DQN",
          description="Q-learning of the quantiles of the return, over masked candidates (d3rlpy)"),
    Agent("qr_dqn_cql", "policies.offline.q_learning.agents", transitions=True,
          attribute="QR_DQN_CQL",
          description="QR-DQN that keeps the values of unlogged choices low (d3rlpy)"),
    Agent("advantage_regression", "policies.offline.regression.advantage_regression",
          transitions=False, probabilities=True, whole=True,
          description="first choice by advantages over what the log's behaviours would have done"),
    Agent("advantage_cloning", "policies.offline.regression.advantage_cloning", transitions=False,
          per_episode=None, candidates=16, probabilities=True, whole=True,
          description="imitates what the best behaviours would have done, tilted to their gains"),
    Agent("preference_ensemble", "policies.offline.preference.preference_ensemble",
          transitions=False,
          description="trajectory preference, averaged over scorers on resampled windows"),
    Agent("report_dqn", "policies.papers.thermal_report.agent", transitions=True,
          scenarios=("thermal",),
          description="the DQN of a 2018 data-centre report, mended; for thermal only"),
    Agent("double_dqn", "policies.offline.q_learning.agents", transitions=True,
          attribute="DOUBLE_DQN",
          description="Q-learning with decoupled targets over masked candidates (d3rlpy)"),
    Agent("cql", "policies.offline.q_learning.agents", transitions=True, attribute="CQL",
          description="double DQN that keeps the values of unlogged choices low (d3rlpy)"),
    Agent("filtered_cloning", "policies.offline.cloning.filtered_cloning", transitions=False,
          description="imitates the best episodes of every window only"),
    Agent("return_conditioned", "policies.offline.cloning.return_conditioned", transitions=False,
          description="imitates, knowing how well episodes went, and asks for well"),
    Agent("bcq", "policies.offline.actor_critic.bcq", transitions=True,
          description="Q-learning over the candidates that the behaviour might have chosen"),
    Agent("iql", "policies.offline.actor_critic.iql", transitions=True,
          description="values of the best logged choices, and imitation weighted by them"),
    Agent("crr", "policies.offline.actor_critic.crr", transitions=True,
          description="imitates the logged choices that a critic finds above average"),
    Agent("awac", "policies.offline.actor_critic.awac", transitions=True,
          description="imitates the logged choices, weighted by advantages over the policy itself"),
    Agent("discrete_sac_cql", "policies.offline.actor_critic.discrete_sac_cql", transitions=True,
          description="soft actor-critic with conservative values"),
    Agent("cdqac", "policies.offline.actor_critic.cdqac", transitions=True,
          description="actor-critic with conservative quantiles of the return"),
)  # fmt: skip
AGENTS: Final = Registry[Agent]("agents", {a.name: a for a in _ALL})


def agent(name: str) -> Agent:
    """The agent of that name; UnknownName with the nearest one where there is none."""
    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)
    return AGENTS[name]


def agents_for(names: Sequence[str], scenario: str) -> tuple[str, ...]:
    """The named agents, or where "all" alone is named every one that is for the scenario."""
    if tuple(names) != (ALL,):
        return tuple(names)
    return tuple(a.name for a in AGENTS.values() if not a.scenarios or scenario in a.scenarios)


_find = agent  # `agent` is also what train_agent's first argument is best called


def read_config(agent: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The Config of an agent with these settings replaced; "network.hidden" is one of `network`.

    Raises UnknownName for the agent, RecipeError for settings that it does not have.
    """
    from pipeline.recipes.settings import read_settings

    config = _find(agent).implementation().Config
    return read_settings(config, _nested(config(), settings or {}), f"settings of {agent}")


def _nested(defaults: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names as tables, in which the agent's defaults stand for the others."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        table, dot, name = key.partition(".")
        held = nested.get(table, getattr(defaults, table, None))
        if dot and dataclasses.is_dataclass(held) and not isinstance(held, type):
            held = dataclasses.asdict(held)
        if dot and isinstance(held, dict):
            nested[table] = {**held, name: value}
        else:
            nested[key] = value
    return nested
