"""Episodes with rollouts of every candidate at some of their decisions.

An episode is first played to its end. Some of its decisions are then drawn uniformly, early and
late ones alike, and the episode is played again to roll them out
(hindcast.policies.rollouts.branches). No policy observes future arrivals, so over many windows the
returns are unbiased samples of the candidates' values under the policy that continues.

Source: Bertsekas, Tsitsiklis & Wu, "Rollout Algorithms for Combinatorial Optimization", Journal of
Heuristics 1997.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.arrays import begin_episode, make_step_arrays
from hindcast.pipeline.simulation.functions import cell
from hindcast.pipeline.simulation.kernel import INFEASIBLE, RUNNING, TRUNCATED
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.online.problem import Problem, Sampling
from hindcast.policies.rollouts.branches import C_PLAYED, branch
from hindcast.policies.rollouts.play_on import Decider, play_on
from hindcast.policies.rollouts.trajectories import NetworkInputs, looked_of, make_looked_arrays

_FIRST_ROOM: Final = 2048  # decisions; doubled for longer episodes


@dataclass(frozen=True)
class Rollouts:
    """Settings of the rollouts: their decisions and their length, the cost of an iteration.

    Attributes:
        share: Share of an episode's decisions that are rolled out, above 0, at most 1.
        most: Largest number of decisions per episode that are rolled out, at least 1.
        horizon_s: Seconds that a rollout continues, at least 0; 0 for the end of the episode.
        epsilon: Probability of a uniform choice in the episode, which varies its states; 0 to 1.
        certain: Probability above which a network's choice counts as certain, by the softmax of the
            scores; above 0, at most 1. Rollouts of certain decisions would change little, so most
            are skipped; 1 to skip none.
        of_certain: Share of the certain decisions that are rolled out nevertheless, because a
            certain choice can be wrong; 0 to 1.
    """

    share: float = number(0.3, "above 0, at most 1")
    most: int = number(100, "at least 1")
    horizon_s: float = number(0.0, "at least 0", "s")
    epsilon: float = number(0.1, "from 0 to 1")
    certain: float = number(1.0, "above 0, at most 1")
    of_certain: float = number(0.1, "from 0 to 1")

    def __post_init__(self) -> None:
        check_ranges(self, "rollouts")


@dataclass(frozen=True)
class Counterfactuals:
    """An episode, and the returns of the M feasible candidates at T of its decisions.

    Attributes:
        episode: The episode.
        inputs: Network inputs at the decisions; `chosen` is the greedy choice of the policy.
        value: (M,) sum of rewards from the decision on, per candidate.
        rolled_out: Number of decisions that the rollouts played.
    """

    episode: Episode
    inputs: NetworkInputs
    value: NDArray[np.float64]
    rolled_out: int

    @property
    def advantage(self) -> NDArray[np.float64]:
        """(M,) value of each candidate less the value of the greedy choice."""
        of_choice = self.value[self.inputs.chosen]
        return self.value - np.repeat(of_choice, np.diff(self.inputs.starts))


def ask_episodes(
    problem: Problem, decider: Decider, iteration: int, sampling: Sampling, rollouts: Rollouts
) -> list[Counterfactuals]:
    """Play the episodes of an iteration with rollouts, window by window, on `workers` threads."""
    windows = problem.windows_of(iteration, sampling)
    instances = [problem.instance_of(w) for w in windows for _ in range(sampling.trajectories)]

    def episode(number: int) -> Counterfactuals:
        rng = generator(problem.seed, "online counterfactuals", iteration, number)
        return ask_episode(
            problem.scenario, problem.spec, instances[number], decider, rollouts, rng
        )

    with ThreadPoolExecutor(problem.workers) as pool:
        return list(pool.map(episode, range(len(instances))))


def ask_episode(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    decider: Decider,
    rollouts: Rollouts,
    rng: np.random.Generator,
) -> Counterfactuals:
    """Play an episode and roll out some decisions; HindcastError for an infeasible choice."""
    memory = _Memory(scenario, spec, instance, decider, rng)
    choices, episode = memory.play(rollouts.epsilon)
    count = min(rng.binomial(len(choices), rollouts.share), rollouts.most)
    numbers = np.sort(rng.choice(len(choices), count, replace=False))
    return Counterfactuals(episode, *memory.evaluate_decisions(choices, numbers, rollouts))


class _Memory:
    """An episode and its rollouts."""

    def __init__(
        self,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        decider: Decider,
        rng: np.random.Generator,
    ) -> None:
        self.scenario, self.spec, self.instance, self.rng = scenario, spec, instance, rng
        self.network = decider.policy.network
        functions = cell(scenario.observe), cell(scenario.step)
        self.compiled = (*functions, *decider.arrays(spec, rng))

    def play(self, epsilon: float) -> tuple[NDArray[np.int64], Episode]:
        """Play an episode; return its choices and its result."""
        memory = begin_episode(self.spec, self.instance)
        arrays = make_step_arrays(self.spec, self.instance)
        choices = np.empty(_FIRST_ROOM, np.int64)
        at, status = 0, RUNNING
        while True:
            code = play_on(*self.compiled, memory, arrays, self.rng, epsilon, np.inf, choices, at)
            self._require(code != INFEASIBLE)
            at, status = divmod(int(code), 4)
            if status != RUNNING:
                break
            choices = np.concatenate([choices, np.empty_like(choices)])
        episode = finished_episode(
            self.scenario.outcome, self.spec, memory.ints, memory.floats, arrays.totals, at,
            truncated=status == TRUNCATED,
        )  # fmt: skip
        return choices[:at].copy(), episode

    def evaluate_decisions(
        self, choices: NDArray[np.int64], numbers: NDArray[np.int64], rollouts: Rollouts
    ) -> tuple[NetworkInputs, NDArray[np.float64], int]:
        """Roll out decisions `numbers`; return network inputs, values (M,) and decisions played."""
        rows = len(numbers) * self.instance.capacity
        arrays = make_looked_arrays(self.spec, self.network, len(numbers), rows)
        value, cursor = np.empty(rows), np.zeros(4, np.int64)
        played, copy = (begin_episode(self.spec, self.instance) for _ in range(2))
        self._require(branch(
            *self.compiled, played, copy,
            make_step_arrays(self.spec, self.instance), self.rng, choices, numbers,
            rollouts.horizon_s or np.inf, rollouts.certain, rollouts.of_certain,
            arrays, value, cursor,
        ))  # fmt: skip
        inputs = looked_of(arrays, cursor)
        return inputs, value[inputs.index], int(cursor[C_PLAYED])

    def _require(self, feasible: bool) -> None:
        if not feasible:
            raise HindcastError(f"counterfactual: infeasible choice in {self.scenario.name}")
