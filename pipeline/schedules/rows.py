"""Meaning of the rows of an observation: jobs of the schedule, places, or letting time pass."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hindcast.pipeline.scenarios.binpack import layout as b
from hindcast.pipeline.scenarios.binpack.instances import tasks_of as binpack_tasks
from hindcast.pipeline.scenarios.deferrable import GRID
from hindcast.pipeline.scenarios.deferrable import layout as d
from hindcast.pipeline.scenarios.deferrable.grid.features import COMMITS
from hindcast.pipeline.scenarios.gpupack import layout as g
from hindcast.pipeline.scenarios.multicluster import layout as c
from hindcast.pipeline.scenarios.queue.dynamics import job_of, shown
from hindcast.pipeline.scenarios.queue.instances import tasks_of
from hindcast.pipeline.scenarios.slots import layout as s
from hindcast.pipeline.scenarios.thermal import layout as t
from hindcast.pipeline.schedules.of_queue import chosen_of, window_of
from hindcast.pipeline.schedules.playback import Ints, Played


class Row(NamedTuple):
    """A candidate.

    Attributes:
        job: Number of the job in the schedule; None for a row that lets time pass.
        machine: Where the row places it; None where the scenario places on no machine.
        text: The row in words, a job by what the log calls it.
    """

    job: int | None
    machine: int | None
    text: str


Namer = Callable[[Ints, int], Row]


def _queue(played: Played) -> Namer:
    """Return the function that names the job of a row of `queue`."""
    log, jobs, machine = window_of(played)
    number = log.row[chosen_of(jobs)]
    names = tasks_of(played.job.workload, machine)["job_id"][number].to_list()

    def name(ints: Ints, row: int) -> Row:
        if row >= shown(ints):
            return Row(None, None, "wait for the next event")
        job = job_of(ints, row)
        return Row(int(number[job]), None, f"job {names[job]}")

    return name


def _binpack(played: Played) -> Namer:
    """Return the function that names the task and machine of a row of `binpack`."""
    tasks = binpack_tasks(played.job.recipe.config, played.job.workload, played.window)
    first = int(played.job.workload.tasks["job"].search_sorted(tasks["job"][0]))
    names = list(map("/".join, tasks.select("job_id", "task_id").iter_rows()))

    def name(ints: Ints, row: int) -> Row:
        if row >= ints[b.PAIRS]:
            return Row(None, None, "let time pass")
        task, machine = divmod(int(ints[ints[b.PAIRS_AT] + row]), int(ints[b.MACHINES]))
        return Row(first + task, machine, f"task {names[task]} on machine {machine}")

    return name


def _deferrable(played: Played) -> Namer:
    """Return the function that names the job of a row of `deferrable`.

    Rows list the running jobs, those that may start, those to come, and last the end of the slot.
    """
    on_grid = played.job.recipe.objective in GRID
    if on_grid and played.floats[COMMITS] == 1.0:  # rows are slots in which the next job may start
        return lambda _ints, row: Row(None, None, f"row {row}")

    def name(ints: Ints, row: int) -> Row:
        lists = (
            (d.RUNNING_AT, d.RUNNING_JOBS, "running"), (d.STARTABLE_AT, d.STARTABLE_JOBS, ""),
            (d.FUTURE_AT, d.FUTURE_JOBS, "not startable yet"),
        )  # fmt: skip
        for at, count, what in lists:
            if row < ints[count]:
                job = int(ints[ints[at] + row])
                return Row(job, None, f"job {job}" + (f" ({what})" if what else ""))
            row -= int(ints[count])
        return Row(None, None, "close the slot")

    return name


def _slots(_played: Played) -> Namer:
    def name(ints: Ints, row: int) -> Row:
        if row >= ints[s.QUEUE]:
            return Row(None, None, "let a time step pass")
        job = int(ints[ints[s.JOB_AT] + row])
        return Row(None, None, "an empty slot") if job < 0 else Row(job, None, f"job {job}")

    return name


def _gpupack(_played: Played) -> Namer:
    def name(ints: Ints, row: int) -> Row:
        node = int(ints[ints[g.HEAD_AT] + ints[ints[g.ROW_CLASS_AT] + row]])
        gpu, pod = int(ints[ints[g.ROW_GPU_AT] + row]), int(ints[g.NOW])
        return Row(pod, node, f"pod {pod} on node {node}" + (f", GPU {gpu}" if gpu >= 0 else ""))

    return name


def _multicluster(_played: Played) -> Namer:
    def name(ints: Ints, row: int) -> Row:
        place, cluster = divmod(row, int(ints[c.CLUSTERS]))
        job = int(ints[ints[c.POOLED_AT] + place])
        return Row(job, cluster, f"application {job} on cluster {cluster}")

    return name


def _thermal(_played: Played) -> Namer:
    def name(ints: Ints, row: int) -> Row:
        return Row(int(ints[t.NOW]), row, f"job {int(ints[t.NOW])} on server {row}")

    return name


NAMERS: Final[Mapping[str, Callable[[Played], Namer]]] = {
    "binpack": _binpack, "deferrable": _deferrable, "gpupack": _gpupack,
    "multicluster": _multicluster, "queue": _queue, "slots": _slots, "thermal": _thermal,
}  # fmt: skip


def namer_of(played: Played) -> Any:
    """Return the function that says what a row stands for: name(ints, row) -> Row."""
    return NAMERS[played.job.scenario.name](played)
