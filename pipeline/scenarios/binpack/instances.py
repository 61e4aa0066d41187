"""Problem instances of `binpack`: the jobs of a window as the memory of an episode."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.binpack import dynamics as kernel
from hindcast.pipeline.scenarios.binpack import layout as m
from hindcast.pipeline.scenarios.binpack.bounds import lower_bound, work_bound
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.scenarios.binpack.features import OBJECTIVES
from hindcast.pipeline.settings.ranges import check_ranges
from hindcast.pipeline.simulation.scenario import Demand, Instance, make_memory, require_room
from hindcast.pipeline.workloads.schema import Workload


def windows(config: BinpackConfig, workload: Workload) -> int:
    """Return the number of full windows of `jobs_per_window` consecutive jobs."""
    check_ranges(config, "config")
    jobs = workload.tasks["job"].max()
    return 0 if jobs is None else (int(jobs) + 1) // config.jobs_per_window  # type: ignore[arg-type]


def _seen_ticks(submit_s: NDArray[np.float64], job: NDArray[np.int64], compat: bool) -> list[int]:
    """Return the tick at which each task is seen; `submit_s` starts at 0, constant within a job.

    With `compat`, a job is seen one tick late if it is submitted at 0, in the tick of the job
    before it, or one tick after a job that is seen late.
    """
    if not compat:
        return [int(t) for t in np.ceil(submit_s)]
    seen: list[int] = []
    previous_job, previous_submit, on_time, tick = -1, -2, True, 0
    for submit, of_job in zip(np.ceil(submit_s).astype(int), job, strict=True):
        if of_job != previous_job:
            gap = submit - previous_submit
            on_time = submit >= 1 and (gap >= 2 or (gap == 1 and on_time))
            tick = int(submit) if on_time else int(submit) + 1
            previous_job, previous_submit = of_job, submit
        seen.append(tick)
    return seen


def _cluster(
    config: BinpackConfig, workload: Workload
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cores and the memory of every machine."""
    check_ranges(config, "config")
    if config.cluster == "uniform":
        return (
            np.full(config.machines, config.machine_cores),
            np.full(config.machines, config.machine_memory),
        )
    if workload.machines is None:
        raise InputError(
            'config.cluster is "trace", but the workload has no machines; '
            'use cluster = "uniform", or ingest the trace with its server_event.csv'
        )
    if config.machines > workload.machines.height:
        raise InputError(
            f"config.machines is {config.machines}, expected at most "
            f"{workload.machines.height}, the machines of the trace"
        )
    chosen = workload.machines.head(config.machines)
    return chosen["cores"].to_numpy(), chosen["memory"].to_numpy()


def _check_fit(
    tasks: pl.DataFrame, window: int, cores: NDArray[np.float64], memory: NDArray[np.float64]
) -> None:
    """Raise InputError for the first task that fits on no machine."""
    requests = tasks.select("cores", "memory").to_numpy()
    fits = (requests[:, :1] <= cores) & (requests[:, 1:] <= memory)
    if not fits.any(axis=1).all():
        row = tasks.row(int(np.argmin(fits.any(axis=1))), named=True)
        raise InputError(
            f"window {window}: task {row['task_id']} of job {row['job_id']} needs "
            f"{row['cores']:g} cores and {row['memory']:g} memory, more than any machine has "
            f"(largest: {cores.max():g} cores, {memory.max():g} memory)"
        )


