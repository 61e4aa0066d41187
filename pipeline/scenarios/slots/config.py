"""The settings of `slots`: sizes by preset, and what settings may be."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pipeline.errors import InputError
from pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT, require_at_least

_MOST_SHOWN: Final = 1000


@dataclass(frozen=True)
class Sizes:
    """The sizes of a cluster and its jobs; pairs are (least, most), both included."""

    slots_per_resource: int
    horizon: int
    short_lengths: tuple[int, ...]
    long_lengths: tuple[int, ...]
    dominant_slots: tuple[int, ...]
    other_slots: tuple[int, ...]


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
    foresight: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
    ties: Literal["demand", "slot"] = "demand"
    compat: Literal["", "deeprm"] = ""
    step_s: float = 1.0
    jobs_per_window: int = 100
    too_long: Literal["refuse", "leave_out"] = "refuse"


def sizes_of(config: SlotsConfig) -> Sizes:
    """The preset's sizes with what the config overrides; InputError where a setting is unusable."""
    names = [size.name for size in dataclasses.fields(Sizes)]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    sizes = dataclasses.replace(PRESETS[config.preset], **given)
    require_at_least(sizes, slots_per_resource=1, horizon=1)
    require_at_least(config, queue=1, steps=1, max_time_steps=1, jobs_per_window=1, backlog=0)
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
