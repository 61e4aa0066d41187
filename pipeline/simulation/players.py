"""Episodes of a policy that is not a compiled rule: what it chose, and what it might have chosen.

A recording needs the probability of every candidate of every decision. A rule gives them inside
the compiled loop that writes the log; a network plays first, here, and the loop then writes down
what was played (pipeline.building.recorder). An EpisodeRunner holds one episode: it plays it, or
follows choices that were made before, as `verify` does.

A policy that can play in compiled code has a method `episode_runner(scenario, spec, instance,
temperature, epsilon)`; any other is asked decision by decision.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.simulation.batched import Batch, BatchedEpisodes, scores_of
from pipeline.simulation.policy import Behaviour, choose_with, fill_probabilities
from pipeline.simulation.rollout import values_of
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec

Probabilities = NDArray[np.float32]


@dataclass(frozen=True)
class EpisodeTrace:
    """A finished episode of T decisions.

    choices        (T,)
    probabilities  (sum of N,) of every candidate, 0 where it was not feasible
    values         (T,) Monte-Carlo values, where the spec is `valued`
    """

    choices: NDArray[np.int64]
    probabilities: Probabilities
    values: NDArray[np.float64] | None


class EpisodeRunner(Protocol):
    """One episode of a policy, from its first decision on."""

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play it to its end."""

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Make the next choices as given: the policy's probabilities (sum of N,) at each."""


def episode_runner(
    scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour
) -> EpisodeRunner:
    """An episode of a behaviour on an instance."""
    compiled = getattr(behaviour.policy, "episode_runner", None)
    if compiled is not None:
        made: EpisodeRunner | None = compiled(
            scenario, spec, instance, behaviour.temperature, behaviour.epsilon
        )
        if made is not None:
            return made
    return PolicyRunner(scenario, spec, instance, behaviour)


def values_at_end(
    scenario: Scenario, spec: Spec, ints: NDArray[np.int64], floats: NDArray[np.float64], steps: int
) -> NDArray[np.float64] | None:
    """Monte-Carlo values of an episode whose memory this is; None where the spec has none."""
    return values_of(scenario, ints, floats, steps) if spec.valued else None


class PolicyRunner:
    """A player that asks the policy at every decision."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour
    ) -> None:
        self._scenario, self._spec, self._behaviour = scenario, spec, behaviour
        self._episode = BatchedEpisodes(scenario, spec, [instance])

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play it to its end; HindcastError for scores that are not numbers."""
        behaviour = self._behaviour
        draws = behaviour.epsilon > 0 or behaviour.temperature > 0
        choices: list[int] = []
        probabilities: list[Probabilities] = []
        while len(self._episode.live):
            seen = self._episode.observe()
            scores = scores_of(behaviour, seen, self._spec)
            u = rng.random() if draws else 1.0
            choice = choose_with(
                scores, seen.feasible, behaviour.temperature, behaviour.epsilon, u,
                np.empty(len(scores)),
            )  # fmt: skip
            probabilities.append(self._probabilities(scores, seen))
            choices.append(int(choice))
            self._episode.step(np.array([choice]))
        ints, floats = self._episode.memory(0)
        values = values_at_end(self._scenario, self._spec, ints, floats, len(choices))
        return EpisodeTrace(np.array(choices, np.int64), np.concatenate(probabilities), values)

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """The policy's probabilities at each of the next choices."""
        probabilities = [np.zeros(0, np.float32)]
        for choice in choices:
            seen = self._episode.observe()
            scores = scores_of(self._behaviour, seen, self._spec)
            probabilities.append(self._probabilities(scores, seen))
            self._episode.step(np.array([choice]))
        return np.concatenate(probabilities)

    def _probabilities(self, scores: NDArray[np.float64], seen: Batch) -> Probabilities:
        found = np.empty(len(scores))
        fill_probabilities(
            scores, seen.feasible, self._behaviour.temperature, self._behaviour.epsilon, found
        )
        return found.astype(np.float32)
