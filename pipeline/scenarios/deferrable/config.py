"""The settings of `deferrable`, and what they may be."""

from dataclasses import dataclass
from typing import Literal

from pipeline.errors import InputError
from pipeline.simulation.scenario import require_at_least


@dataclass(frozen=True)
class DeferrableConfig:
    """Settings of `deferrable`; the defaults are the base setting.

    setting            "realtime": every job is submitted at its earliest start, which is its latest
    jobs               "generated", or "trace": from the workload, see deferrable_trace
    horizon, slot_s    slots of an episode, seconds of a slot
    core_case, duration_case   the published distributions
    capacity           mean capacity in cores, before `scale_capacity` multiplies it by the mean
                       work of a job of these cases relative to that of the base
    draws_per_window   instances made of one stretch of the trace: window w is draw w % draws
    stretch            factor on the durations of the trace
    longest_trace_duration     VMs that last longer, in slots, are no jobs
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
    """InputError that names the first setting out of its range."""
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
