"""Speed of rules on a grid: a year of hours and 100,000 jobs by each rule, and `deferrable` there.

Also the tables of `hindcast grid` for a year, and recorded decisions beside `deferrable` without a
grid.
"""

import time

import numpy as np
import polars as pl

from hindcast.pipeline.grids.optimum import optima
from hindcast.pipeline.grids.starts import RULES, Rule, Work, bound, integral, paused, starts
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.traces.hourly.ingest import synthetic
from hindcast.pipeline.traces.hourly.series import CARBON
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.generic import INDIFFERENT

JOBS = 100_000
EPISODES = 20


def measure() -> list[tuple[str, float, str]]:
    """Return CPU seconds of each rule, and decisions per CPU second."""
    x, rng = synthetic().values(CARBON), np.random.default_rng(0)
    run = rng.exponential(3.0, JOBS) + 0.1
    submit = np.sort(rng.uniform(168, 8400, JOBS))
    wait = np.where(run < 2, 6.0, 24.0)
    work = Work(submit, run, run.copy(), wait, rng.integers(1, 9, JOBS))
    rows = []
    for kind in RULES:
        for again in (False, True):
            rule = Rule(kind, again=again)
            name = f"{kind}, again" if again else kind
            rows.append((f"{name}, {JOBS:,} jobs", _s(starts, work, x, rule), "s"))
    limited = Rule("lowest_window", again=True, capacity=400, crowding=1.0)
    rows.append(
        (f"lowest_window, again, limited, {JOBS:,} jobs", _s(starts, work, x, limited), "s")
    )
    rows.append((f"in pieces, {JOBS:,} jobs", _s(paused, work, x, Rule("now")), "s"))
    rows.append((f"bound, {JOBS:,} jobs", _s(bound, work, x), "s"))
    rows.append((f"books, {JOBS:,} jobs", _s(integral, x, submit, submit + run), "s"))
    rows.append(("table of optima, a year, 24 h within 168 h", _s(optima, x, 24, 168), "s"))
    return [*rows, *(_play(objective) for objective in ("revenue", "carbon"))]


def _s(function, *given) -> float:  # type: ignore[no-untyped-def]
    function(*given)
    begin = time.process_time()
    function(*given)
    return time.process_time() - begin


def _play(objective: str) -> tuple[str, float, str]:
    scenario = load_scenario("deferrable")
    config = scenario.config()
    spec = scenario.spec(config, objective)
    workload = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
    instances = [
        scenario.instance(config, objective, workload, window, np.random.default_rng(window))
        for window in range(EPISODES)
    ]
    behaviour = Behaviour("random", INDIFFERENT, epsilon=1.0)
    steps = 0

    def play() -> None:
        nonlocal steps
        steps = sum(
            run_episode(scenario, spec, instance, behaviour, np.random.default_rng(0)).steps
            for instance in instances
        )

    seconds = _s(play)
    return f"deferrable, objective {objective}, random play", steps / seconds, "decisions/s"
