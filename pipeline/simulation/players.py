"""Episodes of policies that are not compiled rules, with the probability of every candidate.

A recording needs the probability of every candidate at every decision. A compiled rule computes
them inside the loop that writes the log. A network plays the episode first, in this module; the
loop then writes down the result (hindcast.pipeline.dataset.building.recorder). An EpisodeRunner
holds one episode. It plays the episode, or follows given choices, as `verify` does.

A policy that can play in compiled code has a method `episode_runner(scenario, spec, instance,
temperature, epsilon)`. Every other policy is called once per decision.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import PolicyFault
from hindcast.pipeline.simulation.batched import Batch, BatchedEpisodes, scores_of
from hindcast.pipeline.simulation.policy import Behaviour, choose_with, fill_probabilities
from hindcast.pipeline.simulation.rollout import values_of
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec

Probabilities = NDArray[np.float32]


@dataclass(frozen=True)
class EpisodeTrace:
    """A finished episode of T decisions.

    Attributes:
        choices: The chosen rows, (T,).
        probabilities: The probability of every candidate, (sum of N,); 0 if it was not feasible.
        values: Monte-Carlo values (T,) if the spec is `valued`, else None.
    """

    choices: NDArray[np.int64]
    probabilities: Probabilities
    values: NDArray[np.float64] | None


class EpisodeRunner(Protocol):
    """One episode of a policy, starting at its first decision."""

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play the episode to its end."""

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Make the given choices; return the policy's probabilities (sum of N,) at each."""


def episode_runner(
    scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour
) -> EpisodeRunner:
    """Return a runner for an episode of a behaviour on an instance."""
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
    """Return the Monte-Carlo values (steps,) of a finished episode; None if it is not `valued`."""
    return values_of(scenario, ints, floats, steps) if spec.valued else None


class PolicyRunner:
    """An episode runner that calls the policy at every decision."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour
    ) -> None:
        self._scenario, self._spec, self._behaviour = scenario, spec, behaviour
        self._episode = BatchedEpisodes(scenario, spec, [instance])

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play the episode to its end. Raises HindcastError for a score that is not a number."""
        behaviour = self._behaviour
        draws = behaviour.epsilon > 0 or behaviour.temperature > 0
        choices: list[int] = []
        probabilities: list[Probabilities] = []
        while len(self._episode.live):
            seen = self._episode.observe()
            try:
                scores = scores_of(behaviour, seen, self._spec)
            except PolicyFault as fault:
                raise PolicyFault(f"{fault}, at decision {len(choices)}") from fault
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
        """Make the next choices; return the policy's probabilities at each of them."""
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
