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

    def looked(number: int) -> list[NetworkInputs]:
        offset = number % every
        return list(
            network_inputs(
                problem.scenario, problem.spec, played[number], network,
                every=every, offset=offset, piece=PIECE,
            )
        )  # fmt: skip

    with ThreadPoolExecutor(problem.workers) as pool:
        parts = list(pool.map(looked, range(len(played))))
    first = np.cumsum([0, *(len(one.choices) for one in played)])
    numbers = [n + part.decision for n, of in zip(first, parts, strict=False) for part in of]
    return join([part for of in parts for part in of]), np.concatenate(numbers)


def places(looked: NetworkInputs, which: Numbers) -> Numbers:
    """Return the places in `index` of the candidates of these decisions, in order."""
    count = looked.starts[which + 1] - looked.starts[which]
    before = looked.starts[which] - (np.cumsum(count) - count)
    found: Numbers = np.arange(count.sum()) + np.repeat(before, count)
    return found


def subset(looked: NetworkInputs, which: Numbers) -> NetworkInputs:
    """Return these decisions, in this order, with separate rows for each decision."""
    count = looked.starts[which + 1] - looked.starts[which]
    starts = np.concatenate([[0], np.cumsum(count)])
    decision = np.repeat(np.arange(len(which)), count)
    index = looked.index[places(looked, which)]
    return NetworkInputs(
        rows=looked.rows[index],
        row_of=decision,
        context=looked.context[which],
        image=looked.image[which],
        index=np.arange(starts[-1]),
        starts=starts,
        chosen=starts[:-1] + looked.chosen[which] - looked.starts[which],
        decision=looked.decision[which],
    )
