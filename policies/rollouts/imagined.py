"""Lookahead in drawn futures: the candidate with the best mean return in them acts.

    futures     an instance draws them (pipeline.simulation.scenario.Future); they hold nothing that
                the episode has not shown
    try         every candidate is chosen in a copy of the episode with such a future, and a base
                policy continues for HORIZON decisions
    screen      after SCREENED futures, the KEPT candidates with the highest sums of rewards and the
                base policy's own choice meet the other futures
    act         the candidate with the highest mean difference from the base policy's choice, less
                its standard error, if that is above 0; otherwise the base policy's choice

All candidates meet the same futures, so differences are paired. The standard error keeps the noise
of a few futures from overruling the base policy.

Source: Tesauro & Galperin, "On-line Policy Improvement using Monte-Carlo Search", NIPS 1996;
Bertsekas & Castanon, "Rollout Algorithms for Stochastic Scheduling Problems", Journal of Heuristics
1999.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS, begin_episode, make_step_arrays
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, SCORE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.kernel import FRESH, INFEASIBLE, RUNNING, TRUNCATED
from hindcast.pipeline.simulation.policy import GENERATOR, Heuristic, best_feasible
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Future, Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import RULES, rule_buffers
from hindcast.policies.rollouts.branches import try_candidate
from hindcast.policies.rollouts.compiled import DECIDER
from hindcast.policies.rollouts.play_on import (
    Decider,
    decider_of_rule,
    require_scorer,
    score_decision,
)

FUTURES: Final = 8
SCREENED: Final = 2
KEPT: Final = 4
HORIZON: Final = 40


@k.compiled(
    types.void(
        OBSERVE_CELL, STEP_CELL, SCORE_CELL, DECIDER, RULES, EPISODE, EPISODE,
        STEPS, GENERATOR, k.INTS, k.INTS, k.INTS, k.FLOATS,
    ))  # fmt: skip
def _try_all(
    observe: Any, step: Any, rule: Any, decider: Any, rules: Any, episode: Any, own: Any,
    arrays: Any, rng: Any, candidates: Any, choices: Any, cursor: Any, sums: Any,
) -> None:  # fmt: skip
    """Fill `sums` (T,) for T candidates, see `try_candidate`.

    One call per future and not per candidate: numba takes as long to recognise the arguments of a
    call from Python as to play ten decisions.
    """
    for t in range(len(candidates)):
        sums[t] = try_candidate(
            observe, step, rule, decider, rules, episode, own, arrays, rng,
            candidates[t], np.inf, choices, cursor,
        )  # fmt: skip


@dataclass(frozen=True)
class ImaginedRollouts:
    """A policy that looks ahead in drawn futures; a `hindcast.pipeline.simulation.rollout.Planner`.

    Its futures are drawn from the memory of the instance, so an episode is the same in every call.
    """

    name: str
    base: Decider

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode.

        Raises InputError for an instance without futures, HindcastError for a forbidden choice.
        """
        if instance.futures is None:
            raise InputError(
                f"{self.name}: lookahead draws the jobs to come from the settings of a recipe, but "
                f"these windows of {scenario.name} are not drawn from its settings"
            )
        seed = int(np.abs(instance.ints).sum() % (1 << 31))
        rng = generator(seed, "imagined futures")
        futures = [instance.futures(rng) for _ in range(FUTURES)]
        return _Play(scenario, spec, instance, self, futures).play()


def imagined_rollouts_of(policy: LearnedPolicy) -> ImaginedRollouts:
    """Return lookahead in drawn futures with a candidate scorer as the base policy.

    Raises InputError for a network of another architecture.
    """
    require_scorer(policy)
    return ImaginedRollouts(policy.name, Decider(policy))


def imagined_rollouts_of_rule(name: str, rule: Heuristic, spec: Spec) -> ImaginedRollouts:
    """Return lookahead in drawn futures with a deterministic rule as the base policy."""
    return ImaginedRollouts(name, decider_of_rule(rule, spec))


