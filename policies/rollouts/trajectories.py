"""Trajectories of a network, many at once, and the network's inputs along them.

Threads share the episodes of a batch. A compiled episode releases the GIL, and every trajectory
draws from a separate generator, so results do not depend on the number of threads.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.arrays import begin_episode, make_step_arrays
from hindcast.pipeline.simulation.functions import cell
from hindcast.pipeline.simulation.kernel import INFEASIBLE
from hindcast.pipeline.simulation.rollout import Episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks import player as play
from hindcast.policies.networks.player import Decider, NetworkRunner
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.row_table import make_table, scores_rows_apart
from hindcast.policies.networks.settings import Network
from hindcast.policies.rollouts.gather import (
    C_CANDIDATES,
    C_DECISIONS,
    C_NEXT,
    C_ROWS,
    InputArrays,
    UniqueRows,
    gather,
)

_FIRST_ROOM: Final = 2048  # decisions; doubled for longer episodes
PIECE: Final = 1 << 20  # largest number of candidates of a piece of NetworkInputs


@dataclass(frozen=True)
class Trajectory:
    """One episode of T decisions, with the choices that were drawn.

    Attributes:
        instance: Instance that was played.
        episode: Return and outcomes.
        choices: (T,) row of each choice.
        log_probability: (T,) log-probability of each choice when it was drawn.
        reward: (T,) reward of each step.
        elapsed_s: (T,) seconds that passed in each step.
        time_s: (T,) seconds since the start of the episode at each decision.
    """

    instance: Instance
    episode: Episode
    choices: NDArray[np.int64]
    log_probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    time_s: NDArray[np.float64]


@dataclass(frozen=True)
class NetworkInputs:
    """Inputs of a network at T decisions of a trajectory, with equal rows stored once.

    The feasible candidates of decision t are rows[index[starts[t]:starts[t + 1]]].

    Attributes:
        rows: (U, F) unique candidates; with R rules (U, F + 2R), see
            hindcast.policies.networks.rules.
        row_of: (U,) decision of each row; the first one if decisions share the row.
        context: (T, C) context features.
        image: (T, P) uint8 pixels.
        index: (M,) row of every feasible candidate.
        starts: (T + 1,) where each decision begins in `index`.
        chosen: (T,) place of the choice in `index`.
        decision: (T,) number of the decision in the trajectory.
    """

    rows: NDArray[np.float64]
    row_of: NDArray[np.int64]
    context: NDArray[np.float64]
    image: NDArray[np.uint8]
    index: NDArray[np.int64]
    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    decision: NDArray[np.int64]


def make_input_arrays(spec: Spec, network: Network, decisions: int, most: int) -> InputArrays:
    """Return buffers for the inputs at `decisions` decisions with at most `most` candidates."""
    contexts = len(spec.context) if network.settings.context else 0
    width = len(spec.candidates) + network.rules.width
    index, row_of = np.empty((2, most), np.int64)
    chosen, decision = np.empty((2, decisions), np.int64)
    return InputArrays(
        rows=np.empty((most, width)),
        row_of=row_of,
        context=np.empty((decisions, contexts)),
        image=np.empty((decisions, network.pixels), np.uint8),
        row_numbers=index,
        starts=np.empty(decisions + 1, np.int64),
        chosen=chosen,
        decision=decision,
        cursor=np.zeros(4, np.int64),
    )


def inputs_of(arrays: InputArrays) -> NetworkInputs:
    """Return the decisions, candidates and rows that were written to the buffers."""
    t, m, u = arrays.cursor[C_DECISIONS], arrays.cursor[C_CANDIDATES], arrays.cursor[C_ROWS]
    return NetworkInputs(
        arrays.rows[:u].copy(),
        arrays.row_of[:u].copy(),
        arrays.context[:t],
        arrays.image[:t],
        arrays.row_numbers[:m].copy(),
        arrays.starts[: t + 1],
        arrays.chosen[:t],
        arrays.decision[:t],
    )


def sample_trajectory(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    policy: LearnedPolicy,
    rng: np.random.Generator,
    temperature: float = 1.0,
    epsilon: float = 0.0,
) -> Trajectory:
    """Play one episode with choices drawn from softmax(scores / temperature).

    Temperature 0 takes the best candidate. With probability `epsilon` a choice is uniform. Raises
    HindcastError for an infeasible choice, and for a score that is not a number.
    """
    runner = NetworkRunner(Decider(policy), scenario, spec, instance, temperature, epsilon)
    kept, episode = runner.to_the_end(rng, play.keep(_FIRST_ROOM, numbers=True))
    numbers = kept.numbers[:, : episode.steps].copy()
    return Trajectory(
        instance,
        episode,
        kept.choices[: episode.steps].copy(),
        numbers[play.N_LOG_PROBABILITY],
        numbers[play.N_REWARD],
        numbers[play.N_ELAPSED],
        numbers[play.N_TIME],
    )


def sample_trajectories(
    scenario: Scenario,
    spec: Spec,
    instances: Sequence[Instance],
    policy: LearnedPolicy,
    rngs: Sequence[np.random.Generator],
    *,
    temperature: float = 1.0,
    epsilon: float = 0.0,
    workers: int = 1,
) -> list[Trajectory]:
    """Play one trajectory per instance, in order, on `workers` threads."""

    def one(i: int) -> Trajectory:
        return sample_trajectory(
            scenario, spec, instances[i], policy, rngs[i], temperature, epsilon
        )

    if workers == 1:
        return [one(i) for i in range(len(instances))]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, range(len(instances))))


def network_inputs(
    scenario: Scenario,
    spec: Spec,
    trajectory: Trajectory,
    network: Network,
    *,
    every: int = 1,
    offset: int = 0,
    piece: int = PIECE,
) -> Iterator[NetworkInputs]:
    """Yield the network's inputs at decisions offset, offset + every, ... of a trajectory.

    The pieces come in order and have at most `piece` candidates, but at least one decision. The
    trajectory is played again. Raises HindcastError if a choice is infeasible in the replay.
    """
    memory = begin_episode(spec, trajectory.instance)
    steps = make_step_arrays(spec, trajectory.instance)
    apart, capacity = scores_rows_apart(network), trajectory.instance.capacity
    table = make_table(network, used=apart)
    unique = UniqueRows(apart, network.candidates.columns, table)
    decisions = min(len(trajectory.choices), max(piece // 4, 1))
    most = max(capacity, min(piece, decisions * capacity))
    done = following = 0
    while not done:
        arrays = make_input_arrays(spec, network, decisions, most)
        arrays.cursor[C_NEXT] = following
        table.held[:] = -1  # this piece has no rows of an earlier one
        done = gather(
            cell(scenario.observe),
            cell(scenario.step),
            network.rules.scores,
            memory,
            steps,
            unique,
            trajectory.choices,
            every,
            offset,
            arrays,
        )
        if done == INFEASIBLE:
            raise HindcastError(f"{scenario.name}: a trajectory cannot be played again")
        following = arrays.cursor[C_NEXT]
        if arrays.cursor[C_DECISIONS]:
            yield inputs_of(arrays)
