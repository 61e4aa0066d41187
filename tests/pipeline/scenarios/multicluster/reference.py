"""A second `multicluster` simulator for the tests: one object per task, step by step, no tricks.

It replays deployments {application: (step, cluster)}, and the compiled simulator must agree.
"""

from collections import deque
from dataclasses import dataclass, field

from hindcast.pipeline.scenarios.multicluster.instances import Applications


@dataclass
class Run:
    application: int
    due: int
    waiting: int  # tasks to launch
    tasks: int
    ended: int = 0


@dataclass
class EpisodeTrace:
    actual: dict[int, list[int]] = field(default_factory=dict)
    missed: list[tuple[int, int]] = field(default_factory=list)  # (step, application)
    ended: dict[int, int] = field(default_factory=dict)
    occupied: list[list[int]] = field(default_factory=list)  # per step, per cluster
    length: int = 0


def play(
    a: Applications, executors: tuple[int, ...], deployed: dict[int, tuple[int, int]]
) -> EpisodeTrace:
    """Return everything that happens under these deployments, until all applications have ended."""
    played = EpisodeTrace({i: [] for i in range(len(a.arrival))})
    queues: list[deque[Run]] = [deque() for _ in executors]
    running: list[list[tuple[int, Run]]] = [[] for _ in executors]  # a task: (end, its run)
    first = [int(a.runs[:i].sum()) for i in range(len(a.arrival))]
    due: list[tuple[int, int, int]] = []  # (step, application, due time)
    now = 0
    while True:
        completed: list[tuple[int, Run]] = []
        for c in range(len(executors)):
            for end, run in running[c]:
                if end == now:
                    run.ended += 1
                    if run.ended == run.tasks:
                        completed.append((c, run))
            running[c] = [(end, run) for end, run in running[c] if end > now]
        for _, run in completed:
            i = run.application
            actual = now - run.due
            played.actual[i].append(actual)
            if actual > a.deadline[i]:
                played.missed.append((now, i))
            done = len(played.actual[i])
            if done == a.runs[i]:
                played.ended[i] = now
            else:
                at = deployed[i][0] + done * int(a.period[i])
                due.append((max(at, now), i, at))
        if len(played.ended) == len(a.arrival):
            played.length = now
            return played
        for _, i, at in [d for d in due if d[0] == now]:
            need = int(a.needs[first[i] + len(played.actual[i])])
            queues[deployed[i][1]].append(Run(i, at, need, need))
        due = [d for d in due if d[0] != now]
        for i, (step, c) in deployed.items():
            if step == now:
                need = int(a.needs[first[i]])
                queues[c].append(Run(i, int(a.arrival[i]), need, need))
        for c, capacity in enumerate(executors):
            while queues[c] and len(running[c]) < capacity:
                run = queues[c][0]
                running[c].append((now + int(a.execution[run.application]), run))
                run.waiting -= 1
                if run.waiting == 0:
                    queues[c].popleft()
            assert len(running[c]) <= capacity
        played.occupied.append([len(r) for r in running])
        now += 1
