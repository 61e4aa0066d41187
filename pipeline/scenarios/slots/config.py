"""Settings of `slots`: presets, and the checks of their values."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.settings.ranges import check_ranges, noted, number
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT

LONGEST_HORIZON: Final = 1000  # time steps
NO_TRACE: Final = (
    "scenario slots draws its jobs; for a trace use scenario queue, for which `hindcast init` "
    "writes a recipe"
)
_NO_TRACE: Final = noted(NO_TRACE)


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
            `arrival_rate`; "all_at_once" for the same jobs, all at time 0.
        arrival_rate: Probability of an arrival per time step; above 0, at most 1.
        steps: Number of time steps with arrivals, at least 1.
        max_time_steps: Number of time steps after which an episode is truncated, at least 1.
        observation: "compact", or "image" for the papers' image in addition.
        foresight: Whether rows also show the delay that their choice causes, in four more columns.
        ties: Order of equal jobs in rules: "demand" for the larger demand, then the lowest slot, or
            "slot" for the lowest slot (as in compat).
        compat: "deeprm" for the published simulator with all its deviations, or "".
        step_s: Seconds of a time step, above 0.
        jobs_per_window: Not used; version 0.1 read traces.
        too_long: Not used; version 0.1 read traces.
    """

    preset: Literal["deeprm", "report"] = "deeprm"
    slots_per_resource: int | None = number(None, "from 1 to 1,000,000")
    horizon: int | None = number(None, f"from 1 to {LONGEST_HORIZON:,}", "steps")
    short_lengths: tuple[int, ...] | None = number(None, "from 1 to 1,000", "steps")
    long_lengths: tuple[int, ...] | None = number(None, "from 1 to 1,000", "steps")
    dominant_slots: tuple[int, ...] | None = number(None, "from 1 to 1,000,000")
    other_slots: tuple[int, ...] | None = number(None, "from 0 to 1,000,000")
    short_share: float = number(0.8, "from 0 to 1")
    queue: int = number(10, "from 1 to 1,000")
    backlog: int = number(60, "from 0 to 1,000,000")
    arrival: Literal["bernoulli", "all_at_once"] = field(default="bernoulli", metadata=_NO_TRACE)
    arrival_rate: float = number(0.7, "above 0, at most 1")
    steps: int = number(50, "from 1 to 1,000,000,000")
    max_time_steps: int = number(1000, "from 1 to 1,000,000,000")
    observation: Literal["compact", "image"] = "compact"
    foresight: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
    ties: Literal["demand", "slot"] = "demand"
    compat: Literal["", "deeprm"] = ""
    step_s: float = number(1.0, "above 0", "s")
    # The digests of recipes contain these two.
    jobs_per_window: Literal[100] = field(default=100, metadata=_NO_TRACE)
    too_long: Literal["refuse"] = field(default="refuse", metadata=_NO_TRACE)


def sizes_of(config: SlotsConfig) -> Sizes:
    """Return the sizes of the preset with those that the config overrides.

    A setting that is out of its range raises InputError.
    """
    check_ranges(config, "config")
    names = [size.name for size in dataclasses.fields(Sizes)]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    sizes = dataclasses.replace(PRESETS[config.preset], **given)
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
    if config.compat and (config.preset, config.arrival, given) != ("deeprm", "bernoulli", {}):
        raise InputError(
            'config.compat = "deeprm" needs the sizes of preset "deeprm" and Bernoulli arrivals; '
            "leave out the settings that change them"
        )
    return sizes
