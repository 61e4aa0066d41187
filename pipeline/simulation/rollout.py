"""Whole episodes in compiled code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.draws import Draws, draws_of
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Compiled, compiled
from hindcast.pipeline.simulation.policy import (
    Behaviour,
    Drawing,
    Heuristic,
    draw_choice,
    faults_of,
)
from hindcast.pipeline.simulation.scenario import Blocks, Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted


@dataclass(frozen=True)
class Episode:
    """Summary of a finished episode.

    Attributes:
        steps: Number of decisions.
        total: Return: the undiscounted sum of rewards.
        elapsed_s: Simulated seconds.
        truncated: Whether the episode was cut off at a limit.
        terms: Sums of the reward terms, (K,).
        outcomes: Outcomes in the order of the spec, (O,).
        blocks: Values by block of the episode, such as a week, of the outcomes that have them. The
            mean of the values is the outcome. Empty if the scenario has no blocks.
    """

    steps: int
    total: float
    elapsed_s: float
    truncated: bool
    terms: NDArray[np.float64]
    outcomes: NDArray[np.float64]
    blocks: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def finished_episode(
    outcome: Compiled,
    spec: Spec,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    totals: NDArray[np.float64],
    steps: int,
    *,
    truncated: bool,
    blocks: Blocks | None = None,
) -> Episode:
    """Return the summary of a finished episode from its memory.

    `outcome` and `blocks` are functions of the scenario, and `totals` (2 + K,) is the sum of step
    outputs.
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
        blocks=blocks(ints) if blocks is not None else {},
    )


GreedyEpisode: TypeAlias = Callable[[Scenario, Spec, Instance], Episode]


@runtime_checkable
class Planner(Protocol):
    """A policy that plays whole episodes itself, looking ahead in copies of their memory."""

    @property
    def name(self) -> str:
        """Name of the planner in tables."""

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode on an instance, without random draws."""


@compiled()
def _run(
    observe: ObserveCell,
    step: StepCell,
    score: ScoreCell,
    episode: EpisodeArrays,
    arrays: StepArrays,
    drawing: Drawing,
    draws: Draws,
) -> int:
    """Play an episode to its end and add its step outputs to `totals`.

    Returns 2 * steps + truncated, or INFEASIBLE.
    """
    look, act, rate = observe[0], step[0], score[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    parameters, temperature, epsilon = uncounted(drawing)
    steps = 0
    while True:
        n = look(ints, floats, context, image, candidates, feasible)
        shown = scores[:n]
        rate(context, candidates, feasible, parameters, shown)
        choice = draw_choice(shown, feasible, temperature, epsilon, draws, probabilities)
        status = act(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        steps += 1
        for i in range(len(step_outputs)):
            totals[i] += step_outputs[i]
        if status != k.RUNNING:
            return 2 * steps + (status == k.TRUNCATED)  # type: ignore[no-any-return]


def plays_episodes(behaviour: Behaviour) -> bool:
    """Return whether `run_episode` plays a behaviour; any other policy is called per decision."""
    return (
        isinstance(behaviour.policy, Heuristic | Planner) or _greedy_episode(behaviour) is not None
    )


def _greedy_episode(behaviour: Behaviour) -> GreedyEpisode | None:
    """Return the function that plays a behaviour in compiled code; None if there is none."""
    if behaviour.stochastic:
        return None
    found: GreedyEpisode | None = getattr(behaviour.policy, "greedy_episode", None)
    return found


def run_episode(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> Episode:
    """Run one episode of a compiled rule, of a planner, or of a policy with greedy episodes.

    A policy whose greedy episodes are compiled has an attribute `greedy_episode`: a function
    (scenario, spec, instance) -> Episode, or None. This function does not serve a behaviour that
    explores. A rule that is a planner too plays as a rule if the behaviour explores. Any other
    policy, and an infeasible choice, raises HindcastError.
    """
    policy: object = behaviour.policy
    explores = behaviour.epsilon > 0 or behaviour.temperature > 0
    if isinstance(policy, Planner) and not (explores and isinstance(policy, Heuristic)):
        return policy.episode(scenario, spec, instance)
    greedy = _greedy_episode(behaviour)
    if greedy is not None:
        with faults_of(behaviour):
            return greedy(scenario, spec, instance)
    return _to_the_end(scenario, spec, instance, behaviour, rng)[0]


def decision_values(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    behaviour: Behaviour,
    rng: np.random.Generator,
) -> NDArray[np.float64] | None:
    """Return the Monte-Carlo value of every decision of an episode, (steps,).

    Returns None if the spec is not `valued`. Values are known only at the end of an episode, so a
    recording runs the episode once in advance.
    """
    if not spec.valued:
        return None
    episode, arrays = _to_the_end(scenario, spec, instance, behaviour, rng)
    return values_of(scenario, arrays.ints, arrays.floats, episode.steps)


def values_of(
    scenario: Scenario, ints: NDArray[np.int64], floats: NDArray[np.float64], steps: int
) -> NDArray[np.float64]:
    """Return the values of the decisions of a finished episode, (steps,), from its memory."""
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
    """Run an episode of a compiled rule; return its summary and its memory at the end."""
    if not isinstance(behaviour.policy, Heuristic):
        raise HindcastError(
            f"policy {behaviour.name} is not a compiled rule; run it with "
            "hindcast.pipeline.simulation.batched"
        )
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    with faults_of(behaviour):
        code = _run(
            cell(scenario.observe),
            cell(scenario.step),
            cell(behaviour.policy.score),
            memory,
            arrays,
            behaviour.drawing(behaviour.policy.parameters(spec, rng)),
            draws_of(rng),
        )
    if code == k.INFEASIBLE:
        raise HindcastError(
            f"policy {behaviour.name} made an infeasible choice in scenario {scenario.name}"
        )
    episode = finished_episode(
        scenario.outcome, spec, memory.ints, memory.floats, arrays.totals, int(code) // 2,
        truncated=bool(code % 2), blocks=scenario.blocks,
    )  # fmt: skip
    return episode, memory
