"""Settings of `deferrable`, and the checks of their values."""

from dataclasses import dataclass
from typing import Literal

from hindcast.pipeline.settings.ranges import check_ranges, number


@dataclass(frozen=True)
class DeferrableConfig:
    """Settings of `deferrable`. The defaults are the base setting.

    Attributes:
        setting: "deferrable", or "realtime", in which every job is submitted at its earliest start,
            which is its latest start too.
        jobs: "generated", or "trace" for jobs from the workload (see instances_from_trace).
        horizon: Slots of an episode, at least 1.
        slot_s: Seconds of a slot, above 0.
        jobs_per_slot: Mean number of jobs with an earliest start in a slot, at least 0. With a
            trace, `jobs_per_slot * horizon` jobs are drawn from its window, or all if it has fewer.
        core_case: Published distribution of the cores of a job: 1, 2 or 3.
        duration_case: Published distribution of the duration of a job: 1, 2 or 3.
        fixed_share: Probability that the latest start of a job is its earliest start, 0 to 1.
        longest_window: Largest number of slots between earliest and latest start, at least 1.
        longest_notice: Largest number of slots between submission and earliest start, at least 0.
        capacity: Mean capacity in cores, at least 0, before `scale_capacity`.
        scale_capacity: Whether to multiply the capacity by the mean work of a job in these cases,
            relative to that in the base cases.
        capacity_swing: Amplitude of the daily swing of the capacity, relative to its mean.
        capacity_noise: Standard deviation of the noise of the capacity, relative to its mean.
        capacity_correlation: Correlation of the noise between adjacent slots, 0 to 1.
        delay_weight: w1, the cost of a slot of delay, at least 0.
        violation_weight: w2, the cost of a core-slot above the capacity, at least 0.
        draws_per_window: Number of instances made of one stretch of the trace, at least 1. Window w
            is draw w % draws_per_window.
        stretch: Factor on the durations of the trace, above 0.
        longest_trace_duration: Longest duration of a job of the trace in slots, at least 1. Virtual
            machines that run longer are not used.
    """

    setting: Literal["deferrable", "realtime"] = "deferrable"
    jobs: Literal["generated", "trace"] = "generated"
    horizon: int = number(168, "from 1 to 1,000,000", "slots")
    slot_s: float = number(3600.0, "above 0", "s")
    jobs_per_slot: float = number(8.5, "at least 0")
    core_case: Literal[1, 2, 3] = number(1, "from 1 to 3")
    duration_case: Literal[1, 2, 3] = number(3, "from 1 to 3")
    fixed_share: float = number(0.75, "from 0 to 1")
    longest_window: int = number(10, "from 1 to 1,000,000", "slots")
    longest_notice: int = number(24, "from 0 to 1,000,000", "slots")
    capacity: float = number(26.0, "at least 0", "cores")
    scale_capacity: bool = True
    capacity_swing: float = number(0.2, "at least 0")
    capacity_noise: float = number(0.05, "at least 0")
    capacity_correlation: float = number(0.9, "from 0 to 1")
    delay_weight: float = number(2.0, "at least 0")
    violation_weight: float = number(10.0, "at least 0")
    draws_per_window: int = number(1, "from 1 to 1,000,000")
    stretch: float = number(1.0, "above 0")
    longest_trace_duration: int = number(8, "from 1 to 1,000,000", "slots")


def check_config(config: DeferrableConfig) -> None:
    """Raise RecipeError for the first setting that is out of its range."""
    check_ranges(config, "config")
