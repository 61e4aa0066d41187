"""Compiled episodes of a value network that explores with a rule as its guide.

The choice at every decision is

    with probability explore * random_share         a feasible row, uniformly at random
    with probability explore * (1 - random_share)   the choice of the guide
    else                                            the row with the highest value

The network is only evaluated for a choice of the last kind. The inputs of every choice are recorded
as layer 0 reads them: [application | moment], standardised. A guide is a compiled rule.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.flows.papers.timecritical.forward import CLUSTERS, score_pairs
from hindcast.flows.papers.timecritical.network import ClustersPolicy
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS, begin_episode, make_step_arrays
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, SCORE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.policy import GENERATOR, Heuristic, best_feasible
from hindcast.pipeline.simulation.rollout import Episode, finished_episode, values_of
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.features import expand_row

GREEDY: Final = 0  # kinds of choices
RANDOM: Final = 1
GUIDED: Final = 2
GIVEN: Final = 3

_INPUTS: Final = types.Array(types.float32, 2, "C")


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


@kernel.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL,
        SCORE_CELL, EPISODE, STEPS, CLUSTERS, kernel.FLOATS, types.float64,
        types.float64, GENERATOR, types.int64, kernel.INTS, kernel.INTS, _INPUTS, kernel.INTS,
    ))  # fmt: skip
def _play(
    observe: Any, step: Any, guide: Any, episode: Any, arrays: Any, network: Any, parameters: Any,
    explore: Any, random_share: Any, rng: Any, given: Any,
    choices: Any, source: Any, inputs: Any, clusters: Any,
) -> Any:  # fmt: skip
    """Play one episode, whose first `given` choices are read from `choices`.

    Returns 2 * decisions + truncated, or INFEASIBLE if a choice is infeasible or there are more
    decisions than rows for them.
    """
    observe, step, guide = observe[0], step[0], guide[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, _probabilities, step_outputs, totals = uncounted(arrays)
    (
        c_columns, c_heavy, c_products, c_mean, c_inverse,
        columns, heavy, products, mean, inverse, place, _widths, _flat,
    ) = uncounted(network)  # fmt: skip
    n, g = len(mean), len(c_mean)
    moment = context.reshape((1, len(context)))
    span = np.zeros(2, np.int64)
    base = np.empty(max(len(columns), len(c_columns)))
    seen = np.empty(max(n, g), np.float32)
    at, status = 0, kernel.RUNNING
    while status == kernel.RUNNING:
        if at == len(choices):
            return kernel.INFEASIBLE
        span[1] = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[: span[1]], feasible[: span[1]]
        if at < given:
            source[at] = GIVEN
        elif explore > 0.0 and rng.random() < explore:
            source[at] = RANDOM if rng.random() < random_share else GUIDED
        else:
            source[at] = GREEDY
        if source[at] == GIVEN:
            choice = choices[at]
        elif source[at] == RANDOM:
            count = 0
            for i in range(span[1]):
                count += allowed[i]
            left = np.int64(rng.random() * count)
            choice = -1
            for i in range(span[1]):
                if allowed[i]:
                    if left == 0:
                        choice = i
                    left -= 1
        elif source[at] == GUIDED:
            guide(context, candidates[: span[1]], allowed, parameters, shown)
            choice = best_feasible(shown, allowed)
        else:
            score_pairs(moment, candidates[: span[1]], span, network, shown)
            choice = best_feasible(shown, allowed)
        if choice < 0 or choice >= span[1]:
            return kernel.INFEASIBLE
        if at < len(inputs):
            expand_row(candidates[choice], columns, heavy, products, mean, inverse, base, seen)
            inputs[at, :n] = seen[:n]
            expand_row(context, c_columns, c_heavy, c_products, c_mean, c_inverse, base, seen)
            inputs[at, n:] = seen[:g]
        clusters[at] = np.int64(candidates[choice, place])
        choices[at] = choice
        status = step(ints, floats, choice, step_outputs)
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
    code = _play(
        cell(scenario.observe), cell(scenario.step), cell(guide.score), memory, arrays,
        policy.arrays, guide.parameters(spec, rng), exploring.explore,
        exploring.random_share, rng, known, choices, source, read, clusters,
    )  # fmt: skip
    if code == kernel.INFEASIBLE:
        raise HindcastError(
            f"{policy.name}: a choice in {scenario.name} is infeasible, or the episode has more "
            f"than {room} decisions"
        )
    steps = int(code) // 2
    episode = finished_episode(
        scenario.outcome, spec, memory.ints, memory.floats, arrays.totals, steps,
        truncated=bool(code % 2),
    )  # fmt: skip
    return Valued(
        episode, choices[:steps], source[:steps], read[:steps], clusters[:steps],
        values_of(scenario, memory.ints, memory.floats, steps),
    )  # fmt: skip
