"""Settings of `deferrable`, and the checks of their values."""

from dataclasses import dataclass
from typing import Literal

from pipeline.errors import InputError
from pipeline.simulation.scenario import require_at_least


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
    horizon: int = 168
    slot_s: float = 3600.0
    jobs_per_slot: float = 8.5
    core_case: Literal[1, 2, 3] = 1
    duration_case: Literal[1, 2, 3] = 3
    fixed_share: float = 0.75
    longest_window: int = 10
    longest_notice: int = 24
    capacity: float = 26.0
    scale_capacity: bool = True
    capacity_swing: float = 0.2
    capacity_noise: float = 0.05
    capacity_correlation: float = 0.9
    delay_weight: float = 2.0
    violation_weight: float = 10.0
    draws_per_window: int = 1
    stretch: float = 1.0
    longest_trace_duration: int = 8


def check_config(config: DeferrableConfig) -> None:
    """Raise InputError for the first setting that is out of its range."""
    require_at_least(
        config, horizon=1, longest_window=1, longest_notice=0, jobs_per_slot=0, capacity=0,
        delay_weight=0, violation_weight=0, draws_per_window=1, longest_trace_duration=1,
    )  # fmt: skip
    for name in ("slot_s", "stretch"):
        if getattr(config, name) <= 0:
            raise InputError(f"config.{name} is {getattr(config, name):g}, expected more than 0")
    for name in ("fixed_share", "capacity_correlation"):
        if not 0 <= getattr(config, name) <= 1:
            raise InputError(f"config.{name} is {getattr(config, name):g}, expected 0 to 1")
