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
from hindcast.pipeline.simulation.kernel import INFEASIBLE, RUNNING, TRUNCATED
from hindcast.pipeline.simulation.policy import NO_PARAMETERS
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.row_table import looks_alone, make_table
from hindcast.policies.networks.settings import Network
from hindcast.policies.rollouts import compiled as play

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


def make_looked_arrays(
    spec: Spec, network: Network, decisions: int, most: int
) -> play.LookedArrays:
    """Return buffers for the inputs at `decisions` decisions with at most `most` candidates."""
    contexts = len(spec.context) if network.settings.context else 0
    width = len(spec.candidates) + network.rules.width
    index, row_of = np.empty((2, most), np.int64)
    chosen, decision = np.empty((2, decisions), np.int64)
    return play.LookedArrays(
        np.empty((most, width)), row_of, np.empty((decisions, contexts)),
        np.empty((decisions, network.pixels), np.uint8), index, np.empty(decisions + 1, np.int64),
        chosen, decision,
    )  # fmt: skip


def looked_of(arrays: play.LookedArrays, cursor: NDArray[np.int64]) -> NetworkInputs:
    """Return the decisions, candidates and rows that were written to the buffers."""
    t, m, u = cursor[play.C_DECISIONS], cursor[play.C_CANDIDATES], cursor[play.C_ROWS]
    return NetworkInputs(
        arrays.rows[:u].copy(), arrays.row_of[:u].copy(), arrays.context[:t], arrays.image[:t],
        arrays.row_numbers[:m].copy(), arrays.starts[: t + 1], arrays.chosen[:t],
        arrays.decision[:t],
    )  # fmt: skip


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
    HindcastError for an infeasible choice.
    """
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    alone = looks_alone(policy.network)
    table = make_table(policy.network, used=alone)
    decider = play.DeciderArrays(
        guided=False, parameters=NO_PARAMETERS, alone=alone, network=policy.arrays, table=table,
    )  # fmt: skip
    choices = np.empty(_FIRST_ROOM, np.int64)
    numbers = np.empty((play.NUMBERS, _FIRST_ROOM))
    at, status = 0, RUNNING
    while status == RUNNING:
        code = play.sample(
            cell(scenario.observe), cell(scenario.step), memory, arrays, decider,
            policy.network.rules.scores, temperature, epsilon, rng, choices, numbers, at,
        )  # fmt: skip
        if code == INFEASIBLE:
            raise HindcastError(f"{policy.name}: infeasible choice in {scenario.name}")
        at, status = divmod(int(code), 4)
        if status == RUNNING:
            choices = np.concatenate([choices, np.empty_like(choices)])
            numbers = np.concatenate([numbers, np.empty_like(numbers)], axis=1)
    episode = finished_episode(
        scenario.outcome, spec, memory.ints, memory.floats, arrays.totals, at,
        truncated=status == TRUNCATED,
    )  # fmt: skip
    kept = numbers[:, :at].copy()
    return Trajectory(
        instance, episode, choices[:at].copy(), kept[play.N_LOG_PROBABILITY],
        kept[play.N_REWARD], kept[play.N_ELAPSED], kept[play.N_TIME],
    )  # fmt: skip


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
    alone, capacity, rules = looks_alone(network), trajectory.instance.capacity, network.rules
    table = make_table(network, used=alone)
    decisions = min(len(trajectory.choices), max(piece // 4, 1))
    most = max(capacity, min(piece, decisions * capacity))
    cursor = np.zeros(4, np.int64)
    done = 0
    while not done:
        looked = make_looked_arrays(spec, network, decisions, most)
        cursor[: play.C_NEXT] = 0
        table.held[:] = -1  # this piece has no rows of an earlier one
        done = play.gather(
            cell(scenario.observe), cell(scenario.step), memory, steps, alone,
            network.candidates.columns, table, rules.scores, trajectory.choices,
            every, offset, looked, cursor,
        )  # fmt: skip
        if done == INFEASIBLE:
            raise HindcastError(f"{scenario.name}: a trajectory cannot be played again")
        if cursor[play.C_DECISIONS]:
            yield looked_of(looked, cursor)
