"""The jobs of one `slots` episode: drawn, drawn as the published simulator draws, or from a trace.

jobs, in order of arrival        arrive   0     3     3     4
                                 length   2     12    1     3      time steps
                                 cpu      7     1     2     5      slots of the first resource
                                 memory   1     8     6     2      slots of the second
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.workloads.schema import Workload

COMPAT_EXAMPLES: Final = 100
_COMPAT_SEED: Final = 42
_ROUNDING: Final = 1e-9  # a demand this little above a whole slot does not take another one


@dataclass(frozen=True)
class Sizes:
    """The sizes of a cluster and its jobs; pairs are (least, most), both included."""

    slots_per_resource: int
    horizon: int
    short_lengths: tuple[int, ...]
    long_lengths: tuple[int, ...]
    dominant_slots: tuple[int, ...]
    other_slots: tuple[int, ...]


_MOST_SHOWN: Final = 1000
_FEWEST_ARRIVALS: Final = 1e-3  # on average; below, drawing until there is one takes for ever

PRESETS: Final[Mapping[str, Sizes]] = {
    "deeprm": Sizes(10, 20, (1, 3), (10, 15), (5, 10), (1, 2)),
    "report": Sizes(50, 60, (3, 9), (30, 45), (12, 25), (2, 5)),
}


@dataclass(frozen=True)
class SlotsConfig:
    """Settings of `slots`.

    preset           "deeprm" or "report": the six sizes below it, each of which can be overridden
    short_share      probability that a job is short
    queue, backlog   visible jobs; jobs that wait behind them
    arrival          "bernoulli": at most one job at each of `steps` time steps, at `arrival_rate`;
                     "all_at_once": the same jobs, all of them at 0;
                     "trace": the jobs of the workload, at their times of submission
    max_time_steps   the episode is truncated after that many
    observation      "image" adds the papers' image to the compact context
    foresight        rows also tell what their choice puts off: four more columns
    ties             which of equal jobs the rules take: the one of larger "demand", then the lowest
                     slot, or the lowest "slot" at once (as in compat)
    compat           "deeprm": the published simulator, quirks included
    step_s           seconds in a time step; lengths and arrivals of a trace are rounded up to steps
    jobs_per_window  jobs of a trace in one window
    too_long         jobs of a trace that are longer than the horizon: "refuse" or "leave_out"
    """

    preset: Literal["deeprm", "report"] = "deeprm"
    slots_per_resource: int | None = None
    horizon: int | None = None
    short_lengths: tuple[int, ...] | None = None
    long_lengths: tuple[int, ...] | None = None
    dominant_slots: tuple[int, ...] | None = None
    other_slots: tuple[int, ...] | None = None
    short_share: float = 0.8
    queue: int = 10
    backlog: int = 60
    arrival: Literal["bernoulli", "all_at_once", "trace"] = "bernoulli"
    arrival_rate: float = 0.7
    steps: int = 50
    max_time_steps: int = 1000
    observation: Literal["compact", "image"] = "compact"
    foresight: bool = False
    ties: Literal["demand", "slot"] = "demand"
    compat: Literal["", "deeprm"] = ""
    step_s: float = 1.0
    jobs_per_window: int = 100
    too_long: Literal["refuse", "leave_out"] = "refuse"


@dataclass(frozen=True)
class Jobs:
    """The jobs of one episode, in order of arrival.

    arrive, length, cpu, memory   (J,) int64
    last_step      no job arrives after this time step
    span           time steps over which the work is offered
    expected_load  work that the setting offers per time step, over capacity
    left_out       jobs of the window that are not in the episode
    """

    arrive: NDArray[np.int64]
    length: NDArray[np.int64]
    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    last_step: int
    span: int
    expected_load: float
    left_out: int = 0


def sizes_of(config: SlotsConfig) -> Sizes:
    """The preset's sizes with what the config overrides; InputError where a setting is unusable."""
    names = [field.name for field in dataclasses.fields(Sizes)]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    sizes = dataclasses.replace(PRESETS[config.preset], **given)
    for name in ("slots_per_resource", "horizon"):
        _at_least(name, getattr(sizes, name), 1)
    for name in ("queue", "steps", "max_time_steps", "jobs_per_window"):
        _at_least(name, getattr(config, name), 1)
    _at_least("backlog", config.backlog, 0)
    for name, shown in (("horizon", sizes.horizon), ("queue", config.queue)):
        if shown > _MOST_SHOWN:
            raise InputError(
                f"config.{name} is {shown}, expected at most {_MOST_SHOWN}: the observation has "
                "features for every one"
            )
    limits = {
        "short_lengths": (1, sizes.horizon),
        "long_lengths": (1, sizes.horizon),
        "dominant_slots": (1, sizes.slots_per_resource),
        "other_slots": (0, sizes.slots_per_resource),
    }
    for name, (low, high) in limits.items():
        pair = getattr(sizes, name)
        if len(pair) != 2 or not low <= pair[0] <= pair[1] <= high:
            raise InputError(
                f"config.{name} is {list(pair)}, expected [least, most] within {low} and {high}"
            )
    for name, value in (("short_share", config.short_share), ("arrival_rate", config.arrival_rate)):
        if not 0 <= value <= 1 or (name == "arrival_rate" and value == 0):
            raise InputError(f"config.{name} is {value:g}, expected a probability above 0")
    if not (math.isfinite(config.step_s) and config.step_s > 0):
        raise InputError(f"config.step_s is {config.step_s:g}, expected more than 0")
    if config.compat and (config.preset, config.arrival, given) != ("deeprm", "bernoulli", {}):
        raise InputError(
            'config.compat = "deeprm" has the sizes of preset "deeprm" and Bernoulli arrivals; '
            "leave out the other settings"
        )
    return sizes


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"config.{name} is {value}, expected at least {least}")


