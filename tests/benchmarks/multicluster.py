"""Speed of `multicluster`: random play of compiled episodes, with observations built.

    python -m tests.benchmarks.multicluster

A time step is a step of the simulated clock; a decision comes every fifteen of them.
"""

import time

import numpy as np

from pipeline.recipes.workload_source import GENERATED
from pipeline.scenarios import load_scenario
from pipeline.simulation.policy import Behaviour
from pipeline.simulation.rollout import run_episode
from pipeline.workloads.schema import Provenance, Workload
from policies.heuristics.generic import INDIFFERENT

EPISODES = 20
ROUNDS = 5


def measure() -> list[tuple[str, float, str]]:
    """Return time steps and decisions per second on one core, the best of a few rounds."""
    import polars as pl

    scenario = load_scenario("multicluster")
    config = scenario.config()
    spec = scenario.spec(config, scenario.objectives[0])
    nothing = Workload(pl.DataFrame(), Provenance(GENERATED))
    instances = [
        scenario.instance(config, spec.objective, nothing, n, np.random.default_rng(n))
        for n in range(EPISODES)
    ]
    random = Behaviour("random", INDIFFERENT, epsilon=1.0)
    best_steps = best_decisions = 0.0
    for _ in range(1 + ROUNDS):  # the first round warms up and is never the best
        rng = np.random.default_rng(0)
        begun = time.perf_counter()
        episodes = [run_episode(scenario, spec, i, random, rng) for i in instances]
        spent = time.perf_counter() - begun
        best_steps = max(best_steps, sum(e.elapsed_s for e in episodes) / spent)
        best_decisions = max(best_decisions, sum(e.steps for e in episodes) / spent)
    return [
        ("multicluster, random play", best_steps, "time steps/s"),
        ("multicluster, random play", best_decisions, "decisions/s"),
    ]


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:40} {value:14,.0f} {unit}")
