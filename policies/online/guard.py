"""The guard of an online training: episodes on which the selected checkpoint must keep up.

Windows of a recipe are short. An agent can win them and do harm that shows only in the long run: a
scheduler may starve jobs that a window does not count. The guard plays other episodes of the same
scenario, such as one long window, with rules once and with the agent at every point of the curves.

    validation_return    selects, as without a guard
    guard_return         must be at least guard_least, or the checkpoint is not the best
    guard_least          the best rule's return, less the tolerance
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.errors import RecipeError, unknown_name
from pipeline.recipes.problem import make_instance
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.settings import read_settings
from pipeline.scenarios import load_scenario
from pipeline.simulation.memory_rules import MemoryRule
from pipeline.simulation.policy import Behaviour
from pipeline.simulation.rollout import run_episode
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.seeds import generator
from pipeline.simulation.spec import Spec
from pipeline.workloads.schema import Workload
from policies.heuristics import rules
from policies.networks.policy import LearnedPolicy
from policies.rollouts.trajectories import sample_trajectories

RETURN = "guard_return"
LEAST = "guard_least"


@dataclass(frozen=True)
class Guard:
    """The episodes of a guard.

    Attributes:
        scenario: Scenario that is played.
        spec: Spec of the guard's setting.
        instances: Instances, one per window.
        references: Names of rules.
        tolerance: Share of the best rule's return by which an agent may be worse.
        seed: Seed of the draws of rules.
        workers: Threads that play.
    """

    scenario: Scenario
    spec: Spec
    instances: tuple[Instance, ...]
    references: tuple[str, ...]
    tolerance: float
    seed: int
    workers: int

    @cached_property
    def least(self) -> float:
        """The return that an agent must reach."""
        best = max(self._mean_of(name) for name in self.references)
        return best - self.tolerance * abs(best)

    def _mean_of(self, name: str) -> float:
        rule = rules(self.scenario.name)[name]
        assert not isinstance(rule, MemoryRule)
        played = [
            run_episode(
                self.scenario, self.spec, instance, Behaviour(name, rule),
                generator(self.seed, "guard", number),
            )
            for number, instance in enumerate(self.instances)
        ]  # fmt: skip
        return float(np.mean([episode.total for episode in played]))

    def measure(self, policy: LearnedPolicy) -> Mapping[str, float]:
        """Return the mean return of greedy episodes, and the return to reach."""
        played = sample_trajectories(
            self.scenario, self.spec, list(self.instances), policy,
            [generator(self.seed, "guard", number) for number in range(len(self.instances))],
            temperature=0.0, workers=self.workers,
        )  # fmt: skip
        mean = float(np.mean([t.episode.total for t in played]))
        return {RETURN: mean, LEAST: self.least}


def passes(metrics: Mapping[str, float]) -> bool:
    """Return whether a point of the curves keeps up; True without a guard."""
    return RETURN not in metrics or metrics[RETURN] >= metrics[LEAST]


def guard_of(recipe: Recipe, workload: Workload, seed: int, workers: int) -> Guard | None:
    """Return the guard of a recipe, or None if it names no rules.

    Raises RecipeError for settings that do not exist, UnknownName for rules that do not.
    """
    wanted = recipe.online.guard
    if not wanted.references:
        return None
    where = f"{recipe.id}: online.guard"
    scenario = load_scenario(recipe.scenario)
    known = rules(recipe.scenario)
    for name in wanted.references:
        if name not in known:
            raise unknown_name(f"{where}: rule of {recipe.scenario}", name, known)
        if isinstance(known[name], MemoryRule):
            raise RecipeError(f"{where}: {name} reads the memory, expected a rule that scores rows")
    table: dict[str, Any] = {**asdict(recipe.config), **wanted.config}
    changed = replace(recipe, config=read_settings(type(recipe.config), table, f"{where}: config"))
    count = scenario.windows(changed.config, workload)
    if not wanted.windows or max(wanted.windows) >= count:
        raise RecipeError(
            f"{where}: windows is {list(wanted.windows)}, expected some of 0..{count - 1}"
        )
    return Guard(
        scenario,
        scenario.spec(changed.config, changed.objective),
        tuple(make_instance(changed, scenario, workload, w) for w in wanted.windows),
        wanted.references,
        wanted.tolerance,
        seed,
        workers,
    )
