"""Episodes in which some decisions are asked what each of their candidates would have led to.

An episode is played to its end first; which of its decisions are asked is drawn then, so that
early and late ones are asked alike, and it is played again for them (policies.rollouts.branches).
What is to arrive is known to no policy: over many windows the values are unbiased samples of what
the candidates are worth to the policy that plays on.

Source: Bertsekas, Tsitsiklis & Wu, "Rollout Algorithms for Combinatorial Optimization", Journal of
Heuristics 1997.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.recipes.settings import require_numbers
from pipeline.simulation.arrays import begin_episode, make_step_arrays
from pipeline.simulation.kernel import INFEASIBLE, RUNNING, TRUNCATED
from pipeline.simulation.rollout import Episode, finished_episode
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.seeds import generator
from pipeline.simulation.spec import Spec
from policies.online.problem import Problem, Sampling
from policies.rollouts.branches import C_PLAYED, branch
from policies.rollouts.play_on import Decider, play_on
from policies.rollouts.trajectories import NetworkInputs, looked_of, make_looked_arrays

_FIRST_ROOM: Final = 2048  # decisions; doubled where an episode is longer


@dataclass(frozen=True)
class Rollouts:
    """Which decisions are asked, and how far their rollouts go: what an iteration costs.

    share       of the decisions of an episode
    most        decisions of an episode
    horizon_s   seconds that a rollout plays on; 0: to the end of the episode
    epsilon     share of uniform choices of the episode itself, so that its states vary
    certain     decisions whose choice has a probability above this one, by the softmax of a
                network's scores, are hardly asked: what is tried there moves nothing. 1: all are
    of_certain  share of those that is asked all the same, since what is certain can be wrong
    """

    share: float = 0.3
    most: int = 100
    horizon_s: float = 0.0
    epsilon: float = 0.1
    certain: float = 1.0
    of_certain: float = 0.1

    def __post_init__(self) -> None:
        require_numbers(self, "above 0, at most 1", "share", "certain", table="rollouts")
        require_numbers(self, "at least 1", "most", table="rollouts")
        require_numbers(self, "at least 0", "horizon_s", table="rollouts")
        require_numbers(self, "from 0 to 1", "epsilon", "of_certain", table="rollouts")


@dataclass(frozen=True)
class Counterfactuals:
    """An episode, T of its decisions, and what their M feasible candidates would have led to.

    looked      what a network is asked in them; `chosen` is the greedy choice of what played
    value       (M,) sum of the rewards from the decision on
    rolled_out  decisions that the rollouts played
    """

    episode: Episode
    looked: NetworkInputs
    value: NDArray[np.float64]
    rolled_out: int

    @property
    def advantage(self) -> NDArray[np.float64]:
        """(M,) how much better than the greedy choice each candidate was."""
        own = self.value[self.looked.chosen]
        return self.value - np.repeat(own, np.diff(self.looked.starts))


def ask_episodes(
    problem: Problem, decider: Decider, iteration: int, sampling: Sampling, rollouts: Rollouts
) -> list[Counterfactuals]:
    """The episodes of an iteration, window by window, on the problem's threads."""
    windows = problem.windows_of(iteration, sampling)
    instances = [problem.instance_of(w) for w in windows for _ in range(sampling.trajectories)]

    def one(number: int) -> Counterfactuals:
        rng = generator(problem.seed, "online counterfactuals", iteration, number)
        return ask_episode(
            problem.scenario, problem.spec, instances[number], decider, rollouts, rng
        )

    with ThreadPoolExecutor(problem.workers) as pool:
        return list(pool.map(one, range(len(instances))))


def ask_episode(
    scenario: Scenario,
    spec: Spec,
    instance: Instance,
    decider: Decider,
    rollouts: Rollouts,
    rng: np.random.Generator,
) -> Counterfactuals:
    """Play an episode and ask some of its decisions; HindcastError for an infeasible choice."""
    memory = _Memory(scenario, spec, instance, decider, rng)
    choices, episode = memory.play(rollouts.epsilon)
    count = min(rng.binomial(len(choices), rollouts.share), rollouts.most)
    numbers = np.sort(rng.choice(len(choices), count, replace=False))
    return Counterfactuals(episode, *memory.evaluate_decisions(choices, numbers, rollouts))


class _Memory:
    """The memory of an episode and of its rollouts."""

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
        rule, arrays = decider.arrays(spec, rng)
        self.compiled = (scenario.observe, scenario.step, rule, arrays)

    def play(self, epsilon: float) -> tuple[NDArray[np.int64], Episode]:
        """The choices of an episode, and what it came to."""
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
        """What is looked at in the decisions `numbers` of an episode, and values (M,)."""
        most = len(numbers) * self.instance.capacity
        arrays = make_looked_arrays(self.spec, self.network, len(numbers), most)
        value, cursor = np.empty(most), np.zeros(4, np.int64)
        played, copy = (begin_episode(self.spec, self.instance) for _ in range(2))
        self._require(branch(
            *self.compiled, played, copy,
            make_step_arrays(self.spec, self.instance), self.rng, choices, numbers,
            rollouts.horizon_s or np.inf, rollouts.certain, rollouts.of_certain,
            arrays, value, cursor,
        ))  # fmt: skip
        looked = looked_of(arrays, cursor)
        return looked, value[looked.index], int(cursor[C_PLAYED])

    def _require(self, feasible: bool) -> None:
        if not feasible:
            raise HindcastError(f"counterfactual: infeasible choice in {self.scenario.name}")
