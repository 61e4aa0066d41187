"""Decisions of many trajectories in one place, and minibatches of them.

Network inputs are kept unexpanded, with equal rows of a trajectory stored once; features are
expanded per minibatch. Memory is proportional to the decisions that are learned from, which `every`
thins out if episodes are long.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from hindcast.policies.networks.settings import Network
from hindcast.policies.online.choices import join
from hindcast.policies.online.problem import PIECE, Problem
from hindcast.policies.rollouts.trajectories import NetworkInputs, Trajectory, network_inputs

Numbers = NDArray[np.int64]


def gathered(
    problem: Problem, played: Sequence[Trajectory], network: Network, every: int
) -> tuple[NetworkInputs, Numbers]:
    """Return the network's inputs at every `every`-th decision, and the decisions' numbers (T,).

    Decisions are numbered across all trajectories. Trajectories begin at different decisions, so
    that no decision number is always left out.
    """

    def inputs(number: int) -> list[NetworkInputs]:
        offset = number % every
        return list(
            network_inputs(
                problem.scenario, problem.spec, played[number], network,
                every=every, offset=offset, piece=PIECE,
            )
        )  # fmt: skip

    with ThreadPoolExecutor(problem.workers) as pool:
        parts = list(pool.map(inputs, range(len(played))))
    first = np.cumsum([0, *(len(t.choices) for t in played)])
    numbers = [n + part.decision for n, group in zip(first, parts, strict=False) for part in group]
    return join([part for group in parts for part in group]), np.concatenate(numbers)


def places(inputs: NetworkInputs, decisions: Numbers) -> Numbers:
    """Return the places in `index` of the candidates of these decisions, in order."""
    count = inputs.starts[decisions + 1] - inputs.starts[decisions]
    before = inputs.starts[decisions] - (np.cumsum(count) - count)
    places_of_candidates: Numbers = np.arange(count.sum()) + np.repeat(before, count)
    return places_of_candidates


def subset(inputs: NetworkInputs, decisions: Numbers) -> NetworkInputs:
    """Return these decisions, in this order, with separate rows for each decision."""
    count = inputs.starts[decisions + 1] - inputs.starts[decisions]
    starts = np.concatenate([[0], np.cumsum(count)])
    decision = np.repeat(np.arange(len(decisions)), count)
    index = inputs.index[places(inputs, decisions)]
    return NetworkInputs(
        rows=inputs.rows[index],
        row_of=decision,
        context=inputs.context[decisions],
        image=inputs.image[decisions],
        index=np.arange(starts[-1]),
        starts=starts,
        chosen=starts[:-1] + inputs.chosen[decisions] - inputs.starts[decisions],
        decision=inputs.decision[decisions],
    )
