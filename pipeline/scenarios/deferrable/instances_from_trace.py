"""Jobs and capacity of `deferrable` from a trace of virtual machines (Azure packing trace 2020).

The on-demand load is the number of cores that the VMs of priority 0 hold. The capacity is what this
load leaves of its own maximum over the whole trace, scaled to the configured level:

    L_t   mean cores held by priority-0 VMs during slot t
    C_t = round(capacity * (max L - L_t) / mean over the trace of (max L - L))

The other VMs are the jobs. Their cores, durations (rounded up) and earliest starts (the slot in
which the VM starts) come from the trace. Windows and notices, which the trace does not have, are
drawn like those of generated jobs. Of the VMs that start in a window, `jobs_per_slot` times the
horizon are drawn. A trace without priority-0 VMs has generated capacity.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.instances import Jobs, draw_capacity, with_windows
from hindcast.pipeline.simulation.scenario import Demand
from hindcast.pipeline.workloads.schema import Workload

ON_DEMAND = 0  # priority of the VMs of the on-demand load


def trace_slots(config: DeferrableConfig, workload: Workload) -> int:
    """Return the number of whole slots of the trace, up to the start of its last VM."""
    last = workload.tasks["submit_s"].max()
    return 0 if last is None else max(0, int(np.ceil(float(last) / config.slot_s)))  # type: ignore[arg-type]


def draw_trace(
    config: DeferrableConfig, workload: Workload, window: int, rng: np.random.Generator
) -> tuple[Jobs, NDArray[np.int64]]:
    """Return the jobs and the capacity (T,) of a window.

    Raises InputError if no VM of the window can be a job, or if the on-demand load is constant.
    """
    first = (window // config.draws_per_window) * config.horizon
    jobs = _draw_jobs(config, workload.tasks, first, rng)
    load = _on_demand(workload.tasks, config.slot_s, trace_slots(config, workload))
    if load is None:
        return jobs, draw_capacity(config, rng)
    free = load.max() - load
    if free.mean() <= 0:
        raise InputError(
            "the load of the priority-0 VMs of this workload is constant, so it leaves no "
            'capacity; use another trace, or config.jobs = "generated"'
        )
    shape = free[first : first + config.horizon] / free.mean()
    return jobs, np.rint(config.capacity * shape).astype(np.int64)


def _draw_jobs(
    config: DeferrableConfig, tasks: pl.DataFrame, first: int, rng: np.random.Generator
) -> Jobs:
    """Return drawn jobs of the slots first .. first + horizon - 1."""
    vms, slots = _deferrable(config, tasks, first)
    if vms.is_empty():
        begin, end = first * config.slot_s, (first + config.horizon) * config.slot_s
        raise InputError(
            f"no deferrable VM of at most {config.longest_trace_duration} slots starts between "
            f"{begin:g} s and {end:g} s of this workload"
        )
    count = min(round(config.jobs_per_slot * config.horizon), vms.height)
    chosen = np.sort(rng.choice(vms.height, count, replace=False))
    cores = _whole_cores(vms)[chosen]
    earliest = vms["submit_s"].to_numpy()[chosen] // config.slot_s - first
    return with_windows(config, cores, slots[chosen], earliest, rng)


def demand(config: DeferrableConfig, workload: Workload, window: int) -> Demand:
    """Return the work of all VMs of a window that can be jobs, before and after rounding."""
    first = (window // config.draws_per_window) * config.horizon
    vms, slots = _deferrable(config, workload.tasks, first)
    cores, seconds = vms["cores"].to_numpy(), vms["duration_s"].to_numpy() * config.stretch
    return Demand(float(cores @ seconds), float(_whole_cores(vms) @ slots) * config.slot_s)


def _whole_cores(vms: pl.DataFrame) -> NDArray[Any]:
    return np.maximum(np.ceil(vms["cores"].to_numpy() - 1e-9), 1.0)


def _deferrable(
    config: DeferrableConfig, tasks: pl.DataFrame, first: int
) -> tuple[pl.DataFrame, NDArray[Any]]:
    """Return the VMs of the slots from `first` on that can be jobs, and their lengths in slots."""
    begin, end = first * config.slot_s, (first + config.horizon) * config.slot_s
    submit = tasks["submit_s"]  # ascending, because jobs are numbered by it
    vms = tasks[int(submit.search_sorted(begin)) : int(submit.search_sorted(end))]
    if "priority" in vms.columns:
        vms = vms.filter(pl.col("priority").fill_null(1) != ON_DEMAND)
    slots = np.maximum(np.ceil(vms["duration_s"].to_numpy() * config.stretch / config.slot_s), 1.0)
    short = slots <= config.longest_trace_duration
    return vms.filter(short), slots[short]


def _on_demand(tasks: pl.DataFrame, slot_s: float, slots: int) -> NDArray[np.float64] | None:
    """Return the mean cores held by priority-0 VMs per slot, (slots,); None without such VMs."""
    if "priority" not in tasks.columns:
        return None
    vms = tasks.filter(pl.col("priority") == ON_DEMAND)
    if vms.is_empty():
        return None
    cores = (vms["cores"] * vms["instances"]).to_numpy()
    start = vms["submit_s"].to_numpy()
    core_s = _held_until(start, cores, slot_s, slots)
    core_s -= _held_until(start + vms["duration_s"].to_numpy(), cores, slot_s, slots)
    return np.diff(core_s) / slot_s


def _held_until(
    start: NDArray[np.float64], cores: NDArray[np.float64], slot_s: float, slots: int
) -> NDArray[np.float64]:
    """Return the core-seconds held up to every slot boundary, (slots + 1,), if no VM ended."""
    slot = np.clip(np.floor(start / slot_s) + 1, 0, slots + 1).astype(np.int64)
    cores_started = np.cumsum(np.bincount(slot, cores, slots + 2))
    core_s_started = np.cumsum(np.bincount(slot, cores * start, slots + 2))
    boundary = np.arange(slots + 1) * slot_s
    return cores_started[: slots + 1] * boundary - core_s_started[: slots + 1]
