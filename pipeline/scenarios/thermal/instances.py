"""Instances of `thermal`: presets settled, jobs drawn, everything laid out in memory."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.scenarios.thermal import layout as k
from pipeline.scenarios.thermal.dynamics import advance
from pipeline.simulation.scenario import Instance

POSITIONS: Final = ((0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3))
HEAT_CONSTANT: Final = 200.0  # heat of a fully used server in the centre, per step
_ENERGY_PER_USAGE: Final = 0.5
_ENERGY_WHEN_ON: Final = 0.5
_LONGEST: Final = 10_000  # steps; calendars are as long as anything can be planned ahead


@dataclass(frozen=True)
class ThermalConfig:
    """Settings of `thermal`; what is left out is the preset's.

    preset           "paper" has the report's sizes: load is a tenth, no deadline binds, and always
                     choosing the farthest server is best in both terms: nothing can be learned
    jobs, steps      a job per step for the first `jobs` of `steps` steps
    resources        smallest and largest request of a job, both included; a server has `capacity`
    process          smallest and largest process time in steps
    tight_deadlines  deadline at the submission + process time - 1 + a draw from `slack`;
                     otherwise anywhere from 5 steps after the submission to `steps`
    k                how fast heat falls with the distance from the centre
    alpha, beta      weights of efficiency and heat in the objectives
    decay            share of the total heat that stays from step to step
    idle_power       servers without work draw power too (Eq 1 as printed)
    features         "history": learners see what a history file has, and no more
    discount         that the objective is meant for
    """

    preset: Literal["default", "paper"] = "default"
    jobs: int = 2000
    steps: int = 2200
    capacity: int = 40
    resources: tuple[int, ...] = (5, 14)
    process: tuple[int, ...] | None = None
    tight_deadlines: bool | None = None
    slack: tuple[int, ...] = (0, 5)
    k: float | None = None
    alpha: float = 1.0
    beta: float = 0.005
    decay: float = 0.6
    idle_power: bool = False
    features: Literal["full", "history"] = "full"
    discount: float | None = None


_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {"process": (5, 20), "tight_deadlines": True, "k": 1.0, "discount": 0.95},
    "paper": {"process": (1, 4), "tight_deadlines": False, "k": 10.0, "discount": 0.8},
}


def settled(config: ThermalConfig) -> ThermalConfig:
    """The settings with every open one filled by the preset; InputError for an impossible one."""
    open_ones = {
        name: value
        for name, value in _PRESETS[config.preset].items()
        if getattr(config, name) is None
    }
    full = dataclasses.replace(config, **open_ones)
    _check(full)
    return full


def _check(config: ThermalConfig) -> None:
    for name, smallest, largest in (
        ("resources", 1, config.capacity),
        ("process", 1, _LONGEST),
        ("slack", 0, _LONGEST),
    ):
        given = getattr(config, name)
        if len(given) != 2 or not smallest <= given[0] <= given[1] <= largest:
            raise InputError(
                f"config.{name} is {list(given)}, expected [smallest, largest] "
                f"within {smallest}..{largest}"
            )
    if config.jobs < 1:
        raise InputError(f"config.jobs is {config.jobs}, expected at least 1")
    if config.steps < config.jobs + 5:
        raise InputError(
            f"config.steps is {config.steps}, expected at least jobs + 5 = {config.jobs + 5}"
        )
    if not 0 <= config.decay < 1:
        raise InputError(f"config.decay is {config.decay:g}, expected a number in [0, 1)")


@dataclass(frozen=True)
class Jobs:
    """Resources, process times and deadlines of all jobs, each (J,) int64; job j comes at step j.

    A deadline is the last step in which the job may still run.
    """

    resources: NDArray[np.int64]
    process: NDArray[np.int64]
    deadline: NDArray[np.int64]


def draw_jobs(config: ThermalConfig, rng: np.random.Generator) -> Jobs:
    """Jobs of one instance under settled settings."""
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
    """Whole numbers between both ends, which are included."""
    return rng.integers(ends[0], ends[1], n, endpoint=True)


def energy(usage: NDArray[np.float64], *, idle_power: bool = False) -> NDArray[np.float64]:
    """Energy per step by usage: a u + b with a = b = .5; nothing where a server is switched off."""
    drawn = _ENERGY_PER_USAGE * usage + _ENERGY_WHEN_ON
    return drawn if idle_power else np.where(usage > 0, drawn, 0.0)


def efficiency(usage: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Usage per energy; 1 for a server that draws nothing."""
    return np.divide(usage, drawn, out=np.ones_like(usage), where=drawn > 0)


def full_heat(distance: NDArray[np.float64], decline: float) -> NDArray[np.float64]:
    """Heat per unit of energy of servers at a distance from the centre: 200 exp(-k distance)."""
    return HEAT_CONSTANT * np.exp(-decline * distance)


def make_instance(config: ThermalConfig, objective: int, jobs: Jobs) -> Instance:
    """The memory of an episode of these jobs, at its first decision.

    `config` is settled; `objective` the index of the reward term. Raises InputError where no job
    can be finished in time by any server.
    """
    n, servers = len(jobs.resources), len(POSITIONS)
    ahead = int((jobs.deadline - np.arange(n)).max()) + int(jobs.process.max())
    length = 1 << (ahead + 2).bit_length()
    x, y = np.array(POSITIONS, np.float64).T
    distance = np.sqrt(x * x + y * y)
    usage = np.arange(config.capacity + 1) / config.capacity
    drawn = energy(usage, idle_power=config.idle_power)
    ints = np.zeros(k.INT_HEADER + 3 * n + servers * (length + 2), np.int64)
    floats = np.zeros(k.FLOAT_HEADER + 2 * len(usage) + 4 * servers)
    at = k.INT_HEADER
    for block, size, values in (
        (k.RESOURCES_AT, n, jobs.resources),
        (k.PROCESS_AT, n, jobs.process),
        (k.DEADLINE_AT, n, jobs.deadline),
        (k.CALENDAR_AT, servers * length, 0),
        (k.START_AT, servers, 0),
        (k.AHEAD_AT, servers, 0),
    ):
        ints[block] = at
        ints[at : at + size] = values
        at += size
    at = k.FLOAT_HEADER
    assert config.k is not None
    for block, amounts in (
        (k.INEFFICIENCY_AT, 1.0 - efficiency(usage, drawn)),
        (k.ENERGY_AT, drawn),
        (k.X_AT, x),
        (k.Y_AT, y),
        (k.DISTANCE_AT, distance),
        (k.FULL_HEAT_AT, full_heat(distance, config.k)),
    ):
        ints[block] = at
        floats[at : at + len(amounts)] = amounts
        at += len(amounts)
    ints[k.SERVERS], ints[k.JOBS], ints[k.STEPS] = servers, n, config.steps
    ints[k.CAPACITY], ints[k.MASK], ints[k.OBJECTIVE] = config.capacity, length - 1, objective
    floats[k.ALPHA], floats[k.BETA], floats[k.DECAY] = config.alpha, config.beta, config.decay
    advance(ints, floats)
    if ints[k.NOW] >= ints[k.JOBS]:
        raise InputError(
            "no job can be finished by its deadline on any server: there is nothing to decide; "
            "make config.process shorter or the deadlines wider"
        )
    return Instance(ints, floats, capacity=servers)
