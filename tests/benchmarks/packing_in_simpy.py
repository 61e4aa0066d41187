"""A process-based simulation of `binpack` in SimPy, with the processes of the published simulator.

The simulator published with DeepJS runs one SimPy process for the submissions, one for the
scheduler and one per placed instance. The program here has the same processes and is written for
speed: the published one scans its lists of tasks and instances for every decision and takes
three times as long. Benchmarks time it beside the compiled simulator in one process. Tests compare
its makespans with the published ones and with those of `compat = "cloudsimpy"`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import simpy

from hindcast.pipeline.workloads.schema import Workload


@dataclass
class Machine:
    """A machine and its free resources."""

    cores: float
    memory: float


@dataclass
class Task:
    """A task with its instances that wait, and how many have not ended."""

    cores: float
    memory: float
    duration_s: float
    waiting: int
    unfinished: int


Pair = tuple[Machine, Task]
Rule = Callable[[list[Machine], list[Task]], Pair | None]


def fitting(machines: list[Machine], tasks: list[Task]) -> list[Pair]:
    """Return the pairs of a machine and a task that fits on it, machine by machine."""
    return [
        (machine, task)
        for machine in machines
        for task in tasks
        if task.cores <= machine.cores and task.memory <= machine.memory
    ]


def first_fit(machines: list[Machine], tasks: list[Task]) -> Pair | None:
    """Return the first fitting task of the last machine that has one, as `first_fit_reference`."""
    for machine in reversed(machines):
        for task in tasks:
            if task.cores <= machine.cores and task.memory <= machine.memory:
                return machine, task
    return None


def tetris(machines: list[Machine], tasks: list[Task]) -> Pair | None:
    """Return the pair with the largest dot product of free and requested resources."""
    best, found = -np.inf, None
    for machine, task in fitting(machines, tasks):
        score = machine.cores * task.cores + machine.memory * task.memory
        if score > best:
            best, found = score, (machine, task)
    return found


def drawn_pairs(rng: np.random.Generator) -> Rule:
    """Return a rule that writes the six features of every pair and draws one pair uniformly.

    This is the work of the paper's agent without its network.
    """

    def rule(machines: list[Machine], tasks: list[Task]) -> Pair | None:
        pairs = fitting(machines, tasks)
        if not pairs:
            return None
        rows = np.array([
            (m.cores, m.memory, t.cores, t.memory, t.duration_s, t.waiting) for m, t in pairs
        ])  # fmt: skip
        return pairs[int(rng.integers(len(rows)))]

    return rule


def play(
    workload: Workload, window: int, rule: Rule, machines: int = 5, jobs: int = 10
) -> tuple[float, int]:
    """Simulate a window of `jobs` jobs; return its makespan in seconds and its placements.

    Every machine has 64 cores and memory 1.
    """
    job = workload.tasks["job"]
    start, stop = (int(job.search_sorted(jobs * (window + i))) for i in range(2))
    submissions: dict[int, tuple[float, list[Task]]] = {}
    columns = ("job", "submit_s", "cores", "memory", "duration_s", "instances")
    for number, submit, cores, memory, duration, instances in (
        workload.tasks[start:stop].select(columns).iter_rows()
    ):
        _submit, tasks = submissions.setdefault(number, (submit, []))
        tasks.append(Task(cores, memory, duration, instances, instances))
    env = simpy.Environment()
    cluster = [Machine(64.0, 1.0) for _ in range(machines)]
    arrived: list[Task] = []
    everything = [task for _submit, tasks in submissions.values() for task in tasks]
    placements = 0

    def submitting() -> Iterator[simpy.Event]:
        began = min(submit for submit, _tasks in submissions.values())
        for submit, tasks in submissions.values():
            yield env.timeout(submit - began - env.now)
            arrived.extend(tasks)

    def running(machine: Machine, task: Task) -> Iterator[simpy.Event]:
        yield env.timeout(task.duration_s)
        machine.cores += task.cores
        machine.memory += task.memory
        task.unfinished -= 1

    def scheduling() -> Iterator[simpy.Event]:
        nonlocal placements
        while any(task.unfinished for task in everything):
            while found := rule(cluster, [task for task in arrived if task.waiting]):
                machine, task = found
                machine.cores -= task.cores
                machine.memory -= task.memory
                task.waiting -= 1
                placements += 1
                env.process(running(machine, task))
            yield env.timeout(1)

    env.process(submitting())
    scheduler = env.process(scheduling())
    env.run(scheduler)
    return env.now, placements
