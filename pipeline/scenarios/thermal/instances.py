"""Problem instances of `thermal`: drawn jobs, and the memory of an episode."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.thermal import layout as m
from hindcast.pipeline.scenarios.thermal.config import HEAT_CONSTANT, ThermalConfig
from hindcast.pipeline.scenarios.thermal.dynamics import advance
from hindcast.pipeline.simulation.scenario import Instance, make_memory

POSITIONS: Final = ((0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3))
_ENERGY_PER_USAGE: Final = 0.5
_ENERGY_WHEN_ON: Final = 0.5


@dataclass(frozen=True)
class Jobs:
    """All jobs of an episode. Job j is submitted at step j.

    Attributes:
        resources: Resources, (J,) int64.
        process: Process times in steps, (J,) int64.
        deadline: Last step in which each job may still run, (J,) int64.
    """

    resources: NDArray[np.int64]
    process: NDArray[np.int64]
    deadline: NDArray[np.int64]


def draw_jobs(config: ThermalConfig, rng: np.random.Generator) -> Jobs:
    """Return the jobs of one instance under complete settings (see `settled`)."""
    n = config.jobs
    submit = np.arange(n)
    resources = _uniform(config.resources, n, rng)
    assert config.process is not None
    process = _uniform(config.process, n, rng)
    if config.tight_deadlines:
        deadline = submit + process - 1 + _uniform(config.slack, n, rng)
    else:
        deadline = rng.integers(submit + 5, config.steps, n, endpoint=True)
    return Jobs(resources, process, deadline)


def _uniform(ends: tuple[int, ...], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw whole numbers between both ends, which are included."""
    return rng.integers(ends[0], ends[1], n, endpoint=True)


def energy(usage: NDArray[np.float64], *, idle_power: bool = False) -> NDArray[np.float64]:
    """Return the energy per step by usage: a u + b with a = b = .5; 0 for a server that is off."""
    drawn = _ENERGY_PER_USAGE * usage + _ENERGY_WHEN_ON
    return drawn if idle_power else np.where(usage > 0, drawn, 0.0)


def efficiency(usage: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return usage per energy; 1 for a server that draws no energy."""
    return np.divide(usage, drawn, out=np.ones_like(usage), where=drawn > 0)


def full_heat(distance: NDArray[np.float64], decline: float) -> NDArray[np.float64]:
    """Return the heat per unit of energy at a distance from the centre: 200 exp(-k distance)."""
    return HEAT_CONSTANT * np.exp(-decline * distance)


def make_instance(config: ThermalConfig, objective: int, jobs: Jobs) -> Instance:
    """Return the memory of an episode with these jobs, at its first decision.

    `config` is settled, and `objective` is the index of the reward term. Raises InputError if no
    server can finish any job in time.
    """
    n, servers = len(jobs.resources), len(POSITIONS)
    ahead = int((jobs.deadline - np.arange(n)).max()) + int(jobs.process.max())
    length = 1 << (ahead + 2).bit_length()
    x, y = np.array(POSITIONS, np.float64).T
    distance = np.sqrt(x * x + y * y)
    usage = np.arange(config.capacity + 1) / config.capacity
    drawn = energy(usage, idle_power=config.idle_power)
    assert config.k is not None
    int_blocks = (
        (m.RESOURCES_AT, n, jobs.resources),
        (m.PROCESS_AT, n, jobs.process),
        (m.DEADLINE_AT, n, jobs.deadline),
        (m.CALENDAR_AT, servers * length, 0),
        (m.START_AT, servers, 0),
        (m.AHEAD_AT, servers, 0),
    )
    float_blocks = (
        (m.INEFFICIENCY_AT, len(usage), 1.0 - efficiency(usage, drawn)),
        (m.ENERGY_AT, len(usage), drawn),
        (m.X_AT, servers, x),
        (m.Y_AT, servers, y),
        (m.DISTANCE_AT, servers, distance),
        (m.FULL_HEAT_AT, servers, full_heat(distance, config.k)),
    )
    ints, floats = make_memory(m.INT_HEADER, int_blocks, m.FLOAT_HEADER, float_blocks)
    ints[m.SERVERS], ints[m.JOBS], ints[m.STEPS] = servers, n, config.steps
    ints[m.CAPACITY], ints[m.MASK], ints[m.OBJECTIVE] = config.capacity, length - 1, objective
    floats[m.ALPHA], floats[m.BETA], floats[m.DECAY] = config.alpha, config.beta, config.decay
    advance(ints, floats)
    if ints[m.NOW] >= ints[m.JOBS]:
        raise InputError(
            "no server can finish any job by its deadline, so there is nothing to decide; make "
            "config.process shorter or the deadlines later"
        )
    return Instance(ints, floats, capacity=servers)
