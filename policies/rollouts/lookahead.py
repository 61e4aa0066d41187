"""Rollouts at decision time: of several policies, the one with the best simulated return acts.

    members     a policy and variants of it, deterministic rules, or both
    simulate    the scenario removes future arrivals from a copy of the episode; every member
                plays such a copy to its end
    act         the member with the highest sum of rewards, the first of equals, acts until the next
                arrival

A copy has only the jobs that have been submitted, their durations and the end times of running
jobs. It does not show whether more jobs will come, and no member may wait for them on an idle
cluster. Once no more jobs arrive, the acting member does at least as well as every other member.

Sources: Chang, Givan & Chong, "Parallel Rollout for Online Solution of Partially Observable Markov
Decision Processes", Discrete Event Dynamic Systems 2004; Bertsekas & Castanon, "Rollout Algorithms
for Stochastic Scheduling Problems", Journal of Heuristics 1999.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.functions import cell
from hindcast.pipeline.simulation.kernel import FRESH, INFEASIBLE, REWARD, RUNNING, TRUNCATED
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.rollouts.play_on import Decider, decider_of_rule, play_on, require_scorer

VARIANTS: Final = 8
SPREAD: Final = 0.3  # distance of a variant from the policy, per norm of each weight tensor
_NONE_KEPT: Final = np.empty(0, np.int64)


@dataclass(frozen=True)
class RolloutPolicy:
    """A policy that acts by rollouts of its members; a `pipeline.simulation.rollout.Planner`."""

    name: str
    members: tuple[Decider, ...]

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode; raise HindcastError without `forget` or for a forbidden choice."""
        return _Play(scenario, spec, instance, self).play()


def rollouts_of(policy: LearnedPolicy, rules: Iterable[Heuristic], spec: Spec) -> RolloutPolicy:
    """Return rollouts of a candidate scorer, VARIANTS variants of it, and deterministic rules.

    The variants are the same in every call. Raises InputError for a network of another
    architecture.
    """
    require_scorer(policy)
    rng = generator(0, "rollout variants")
    varied = [_variant(policy, rng) for _ in range(VARIANTS)]
    learned = [Decider(one) for one in (policy, *varied)]
    return RolloutPolicy(policy.name, (*learned, *_deciders(rules, spec)))


def rollouts_of_rules(name: str, rules: Iterable[Heuristic], spec: Spec) -> RolloutPolicy:
    """Return rollouts of deterministic rules."""
    return RolloutPolicy(name, _deciders(rules, spec))


def _deciders(rules: Iterable[Heuristic], spec: Spec) -> tuple[Decider, ...]:
    return tuple(decider_of_rule(rule, spec) for rule in rules)


def _variant(policy: LearnedPolicy, rng: np.random.Generator) -> LearnedPolicy:
    """Return a scorer with each weight tensor moved by SPREAD of its norm, in a drawn direction."""
    moved = {}
    for key, weight in policy.weights.items():
        step = rng.standard_normal(weight.shape)
        length = SPREAD * np.linalg.norm(weight) / np.linalg.norm(step)
        moved[key] = (weight + length * step).astype(np.float32)
    return LearnedPolicy(
        policy.name, policy.network, moved, policy.features_context, policy.features_candidates
    )


class _Play:
    """An episode, and the copy of it in which the members look ahead."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, policy: RolloutPolicy
    ) -> None:
        if scenario.forget is None:
            raise HindcastError(
                f"{policy.name}: scenario {scenario.name} cannot hide future arrivals"
            )
        self.scenario, self.spec, self.forget = scenario, spec, scenario.forget
        self.name = policy.name
        self.rng = np.random.default_rng(0)  # for the signature: members are deterministic
        self.deciders = [member.arrays(spec, self.rng) for member in policy.members]
        self.memory, self.own_memory = (begin_episode(spec, instance) for _ in range(2))
        self.arrays, self.own_arrays = (make_step_arrays(spec, instance) for _ in range(2))

    def play(self) -> Episode:
        """Play the episode to its end."""
        memory, own, totals = self.memory, self.own_memory, self.own_arrays.totals
        steps, status = 0, RUNNING
        while status == RUNNING:
            best, highest, until = 0, -np.inf, np.inf
            for number, decider in enumerate(self.deciders):
                own.ints[:] = memory.ints
                own.floats[:] = memory.floats
                own.ints[FRESH] = 0  # the buffers hold another episode
                until = self.forget(own.ints, own.floats)
                totals[:] = 0.0
                self._play_on(decider, own, self.own_arrays, np.inf)
                if totals[REWARD] > highest:
                    best, highest = number, totals[REWARD]
            played, status = self._play_on(self.deciders[best], memory, self.arrays, until)
            steps += played
        return finished_episode(
            self.scenario.outcome, self.spec, memory.ints, memory.floats, self.arrays.totals, steps,
            truncated=status == TRUNCATED, blocks=self.scenario.blocks,
        )  # fmt: skip

    def _play_on(
        self, decider: tuple[Any, ...], memory: EpisodeArrays, arrays: StepArrays, until: float
    ) -> tuple[int, int]:
        """Continue the episode; return the number of decisions and the status."""
        code = play_on(
            cell(self.scenario.observe), cell(self.scenario.step), *decider, memory, arrays,
            self.rng, 0.0, until, _NONE_KEPT, 0,
        )  # fmt: skip
        if code == INFEASIBLE:
            raise HindcastError(f"{self.name}: infeasible choice in {self.scenario.name}")
        return divmod(int(code), 4)