class _Play:
    """An episode, a copy of it with a drawn future, and the copy in which candidates are tried."""

    def __init__(
        self,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        policy: ImaginedRollouts,
        futures: list[Future],
    ) -> None:
        self.scenario, self.spec, self.name, self.futures = scenario, spec, policy.name, futures
        self.rng = np.random.default_rng(0)  # for the signature: the base policy is deterministic
        self.decider = policy.base.arrays(spec, self.rng)
        self.trying = policy.base.arrays(spec, self.rng)
        room = max(one.room for one in futures)
        float_room = max(one.float_room for one in futures)
        larger = Instance(
            np.concatenate([instance.ints, np.zeros(room, np.int64)]),
            np.concatenate([instance.floats, np.zeros(float_room)]),
            max(instance.capacity, *(one.capacity for one in futures)),
        )  # fmt: skip
        self.memory, self.arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
        self.imagined, self.own = (begin_episode(spec, larger) for _ in range(2))
        self.own_arrays = make_step_arrays(spec, larger)
        self.choices, self.cursor = np.zeros(HORIZON, np.int64), np.zeros(4, np.int64)  # scratch

    def play(self) -> Episode:
        """Play the episode to its end."""
        memory, arrays, scenario = self.memory, self.arrays, self.scenario
        steps, status = 0, RUNNING
        while status == RUNNING:
            n = scenario.observe(*memory)
            choice = self._choice(self._scored(n), memory.feasible[:n])
            status = scenario.step(memory.ints, memory.floats, choice, arrays.step_outputs)
            if status == INFEASIBLE:
                raise HindcastError(f"{self.name}: infeasible choice in {scenario.name}")
            arrays.totals[:] += arrays.step_outputs
            steps += 1
        return finished_episode(
            scenario.outcome, self.spec, memory.ints, memory.floats, arrays.totals, steps,
            truncated=status == TRUNCATED, blocks=scenario.blocks,
        )  # fmt: skip

    def _scored(self, n: int) -> NDArray[np.float64]:
        """Return the base policy's scores of the n candidates of the last observation."""
        memory, scores, (rule, decider, rules) = self.memory, self.arrays.scores, self.decider
        buffers = rule_buffers(rules, memory.candidates)
        score_decision(rule, decider, rules, n, memory, *buffers, scores)
        return scores[:n]

    def _choice(self, scores: NDArray[np.float64], feasible: NDArray[np.bool_]) -> int:
        """Return the row of the candidate that acts."""
        own = int(best_feasible(scores, feasible))
        rows = np.array([own, *(i for i in np.flatnonzero(feasible) if i != own)])
        if len(rows) == 1:
            return own
        values = np.full((len(self.futures), len(rows)), np.nan)
        tried = np.arange(len(rows))
        for number, future in enumerate(self.futures):
            self._imagine(future)
            values[number, tried] = self._try(rows[tried])
            if number + 1 == SCREENED:
                means = values[:SCREENED].mean(axis=0)
                best = np.argsort(-means, kind="stable")[:KEPT]
                tried = np.array([0, *(column for column in best if column > 0)])
        better = values[:, tried] - values[:, :1]
        error = better.std(axis=0, ddof=1) / np.sqrt(len(values))
        return int(rows[tried[np.argmax(better.mean(axis=0) - error)]])

    def _imagine(self, future: Future) -> None:
        """Make the imagined copy one of the present moment with a drawn future."""
        memory, imagined = self.memory, self.imagined
        imagined.ints[: len(memory.ints)] = memory.ints
        imagined.floats[: len(memory.floats)] = memory.floats
        imagined.ints[FRESH] = 0  # the buffers hold another episode
        future.replace(imagined.ints, imagined.floats)

    def _try(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return sums of rewards (T,) of T candidates, each with HORIZON decisions of the base."""
        sums = np.empty(len(rows))
        _try_all(
            cell(self.scenario.observe), cell(self.scenario.step), *self.trying, self.imagined,
            self.own, self.own_arrays, self.rng, rows, self.choices, self.cursor, sums,
        )  # fmt: skip
        if np.isnan(sums).any():
            raise HindcastError(f"{self.name}: infeasible choice in {self.scenario.name}")
        return sums
