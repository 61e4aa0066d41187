"""Drawn jobs and capacity of a `deferrable` episode.

The draws are made in the same order in every setting, so a window of the real-time setting has the
jobs and the capacity of the same window of the deferrable setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig

CORES: Final = (1, 2, 4, 8)
DURATIONS: Final = (1, 2, 3, 4, 6, 8)  # slots
CORE_CASES: Final[Mapping[int, tuple[float, ...]]] = {
    1: (0.51, 0.37, 0.08, 0.04),
    2: (0.25, 0.25, 0.25, 0.25),
    3: (0.4, 0.3, 0.2, 0.1),
}
DURATION_CASES: Final[Mapping[int, tuple[float, ...]]] = {
    1: (1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6),
    2: (0.4, 0.25, 0.15, 0.1, 0.05, 0.05),
    3: (0.6, 0.25, 0.1, 0.05, 0.0, 0.0),
}
BASE_CORE_CASE: Final = 1
BASE_DURATION_CASE: Final = 3
DAY: Final = 24  # slots of a period of the capacity


@dataclass(frozen=True)
class Jobs:
    """J jobs, ascending by their earliest start, with submitted <= earliest <= latest.

    Attributes:
        cores: Cores, (J,) int64.
        duration: Slots that the job runs, counted from the slot of its start, (J,) int64.
        earliest: Slot of the earliest start, (J,) int64.
        latest: Slot of the latest start, (J,) int64.
        submitted: Slot of the submission, (J,) int64.
    """

    cores: NDArray[np.int64]
    duration: NDArray[np.int64]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]
    submitted: NDArray[np.int64]


def mean_work(core_case: int, duration_case: int) -> float:
    """Return the mean core-slots of a job, relative to the base cases."""

    def mean(cores: int, durations: int) -> float:
        return float(
            np.dot(CORES, CORE_CASES[cores]) * np.dot(DURATIONS, DURATION_CASES[durations])
        )

    return mean(core_case, duration_case) / mean(BASE_CORE_CASE, BASE_DURATION_CASE)


def draw_jobs(config: DeferrableConfig, rng: np.random.Generator) -> Jobs:
    """Return drawn jobs: Poisson arrivals by earliest start; cores and durations of the cases."""
    arrivals = rng.poisson(config.jobs_per_slot, config.horizon)
    n = int(arrivals.sum())
    cores = rng.choice(CORES, n, p=CORE_CASES[config.core_case])
    duration = rng.choice(DURATIONS, n, p=DURATION_CASES[config.duration_case])
    earliest = np.repeat(np.arange(config.horizon), arrivals)
    return with_windows(config, cores, duration, earliest, rng)


def with_windows(
    config: DeferrableConfig,
    cores: NDArray[np.int64],
    duration: NDArray[np.int64],
    earliest: NDArray[np.int64] | NDArray[np.float64],
    rng: np.random.Generator,
) -> Jobs:
    """Return the jobs with drawn latest starts and submissions.

    latest - earliest is 0 with probability `fixed_share`, else uniform over 1..longest_window.
    earliest - submitted is uniform over 0..longest_notice, and no job is submitted before slot 0.
    In the real-time setting both are the earliest start.
    """
    n = len(cores)
    flexible = rng.random(n) >= config.fixed_share
    window = flexible * rng.integers(1, config.longest_window + 1, n)
    notice = rng.integers(0, config.longest_notice + 1, n)
    if config.setting == "realtime":
        window[:] = notice[:] = 0
    return Jobs(
        cores=cores.astype(np.int64),
        duration=duration.astype(np.int64),
        earliest=earliest.astype(np.int64),
        latest=(earliest + window).astype(np.int64),
        submitted=np.maximum(earliest - notice, 0).astype(np.int64),
    )


def draw_capacity(config: DeferrableConfig, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the capacity (T,) in cores: a daily swing of random phase and autocorrelated noise.

    C_t = round(level * (1 + swing * sin(2 pi (t / 24 + phase)) + noise * z_t)), z of unit variance.
    """
    phase = rng.random()
    shocks = rng.standard_normal(config.horizon)
    keep = config.capacity_correlation
    z = np.empty(config.horizon)
    z[0] = shocks[0]
    for t in range(1, config.horizon):
        z[t] = keep * z[t - 1] + np.sqrt(1.0 - keep**2) * shocks[t]
    wave = np.sin(2.0 * np.pi * (np.arange(config.horizon) / DAY + phase))
    level = config.capacity
    if config.scale_capacity:
        level *= mean_work(config.core_case, config.duration_case)
    shape = 1.0 + config.capacity_swing * wave + config.capacity_noise * z
    cores: NDArray[np.int64] = np.maximum(np.rint(level * shape), 0.0).astype(np.int64)
    return cores
