"""Settings of `deferrable`, and the checks of their values."""

from dataclasses import dataclass, field
from typing import Literal

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT


@dataclass(frozen=True)
class DeferrableConfig:
    """Settings of `deferrable`. The defaults are the base setting.

    Attributes:
        setting: "deferrable", or "realtime", in which every job is submitted at its earliest start,
            which is its latest start too.
        jobs: "generated", "trace" for virtual machines of the workload (instances_from_trace), or
            on a grid "log" for the jobs of any log (hindcast.pipeline.scenarios.deferrable.grid).
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
        series: Hours of an electric grid (hindcast.pipeline.traces.hourly): a file or folder, below
            $HINDCAST_TRACES if the path is relative, or "synthetic". It and everything below is for
            the objectives carbon, price and both, see hindcast.pipeline.scenarios.deferrable.grid.
        series_sha256: SHA-256 of the file of the series, which is compared if it is given.
        zone: Zone of the series; "" if it has only one. Of several, separated by commas, a window
            draws one.
        first_day: First day (UTC) of the series that is used, such as 2021-01-01; "" for all.
        last_day: Last such day.
        forecast: What policies see of hours to come (hindcast.pipeline.grids.forecasts), or "file":
            the last forecast of `forecast_series` that was issued by the hour, and level7 for hours
            that it does not have.
        forecast_series: File with the columns issued, hour and forecast_carbon_g_per_kwh or
            forecast_price_per_mwh, and zone if there are several.
        time_zone: Time zone of the hour of the day that policies see, such as Europe/Berlin.
        forecast_error: Relative error of the forecast `noise` a day ahead, at least 0.
        knows_length: Length of a job as policies know it: its "request", or without one the
            "past_mean" of its queue; "true" and "queue_mean" (of the whole log) have foresight.
        short_below: Known length in hours below which a job may wait `short_wait`, at least 0.
        short_wait: Longest wait of short jobs in hours, at least 0.
        long_wait: Longest wait of other jobs in hours, at least 0.
        short_queues: Names of queues whose jobs are short; by default their known length decides.
        deadline: Longest wait: that of the job's "queues", short and long; "hours": `long_wait`;
            "factor": `deadline_factor` x known length; or "column": the due end `deadline_s` of the
            log less the known length, and that of the queues for jobs without one.
        deadline_factor: Wait of a job relative to its length, at least 0.
        grid_capacity: "unlimited", "constant" (`capacity`), or "series" for its free cores. In the
            last slot all jobs that wait start, even beyond it, and so may `peak_cores` be.
        waiting_weight: Cost of a core-hour of waiting, in the unit of the objective, at least 0.
        late_weight: Cost of a late job likewise, at least 0; it is in the term `waiting`.
        carbon_price: Money per t of carbon in the objective `both`, at least 0.
        watts_per_core: Power of a running core in W, above 0.
        pue: Power usage effectiveness, at least 1.
        decide: Whether jobs are started slot by slot, or choose a "start" at their submission.
        align: Whether jobs keep their dates ("calendar"), or windows draw a first day ("draw").
        load_prices: Whether rows say what a start costs with a price of promised load.
        load_price: This price k, at least 0: a slot costs k x the mean of the last week x (promised
            cores / capacity)^4 more. With 1, at most 1 % of the jobs were late in the mean of four
            zones on GAIA's week and 1.5 times its load; 1/2 left 4 %.
        pausable: Whether a chosen job runs for one slot, and pauses unless it is chosen again.
        resume_h: Hours of work that a pause adds to a job, at least 0.
        reserved: Reserved cores, which are paid whether they are used or not; with any, `money` is
            the bill for cores in place of the price of electricity.
        on_demand_price: Money for a core-hour on demand, at least 0.
        reserved_rate: Price of a reserved core-hour relative to it, at least 0.
    """

    setting: Literal["deferrable", "realtime"] = "deferrable"
    jobs: Literal["generated", "trace", "log"] = "generated"
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
    series: str = field(default="synthetic", metadata=LEFT_OUT_WHEN_DEFAULT)
    series_sha256: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)
    zone: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)
    first_day: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)
    last_day: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)
    forecast: Literal["perfect", "day", "week", "mean7", "level7", "noise", "file"] = field(
        default="level7", metadata=LEFT_OUT_WHEN_DEFAULT
    )
    forecast_series: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)
    time_zone: str = field(default="UTC", metadata=LEFT_OUT_WHEN_DEFAULT)
    forecast_error: float = number(0.2, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    knows_length: Literal["request", "past_mean", "true", "queue_mean"] = field(
        default="request", metadata=LEFT_OUT_WHEN_DEFAULT
    )
    short_below: float = number(2.0, "at least 0", "h", metadata=LEFT_OUT_WHEN_DEFAULT)
    short_wait: float = number(6.0, "from 0 to 10,000", "h", metadata=LEFT_OUT_WHEN_DEFAULT)
    long_wait: float = number(24.0, "from 0 to 10,000", "h", metadata=LEFT_OUT_WHEN_DEFAULT)
    short_queues: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHEN_DEFAULT)
    deadline: Literal["queues", "hours", "factor", "column"] = field(
        default="queues", metadata=LEFT_OUT_WHEN_DEFAULT
    )
    deadline_factor: float = number(1.0, "from 0 to 10,000", metadata=LEFT_OUT_WHEN_DEFAULT)
    grid_capacity: Literal["unlimited", "constant", "series"] = field(
        default="unlimited", metadata=LEFT_OUT_WHEN_DEFAULT
    )
    waiting_weight: float = number(0.0, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    late_weight: float = number(0.0, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    carbon_price: float = number(100.0, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    watts_per_core: float = number(10.0, "above 0", "W", metadata=LEFT_OUT_WHEN_DEFAULT)
    pue: float = number(1.0, "at least 1", metadata=LEFT_OUT_WHEN_DEFAULT)
    decide: Literal["slot", "start"] = field(default="slot", metadata=LEFT_OUT_WHEN_DEFAULT)
    align: Literal["draw", "calendar"] = field(default="draw", metadata=LEFT_OUT_WHEN_DEFAULT)
    load_prices: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
    load_price: float = number(1.0, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    pausable: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
    resume_h: float = number(0.0, "from 0 to 10,000", "h", metadata=LEFT_OUT_WHEN_DEFAULT)
    reserved: int = number(0, "from 0 to 1,000,000", "cores", metadata=LEFT_OUT_WHEN_DEFAULT)
    on_demand_price: float = number(0.0624, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)
    reserved_rate: float = number(0.4, "at least 0", metadata=LEFT_OUT_WHEN_DEFAULT)


def check_config(config: DeferrableConfig) -> None:
    """Raise RecipeError for the first setting that is out of its range."""
    check_ranges(config, "config")
    if config.pausable and config.decide == "start":
        raise RecipeError('config.pausable: a job that chose its "start" never pauses; '
                          'expected decide = "slot"')  # fmt: skip
