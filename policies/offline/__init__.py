"""The registry of agents that learn from logs, and their settings.

Importing this package loads the registry alone, which the command line's help reads. The module of
an agent, and torch with it, is loaded when the agent is trained.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.plugins import Registry

ALL: Final = "all"  # in a recipe: every agent for the scenario


@dataclass(frozen=True)
class Agent:
    """An agent that learns from datasets, and the decisions that it needs.

    Attributes:
        name: Name of the agent in commands and recipes.
        module: Dotted name of the module with the implementation; loaded when the agent is used.
        transitions: True if the agent needs what followed each decision (Decisions.next_*).
        description: One line for people, which begins with the standard name of the algorithm.
        per_episode: Number of decisions to draw of every episode, or None for all of them.
        candidates: Number K of candidates to which candidate sets are cut.
        scenarios: Names of the only scenarios that the agent is for; () for all scenarios.
        probabilities: True if the agent needs Decisions.probabilities.
        whole: True if the agent also reads whole logs, from `Task.logs`
            (hindcast.policies.training.episode_stream).
        around: True if the agent learns only from episodes that drew the weights of their policy
            (hindcast.policies.heuristics.around, hindcast.policies.heuristics.prices). "all" leaves
            it out.
        pairs: True if the agent compares episodes of one window.
        attribute: Name of the implementation in the module; "" means the module itself. The
            implementation has `Config`, a frozen dataclass, and `learner(task, config)`, see
            hindcast.policies.training.learner.
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
    around: bool = False
    pairs: bool = False
    attribute: str = ""

    def implementation(self) -> Any:
        """Return the object with the agent's `Config` and `learner`, after loading its module.

        Returns:
            The module, or its attribute of the name `attribute`.

        Raises:
            ImportError: The module cannot be imported.
        """
        module = importlib.import_module(self.module)
        return getattr(module, self.attribute) if self.attribute else module


