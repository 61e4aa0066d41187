"""The jobs of a `slots` episode: drawn, or drawn as in the published simulator.

jobs, in order of arrival        arrive   0     3     3     4
                                 length   2     12    1     3      time steps
                                 cpu      7     1     2     5      slots of the first resource
                                 memory   1     8     6     2      slots of the second
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.slots.config import Sizes, SlotsConfig

COMPAT_EXAMPLES: Final = 100
_COMPAT_SEED: Final = 42
_FEWEST_ARRIVALS: Final = 1e-3  # mean per sequence; below it, drawing a job takes too long


@dataclass(frozen=True)
class Jobs:
    """The J jobs of one episode, in order of arrival.

    Attributes:
        arrive: Time step of the arrival, (J,) int64.
        length: Length in time steps, (J,) int64.
        cpu: Demand for the first resource in slots, (J,) int64.
        memory: Demand for the second resource in slots, (J,) int64.
        last_step: Time step after which no job arrives.
        expected_load: Work per time step that the setting offers, relative to the capacity.
    """

    arrive: NDArray[np.int64]
    length: NDArray[np.int64]
    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    last_step: int
    expected_load: float


def expected_load(config: SlotsConfig, sizes: Sizes) -> float:
    """Return the mean work of a job over capacity, times the arrival rate (deeprm: 1.845 rate)."""
    short, long = sum(sizes.short_lengths) / 2, sum(sizes.long_lengths) / 2
    length = config.short_share * short + (1 - config.short_share) * long
    demand = (sum(sizes.dominant_slots) + sum(sizes.other_slots)) / 4
    return config.arrival_rate * length * demand / sizes.slots_per_resource


def draw_jobs(config: SlotsConfig, sizes: Sizes, rng: np.random.Generator) -> Jobs:
    """Draw the jobs of an episode; raise InputError if almost every draw would have none.

    At most one job arrives in a step, from step 1 on. Each is short or long, and needs much of one
    resource and little of the other. A draw without any job is repeated.
    """
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
    mostly_cpu = rng.integers(0, 2, n) == 0
    dominant, other = _between(sizes.dominant_slots, n, rng), _between(sizes.other_slots, n, rng)
    at_once = config.arrival == "all_at_once"
    return Jobs(
        arrive=np.zeros(n, np.int64) if at_once else np.flatnonzero(present) + 1,
        length=length,
        cpu=np.where(mostly_cpu, dominant, other),
        memory=np.where(mostly_cpu, other, dominant),
        last_step=0 if at_once else config.steps,
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
        expected_load=expected_load(config, sizes),
    )
