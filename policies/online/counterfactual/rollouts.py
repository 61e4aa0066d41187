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
from hindcast.pipeline.simulation.draws import draws_of
from hindcast.pipeline.simulation.rollout import Episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.player import Decider, NetworkRunner, keep
from hindcast.policies.online.problem import Problem, Sampling
from hindcast.policies.rollouts.branches import Branching, branch
from hindcast.policies.rollouts.gather import C_PLAYED
from hindcast.policies.rollouts.trajectories import NetworkInputs, inputs_of, make_input_arrays

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
    runner = NetworkRunner(decider, scenario, spec, instance, 0.0, rollouts.epsilon, rng)
    kept, episode = runner.to_the_end(rng, keep(_FIRST_ROOM))
    count = min(rng.binomial(episode.steps, rollouts.share), rollouts.most)
    numbers = np.sort(rng.choice(episode.steps, count, replace=False))
    most = count * instance.capacity
    arrays = make_input_arrays(spec, decider.policy.network, count, most)
    branching = Branching(
        numbers,
        rollouts.horizon_s or np.inf,
        rollouts.certain,
        rollouts.of_certain,
        np.empty(most),
        keep(),
    )
    made = branch(
        *runner.compiled,
        begin_episode(spec, instance),
        begin_episode(spec, instance),
        make_step_arrays(spec, instance),
        draws_of(rng),
        kept.choices,
        branching,
        arrays,
    )
    if not made:
        raise HindcastError(f"{decider.policy.name}: infeasible choice in {scenario.name}")
    inputs = inputs_of(arrays)
    rolled_out = int(arrays.cursor[C_PLAYED])
    return Counterfactuals(episode, inputs, branching.value[inputs.index], rolled_out)
