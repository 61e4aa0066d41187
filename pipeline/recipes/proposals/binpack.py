"""Proposal for `binpack`: windows of jobs on as many machines as keep them contended."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.proposals.load import demand, ratio
from hindcast.pipeline.recipes.proposals.plan import (
    ScenarioPlan,
    SplitFacts,
    Start,
    has_memory,
    ranges,
    split_warnings,
)
from hindcast.pipeline.recipes.proposals.resources import work_with_gpus
from hindcast.pipeline.workloads.schema import Workload

DESCRIPTION: Final = "windows of {jobs_per_window} jobs on {machines} machines"
_JOBS: Final = (50, 20, 10, 5)  # of a window, the preferred number first
_WINDOWS: Final = 60  # for which a number of jobs is good
_FEWEST: Final = 5
_MOST: Final = {"train": 120, "validation": 20, "test": 60}  # windows, so that a run takes minutes
_MACHINES: Final = 5
_CAPACITY: Final = 0.5  # of the most that the median window would use at once
_GPUS: Final = 0.05  # of the work may be by jobs with GPUs
_DAY_S: Final = 86_400

_BEHAVIOURS: Final[tuple[Mapping[str, Any], ...]] = (
    {"policy": "random_linear", "epsilon": 0.1, "episodes": 6},
    {"policy": "random", "episodes": 1},
    *({"policy": rule, "epsilon": 0.2, "episodes": 1}
      for rule in ("first_fit", "tetris", "shortest_first", "longest_first")),
)  # fmt: skip
_POLICIES: Final = (
    "random", "first_fit", "best_fit", "tetris", "shortest_first", "longest_first",
    "longest_spread",
)  # fmt: skip
_REFERENCES: Final = ("random", "first_fit", "tetris", "longest_first", "longest_spread")


def misfit(workload: Workload) -> str:
    """Return the reason that the scenario does not suit a workload, or ""."""
    if not has_memory(workload):
        return "tasks have no memory"
    share = work_with_gpus(workload)
    if share <= _GPUS:
        return ""
    return f"{share:.0%} of the work is by jobs with GPUs, which machines of binpack lack"


def plan(workload: Workload, start: Start) -> ScenarioPlan:
    """Return a proposal. Raises InputError if the workload has too few jobs."""
    del start  # the time of day is no feature
    size = int(workload.tasks["job"].max()) + 1  # type: ignore[arg-type]
    jobs = next((n for n in _JOBS if size // n >= _WINDOWS), _JOBS[-1])
    if size // jobs < _FEWEST:
        raise InputError(
            f"the workload has {size:,} jobs, expected at least {_FEWEST * jobs:,} for "
            f"{_FEWEST} windows of {jobs} jobs"
        )
    split_ranges = {name: _shortened(split, name) for name, split in ranges(size // jobs).items()}
    of_window = {
        int(key[0]): window
        for key, window in workload.tasks.with_columns(window=pl.col("job") // jobs)
        .partition_by("window", as_dict=True)
        .items()
    }
    peaks = np.array([_peaks(of_window[window]) for window in split_ranges["train"]])
    cores, memory = np.median(peaks, axis=0) * _CAPACITY
    largest = workload.tasks.select(pl.col("cores", "memory").max()).row(0)
    machine_cores = float(max(np.ceil(largest[0]), np.ceil(cores / _MACHINES), 1.0))
    machines = int(max(1, round(cores / machine_cores)))
    machine_memory = float(max(largest[1], memory / machines)) or 1.0
    splits = [
        _measured(name, split, [of_window[w] for w in split], machines * machine_cores,
                  machines * machine_memory)
        for name, split in split_ranges.items()
    ]  # fmt: skip
    in_windows = sum(of_window[w].height for split in split_ranges.values() for w in split)
    over = workload.tasks.filter(pl.col("job") >= size // jobs * jobs).height
    left_out = {
        "after the last whole window": over,
        "in windows beyond those that make a run take minutes": workload.tasks.height
        - in_windows
        - over,
    }
    config: dict[str, Any] = {
        "machines": machines,
        "machine_cores": machine_cores,
        "machine_memory": float(f"{machine_memory * (1 + 1e-6):.7g}"),
        "jobs_per_window": jobs,
    }
    warnings = split_warnings(splits)
    if not has_memory(workload):
        warnings.insert(0, "the memory of tasks is unknown: cores alone are contended")
    unknown = int((workload.tasks["memory"] <= 0).sum())
    if 0 < unknown < workload.tasks.height:
        warnings.append(f"{unknown:,} tasks have no memory, or an unknown one, taken as 0")
    if machines * machine_cores > 2 * cores:
        warnings.append(
            f"the largest task has {largest[0]:g} cores, more than half of what the median window "
            "uses at once: most windows are hardly contended"
        )
    return ScenarioPlan(
        config=config,
        splits=splits,
        left_out={reason: count for reason, count in left_out.items() if count > 0},
        comments={
            "machines": "together half of what the median train window would use at once without "
            "waiting, and at least the largest task on each",
            "machine_memory": "in the unit of the workload: a share of its cluster's memory",
            "jobs_per_window": f"{size:,} jobs make {size // jobs:,} windows",
        },
        facts=[
            f"{machines} machines of {machine_cores:g} cores",
            f"the median train window would use {cores / _CAPACITY:,.1f} cores at once",
        ],
        warnings=warnings,
        behaviours=_BEHAVIOURS,
        policies=_POLICIES,
        references=_REFERENCES,
    )


def _shortened(part: range, name: str) -> range:
    """Return the windows of a split that are nearest to the test, at most _MOST of them."""
    return part[-_MOST[name] :] if name != "test" else part[: _MOST[name]]


def _peaks(tasks: pl.DataFrame) -> tuple[float, float]:
    """Return the cores and the memory that the tasks of a window would use at most at once."""
    submit, run, count = (tasks[n].to_numpy() for n in ("submit_s", "duration_s", "instances"))
    amounts = (tasks[name].to_numpy() * count for name in ("cores", "memory"))
    cores, memory = (demand(submit, run, amount).peak for amount in amounts)
    return cores, memory


def _measured(
    name: str, windows: range, tables: list[pl.DataFrame], cores: float, memory: float
) -> SplitFacts:
    loads, contended = [], []
    for tasks in tables:
        submit, run, count = (tasks[n].to_numpy() for n in ("submit_s", "duration_s", "instances"))
        seconds = float((submit + run).max() - submit.min())
        load_and_contention = []
        for column, capacity in (("cores", cores), ("memory", memory)):
            amount = tasks[column].to_numpy() * count
            above = demand(submit, run, amount).share_above(capacity)
            load_and_contention.append((ratio(float(amount @ run), capacity, seconds), above))
        loads.append(max(load for load, _ in load_and_contention))
        contended.append(max(above for _, above in load_and_contention))
    return SplitFacts(
        name=name,
        windows=windows,
        jobs=sum(tasks["job"].n_unique() for tasks in tables),
        days=(float(tables[-1]["submit_s"].max()) - float(tables[0]["submit_s"].min())) / _DAY_S,  # type: ignore[arg-type]
        load=float(np.mean(loads)),
        contended=float(np.mean(contended)),
    )
