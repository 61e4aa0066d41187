"""The gate of an online training: a test of the agent against the best rule on validation windows.

    rules     every deterministic rule of the scenario plays train and validation windows; the best
              one has the best mean of the headline outcome, among those that a guard lets pass
    agent     the selected checkpoint and that rule play the validation windows
    verdict   the agent is delivered if the paired 95 % interval of the difference is above 0

Train windows say as much about a rule as others, since no rule is trained. With validation windows
alone, which may be few, the best of many rules would be the luckiest one.

The headline outcome is what evaluations compare. A return may weigh several costs otherwise.

The checkpoint was selected among several on some of these windows, so its mean on them is too high
by a little. An interval that excludes 0 leaves room for that; the mean alone would not.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.simulation.batched import run_batched
from pipeline.simulation.policy import Behaviour, Heuristic
from pipeline.simulation.rollout import Episode, run_episode
from pipeline.simulation.seeds import generator
from pipeline.statistics.intervals import paired_difference
from policies.networks.policy import LearnedPolicy
from policies.networks.rules import rankable
from policies.online.problem import Problem
from policies.rollouts.trajectories import sample_trajectories
from policies.training.delivery import AGENT, RULE, Verdict, eligible_rules

MOST_WINDOWS: Final = 100  # train windows on which rules are compared
Value = Callable[[Episode], float]  # of an episode, higher is better


def judge(problem: Problem, policy: LearnedPolicy | None) -> Verdict | None:
    """Return the verdict on an agent; None without validation windows or without rules.

    `policy` is None if a guard refused every checkpoint of the training.
    """
    names = eligible_rules(problem.spec)
    if problem.guard is not None:
        names = [name for name in names if problem.guard.admits(name)]
    if not problem.validation or not names:
        return None
    headline, windows = problem.spec.outcomes[0], len(problem.validation)
    value = partial(_headline, better=headline.better)
    best = best_rule(problem, names, value)
    if policy is None:
        return Verdict(RULE, best, headline.name, windows)
    known = rankable(problem.scenario.name)
    of_rule = _values_of_rule(problem, known[best], problem.validation, value)
    of_agent = values_of(problem, policy, value)
    found = paired_difference([of_agent], [of_rule], seed=problem.seed)
    ends = (found.low, found.high) if windows > 1 else (None, None)
    better = ends[0] is not None and ends[0] > 0.0
    return Verdict(AGENT if better else RULE, best, headline.name, windows, found.value, *ends)


def by_return(episode: Episode) -> float:
    """Return the return of an episode."""
    return episode.total


def _headline(episode: Episode, better: str) -> float:
    """Return the headline outcome of an episode, or less it if lower is better."""
    return float(episode.outcomes[0]) * (1.0 if better == "higher" else -1.0)


def best_rule(problem: Problem, names: Sequence[str], value: Value = by_return) -> str:
    """Return the rule with the highest mean value on train and validation windows.

    Of many train windows, evenly spaced ones are played.
    """
    known = rankable(problem.scenario.name)
    windows = [*problem.train[:: -(-len(problem.train) // MOST_WINDOWS)], *problem.validation]
    means = {name: _values_of_rule(problem, known[name], windows, value).mean() for name in names}
    return max(names, key=lambda name: float(means[name]))


def _values_of_rule(
    problem: Problem, rule: Heuristic, windows: Sequence[int], value: Value
) -> NDArray[np.float64]:
    """Return the value of a rule on every window, (W,)."""
    behaviour = Behaviour(rule.name, rule)

    def one(window: int) -> float:
        rng = generator(problem.seed, "greedy", window)
        instance = problem.instance_of(window)
        return value(run_episode(problem.scenario, problem.spec, instance, behaviour, rng))

    with ThreadPoolExecutor(problem.workers) as pool:
        return np.array(list(pool.map(one, windows)))


def values_of(
    problem: Problem, policy: LearnedPolicy, value: Value = by_return
) -> NDArray[np.float64]:
    """Return the value of greedy choices on every validation window, (W,)."""
    instances = [problem.instance_of(w) for w in problem.validation]
    rngs = [generator(problem.seed, "greedy", w) for w in problem.validation]
    if type(policy) is not LearnedPolicy:  # a network of another architecture
        behaviour = Behaviour(policy.name, policy)
        episodes = run_batched(problem.scenario, problem.spec, instances, behaviour, rngs)
        return np.array([value(one) for one in episodes])
    played = sample_trajectories(
        problem.scenario, problem.spec, instances, policy, rngs, temperature=0.0,
        workers=problem.workers,
    )  # fmt: skip
    return np.array([value(one.episode) for one in played])
