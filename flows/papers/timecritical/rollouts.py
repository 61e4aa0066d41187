"""Compiled episodes of a value network that explores with a rule as its guide.

The choice at every decision is

    with probability explore * random_share         a feasible row, uniformly at random
    with probability explore * (1 - random_share)   the choice of the guide
    else                                            the row with the highest value

The network is only evaluated for a choice of the last kind. The inputs of every choice are recorded
as layer 0 reads them: [application | moment], standardised. A guide is a compiled rule.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.timecritical.forward import ClustersArrays, score_pairs
from hindcast.flows.papers.timecritical.network import ClustersPolicy
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.draws import Draws, draws_of, uniform
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Floats, Ints, Singles2
from hindcast.pipeline.simulation.policy import Heuristic, best_feasible
from hindcast.pipeline.simulation.rollout import Episode, finished_episode, values_of
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.features import expand_row

GREEDY: Final = 0  # kinds of choices
RANDOM: Final = 1
GUIDED: Final = 2
GIVEN: Final = 3


@dataclass(frozen=True)
class Exploring:
    """Exploration of an episode.

    Attributes:
        explore: Probability of exploring at a decision, 0 to 1.
        random_share: Share of exploring choices that are uniformly random, 0 to 1.
        guide: Rule that makes the other exploring choices.
    """

    explore: float
    random_share: float
    guide: Heuristic


@dataclass(frozen=True)
class Valued:
    """Episode of T decisions with the value of each choice.

    Attributes:
        episode: The finished episode.
        choices: Chosen rows (T,).
        source: Kind (T,) of each choice: GREEDY, RANDOM, GUIDED or GIVEN.
        inputs: Inputs (T, I) float32 of the network for each choice; (0, I) if not recorded.
        clusters: Chosen clusters (T,), which are the outputs that the values belong to.
        values: Monte-Carlo value (T,) of each choice, known at the end of the episode.
    """

    episode: Episode
    choices: NDArray[np.int64]
    source: NDArray[np.int64]
    inputs: NDArray[np.float32]
    clusters: NDArray[np.int64]
    values: NDArray[np.float64]


class ExploringArrays(NamedTuple):
    """Exploration of an episode, as compiled code reads it."""

    parameters: Floats  # of the guide
    explore: float
    random_share: float


class KeptArrays(NamedTuple):
    """Arrays that an episode of T decisions fills; the members are those of `Valued`."""

    choices: Ints  # (T,) the first ones may be given
    source: Ints  # (T,)
    inputs: Singles2  # (T, I) or (0, I)
    clusters: Ints  # (T,)


@kernel.compiled()
def _play(
    observe: ObserveCell,
    step: StepCell,
    guide: ScoreCell,
    episode: EpisodeArrays,
    arrays: StepArrays,
    network: ClustersArrays,
    exploring: ExploringArrays,
    draws: Draws,
    given: int,
    kept: KeptArrays,
) -> int:
    """Play one episode, whose first `given` choices are read from `choices`.

    Returns 2 * decisions + truncated, or INFEASIBLE if a choice is infeasible or there are more
    decisions than rows for them.
    """
    look, act, lead = observe[0], step[0], guide[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, _probabilities, step_outputs, totals = uncounted(arrays)
    context_map, candidate_map, place, _widths, _flat = uncounted(network)
    parameters, explore, random_share = uncounted(exploring)
    choices, source, inputs, clusters = uncounted(kept)
    n, g = len(candidate_map.mean), len(context_map.mean)
    moment = context.reshape((1, len(context)))
    span = np.zeros(2, np.int64)
    base = np.empty(max(len(candidate_map.columns), len(context_map.columns)))
    seen = np.empty(max(n, g), np.float32)
    at, status = 0, kernel.RUNNING
    while status == kernel.RUNNING:
        if at == len(choices):
            return kernel.INFEASIBLE
        span[1] = look(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[: span[1]], feasible[: span[1]]
        if at < given:
            source[at] = GIVEN
        elif explore > 0.0 and uniform(draws) < explore:
            source[at] = RANDOM if uniform(draws) < random_share else GUIDED
        else:
            source[at] = GREEDY
        if source[at] == GIVEN:
            choice = choices[at]
        elif source[at] == RANDOM:
            count = 0
            for i in range(span[1]):
                count += allowed[i]
            left = np.int64(uniform(draws) * count)
            choice = -1
            for i in range(span[1]):
                if allowed[i]:
                    if left == 0:
                        choice = i
                    left -= 1
        elif source[at] == GUIDED:
            lead(context, candidates[: span[1]], allowed, parameters, shown)
            choice = best_feasible(shown, allowed)
        else:
            score_pairs(moment, candidates[: span[1]], span, network, shown)
            choice = best_feasible(shown, allowed)
        if choice < 0 or choice >= span[1]:
            return kernel.INFEASIBLE
        if at < len(inputs):
            expand_row(candidates[choice], candidate_map, base, seen)
            inputs[at, :n] = seen[:n]
            expand_row(context, context_map, base, seen)
            inputs[at, n:] = seen[:g]
        clusters[at] = np.int64(candidates[choice, place])
        choices[at] = choice
        status = act(ints, floats, choice, step_outputs)
        if status == kernel.INFEASIBLE:
            return kernel.INFEASIBLE
        for k in range(len(step_outputs)):
            totals[k] += step_outputs[k]
        at += 1
    return 2 * at + (status == kernel.TRUNCATED)


def play_valued(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    policy: ClustersPolicy,
    exploring: Exploring,
    rng: np.random.Generator,
    room: int,
    *,
    given: NDArray[np.int64] | None = None,
    inputs: bool = True,
) -> Valued:
    """Return an episode of at most `room` decisions, which begins with the choices `given`, if any.

    Raises HindcastError if a choice is infeasible or the episode is longer.
    """
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    choices, source, clusters = (np.zeros(room, np.int64) for _ in range(3))
    read = np.zeros((room if inputs else 0, policy.network.widths[0]), np.float32)
    known = 0 if given is None else len(given)
    if given is not None:
        choices[:known] = given
    guide = exploring.guide
    explored = ExploringArrays(
        guide.parameters(spec, rng), float(exploring.explore), float(exploring.random_share)
    )
    code = _play(
        cell(scenario.observe),
        cell(scenario.step),
        cell(guide.score),
        memory,
        arrays,
        policy.arrays,
        explored,
        draws_of(rng),
        known,
        KeptArrays(choices, source, read, clusters),
    )
    if code == kernel.INFEASIBLE:
        raise HindcastError(
            f"{policy.name}: a choice in {scenario.name} is infeasible, or the episode has more "
            f"than {room} decisions"
        )
    steps = int(code) // 2
    episode = finished_episode(
        scenario.outcome,
        spec,
        memory.ints,
        memory.floats,
        arrays.totals,
        steps,
        truncated=bool(code % 2),
    )
    return Valued(
        episode,
        choices[:steps],
        source[:steps],
        read[:steps],
        clusters[:steps],
        values_of(scenario, memory.ints, memory.floats, steps),
    )