def _amounts(values: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return amounts in whole units, so that sums are exact, or unchanged if the unit is 1."""
    return values.astype(np.float64) if unit == 1.0 else np.rint(values * unit)


def tasks_of(config: BinpackConfig, workload: Workload, window: int) -> pl.DataFrame:
    """Return the tasks of the jobs of a window."""
    first, job = window * config.jobs_per_window, workload.tasks["job"]
    start, stop = job.search_sorted(first), job.search_sorted(first + config.jobs_per_window)
    return workload.tasks[start:stop]


def demand(config: BinpackConfig, workload: Workload, window: int) -> Demand:
    """Return the work of a window before and after its durations are rounded up to ticks."""
    tasks = tasks_of(config, workload, window)
    cores = tasks["cores"].to_numpy() * tasks["instances"].to_numpy()
    seconds = tasks["duration_s"].to_numpy()
    return Demand(float(cores @ seconds), float(cores @ np.ceil(seconds)))


def instance(
    config: BinpackConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs of one window on an empty cluster; time 0 is its first submission."""
    tasks = tasks_of(config, workload, window)
    if tasks.is_empty():
        raise InputError(
            f"window {window} has no tasks; windows are 0..{windows(config, workload) - 1}"
        )
    machine_cores, machine_memory = _cluster(config, workload)
    require_room(2.0 * len(machine_cores) * tasks.height)
    _check_fit(tasks, window, machine_cores, machine_memory)

    compat = config.compat == "cloudsimpy"
    core_unit, memory_unit = (1.0, 1.0) if compat else (m.MILLI_CORES, m.NANO_MEMORY)
    cores, free_cores = (_amounts(x, core_unit) for x in (tasks["cores"].to_numpy(), machine_cores))
    memory, free_memory = (
        _amounts(x, memory_unit) for x in (tasks["memory"].to_numpy(), machine_memory)
    )
    duration = tasks["duration_s"].to_numpy()
    total = tasks["instances"].to_numpy()
    submit = tasks["submit_s"].to_numpy()
    seen = _seen_ticks(submit - submit[0], tasks["job"].to_numpy(), compat)
    ticks = np.ceil(duration).astype(np.int64)
    if compat:
        ticks[duration == 1.0] = 2

    n, machines = len(total), len(free_cores)
    smallest = max(float(cores.min()), 1e-12)
    nodes = int(min(total.sum(), np.floor(free_cores / smallest + 1e-9).sum() + machines))
    require_room(machines * n + 4.0 * nodes)
    int_blocks = (
        (m.SEEN_AT, n, seen),
        (m.TICKS_AT, n, ticks),
        (m.TOTAL_AT, n, total),
        (m.UNPLACED_AT, n, total),
        (m.RUNNING_AT, n, 0),
        (m.FIRST_START_AT, n, -1),
        (m.FINISH_AT, n, -1),
        (m.WAITING_AT, n, 0),
        (m.OLDEST_AT, n, -1),
        (m.NEWEST_AT, n, -1),
        (m.HEAP_AT, n, 0),
        (m.PAIRS_AT, machines * n, 0),
        (m.ROWS_AT, machines + 1, 0),
        (m.START_AT, nodes, 0),
        (m.MACHINE_AT, nodes, 0),
        (m.NEXT_AT, nodes, np.arange(1, nodes + 1)),
    )
    float_blocks = (
        (m.CORES_AT, n, cores),
        (m.MEMORY_AT, n, memory),
        (m.DURATION_AT, n, duration),
        (m.SHOWN_CORES_AT, n, cores / core_unit),
        (m.SHOWN_MEMORY_AT, n, memory / memory_unit),
        (m.FREE_CORES_AT, machines, free_cores),
        (m.FREE_MEMORY_AT, machines, free_memory),
        (m.END_AT, nodes, 0.0),
    )
    work = np.stack([total * cores, total * memory])
    capacity = np.array([free_cores.sum(), free_memory.sum()])
    seen_s = np.array(seen, np.float64)
    least_work = work_bound(work, capacity, submit - submit[0], duration)
    lower = lower_bound(work, capacity, seen_s, ticks.astype(np.float64))
    ints, floats = make_memory(m.INT_HEADER, int_blocks, m.FLOAT_HEADER, float_blocks)
    ints[m.MACHINES], ints[m.TASKS] = machines, n
    ints[m.EXTENDED] = config.features == "extended"
    ints[m.WAIT_ROW] = config.allow_wait
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    floats[m.CORE_UNIT], floats[m.MEMORY_UNIT] = core_unit, memory_unit
    floats[m.LARGEST_CORES], floats[m.LARGEST_MEMORY] = machine_cores.max(), machine_memory.max()
    floats[m.CORE_USE], floats[m.MEMORY_USE] = (work @ duration) / capacity
    floats[m.WORK_BOUND], floats[m.LOWER_BOUND] = least_work, lower

    kernel.arrive(ints, floats)  # tasks seen at 0 wait there; compat sees none before 1
    if not kernel.anything_fits(ints, floats):
        kernel.advance(ints, floats, floats[m.CARRIED : m.CARRIED + len(OBJECTIVES)])
    return Instance(ints, floats, capacity=machines * n + int(config.allow_wait))
