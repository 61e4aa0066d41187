"""Speed of `deferrable`: decisions per second of random play, with observations built.

Also the slots per second of CPU time where a network scores all jobs of a slot (one call for 16
episodes), and where prices are learned (one generation of 16 individuals).
"""

import time

import numpy as np
import polars as pl

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.generic import INDIFFERENT

EPISODES = 40
ROUNDS = 5


def measure() -> list[tuple[str, float, str]]:
    """Return the decisions per second of compiled episodes, the best of a few rounds."""
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
    for _ in range(ROUNDS + 1):  # one extra round warms up; it is never the best
        begin = time.perf_counter()
        steps = sum(
            run_episode(scenario, spec, instance, behaviour, np.random.default_rng(0)).steps
            for instance in instances
        )
        best = max(best, steps / (time.perf_counter() - begin))
    return [("deferrable, random play", best, "decisions/s"), *_slots()]


def _slots() -> list[tuple[str, float, str]]:
    import torch

    from hindcast.flows.papers.osdec import agent as score_ppo
    from hindcast.flows.papers.osdec.network import SlotScoresSettings
    from hindcast.flows.papers.osdec.rollouts import play_slots
    from hindcast.flows.papers.osdec.torch_network import SlotNetwork
    from hindcast.flows.papers.prices import agent as price_evolution
    from hindcast.policies.online.training import problem_of
    from hindcast.policies.training.devices import repeatable

    cpu = torch.device("cpu")
    problem = problem_of(load_recipe("deferrable-osdec-online"), 0, 1)
    instances = [problem.instance_of(window) for window in problem.train[:16]]
    rows = []
    with repeatable(cpu):
        for encoder, auxiliary in (("mlp", "none"), ("pointer", "none"), ("attention", "both")):
            network = score_ppo.fit(problem, SlotScoresSettings(encoder, auxiliary))
            net = SlotNetwork(network, np.random.default_rng(0))
            best = 0.0
            for _ in range(3):
                rngs = [np.random.default_rng(i) for i in range(len(instances))]
                begin = time.process_time()
                played = play_slots(net, network, problem.spec, instances, rngs, cpu)
                best = max(best, played.reward.size / (time.process_time() - begin))
            rows.append((f"deferrable, scores of a slot, {encoder}", best, "slots/CPU s"))
    config = price_evolution.Config()
    prices = price_evolution.fit(problem, config.network)
    run = price_evolution.learner(problem, config, prices, None, cpu)
    run.step(1)
    begin = time.process_time()
    run.step(1)
    rows.append(("deferrable, generation of prices", time.process_time() - begin, "CPU s"))
    return rows
