"""Schedules of scenarios that place on machines: `binpack`, `gpupack` and `multicluster`."""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.binpack import layout as b
from hindcast.pipeline.scenarios.binpack.instances import tasks_of
from hindcast.pipeline.scenarios.gpupack import layout as g
from hindcast.pipeline.scenarios.multicluster import layout as c
from hindcast.pipeline.schedules.of_queue import blank_unstarted, labels_of
from hindcast.pipeline.schedules.playback import Ints, Played
from hindcast.pipeline.schedules.schedule import bounded
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays

_THOUSANDTHS: Final = 1000
_NANO: Final = 1_000_000_000


def _parts(amounts: NDArray[np.float64]) -> Ints:
    """Return amounts in whole parts, rounded down, so that those that fit together still do."""
    return np.floor(amounts + 1e-6).astype(np.int64)


def binpack_choice(episode: EpisodeArrays, choice: int) -> tuple[int, int, float] | None:
    """Return the task, the machine and the tick of a placement; None if time passes."""
    ints = episode.ints
    if choice >= ints[b.PAIRS]:
        return None
    task, machine = divmod(int(ints[ints[b.PAIRS_AT] + choice]), int(ints[b.MACHINES]))
    return task, machine, float(episode.floats[k.TIME])


def binpack_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the instances of the tasks of a window of `binpack`, and the facts of a Schedule.

    An instance holds its resources up to the tick of its end. Cores are in thousandths, memory in
    1e-9 of the reference machine.
    """
    ints, floats, first = played.ints, played.floats, played.instance.floats
    n, machines = int(ints[b.TASKS]), int(ints[b.MACHINES])
    seen, ticks, total = (ints[ints[at] :][:n] for at in (b.SEEN_AT, b.TICKS_AT, b.TOTAL_AT))
    cores, memory = (
        _parts(floats[int(ints[at]) :][:n] / floats[unit] * scale)
        for at, unit, scale in (
            (b.CORES_AT, b.CORE_UNIT, _THOUSANDTHS), (b.MEMORY_AT, b.MEMORY_UNIT, _NANO),
        )
    )  # fmt: skip
    placed = sorted(note for note in played.notes if note is not None)
    at_task = np.array([note[0] for note in placed], np.int64)
    left = np.repeat(np.arange(n), total - np.bincount(at_task, minlength=n))
    task = np.concatenate([at_task, left])
    started = np.arange(len(task)) < len(placed)
    start = np.array([note[2] for note in placed] + [0.0] * len(left))
    end = start + ticks[task]
    order = np.lexsort((~started, task))  # placed instances of a task come first
    task, start, end, started = task[order], start[order], end[order], started[order]
    machine = [[note[1]] for note in placed] + [None] * len(left)
    tasks = tasks_of(played.job.recipe.config, played.job.workload, played.window)
    begin = float(tasks["submit_s"][0])
    wait, counted = start - seen[task], np.ones(len(task), bool)
    frame = pl.DataFrame({
        "job": task,
        "part": np.arange(len(task)) - np.searchsorted(task, task),
        "submit_s": np.minimum(tasks["submit_s"].to_numpy()[task], begin + seen[task]),
        "eligible_s": begin + seen[task],
        "start_s": begin + start,
        "end_s": begin + end,
        "processors": cores[task],
        "memory": memory[task],
        "machine": pl.Series([machine[i] for i in order], dtype=pl.List(pl.Int64)),
        "counted": counted,
        "wait_s": wait,
        "bounded_slowdown": bounded(wait, end - start),
    })  # fmt: skip
    labels = labels_of(played.job.workload, tasks).with_columns(
        pl.concat_str(tasks["job_id"], tasks["task_id"], separator="/").alias("name")
    )
    sizes = {
        name: _parts(first[int(ints[at]) :][:machines] / first[unit] * scale).tolist()
        for name, at, unit, scale in (
            ("processors", b.FREE_CORES_AT, b.CORE_UNIT, _THOUSANDTHS),
            ("memory", b.FREE_MEMORY_AT, b.MEMORY_UNIT, _NANO),
        )
    }
    row = played.job.workload.tasks["job"].search_sorted(tasks["job"][0])
    frame = blank_unstarted(frame, started, counted).hstack(labels[task])
    return frame.with_columns(pl.col("job") + int(row)), {
        "capacity": {name: sum(of) for name, of in sizes.items()},
        "per_unit": {"processors": _THOUSANDTHS, "memory": _NANO},
        "unit": "cores",
        "machines": sizes,
        "machine": "machine",
        "from_s": begin,
        "to_s": begin + float(floats[k.TIME]),
    }


def gpupack_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the pods of a run of `gpupack`, and the facts of a Schedule.

    Refused pods have no start. The clock counts arrivals. A pod that does not leave ends with the
    last arrival. CPUs and GPUs are in thousandths, memory in MiB.
    """
    ints = played.ints
    n, nodes, arrivals = int(ints[g.NOW]), int(ints[g.NODES]), int(ints[g.ARRIVALS])
    pod, node = ints[ints[g.POD_AT] :][:n], ints[ints[g.NODE_AT] :][:n]
    first = ints[ints[g.ENDS_FROM_AT] :][: arrivals + 1]
    ends = ints[ints[g.ENDS_AT] :][: int(first[-1])]
    end = np.full(arrivals, arrivals)
    end[ends] = np.repeat(np.arange(arrivals), np.diff(first))
    cpu, memory, milli, gpus = (
        ints[ints[at] :][pod] for at in (g.CPU_AT, g.MEMORY_AT, g.MILLI_AT, g.GPUS_AT)
    )
    arrival, counted = np.arange(n), np.ones(n, bool)
    frame = pl.DataFrame({
        "job": arrival, "submit_s": arrival, "eligible_s": arrival, "start_s": arrival,
        "end_s": end[:n], "processors": cpu, "memory": memory, "gpus": milli * gpus,
        "machine": pl.Series([[int(number)] if number >= 0 else None for number in node]),
        "counted": counted, "wait_s": np.zeros(n), "bounded_slowdown": np.ones(n),
    })  # fmt: skip
    start = played.instance.ints  # on the empty cluster; pods before the first decision find none
    sizes = {
        "processors": start[start[g.NODE_CPU_AT] :][:nodes].tolist(),
        "memory": start[start[g.FREE_MEMORY_AT] :][:nodes].tolist(),
        "gpus": (start[start[g.NODE_GPUS_AT] :][:nodes] * g.WHOLE).tolist(),
    }
    return blank_unstarted(frame, node >= 0, counted), {
        "capacity": {name: sum(of) for name, of in sizes.items()},
        "per_unit": {"processors": _THOUSANDTHS, "memory": 1, "gpus": g.WHOLE},
        "unit": "CPUs",
        "machines": sizes,
        "machine": "node",
        "clock": "arrival",
        "from_s": 0.0,
        "to_s": float(n),
    }


