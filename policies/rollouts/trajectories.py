"""Trajectories of a network, many at once, and what it looked at in them.

Threads share the episodes of a batch: a compiled episode frees the GIL, and every trajectory draws
from its own generator, so that nothing depends on how many threads there are.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.simulation.arrays import begin_episode, make_step_arrays
from pipeline.simulation.kernel import INFEASIBLE, RUNNING, TRUNCATED
from pipeline.simulation.policy import NO_PARAMETERS
from pipeline.simulation.rollout import Episode, finished_episode
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import Network
from policies.rollouts import compiled as play

_FIRST_ROOM: Final = 2048  # decisions; doubled where an episode is longer
PIECE: Final = 1 << 20  # candidates of a piece of what was looked at


@dataclass(frozen=True)
class Trajectory:
    """One episode as it was drawn; T decisions.

    choices          (T,)
    log_probability  (T,) of the choice, when it was drawn
    reward           (T,)
    elapsed_s        (T,) seconds that passed in the step
    time_s           (T,) seconds since the start of the episode, at the decision
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
    """What a network is asked in T decisions of a trajectory, equal questions once.

        decision t: its feasible candidates are index[starts[t]:starts[t + 1]], rows of `rows`

    rows      (U, F) candidates
    row_of    (U,) the decision that a row is of; where rows are shared, the first one
    context   (T, C)
    image     (T, P) uint8
    index     (M,) row of every feasible candidate
    starts    (T + 1,)
    chosen    (T,) place of the choice in `index`
    decision  (T,) its number in the trajectory
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
    """Return room for what a network is asked in so many decisions, at most `most` candidates."""
    contexts = len(spec.context) if network.settings.context else 0
    index, row_of = np.empty((2, most), np.int64)
    chosen, decision = np.empty((2, decisions), np.int64)
    return play.LookedArrays(
        np.empty((most, len(spec.candidates))), row_of, np.empty((decisions, contexts)),
        np.empty((decisions, network.pixels), np.uint8), index, np.empty(decisions + 1, np.int64),
        chosen, decision,
    )  # fmt: skip


def looked_of(arrays: play.LookedArrays, cursor: NDArray[np.int64]) -> NetworkInputs:
    """Return the decisions, candidates and rows that were written."""
    t, m, u = cursor[play.C_DECISIONS], cursor[play.C_CANDIDATES], cursor[play.C_ROWS]
    return NetworkInputs(
        arrays.rows[:u].copy(), arrays.row_of[:u].copy(), arrays.context[:t], arrays.image[:t],
        arrays.row_numbers[:m].copy(), arrays.starts[: t + 1], arrays.chosen[:t],
        arrays.decision[:t],
    )  # fmt: skip


def looks_alone(network: Network) -> bool:
    """Whether a score depends on nothing but its candidate's row."""
    return not (network.sees_others or network.context.size or network.settings.image)


def sample_trajectory(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    policy: LearnedPolicy,
    rng: np.random.Generator,
    temperature: float = 1.0,
    epsilon: float = 0.0,
) -> Trajectory:
    """One episode, its choices drawn from softmax(scores / temperature); 0 takes the best.

    With probability `epsilon` a choice is uniform. Raises HindcastError for an infeasible choice.
    """
    memory, arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
    alone = looks_alone(policy.network)
    table = play.make_table(policy.network, len(spec.candidates), used=alone)
    decider = play.DeciderArrays(
        guided=False, parameters=NO_PARAMETERS, alone=alone, network=policy.arrays, table=table
    )
    choices = np.empty(_FIRST_ROOM, np.int64)
    numbers = np.empty((play.NUMBERS, _FIRST_ROOM))
    at, status = 0, RUNNING
    while status == RUNNING:
        code = play.sample(
            scenario.observe, scenario.step, memory, arrays, decider,
            temperature, epsilon, rng, choices, numbers, at,
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
    """One trajectory per instance, in their order, on `workers` threads."""

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
    """What the network is asked in decisions offset, offset + every, ... of a trajectory.

    In pieces of at most `piece` candidates (but always of one decision), in order. The trajectory
    is played again. Raises HindcastError where it cannot be.
    """
    memory = begin_episode(spec, trajectory.instance)
    steps = make_step_arrays(spec, trajectory.instance)
    alone, capacity = looks_alone(network), trajectory.instance.capacity
    table = play.make_table(network, len(spec.candidates), used=alone)
    decisions = min(len(trajectory.choices), max(piece // 4, 1))
    most = max(capacity, min(piece, decisions * capacity))
    cursor = np.zeros(4, np.int64)
    done = 0
    while not done:
        looked = make_looked_arrays(spec, network, decisions, most)
        cursor[: play.C_NEXT] = 0
        table.held[:] = -1  # rows of an earlier piece are not in this one
        done = play.gather(
            scenario.observe, scenario.step, memory, steps, alone, network.candidates.columns,
            table, trajectory.choices, every, offset, looked, cursor,
        )  # fmt: skip
        if done == INFEASIBLE:
            raise HindcastError(f"{scenario.name}: a trajectory cannot be played again")
        if cursor[play.C_DECISIONS]:
            yield looked_of(looked, cursor)
