"""Settings of `thermal`: presets, defaults and the checks of their values."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.settings.ranges import check_ranges, number

HEAT_CONSTANT: Final = 200.0  # heat of a fully used server in the centre, in one step
_LONGEST: Final = 10_000  # steps that a job can be planned ahead; calendars are that long


@dataclass(frozen=True)
class ThermalConfig:
    """Settings of `thermal`. A setting of None takes the value of the preset.

    Attributes:
        preset: "default", or "paper" for the sizes of the report. With those the load is a tenth,
            no deadline binds, and always choosing the farthest server is best in both terms, so
            there is nothing to learn.
        jobs: Number of jobs, one per step from the first step on; at least 1.
        steps: Number of steps of an episode, at least jobs + 5.
        capacity: Resources of a server.
        resources: Smallest and largest request of a job, both included; 1 to `capacity`.
        process: Smallest and largest process time in steps, both included; at least 1.
        tight_deadlines: Whether a deadline is submission + process time - 1 + a draw from `slack`.
            If False, it is drawn from 5 steps after the submission up to `steps`.
        slack: Smallest and largest slack of a tight deadline in steps, both included; at least 0.
        k: Rate at which heat falls with the distance from the centre, per grid unit;
            at least 0.
        alpha: Weight of efficiency in the objectives.
        beta: Weight of heat in the objectives.
        decay: Share of the total heat that remains from one step to the next; 0 or more, below 1.
        idle_power: Whether servers without work draw power too (Eq 1 as printed).
        features: "full", or "history", with which learners see only the columns that a history
            file has.
        discount: Discount factor that the objective is meant for, 0 to 1.
    """

    preset: Literal["default", "paper"] = "default"
    jobs: int = number(2000, "from 1 to 1,000,000")
    steps: int = number(2200, "from 1 to 10,000,000")
    capacity: int = number(40, "from 1 to 1,000,000")
    resources: tuple[int, ...] = number((5, 14), "from 1 to 1,000,000")
    process: tuple[int, ...] | None = number(None, "from 1 to 10,000", "steps")
    tight_deadlines: bool | None = None
    slack: tuple[int, ...] = number((0, 5), "from 0 to 10,000", "steps")
    k: float | None = number(None, "at least 0")
    alpha: float = number(1.0, "any")
    beta: float = number(0.005, "any")
    decay: float = number(0.6, "from 0 to below 1")
    idle_power: bool = False
    features: Literal["full", "history"] = "full"
    discount: float | None = number(None, "from 0 to 1")


_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {"process": (5, 20), "tight_deadlines": True, "k": 1.0, "discount": 0.95},
    "paper": {"process": (1, 4), "tight_deadlines": False, "k": 10.0, "discount": 0.8},
}


def settled(config: ThermalConfig) -> ThermalConfig:
    """Return the settings with every None replaced by the value of the preset.

    A setting that is out of its range raises InputError.
    """
    open_ones = {
        name: value
        for name, value in _PRESETS[config.preset].items()
        if getattr(config, name) is None
    }
    full = dataclasses.replace(config, **open_ones)
    _check(full)
    return full


def _check(config: ThermalConfig) -> None:
    """Raise InputError for a setting that is out of its range."""
    check_ranges(config, "config")
    for name, smallest, largest in (
        ("resources", 1, config.capacity),
        ("process", 1, _LONGEST),
        ("slack", 0, _LONGEST),
    ):
        pair = getattr(config, name)
        if len(pair) != 2 or not smallest <= pair[0] <= pair[1] <= largest:
            raise InputError(
                f"config.{name} is {list(pair)}, expected [smallest, largest] "
                f"within {smallest}..{largest}"
            )
    if config.steps < config.jobs + 5:
        raise InputError(
            f"config.steps is {config.steps}, expected at least jobs + 5 = {config.jobs + 5}"
        )
