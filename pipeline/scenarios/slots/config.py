"""Settings of `slots`: presets, and the checks of their values."""

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
    """The sizes of a cluster and its jobs, as in SlotsConfig. Pairs include both ends."""

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
    """Settings of `slots`. A size of None takes the value of the preset.

    Attributes:
        preset: "deeprm" or "report": the source of the six sizes below.
        slots_per_resource: Slots of each resource, at least 1.
        horizon: Time steps that the grid shows, 1 to 1000.
        short_lengths: Least and greatest length of short jobs in time steps, 1 to `horizon`.
        long_lengths: Least and greatest length of long jobs in time steps, 1 to `horizon`.
        dominant_slots: Least and greatest demand for the dominant resource in slots, 1 to
            `slots_per_resource`.
        other_slots: Least and greatest demand for the other resource in slots, 0 to
            `slots_per_resource`.
        short_share: Probability that a job is short, 0 to 1.
        queue: Number of visible jobs, 1 to 1000.
        backlog: Number of jobs that can wait behind the visible ones, at least 0.
        arrival: "bernoulli" for at most one job in each of `steps` time steps, with probability
            `arrival_rate`; "all_at_once" for the same jobs, all at time 0; "trace" for the jobs of
            the workload at their times of submission.
        arrival_rate: Probability of an arrival per time step; above 0, at most 1.
        steps: Number of time steps with arrivals, at least 1.
        max_time_steps: Number of time steps after which an episode is truncated, at least 1.
        observation: "compact", or "image" for the papers' image in addition.
        foresight: Whether rows also show the delay that their choice causes, in four more columns.
        ties: Order of equal jobs in rules: "demand" for the larger demand, then the lowest slot, or
            "slot" for the lowest slot (as in compat).
        compat: "deeprm" for the published simulator with all its deviations, or "".
        step_s: Seconds of a time step, above 0. Lengths and arrivals of a trace are rounded up to
            steps.
        jobs_per_window: Number of jobs of a trace in one window, at least 1.
        too_long: Treatment of jobs of a trace that are longer than the horizon: "refuse" or
            "leave_out".
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
    """Return the sizes of the preset with those that the config overrides.

    A setting that is out of its range raises InputError.
    """
    names = [size.name for size in dataclasses.fields(Sizes)]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    sizes = dataclasses.replace(PRESETS[config.preset], **given)
    require_at_least(sizes, slots_per_resource=1, horizon=1)
    require_at_least(config, queue=1, steps=1, max_time_steps=1, jobs_per_window=1, backlog=0)
    for name, shown in (("horizon", sizes.horizon), ("queue", config.queue)):
        if shown > _MOST_SHOWN:
            raise InputError(
                f"config.{name} is {shown}, expected at most {_MOST_SHOWN}, because the "
                "observation has features for each of them"
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
                f"config.{name} is {list(pair)}, expected [least, most] from {low} to {high}"
            )
    for name, value in (("short_share", config.short_share), ("arrival_rate", config.arrival_rate)):
        if not 0 <= value <= 1 or (name == "arrival_rate" and value == 0):
            least = "above 0, at most" if name == "arrival_rate" else "from 0 to"
            raise InputError(f"config.{name} is {value:g}, expected a probability {least} 1")
    if not (math.isfinite(config.step_s) and config.step_s > 0):
        raise InputError(f"config.step_s is {config.step_s:g}, expected more than 0")
    if config.compat and (config.preset, config.arrival, given) != ("deeprm", "bernoulli", {}):
        raise InputError(
            'config.compat = "deeprm" needs the sizes of preset "deeprm" and Bernoulli arrivals; '
            "leave out the settings that change them"
        )
    return sizes