_ALL: Final = (
    Agent("behaviour_cloning", "hindcast.policies.offline.cloning.behaviour_cloning",
          transitions=False,
          description="behaviour cloning: imitates the logged choices (cross-entropy)"),
    Agent("trajectory_preference", "hindcast.policies.offline.preference.trajectory_preference",
          transitions=False, pairs=True,
          description="trajectory preference: imitates the better of two episodes of one window"),
    Agent("dqn", "hindcast.policies.offline.q_learning.agents", transitions=True, attribute="DQN",
          description="DQN: Q-learning with a target network, over masked candidates (d3rlpy)"),
    Agent("nfq", "hindcast.policies.offline.q_learning.agents", transitions=True, attribute="NFQ",
          description="neural fitted Q iteration: Q-learning without a target network (d3rlpy)"),
    Agent("qr_dqn", "hindcast.policies.offline.q_learning.agents",
          transitions=True, attribute="QR_DQN",
          description="quantile-regression DQN: learns quantiles of the return (d3rlpy)"),
    Agent("qr_dqn_cql", "hindcast.policies.offline.q_learning.agents", transitions=True,
          attribute="QR_DQN_CQL",
          description="QR-DQN with CQL: keeps the values of unlogged choices low (d3rlpy)"),
    Agent("advantage_regression", "hindcast.policies.offline.regression.advantage_regression",
          transitions=False, probabilities=True, whole=True,
          description="advantage regression: takes the choice of highest fitted advantage"),
    Agent("advantage_cloning", "hindcast.policies.offline.regression.advantage_cloning",
          transitions=False,
          per_episode=None, candidates=16, probabilities=True, whole=True,
          description="advantage cloning: imitates the best behaviours, tilted to high advantages"),
    Agent("response_surface", "hindcast.policies.offline.regression.response_surface",
          transitions=False,
          per_episode=1, whole=True, around=True,
          description="response surface: the best weights around a rule, by regression on the "
                      "outcomes of episodes that drew theirs (around_RULE)"),
    Agent("preference_ensemble", "hindcast.policies.offline.preference.preference_ensemble",
          transitions=False, pairs=True,
          description="preference ensemble: mean of trajectory preference on resampled windows"),
    Agent("double_dqn", "hindcast.policies.offline.q_learning.agents", transitions=True,
          attribute="DOUBLE_DQN",
          description="double DQN: DQN whose targets choose and value by two networks (d3rlpy)"),
    Agent("cql", "hindcast.policies.offline.q_learning.agents", transitions=True, attribute="CQL",
          description="conservative Q-learning: keeps values of unlogged choices low (d3rlpy)"),
    Agent("filtered_cloning", "hindcast.policies.offline.cloning.filtered_cloning",
          transitions=False,
          description="filtered cloning: imitates only the best episodes of every window"),
    Agent("return_conditioned", "hindcast.policies.offline.cloning.return_conditioned",
          transitions=False,
          description="return-conditioned cloning: imitates logged choices "
                      "given the return, acts for a high return"),
    Agent("bcq", "hindcast.policies.offline.actor_critic.bcq", transitions=True,
          description="discrete BCQ: Q-learning over choices that the behaviour might have made"),
    Agent("iql", "hindcast.policies.offline.actor_critic.iql", transitions=True,
          description="implicit Q-learning: values of the best logged choices, weighted imitation"),
    Agent("crr", "hindcast.policies.offline.actor_critic.crr", transitions=True,
          description="critic-regularised regression: imitates choices "
                      "that a critic finds above average"),
    Agent("awac", "hindcast.policies.offline.actor_critic.awac", transitions=True,
          description="advantage-weighted actor-critic: imitates choices weighted by advantage"),
    Agent("discrete_sac_cql", "hindcast.policies.offline.actor_critic.discrete_sac_cql",
          transitions=True,
          description="discrete soft actor-critic with CQL: keeps unlogged choices' values low"),
    Agent("cdqac", "hindcast.policies.offline.actor_critic.cdqac", transitions=True,
          description="conservative discrete quantile actor-critic: "
                      "learns quantiles of the return"),
)  # fmt: skip
AGENTS: Final = Registry[Agent]("agents", {a.name: a for a in _ALL})


def agent(name: str) -> Agent:
    """Return the agent of that name.

    Raises UnknownName, with the nearest name, if there is no such agent.
    """
    if name not in AGENTS:
        raise unknown_name("agent", name, AGENTS)
    return AGENTS[name]


def agents_for(names: Sequence[str], scenario: str) -> tuple[str, ...]:
    """Return the named agents; for "all" alone, every agent for all logs of the scenario."""
    if tuple(names) != (ALL,):
        return tuple(names)
    fit = (a for a in AGENTS.values() if not a.scenarios or scenario in a.scenarios)
    return tuple(a.name for a in fit if not a.around)


def anywhere() -> tuple[str, ...]:
    """Return the agents that learn from logs of every scenario and kind."""
    return tuple(a.name for a in AGENTS.values() if not (a.scenarios or a.around))


_find = agent  # in functions whose parameter `agent` hides it


def read_config(agent: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Return the Config of an agent with these settings replaced.

    A dotted name reaches into a table: "network.hidden" is the key `hidden` of `network`. Raises
    UnknownName for the agent, and RecipeError for settings that the agent does not have.
    """
    from hindcast.pipeline.settings.reading import read_settings

    config = _find(agent).implementation().Config
    if not settings:
        return config()
    return read_settings(config, _nested(config(), settings), f"settings of {agent}")


def _nested(defaults: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with dotted names as tables, filled up with the agent's defaults."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        table, dot, name = key.partition(".")
        table_now = nested.get(table, getattr(defaults, table, None))
        if dot and dataclasses.is_dataclass(table_now) and not isinstance(table_now, type):
            table_now = dataclasses.asdict(table_now)
        if dot and isinstance(table_now, dict):
            nested[table] = {**table_now, name: value}
        else:
            nested[key] = value
    return nested
