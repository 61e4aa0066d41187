"""Speed of `thermal`: steps per second of random play, with observations built."""

import time

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.generic import INDIFFERENT

_ROUNDS = 30
_EPISODES = 10


def measure() -> list[tuple[str, float, str]]:
    """Return (name, value, unit): environment steps per second of compiled episodes on one core."""
    return [
        (f"thermal, preset {preset}", _rate(ThermalConfig(preset=preset)), "steps/s")
        for preset in ("default", "paper")
    ]


def _rate(config: ThermalConfig) -> float:
    scenario = load_scenario("thermal")
    spec = scenario.spec(config, "level")
    nothing = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    instance = scenario.instance(config, "level", nothing, 0, np.random.default_rng(0))
    behaviour = Behaviour("random", INDIFFERENT, epsilon=1.0)
    rng = np.random.default_rng(1)
    best = 0.0
    for _ in range(_ROUNDS + 1):
        start = time.perf_counter()
        steps = sum(
            run_episode(scenario, spec, instance, behaviour, rng).steps for _ in range(_EPISODES)
        )
        best = max(best, steps / (time.perf_counter() - start))
    return best
