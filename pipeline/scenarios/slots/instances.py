"""The jobs of a `slots` episode: drawn, drawn as in the published simulator, or from a trace.

jobs, in order of arrival        arrive   0     3     3     4
                                 length   2     12    1     3      time steps
                                 cpu      7     1     2     5      slots of the first resource
                                 memory   1     8     6     2      slots of the second
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.slots.config import LONGEST_HORIZON, Sizes, SlotsConfig, sizes_of
from hindcast.pipeline.simulation.scenario import Demand
from hindcast.pipeline.workloads.schema import Workload

COMPAT_EXAMPLES: Final = 100
_COMPAT_SEED: Final = 42
_FEWEST_ARRIVALS: Final = 1e-3  # mean per sequence; below it, drawing a job takes too long
_ROUNDING: Final = 1e-9  # a demand that exceeds a whole slot by this much takes no further slot


@dataclass(frozen=True)
class Jobs:
    """The J jobs of one episode, in order of arrival.

    Attributes:
        arrive: Time step of the arrival, (J,) int64.
        length: Length in time steps, (J,) int64.
        cpu: Demand for the first resource in slots, (J,) int64.
        memory: Demand for the second resource in slots, (J,) int64.
        last_step: Time step after which no job arrives.
        span: Number of time steps over which the work is offered.
        expected_load: Work per time step that the setting offers, relative to the capacity.
        left_out: Number of jobs of the window that are not in the episode.
    """

    arrive: NDArray[np.int64]
    length: NDArray[np.int64]
    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    last_step: int
    span: int
    expected_load: float
    left_out: int = 0


def expected_load(config: SlotsConfig, sizes: Sizes) -> float:
    """Return the mean work of a job over capacity, times the arrival rate (deeprm: 1.845 rate)."""
    short, long = sum(sizes.short_lengths) / 2, sum(sizes.long_lengths) / 2
    length = config.short_share * short + (1 - config.short_share) * long
    demand = (sum(sizes.dominant_slots) + sum(sizes.other_slots)) / 4
    return config.arrival_rate * length * demand / sizes.slots_per_resource


def draw_jobs(config: SlotsConfig, sizes: Sizes, rng: np.random.Generator) -> Jobs:
    """Return a drawn sequence. A sequence without any job is drawn again."""
    if config.arrival_rate * config.steps < _FEWEST_ARRIVALS:
        raise InputError(
            f"config.arrival_rate is {config.arrival_rate:g} and config.steps is {config.steps}, "
            "so almost no sequence has a job; make one of them larger"
        )
    present = rng.random(config.steps) < config.arrival_rate
    while not present.any():
        present = rng.random(config.steps) < config.arrival_rate
    n = int(present.sum())
    short = rng.random(n) < config.short_share
    length = np.where(
        short, _between(sizes.short_lengths, n, rng), _between(sizes.long_lengths, n, rng)
    )
    first = rng.integers(0, 2, n) == 0
    dominant, other = _between(sizes.dominant_slots, n, rng), _between(sizes.other_slots, n, rng)
    at_once = config.arrival == "all_at_once"
    return Jobs(
        arrive=np.zeros(n, np.int64) if at_once else np.flatnonzero(present) + 1,
        length=length,
        cpu=np.where(first, dominant, other),
        memory=np.where(first, other, dominant),
        last_step=0 if at_once else config.steps,
        span=config.steps,
        expected_load=expected_load(config, sizes),
    )


def _between(pair: tuple[int, ...], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw whole numbers between both ends, which are included."""
    return rng.integers(pair[0], pair[1] + 1, n)


@lru_cache(maxsize=8)
def _compat_examples(rate: float, steps: int) -> tuple[NDArray[np.int64], ...]:
    """Return the published sequences: rows (arrive, length, cpu, memory) of each."""
    rng = np.random.RandomState(_COMPAT_SEED)  # legacy, but the published numbers depend on it
    examples = []
    for _ in range(COMPAT_EXAMPLES):
        rows = []
        for step in range(steps):
            if rng.rand() >= rate:
                continue
            length = rng.randint(1, 4) if rng.rand() < 0.8 else rng.randint(10, 16)
            dominant = rng.randint(0, 2)
            demand = [
                rng.randint(5, 11) if resource == dominant else rng.randint(1, 3)
                for resource in range(2)
            ]
            rows.append((step, length, *demand))
        examples.append(np.array(rows, np.int64).reshape(-1, 4))
    return tuple(examples)


def compat_jobs(config: SlotsConfig, sizes: Sizes, window: int) -> Jobs:
    """Return example `window` of the published simulator, which leaves out the first element."""
    rows = _compat_examples(config.arrival_rate, config.steps)[window]
    rows = rows[rows[:, 0] > 0]
    return Jobs(
        arrive=rows[:, 0],
        length=rows[:, 1],
        cpu=rows[:, 2],
        memory=rows[:, 3],
        last_step=config.steps,
        span=config.steps,
        expected_load=expected_load(config, sizes),
    )


