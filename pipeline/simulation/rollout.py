"""Whole episodes in compiled code: run one, or run many with one call."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.simulation import kernel as k
from pipeline.simulation.arrays import (
    EPISODE,
    STEPS,
    EpisodeArrays,
    begin_episode,
    make_step_arrays,
)
from pipeline.simulation.kernel import FLOATS, Compiled, compiled
from pipeline.simulation.policy import GENERATOR, Behaviour, Heuristic, draw_choice
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec


@dataclass(frozen=True)
class Episode:
    """What one episode came to.

    steps      decisions taken
    total      return: the undiscounted sum of rewards
    terms      (K,) sums of the reward terms
    outcomes   (O,) in the order of the spec
    """

    steps: int
    total: float
    elapsed_s: float
    truncated: bool
    terms: NDArray[np.float64]
    outcomes: NDArray[np.float64]


def finished_episode(
    outcome: Compiled,
    spec: Spec,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    totals: NDArray[np.float64],
    steps: int,
    *,
    truncated: bool,
) -> Episode:
    """What a finished episode came to, of its memory and of `totals`, the sum of what was booked.

    outcome   of the scenario, compiled
    """
    outcomes = np.zeros(len(spec.outcomes))
    outcome(ints, floats, outcomes)
    return Episode(
        steps=steps,
        total=float(totals[k.REWARD]),
        elapsed_s=float(totals[k.ELAPSED]),
        truncated=truncated,
        terms=totals[k.TERMS :].copy(),
        outcomes=outcomes,
    )


@runtime_checkable
class Planner(Protocol):
    """What plays whole episodes itself, since it looks ahead in copies of their memory."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """One episode on an instance; it draws nothing."""


@compiled(
    types.int64(
        types.FunctionType(k.OBSERVE), types.FunctionType(k.STEP), types.FunctionType(k.SCORE),
        EPISODE, STEPS, FLOATS, types.float64, types.float64, GENERATOR,
    ))  # fmt: skip
def _run(observe, step, score, episode, arrays, parameters, temperature, epsilon, rng):  # type: ignore[no-untyped-def]
    """Play an episode to its end, adding to totals; 2 * steps + truncated, or INFEASIBLE."""
    ints, floats, context, image, candidates, feasible = episode
    scores, probabilities, step_outputs, totals = arrays
    steps = 0
    while True:
        n = observe(ints, floats, context, image, candidates, feasible)
        shown = scores[:n]
        score(context, candidates, feasible, parameters, shown)
        choice = draw_choice(shown, feasible, temperature, epsilon, rng, probabilities)
        status = step(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        steps += 1
        for i in range(len(step_outputs)):
            totals[i] += step_outputs[i]
        if status != k.RUNNING:
            return 2 * steps + (status == k.TRUNCATED)


def run_episode(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> Episode:
    """One episode of a compiled rule, decided inside compiled code, or of a planner.

    Raises HindcastError where the policy is neither or made an infeasible choice.
    """
    if isinstance(behaviour.policy, Planner):
        return behaviour.policy.episode(scenario, spec, instance)
    return _to_the_end(scenario, spec, instance, behaviour, rng)[0]


def decision_values(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> NDArray[np.float64] | None:
    """The Monte-Carlo value of every decision of an episode, (steps,); None where there is none.

    Values are known when the episode is over: a recording runs it once before, for them.
    """
    if not spec.valued:
        return None
    episode, arrays = _to_the_end(scenario, spec, instance, behaviour, rng)
    return values_of(scenario, arrays.ints, arrays.floats, episode.steps)


def values_of(
    scenario: Scenario, ints: NDArray[np.int64], floats: NDArray[np.float64], steps: int
) -> NDArray[np.float64]:
    """The values that the memory of a finished episode gives its decisions, (steps,)."""
    assert scenario.values is not None
    values = np.zeros(steps)
    scenario.values(ints, floats, values)
    return values


def _to_the_end(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> tuple[Episode, EpisodeArrays]:
    """Return an episode and the memory in which it ended."""
    if not isinstance(behaviour.policy, Heuristic):
        raise HindcastError(
            f"{behaviour.name} is not a compiled rule; use pipeline.simulation.batched"
        )
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    code = _run(
        scenario.observe, scenario.step, behaviour.policy.score, memory, arrays,
        behaviour.policy.parameters(spec, rng), behaviour.temperature, behaviour.epsilon, rng,
    )  # fmt: skip
    if code == k.INFEASIBLE:
        raise HindcastError(f"{behaviour.name}: infeasible choice in {scenario.name}")
    episode = finished_episode(
        scenario.outcome, spec, memory.ints, memory.floats, arrays.totals, int(code) // 2,
        truncated=bool(code % 2),
    )  # fmt: skip
    return episode, memory