class _Launch(NamedTuple):
    """Tasks of a run that a cluster launched at once; `start` is -1 for tasks that still wait."""

    application: int
    due: int
    start: int
    tasks: int
    cluster: int


class _Clusters:
    """The clusters of an episode of `multicluster`, played from its deployments alone.

    It follows the order of events of hindcast.pipeline.scenarios.multicluster.dynamics.
    """

    def __init__(self, ints: Ints) -> None:
        n, clusters = int(ints[c.APPLICATIONS]), int(ints[c.CLUSTERS])
        (
            self.arrival, self.execution, self.period, self.runs, self.need, self.cluster,
            self.deployed,
        ) = (
            ints[ints[at] :][:n].tolist()
            for at in (c.ARRIVAL_AT, c.EXECUTION_AT, c.PERIOD_AT, c.RUNS_AT, c.FIRST_NEED_AT,
                       c.CLUSTER_AT, c.DEPLOYED_AT)
        )  # fmt: skip
        self.needs = ints[ints[c.NEEDS_AT] :][: sum(self.runs)].tolist()
        self.capability = ints[ints[c.CAPABILITY_AT] :][:clusters].tolist()
        self.last, self.n = int(ints[c.NOW]), n
        self.free = list(self.capability)
        self.queues: list[deque[list[int]]] = [deque() for _ in range(clusters)]
        self.done, self.due = [0] * n, list(self.arrival)
        # by step: executors that become free, runs that complete, runs that are queued
        self.ending: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.completing: dict[int, list[int]] = defaultdict(list)
        self.queued: dict[int, list[int]] = defaultdict(list)

    def launches(self) -> Iterator[_Launch]:
        """Yield the launches in their order, then the tasks that wait at the end."""
        deploys = {at: app for app, at in enumerate(self.deployed) if at >= 0}
        for now in range(self.last + 1):
            for cluster, executors in self.ending.pop(now, ()):
                self.free[cluster] += executors
            for app in self.completing.pop(now, ()):
                self._complete(app, now)
            if now == self.last:
                break
            for app in self.queued.pop(now, ()):
                self._queue(app)
            if now in deploys:
                self._queue(deploys[now])
            for cluster in range(len(self.free)):
                yield from self._launch(cluster, now)
        for cluster, queue in enumerate(self.queues):
            for app, left in queue:
                yield _Launch(app, self.due[app], -1, left, cluster)
        for app in (app for app, at in enumerate(self.deployed) if at < 0):
            yield _Launch(app, self.arrival[app], -1, self.needs[self.need[app] - self.need[0]], -1)

    def _complete(self, app: int, now: int) -> None:
        self.done[app] += 1
        if self.done[app] < self.runs[app]:
            self.due[app] = self.deployed[app] + self.done[app] * self.period[app]
            self.queued[max(self.due[app], now)].append(app)

    def _queue(self, app: int) -> None:
        need = self.needs[self.need[app] - self.need[0] + self.done[app]]
        self.queues[self.cluster[app]].append([app, need])

    def _launch(self, cluster: int, now: int) -> Iterator[_Launch]:
        """Start tasks of a cluster in order of its queue while there is room, and yield them.

        Of an application some tasks may start now, and the others later.
        """
        queue = self.queues[cluster]
        while self.free[cluster] > 0 and queue:
            app, left = queue[0]
            tasks, end = min(self.free[cluster], left), now + self.execution[app]
            self.free[cluster] -= tasks
            queue[0][1] -= tasks
            self.ending[end].append((cluster, tasks))
            yield _Launch(app, self.due[app], now, tasks, cluster)
            if tasks == left:
                queue.popleft()
                self.completing[end].append(app)


