"""Six problems small enough to follow by hand, one per scenario, run in the simulator.

The pages of docs/scenarios tell these episodes and `scenarios.py` draws them:

    python -m docs.pictures.small_episodes      prints every decision and the outcomes
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.scenarios.deferrable import make_instance as deferrable_instance
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.instances import Jobs as DeferrableJobs
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.initial_state import lay_out as multicluster_instance
from hindcast.pipeline.scenarios.multicluster.instances import Applications
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.initial_state import lay_out as queue_instance
from hindcast.pipeline.scenarios.queue.instances import Log as QueueLog
from hindcast.pipeline.scenarios.queue.instances import select_jobs
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.scenarios.slots import lay_out as slots_instance
from hindcast.pipeline.scenarios.slots.config import SlotsConfig, sizes_of
from hindcast.pipeline.scenarios.slots.instances import Jobs as SlotsJobs
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig, settled
from hindcast.pipeline.scenarios.thermal.instances import Jobs as ThermalJobs
from hindcast.pipeline.scenarios.thermal.instances import make_instance as thermal_instance
from hindcast.pipeline.simulation.environment import CompiledEnvironment, Observation
from hindcast.pipeline.simulation.policy import best_feasible
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics import heuristics

Rule = Callable[[Observation], int]


@dataclass(frozen=True)
class Decision:
    """One decision of an episode: what was seen, chosen and paid."""

    time_s: float
    candidates: int
    feasible: int
    choice: int
    row: dict[str, float]
    reward: float
    elapsed_s: float


def binpack() -> tuple[Any, Instance]:
    """Two machines of four cores; job A is two long instances, job B four short ones."""
    config = BinpackConfig(machines=2, machine_cores=4.0, jobs_per_window=2)
    tasks = pl.DataFrame(
        {
            "job": [0, 1], "task": [0, 0], "job_id": ["A", "B"], "task_id": ["A", "B"],
            "submit_s": [0.0, 0.0], "duration_s": [10.0, 4.0], "cores": [2.0, 2.0],
            "memory": [0.1, 0.1], "instances": [2, 4],
        }
    )  # fmt: skip
    workload = Workload(tasks, Provenance("drawn by hand"))
    scenario = load_scenario("binpack")
    return config, scenario.instance(config, "makespan", workload, 0, np.random.default_rng(0))


def slots() -> tuple[Any, Instance]:
    """Play a long job that fills the cpu from time 0 and a short job one step later."""
    config = SlotsConfig(steps=2, arrival_rate=1.0, queue=2, backlog=0)
    jobs = SlotsJobs(
        arrive=np.array([0, 1]), length=np.array([6, 1]), cpu=np.array([10, 5]),
        memory=np.array([2, 1]), last_step=1, expected_load=1.0,
    )  # fmt: skip
    return config, slots_instance(config, sizes_of(config), "slowdown", jobs)


def thermal() -> tuple[Any, Instance]:
    """Two jobs, a step apart, on six servers of 40 units."""
    config = settled(ThermalConfig(jobs=2, steps=7))
    jobs = ThermalJobs(
        resources=np.array([10, 10]), process=np.array([3, 3]), deadline=np.array([2, 3])
    )
    return config, thermal_instance(config, 0, jobs)


def deferrable(last: int = 4) -> tuple[Any, Instance]:
    """Four slots; job A can wait, job B starts in slot 0 or never. `last`: capacity of slot 3."""
    config = DeferrableConfig(horizon=4)
    jobs = DeferrableJobs(
        cores=np.array([3, 4]), duration=np.array([2, 2]), earliest=np.array([0, 0]),
        latest=np.array([2, 0]), submitted=np.array([0, 0]),
    )  # fmt: skip
    capacity = np.array([4, 4, 4, last])
    return config, deferrable_instance(config, "revenue", jobs, capacity)


def multicluster() -> tuple[Any, Instance]:
    """Clusters of 4 and 6 executors; a regular and a critical application come at once."""
    config = MulticlusterConfig(clusters=(4, 6), applications=2, limit=100)
    profile = np.zeros((2, 10))
    profile[:, 4:6] = 0.5
    applications = Applications(
        arrival=np.array([0, 0]), category=np.array([0, 1]), execution=np.array([10, 10]),
        tasks=np.array([6, 4]), deadline=np.array([np.inf, 11.0]), runs=np.array([1, 1]),
        period=np.array([0, 0]), profile=profile, needs=np.array([6, 4]),
    )  # fmt: skip
    return config, multicluster_instance(config, 0, applications)


def queue() -> tuple[Any, Instance]:
    """Eight processors; job A holds four of them when B, which needs six, and three others come."""
    config = QueueConfig(jobs=5, warm=False)
    cpu, run = np.array([4, 6, 2, 1, 2]), np.array([100, 50, 500, 500, 99])
    unknown, none = np.full(5, -1), np.zeros(0, np.int64)
    submit = np.array([0, 1, 1, 1, 1])
    log = QueueLog(
        processors=8, row=np.arange(5), submit=submit, arrive=submit, cpu=cpu, run=run,
        requested=run, user=unknown, key=unknown, queue=np.zeros(5, np.int64),
        start=np.full(5, NEVER), known=np.zeros(5, np.bool_), by_end=none, ends=none,
    )  # fmt: skip
    return config, queue_instance(config, "bounded_slowdown", log, select_jobs(config, log, 0))


PROBLEMS = {
    "binpack": binpack, "slots": slots, "thermal": thermal, "deferrable": deferrable,
    "multicluster": multicluster, "queue": queue,
}  # fmt: skip


def rule(scenario: str, name: str) -> Rule:
    """Return a rule of a scenario as a function of the observation."""
    found = heuristics(scenario)[name]
    return lambda o: int(best_feasible(found.scores(o), np.array(o.feasible)))


def plan(choices: Sequence[int]) -> Rule:
    """Return a rule that makes the given choices, whatever it sees."""
    left = iter(choices)
    return lambda _observation: next(left)


def play(
    scenario: str, problem: tuple[Any, Instance], policy: Rule
) -> tuple[list[Decision], dict[str, float]]:
    """Play an episode to its end; return its decisions and its outcomes."""
    config, instance = problem
    loaded = load_scenario(scenario)
    objective = loaded.objectives[0]
    workload = Workload(pl.DataFrame(), Provenance("drawn by hand"))
    environment = CompiledEnvironment(loaded, config, objective, workload, 0)
    names = [feature.name for feature in environment.spec.candidates]
    seen, decisions, over = environment.begin(instance), [], False
    while not over:
        choice = policy(seen)
        row = dict(zip(names, map(float, seen.candidates[choice]), strict=True))
        done = environment.step(choice)
        decisions.append(
            Decision(
                seen.time_s,
                len(seen.feasible),
                int(seen.feasible.sum()),
                choice,
                row,
                done.reward,
                done.elapsed_s,
            )
        )
        seen, over = done.observation, done.terminated or done.truncated
    return decisions, environment.outcome()


EPISODES: dict[str, dict[str, Callable[[], tuple[list[Decision], dict[str, float]]]]] = {
    "binpack": {
        name: lambda name=name: play("binpack", binpack(), rule("binpack", name))
        for name in ("shortest_first", "longest_first")
    },
    "slots": {
        "sjf_now": lambda: play("slots", slots(), rule("slots", "sjf_now")),
        "wait one time step": lambda: play("slots", slots(), plan([2, 1, 2, 0, 2, 2, 2, 2, 2, 2])),
        "hold_5": lambda: play("slots", slots(), rule("slots", "hold_5")),
    },
    "thermal": {
        name: lambda name=name: play("thermal", thermal(), rule("thermal", name))
        for name in ("spread", "min_heat", "max_usage")
    },
    "deferrable": {
        **{
            name: lambda name=name: play("deferrable", deferrable(), rule("deferrable", name))
            for name in ("fifo", "knapsack")
        },
        "knapsack, capacity falls to 2": lambda: play(
            "deferrable", deferrable(2), rule("deferrable", "knapsack")
        ),
    },
    "multicluster": {
        "most_free_now": lambda: play(
            "multicluster", multicluster(), rule("multicluster", "most_free_now")
        ),
        "critical to cluster 0": lambda: play("multicluster", multicluster(), plan([2, 1])),
        "both to cluster 0": lambda: play("multicluster", multicluster(), plan([0, 0])),
    },
    "queue": {
        name: lambda name=name: play("queue", queue(), rule("queue", name))
        for name in ("fcfs_easy", "fcfs_greedy")
    },
}


def _text(scenario: str) -> Iterator[str]:
    for name, run in EPISODES[scenario].items():
        decisions, outcomes = run()
        yield f"\n{scenario}, {name}"
        for d in decisions:
            shown = ", ".join(f"{k} {v:g}" for k, v in d.row.items() if "profile" not in k)
            yield (
                f"  t={d.time_s:g} {d.feasible} of {d.candidates} feasible, choice {d.choice}, "
                f"reward {d.reward:.4g}, elapsed {d.elapsed_s:g} | {shown}"
            )
        yield "  " + ", ".join(f"{k} {v:.5g}" for k, v in outcomes.items())


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for each in PROBLEMS for line in _text(each))
