"""GPUs and memory for which the jobs of a log ask, and the settings that simulate them."""

from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.recipes.proposals.load import demand
from hindcast.pipeline.scenarios.queue.asks import GPUS, MEMORY, PROCESSORS, TYPE
from hindcast.pipeline.workloads.schema import Workload

_COLUMNS: Final = {GPUS: "gpus", MEMORY: "memory_mib"}
_NOUNS: Final = {GPUS: "GPUs", MEMORY: "MiB of memory"}


def work_with_gpus(workload: Workload) -> float:
    """Return the share of the work, in processors x run time, that is by jobs with GPUs."""
    tasks = workload.tasks
    if "gpus" not in tasks.columns:
        return 0.0
    work = tasks["cores"] * tasks["duration_s"] * tasks["instances"]
    of_gpus = float(work.filter(tasks["gpus"].fill_null(0) > 0).sum())
    return of_gpus / max(float(work.sum()), 1e-9)


def resources_hint(workload: Workload) -> str:
    """Return a sentence on resources beside processors and their settings; "" if there are none.

    Capacities are not guessed: a machine as large as the most that was in use looks full.
    """
    tasks = workload.tasks
    names = [name for name, column in _COLUMNS.items() if _is_asked(tasks, column)]
    if not names:
        return ""
    types = [name for name in tasks.columns if name.startswith(TYPE)]
    held = " and ".join(_held(tasks, name) for name in names)
    listed = ", ".join(f'"{name}"' for name in [PROCESSORS, *names])
    kinds = [*(types or [GPUS]), *names[1:]] if GPUS in names else names
    amounts = ", ".join(f'"{kind}" = N' if ":" in kind else f"{kind} = N" for kind in kinds)
    return (
        f"jobs ask for {held}, but the log does not say what the machine has, so that processors "
        f"alone are simulated; with their amounts N, add resources = [{listed}] and capacity = "
        f"{{{amounts}}}"
    )


def _is_asked(tasks: pl.DataFrame, column: str) -> bool:
    return column in tasks.columns and bool((tasks[column].fill_null(0) > 0).any())


def _held(tasks: pl.DataFrame, name: str) -> str:
    column = _COLUMNS[name]
    if "wait_s" not in tasks.columns:
        return _NOUNS[name]
    started = tasks.filter(pl.col("wait_s").is_not_null(), pl.col(column).fill_null(0) > 0)
    if started.is_empty():
        return _NOUNS[name]
    start = (started["submit_s"] + started["wait_s"]).to_numpy().round().astype(np.int64)
    run = np.maximum(started["duration_s"].to_numpy().round().astype(np.int64), 1)
    peak = demand(start, run, started[column].to_numpy().astype(np.float64)).peak
    return f"{_NOUNS[name]} ({peak:,.6g} were held at once)"