def multicluster_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the launches of all applications of `multicluster`, and the facts of a Schedule.

    An application has one or more runs. The tasks of a run wait from the arrival of the application
    or, in later runs, from the arrival of their batch; a launch starts some or all of them.
    """
    clusters = _Clusters(played.ints)
    launches = sorted(  # of a run, the tasks that still wait come last
        clusters.launches(), key=lambda launch: (launch.application, launch.due, launch.start < 0)
    )
    app, due, start, tasks, cluster = (
        np.array(column, np.int64).reshape(-1) for column in zip(*launches, strict=True)
    )
    run_time, counted = np.array(clusters.execution)[app], np.ones(len(app), bool)
    frame = pl.DataFrame({
        "job": app,
        "part": np.arange(len(app)) - np.searchsorted(app, app),
        "submit_s": np.minimum(np.array(clusters.arrival)[app], due),
        "eligible_s": due,
        "start_s": start,
        "end_s": start + run_time,
        "processors": tasks,
        "machine": pl.Series([[int(number)] if number >= 0 else None for number in cluster]),
        "counted": counted,
        "wait_s": (start - due).astype(np.float64),
        "bounded_slowdown": bounded(start - due, run_time),
    })  # fmt: skip
    return blank_unstarted(frame, start >= 0, counted), {
        "capacity": {"processors": sum(clusters.capability)},
        "unit": "executors",
        "machines": {"processors": clusters.capability},
        "machine": "cluster",
        "from_s": 0.0,
        "to_s": float(clusters.last),
    }
