"""The settings of `thermal`: presets settled, and what settings may be."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pipeline.errors import InputError
from pipeline.simulation.scenario import require_at_least

HEAT_CONSTANT: Final = 200.0  # heat of a fully used server in the centre, per step
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
    require_at_least(config, jobs=1)
    if config.steps < config.jobs + 5:
        raise InputError(
            f"config.steps is {config.steps}, expected at least jobs + 5 = {config.jobs + 5}"
        )
    if not 0 <= config.decay < 1:
        raise InputError(f"config.decay is {config.decay:g}, expected a number in [0, 1)")
