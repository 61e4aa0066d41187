"""The gate of an online training: a test of the agent against the best rule on validation windows.

    rules     every deterministic rule of the scenario plays the validation windows; the best one
              has the highest mean return, among those that a guard lets pass
    agent     the selected checkpoint plays the same windows greedily
    verdict   the agent is delivered if the paired 95 % interval of agent - rule is above 0

The checkpoint was selected among several on some of these windows, so its mean on them is too high
by a little. An interval that excludes 0 leaves room for that; the mean alone would not.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from pipeline.simulation.batched import run_batched
from pipeline.simulation.policy import Behaviour, Heuristic
from pipeline.simulation.rollout import run_episode
from pipeline.simulation.seeds import generator
from pipeline.statistics.intervals import paired_difference
from policies.networks.policy import LearnedPolicy
from policies.networks.rules import rankable
from policies.online.problem import Problem
from policies.rollouts.trajectories import sample_trajectories
from policies.training.delivery import AGENT, RULE, Verdict, eligible_rules


def judge(problem: Problem, policy: LearnedPolicy | None) -> Verdict | None:
    """Return the verdict on an agent; None without validation windows or without rules.

    `policy` is None if a guard refused every checkpoint of the training.
    """
    names = eligible_rules(problem.spec)
    if problem.guard is not None:
        names = [name for name in names if problem.guard.admits(name)]
    if not problem.validation or not names:
        return None
    best, of_rule = best_rule(problem, names)
    windows = len(problem.validation)
    if policy is None:
        return Verdict(RULE, best, "return", windows)
    of_agent = returns_of(problem, policy)
    found = paired_difference([of_agent], [of_rule], seed=problem.seed)
    ends = (found.low, found.high) if windows > 1 else (None, None)
    better = ends[0] is not None and ends[0] > 0.0
    return Verdict(AGENT if better else RULE, best, "return", windows, found.value, *ends)


def best_rule(problem: Problem, names: list[str]) -> tuple[str, NDArray[np.float64]]:
    """Return the rule with the highest mean return on the validation windows, and its returns."""
    known = rankable(problem.scenario.name)
    found = {name: _returns_of_rule(problem, known[name]) for name in names}
    best = max(names, key=lambda name: float(found[name].mean()))
    return best, found[best]


def _returns_of_rule(problem: Problem, rule: Heuristic) -> NDArray[np.float64]:
    """Return the return of a rule on every validation window, (W,)."""
    behaviour = Behaviour(rule.name, rule)

    def one(window: int) -> float:
        rng = generator(problem.seed, "greedy", window)
        instance = problem.instance_of(window)
        return run_episode(problem.scenario, problem.spec, instance, behaviour, rng).total

    with ThreadPoolExecutor(problem.workers) as pool:
        return np.array(list(pool.map(one, problem.validation)))


def returns_of(problem: Problem, policy: LearnedPolicy) -> NDArray[np.float64]:
    """Return the return of greedy choices on every validation window, (W,)."""
    instances = [problem.instance_of(w) for w in problem.validation]
    rngs = [generator(problem.seed, "greedy", w) for w in problem.validation]
    if type(policy) is not LearnedPolicy:  # a network of another architecture
        behaviour = Behaviour(policy.name, policy)
        episodes = run_batched(problem.scenario, problem.spec, instances, behaviour, rngs)
        return np.array([one.total for one in episodes])
    played = sample_trajectories(
        problem.scenario, problem.spec, instances, policy, rngs, temperature=0.0,
        workers=problem.workers,
    )  # fmt: skip
    return np.array([one.episode.total for one in played])
