"""The guard of an online training: episodes on which the selected checkpoint must keep up.

Windows of a recipe are short. An agent can win them and still be worse over longer times: a
scheduler may starve jobs that a window does not count. The guard plays other episodes of the same
scenario, such as one long window, with rules once and with the agent at every point of the curves.

    validation_return    selects, as without a guard
    guard_return         must be at least guard_least, or the checkpoint is not the best
    guard_least          the best rule's return, less the tolerance
    guard_<outcome>      of every outcome with a limit: must be at most guard_<outcome>_most
    guard_<outcome>_most the smallest outcome of the rules, times the limit

A limit on the longest wait excludes agents that let a few jobs wait for months; a mean return may
not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hindcast.pipeline.errors import RecipeError, unknown_name
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import Episode, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario, with_added
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.heuristics import rules
from hindcast.policies.heuristics.needs import require_columns
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.rollouts.trajectories import sample_trajectories

RETURN = "guard_return"
LEAST = "guard_least"
_MOST = "_most"


@dataclass(frozen=True)
class GuardEpisodes:
    """Episodes on which a checkpoint must keep up with rules.

    Attributes:
        scenario: Scenario that is played.
        spec: Spec of the guard's setting.
        instances: Instances, one per window.
        references: Names of rules.
        tolerance: Share of the best rule's return by which an agent may be worse.
        limits: Outcomes, each with the multiple of the rules' smallest that an agent may have.
        seed: Seed of the draws of rules.
        workers: Threads that play.
        wider: The same episodes, whose candidates have all columns that settings add, for rules
            that need them; None if these have them.
    """

    scenario: Scenario
    spec: Spec
    instances: tuple[Instance, ...]
    references: tuple[str, ...]
    tolerance: float
    limits: Mapping[str, float]
    seed: int
    workers: int
    wider: "GuardEpisodes | None" = None

    @property
    def least(self) -> float:
        """The return that an agent must reach."""
        best = max(rule[RETURN] for rule in self._of_rules)
        return best - self.tolerance * abs(best)

    @cached_property
    def _of_rules(self) -> Sequence[Mapping[str, float]]:
        """The means of every rule."""
        return [self.means_of_rule(name) for name in self.references]

    def means_of_rule(self, name: str) -> Mapping[str, float]:
        """Return the mean return of a rule, and the means of the outcomes with a limit."""
        rule = rules(self.scenario.name)[name]
        assert not isinstance(rule, MemoryRule)
        known = {feature.name for feature in self.spec.candidates}
        if self.wider is not None and not known.issuperset(rule.needs):
            return self.wider.means_of_rule(name)
        return self._means([
            run_episode(
                self.scenario, self.spec, instance, Behaviour(name, rule),
                generator(self.seed, "guard", number),
            )
            for number, instance in enumerate(self.instances)
        ])  # fmt: skip

    def _means(self, episodes: Sequence[Episode]) -> Mapping[str, float]:
        """Return the mean return, and the means of the outcomes with a limit."""
        names = [outcome.name for outcome in self.spec.outcomes]
        return {
            RETURN: float(np.mean([episode.total for episode in episodes])),
            **{
                f"guard_{name}": float(np.mean([e.outcomes[names.index(name)] for e in episodes]))
                for name in self.limits
            },
        }

    def admits(self, name: str) -> bool:
        """Return whether a rule of the scenario passes, as a checkpoint does."""
        return passes({**self.means_of_rule(name), LEAST: self.least, **self._most})

    @property
    def _most(self) -> Mapping[str, float]:
        """The largest outcomes that an agent may have."""
        return {
            f"guard_{name}{_MOST}": factor * min(rule[f"guard_{name}"] for rule in self._of_rules)
            for name, factor in self.limits.items()
        }

    def measure(self, policy: LearnedPolicy) -> Mapping[str, float]:
        """Return the means of greedy episodes, with their lower and upper limits."""
        played = sample_trajectories(
            self.scenario, self.spec, list(self.instances), policy,
            [generator(self.seed, "guard", number) for number in range(len(self.instances))],
            temperature=0.0, workers=self.workers,
        )  # fmt: skip
        return {**self._means([t.episode for t in played]), LEAST: self.least, **self._most}


def passes(metrics: Mapping[str, float]) -> bool:
    """Return whether a point of the curves keeps up; True without a guard."""
    return (RETURN not in metrics or metrics[RETURN] >= metrics[LEAST]) and all(
        metrics[name.removesuffix(_MOST)] <= limit
        for name, limit in metrics.items()
        if name.startswith("guard_") and name.endswith(_MOST)
    )


def guard_of(recipe: Recipe, workload: Workload, seed: int, workers: int) -> GuardEpisodes | None:
    """Return the guard of a recipe, or None if it names no rules.

    Raises RecipeError for settings that do not exist, UnknownName for rules and outcomes that do
    not, InputError for rules that need other columns.
    """
    settings = recipe.online.guard
    if not settings.references:
        return None
    where = f"{recipe.id}: online.guard"
    scenario = load_scenario(recipe.scenario)
    by_name = rules(recipe.scenario)
    for name in settings.references:
        if name not in by_name:
            raise unknown_name(f"{where}: rule of {recipe.scenario}", name, by_name)
        if isinstance(by_name[name], MemoryRule):
            raise RecipeError(f"{where}: {name} reads the memory, expected a rule that scores rows")
    table: dict[str, Any] = {**asdict(recipe.config), **settings.config}
    changed = replace(recipe, config=read_settings(type(recipe.config), table, f"{where}: config"))
    count = scenario.windows(changed.config, workload)
    if not settings.windows or max(settings.windows) >= count:
        raise RecipeError(
            f"{where}: windows is {list(settings.windows)}, expected some of 0..{count - 1}"
        )
    spec = scenario.spec(changed.config, changed.objective)
    wide = replace(changed, config=with_added(scenario, changed.config))
    for name in settings.references:
        require_columns(name, by_name[name].needs, scenario.spec(wide.config, wide.objective))
    lower = [outcome.name for outcome in spec.outcomes if outcome.better == "lower"]
    for name, factor in settings.limits.items():
        if name not in lower:
            raise unknown_name(f"{where}: limits: outcome of which lower is better", name, lower)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor >= 0.0:
            raise RecipeError(f"{where}: limits.{name} is {factor!r}, expected a number at least 0")
    guard = GuardEpisodes(
        scenario,
        spec,
        tuple(make_instance(changed, scenario, workload, w) for w in settings.windows),
        settings.references,
        settings.tolerance,
        settings.limits,
        seed,
        workers,
    )
    if wide.config == changed.config:
        return guard
    instances = tuple(make_instance(wide, scenario, workload, w) for w in settings.windows)
    wider = replace(guard, spec=scenario.spec(wide.config, wide.objective), instances=instances)
    return replace(guard, wider=wider)
