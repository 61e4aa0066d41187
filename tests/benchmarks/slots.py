"""Speed of `slots`: random play of compiled episodes, with the observation built.

The fixed cost of an episode is that of an episode with a single time step, in decisions of a long
episode. It rises if numba takes long to recognise the arguments of a loop
(hindcast.pipeline.simulation. functions).
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.slots.config import SlotsConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.generic import INDIFFERENT
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.rollouts.trajectories import sample_trajectory

STEPS = 20_000
ROUNDS = 5
SHORT = 200  # short episodes of a round


def measure() -> list[tuple[str, float, str]]:
    """Return decisions (placements and time steps) per second, and fixed costs of episodes."""
    scenario = load_scenario("slots")
    nothing = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    rule = Behaviour("random", INDIFFERENT, epsilon=1.0)
    long = SlotsConfig(steps=STEPS, max_time_steps=STEPS)

    def play(config: SlotsConfig, *, network: bool) -> Callable[[int], int]:
        spec = scenario.spec(config, "slowdown")
        instance = scenario.instance(config, "slowdown", nothing, 0, np.random.default_rng(0))
        made = make_network(spec.context, spec.candidates, NetworkSettings())
        zero = {name: np.zeros(shape, np.float32) for name, shape in made.shapes.items()}
        policy = LearnedPolicy("zero", made, zero, spec.context, spec.candidates)

        def one(seed: int) -> int:
            rng = np.random.default_rng(seed)
            if network:
                return sample_trajectory(scenario, spec, instance, policy, rng).episode.steps
            return run_episode(scenario, spec, instance, rule, rng).steps

        return one

    found = []
    for name, config in (("compact", long), ("image", replace(long, observation="image"))):
        seconds = _seconds_per_decision(play(config, network=False), 1)
        found.append((f"slots {name}", 1.0 / seconds, "environment steps/s"))
    short = SlotsConfig(steps=1, max_time_steps=1)
    for name, network in (("a rule", False), ("a network", True)):
        decision = _seconds_per_decision(play(long, network=network), 1)
        brief = play(short, network=network)
        episode = _seconds_per_decision(brief, SHORT) * brief(0)
        found.append((f"slots, episode of one step by {name}", episode / decision, "decisions"))
    return found


def _seconds_per_decision(play: Callable[[int], int], episodes: int) -> float:
    """Return the time per decision of the best of a few rounds."""
    best = np.inf
    for round_ in range(ROUNDS):
        began = time.perf_counter()
        decisions = sum(play(round_) for _ in range(episodes))
        best = min(best, (time.perf_counter() - began) / decisions)
    return float(best)
