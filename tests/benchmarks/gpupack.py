"""Speed of `gpupack`: whole runs on 1,213 nodes, by FGD and without fragments, and recording.

    python -m tests.benchmarks gpupack

The pods are the published list where there are traces, else typical ones. An arrival is a pod, also
one that is refused. Rates are by processor time, the best of a few rounds. The published simulator
says 10 minutes for 10,900 pods on two CPUs, 18 arrivals/s.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hindcast.pipeline.dataset.building.recorder import Recording, make_log
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.storage.location import traces_folder
from hindcast.pipeline.testing import NOTHING
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.heuristics import heuristics

ROUNDS = 3
RULES = ("fgd", "best_fit", "fit_starved_scarce")
DECISIONS, CANDIDATES = 4096, 1 << 20  # of the recorder's buffer


def measure() -> list[tuple[str, float, str]]:
    """Return arrivals per second."""
    path = traces_folder() / "alibaba_gpu2023" / "openb_pod_list_default.csv.gz"
    workload = FORMATS["pods"].reading(path)[0] if path.exists() else NOTHING
    scenario, rules = load_scenario("gpupack"), heuristics("gpupack")
    rows = []
    for ties, compat in (("published ties", "simulator"), ("drawn ties", "")):
        config = GpupackConfig(seeds=(42,), compat=compat)  # type: ignore[arg-type]
        spec = scenario.spec(config, "allocated")
        instance = scenario.instance(config, "allocated", workload, 0, np.random.default_rng(0))
        arrivals = int(instance.ints[m.ARRIVALS])

        def played(rule: str, given: Any = (spec, instance)) -> None:
            behaviour = Behaviour(rule, rules[rule])
            run_episode(scenario, *given, behaviour, np.random.default_rng(0))

        def recorded(rule: str, given: Any = (spec, instance)) -> None:
            behaviour, log = Behaviour(rule, rules[rule]), make_log(given[0], DECISIONS, CANDIDATES)
            recording = Recording(scenario, *given, behaviour, np.random.default_rng(0), 0)
            while not recording.go_on(log):
                log.cursor[:2] = 0

        rows += [
            (f"gpupack, {rule}, {ties}", arrivals / _least(played, rule), "arrivals/s")
            for rule in RULES
        ]
        spent = _least(recorded, "fgd")
        rows.append((f"gpupack, fgd recorded, {ties}", arrivals / spent, "arrivals/s"))
    return rows


def _least(play: Callable[[str], None], rule: str) -> float:
    """Return the least processor seconds of a run; the first one warms up."""
    spent = []
    for _ in range(1 + ROUNDS):
        begun = time.process_time()
        play(rule)
        spent.append(time.process_time() - begun)
    return min(spent[1:])
