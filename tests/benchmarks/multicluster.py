"""Speed of `multicluster`: random play of compiled episodes, with observations built.

    python -m tests.benchmarks.multicluster

A time step is a step of the simulated clock; a decision comes every fifteen of them.
"""

import time

import numpy as np

from hindcast.pipeline.recipes.workload_source import GENERATED
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics.generic import INDIFFERENT

EPISODES = 20
ROUNDS = 5


def measure() -> list[tuple[str, float, str]]:
    """Return speeds on one core, the best of a few rounds, and the cost of `foresight`."""
    import polars as pl

    scenario = load_scenario("multicluster")
    nothing = Workload(pl.DataFrame(), Provenance(GENERATED))
    random = Behaviour("random", INDIFFERENT, epsilon=1.0)
    played = []
    for foresight in (False, True):
        config = scenario.config(foresight=foresight)
        spec = scenario.spec(config, scenario.objectives[0])
        instances = [
            scenario.instance(config, spec.objective, nothing, n, np.random.default_rng(n))
            for n in range(EPISODES)
        ]
        played.append((spec, instances))
    best_steps = best_decisions = 0.0
    least_used = [float("inf"), float("inf")]  # processor seconds without and with foresight
    for _ in range(1 + ROUNDS):  # the first round warms up and is never the best
        for foresight, (spec, instances) in enumerate(played):
            rng = np.random.default_rng(0)
            begun, used = time.perf_counter(), time.process_time()
            episodes = [run_episode(scenario, spec, i, random, rng) for i in instances]
            spent = time.perf_counter() - begun
            used = time.process_time() - used
            least_used[foresight] = min(least_used[foresight], used)
            if not foresight:
                best_steps = max(best_steps, sum(e.elapsed_s for e in episodes) / spent)
                best_decisions = max(best_decisions, sum(e.steps for e in episodes) / spent)
    return [
        ("multicluster, random play", best_steps, "time steps/s"),
        ("multicluster, random play", best_decisions, "decisions/s"),
        ("multicluster, with foresight", least_used[1] / least_used[0], "times the time"),
    ]


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:40} {value:14,.2f} {unit}")
