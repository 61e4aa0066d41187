"""Speed of `slots`: random play of compiled episodes, with the observation built."""

import time

import numpy as np
import polars as pl

from pipeline.scenarios import load_scenario
from pipeline.scenarios.slots.config import SlotsConfig
from pipeline.simulation.policy import Behaviour
from pipeline.simulation.rollout import run_episode
from pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from policies.heuristics.generic import INDIFFERENT

STEPS = 20_000
ROUNDS = 5


def measure() -> list[tuple[str, float, str]]:
    """Return decisions (placements and time steps) per second by observation, best of a few."""
    scenario = load_scenario("slots")
    nothing = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    play = Behaviour("random", INDIFFERENT, epsilon=1.0)
    found = []
    for observation in ("compact", "image"):
        config = SlotsConfig(observation=observation, steps=STEPS, max_time_steps=STEPS)
        spec = scenario.spec(config, "slowdown")
        instance = scenario.instance(config, "slowdown", nothing, 0, np.random.default_rng(0))
        best = 0.0
        for round_ in range(ROUNDS):
            began = time.perf_counter()
            episode = run_episode(scenario, spec, instance, play, np.random.default_rng(round_))
            best = max(best, episode.steps / (time.perf_counter() - began))
        found.append((f"slots {observation}", best, "environment steps/s"))
    return found
