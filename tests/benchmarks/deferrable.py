"""How many decisions of random play `deferrable` takes in a second, observations built."""

import time

import numpy as np
import polars as pl

from pipeline.policy import Behaviour
from pipeline.rollout import run_episode
from pipeline.scenario import load_scenario
from pipeline.workload import TASK_COLUMNS, Provenance, Workload
from policies.heuristics.generic import INDIFFERENT

EPISODES = 40
ROUNDS = 5


def measure() -> list[tuple[str, float, str]]:
    """Decisions per second through the compiled episode, the best of a few rounds."""
    scenario = load_scenario("deferrable")
    config = scenario.config()
    spec = scenario.spec(config, "revenue")
    workload = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    instances = [
        scenario.instance(config, "revenue", workload, window, np.random.default_rng(window))
        for window in range(EPISODES)
    ]
    behaviour = Behaviour("random", INDIFFERENT, epsilon=1.0)
    best = 0.0
    for _ in range(ROUNDS + 1):  # one round more warms up; it is never the best
        begin = time.perf_counter()
        steps = sum(
            run_episode(scenario, spec, instance, behaviour, np.random.default_rng(0)).steps
            for instance in instances
        )
        best = max(best, steps / (time.perf_counter() - begin))
    return [("deferrable, random play", best, "decisions/s")]