def expected_load(config: SlotsConfig, sizes: Sizes) -> float:
    """Mean work of a job over capacity, times the arrival rate: 1.845 rate with preset deeprm."""
    short, long = sum(sizes.short_lengths) / 2, sum(sizes.long_lengths) / 2
    length = config.short_share * short + (1 - config.short_share) * long
    demand = (sum(sizes.dominant_slots) + sum(sizes.other_slots)) / 4
    return config.arrival_rate * length * demand / sizes.slots_per_resource


def draw_jobs(config: SlotsConfig, sizes: Sizes, rng: np.random.Generator) -> Jobs:
    """A drawn sequence; one without any job is drawn again."""
    if config.arrival_rate * config.steps < _FEWEST_ARRIVALS:
        raise InputError(
            f"config.arrival_rate {config.arrival_rate:g} in {config.steps} steps: almost no "
            "sequence has a job"
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
    return rng.integers(pair[0], pair[1] + 1, n)


@lru_cache(maxsize=8)
def _compat_examples(rate: float, steps: int) -> tuple[NDArray[np.int64], ...]:
    """The sequences of the published simulator: rows (arrive, length, cpu, memory) of each."""
    rng = np.random.RandomState(_COMPAT_SEED)  # legacy: the published numbers hang on it
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
    """Example `window` of the published simulator, which never delivers the first element."""
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
    """The jobs of a window of a trace, in whole slots and time steps, both rounded up.

    A task is a job; all its instances run together. Cores are the first resource, memory the
    second; a demand for no memory (SWF: unknown) takes no slot of it. Raises InputError where
    the workload has no machines, or a job fits neither the cluster nor the horizon.
    """
    first = window * config.jobs_per_window
    tasks = workload.tasks[first : first + config.jobs_per_window]
    if workload.machines is None or workload.machines.is_empty():
        raise InputError("slots needs the size of the cluster, but this workload has no machines")
    slots = sizes.slots_per_resource
    instances = tasks["instances"].to_numpy()
    demand = [
        _rounded_up(tasks[name].to_numpy() * instances * slots / _total(workload.machines, name))
        for name in ("cores", "memory")
    ]
    length = _rounded_up(tasks["duration_s"].to_numpy() / config.step_s)
    fits = length <= sizes.horizon
    if config.too_long == "refuse" and not fits.all():
        row = int(np.argmin(fits))
        raise InputError(
            f"window {window}: job {tasks['job_id'][row]} runs {tasks['duration_s'][row]:g} s, "
            f"{length[row]} time steps of {config.step_s:g} s, but the horizon is "
            f"{sizes.horizon}; raise config.horizon or config.step_s, or set "
            'config.too_long = "leave_out"'
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


def _trace_load(workload: Workload) -> float:
    """Work of the whole trace per second, over the capacity of what it asks for."""
    assert workload.machines is not None
    tasks = workload.tasks
    work = tasks.select(
        (pl.col(name) * pl.col("instances") * pl.col("duration_s")).sum()
        / _total(workload.machines, name)
        for name in ("cores", "memory")
    ).row(0)
    span = float(tasks["submit_s"].to_numpy().max() - tasks["submit_s"].to_numpy().min())
    return float(sum(work) / max(sum(w > 0 for w in work), 1) / max(span, 1.0))


def _total(machines: pl.DataFrame, name: str) -> float:
    return float(machines[name].to_numpy().sum())


def _rounded_up(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.ceil(values - _ROUNDING).astype(np.int64)