def trace_jobs(config: SlotsConfig, sizes: Sizes, workload: Workload, window: int) -> Jobs:
    """Return the jobs of a window of a trace, in whole slots and time steps, rounded up.

    A task is a job whose instances all run together. Cores are the first resource and memory is the
    second. A job without a demand for memory (unknown in SWF) takes no slot of it. Every job takes
    at least one time step. Raises InputError if the workload has no machines, or a job fits neither
    the cluster nor the horizon.
    """
    first = window * config.jobs_per_window
    tasks = workload.tasks[first : first + config.jobs_per_window]
    if workload.machines is None or workload.machines.is_empty():
        raise InputError(
            "scenario slots needs the size of the cluster, but the workload has no machines"
        )
    slots = sizes.slots_per_resource
    instances = tasks["instances"].to_numpy()
    demand = []
    for name in ("cores", "memory"):
        asked, total = tasks[name].to_numpy() * instances, _total(workload.machines, name)
        if total == 0 and asked.any():
            row = int(np.argmax(asked > 0))
            raise InputError(
                f"window {window}: job {tasks['job_id'][row]} needs {name}, but the machines "
                "of the workload have none"
            )
        demand.append(_in_slots(asked, slots, total))
    length = _time_steps(tasks["duration_s"].to_numpy(), config)
    fits = length <= sizes.horizon
    if config.too_long == "refuse" and not fits.all():
        row = int(np.argmin(fits))
        raise InputError(
            f"window {window}: job {tasks['job_id'][row]} runs {tasks['duration_s'][row]:g} s, "
            f"{length[row]} time steps of {config.step_s:g} s, but the horizon is "
            f"{sizes.horizon}; {_long_jobs(config, sizes, workload)}, or set config.too_long = "
            '"leave_out"'
        )
    for name, amount in zip(("cores", "memory"), demand, strict=True):
        if (amount > slots).any():
            row = int(np.argmax(amount))
            raise InputError(
                f"window {window}: job {tasks['job_id'][row]} needs {amount[row]} of {slots} "
                f"slots of {name}, more than the cluster has"
            )
    submit = tasks["submit_s"].to_numpy()
    arrive = _rounded_up((submit - submit.min()) / config.step_s)
    span = max(int(arrive.max()), 1)
    arrive = np.zeros_like(arrive) if config.arrival == "all_at_once" else arrive
    return Jobs(
        arrive=arrive[fits],
        length=length[fits],
        cpu=demand[0][fits],
        memory=demand[1][fits],
        last_step=int(arrive.max()),
        span=span,
        expected_load=_trace_load(workload),
        left_out=int((~fits).sum()),
    )


def _long_jobs(config: SlotsConfig, sizes: Sizes, workload: Workload) -> str:
    """Return how many jobs of all windows are too long, and the settings that fit them all."""
    whole = workload.tasks.height // config.jobs_per_window * config.jobs_per_window
    duration_s = workload.tasks["duration_s"].to_numpy()[:whole]
    length = _time_steps(duration_s, config)
    windows = whole // config.jobs_per_window
    step_s = math.ceil(float(duration_s.max()) / sizes.horizon)
    horizon = f"config.horizon = {length.max()} or " if length.max() <= LONGEST_HORIZON else ""
    return (
        f"{(length > sizes.horizon).sum():,} of the {whole:,} jobs of all {windows:,} windows are "
        f"longer; {horizon}config.step_s = {step_s} fits them all"
    )


def demand(config: SlotsConfig, workload: Workload, window: int) -> Demand:
    """Return the work of a window of a trace before and after rounding, without jobs left out."""
    sizes, first = sizes_of(config), window * config.jobs_per_window
    tasks = workload.tasks[first : first + config.jobs_per_window]
    assert workload.machines is not None
    total, slots = _total(workload.machines, "cores"), sizes.slots_per_resource
    cores = tasks["cores"].to_numpy() * tasks["instances"].to_numpy()
    seconds, submit = tasks["duration_s"].to_numpy(), tasks["submit_s"].to_numpy()
    length = _time_steps(seconds, config)
    fits = length <= sizes.horizon
    area = _in_slots(cores, slots, total) * length * (config.step_s * total / slots)
    steps = float(submit.max() - submit.min()) / config.step_s
    return Demand(float((cores * seconds)[fits].sum()), float(area[fits].sum()), steps)


def _trace_load(workload: Workload) -> float:
    """Return the work of the whole trace per second, over the capacity of what it uses.

    A resource that the machines do not have is left out.
    """
    assert workload.machines is not None
    tasks = workload.tasks
    totals = {name: _total(workload.machines, name) for name in ("cores", "memory")}
    work = tasks.select(
        (pl.col(name) * pl.col("instances") * pl.col("duration_s")).sum() / total
        for name, total in totals.items()
        if total > 0
    ).row(0)
    span = float(tasks["submit_s"].to_numpy().max() - tasks["submit_s"].to_numpy().min())
    return float(sum(work) / max(sum(w > 0 for w in work), 1) / max(span, 1.0))


def _total(machines: pl.DataFrame, name: str) -> float:
    """Return the capacity of all machines."""
    return float(machines[name].to_numpy().sum())


def _in_slots(asked: NDArray[np.float64], slots: int, total: float) -> NDArray[np.int64]:
    """Return amounts of a resource in whole slots, rounded up; zeros without machines for it."""
    if total == 0:
        return np.zeros(len(asked), np.int64)
    return _rounded_up(asked * slots / total)


def _time_steps(seconds: NDArray[np.float64], config: SlotsConfig) -> NDArray[np.int64]:
    """Return durations in whole time steps, rounded up: at least 1, or a job would never fit."""
    return np.maximum(_rounded_up(seconds / config.step_s), 1)


def _rounded_up(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers, rounded up from all but a rounding error."""
    return np.ceil(values - _ROUNDING).astype(np.int64)
