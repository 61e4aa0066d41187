"""Features, terms and outcomes on a grid, and the layout of what they need in the memory.

    floats   header of `deferrable` | header below | blocks, which begin at the places of the header

    J        run, known, submitted, length (h), due (slots), on_reserved (1 if it is)
    hours    objective, carbon, price, local hour of the day; history first
    K        seen: the forecast of the objective from the hour of slot FORECAST_AT_SLOT on
    K + 1    paid: its integral to every hour
    T + 1    crowded: the sum of the prices of promised cores from this slot to every later one
    a day    before: capacity of the slots before the window
    3 x LONGEST starts: costs, these with prices of load, and hours of the starts of a job
    hours x K   issued: the forecasts of a file, NaN where it has none

Hours are those of the series; slot 0 begins at hour HISTORY. `run` and `known` are the work that is
left, and `submitted` moves on while work that may pause runs. A job is late whose end is after the
beginning of slot `due`.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.features import CANDIDATES as BASE_CANDIDATES
from hindcast.pipeline.scenarios.deferrable.features import context_features as base_context
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("carbon", "price", "both")
TERMS: Final = (*OBJECTIVES, "emissions", "money", "waiting")
NOTHING_H: Final = 1e-9  # hours of work that are none
HISTORY: Final = 168  # hours before the window that forecasts may use
UNLIMITED: Final = 1 << 40  # a capacity that no jobs reach

# header of floats behind that of `deferrable`
(
    SLOT_H, HOURS, LOOKED_AHEAD, POWER_KW, WAITING_WEIGHT, CARBON_PRICE, FORESIGHT, SIGMA, SEED,
    FORECAST_AT_SLOT, CARBON_G, MONEY, WAIT_H, CORE_WAIT_H, LATE, PEAK, NOW_G, NOW_MONEY, BOUND,
    ENERGY_KWH, NOW_COST, ISSUED, COMMITS, DECIDED, LOAD_PRICE, PAUSABLE, RESUME_H, SUSPENSIONS,
    START_BOUND, LATE_WEIGHT, DAY_SLOTS, RESERVED, ON_DEMAND_PRICE, RESERVED_PRICE, RESERVED_HOURS,
    LONGEST, RUN_AT, KNOWN_AT, SUBMITTED_AT, LENGTH_AT, DUE_AT, ON_RESERVED_AT, COST_AT, CARBON_AT,
    PRICE_AT, LOCAL_HOUR_AT, SEEN_AT, CROWDED_AT, BEFORE_AT, STARTS_AT, ISSUED_AT, FLOAT_HEADER,
) = range(m.FLOAT_HEADER, m.FLOAT_HEADER + 52)  # fmt: skip

_inf: Final = np.inf
_MOMENT: Final = (
    Feature("carbon", "g/kWh", 0, _inf, "carbon intensity of this hour", scale=300.0),
    Feature("price", "money/MWh", -_inf, _inf, "price of this hour; 0 without one", scale=50.0),
    Feature("cost", "1", -_inf, _inf, "this hour in the unit of the objective", scale=100.0),
    Feature("cost_1_ago", "1", -_inf, _inf, "the same an hour ago", scale=100.0),
    Feature("cost_24_ago", "1", -_inf, _inf, "the same a day ago", scale=100.0),
    Feature("cost_mean_24", "1", -_inf, _inf, "its mean over the last 24 h", scale=100.0),
    Feature("cost_low_24", "1", -_inf, _inf, "its .2-quantile over the last 24 h", scale=100.0),
    Feature("cost_mean_168", "1", -_inf, _inf, "its mean over the last 168 h", scale=100.0),
    Feature("hour_sin", "1", -1, 1, "sine of the hour of the day as an angle (time_zone)"),
    Feature("hour_cos", "1", -1, 1, "cosine of the hour of the day as an angle (time_zone)"),
)
_ROWS: Final = (
    Feature("wait_h", "h", 0, _inf, "hours since the submission", scale=10.0),
    Feature("left_h", "h", -_inf, _inf, "hours to the latest start", scale=10.0),
    Feature("run_h", "h", 0, _inf, "hours that the job runs, as known", heavy_tailed=True),
    Feature("cost_now", "1", -_inf, _inf, "forecast cost of a start now per hour", scale=100.0),
    Feature("cost_least", "1", -_inf, _inf, "the same of the best start in the wait", scale=100.0),
    Feature("cost_rank", "1", 0, 1, "share of the starts in the wait that are cheaper than now"),
    Feature("hour_rank", "1", 0, 1, "share of the hours in the wait that are below this hour"),
)
# Columns that `load_prices`, `pausable` and `reserved` add, each those of the ones before, too.
_AHEAD: Final = Feature(
    "cost_low_next_24", "1", -_inf, _inf, "forecast .3-quantile of this and the next 23 h",
    scale=100.0,
)  # fmt: skip
_PRICED: Final = (
    Feature("priced_now", "1", -_inf, _inf, "cost_now and the price of promised load", scale=100.0),
    Feature("priced_least", "1", -_inf, _inf, "the same of the best start in the wait",
            scale=100.0),
)  # fmt: skip
_RAN: Final = Feature("ran_last", "1", 0, 1, "1 if it ran in the last slot, so that it would pause")
_ON_RESERVED: Final = Feature(
    "on_reserved", "1", 0, 1, "1 if it would run on reserved cores, as far as is known"
)


def slots_of(config: DeferrableConfig) -> int:
    """Return the least slots of an episode: those of the window, and the longest wait behind."""
    waits = max(config.short_wait, config.long_wait) if config.jobs == "log" else 0.0
    longest = waits * 3600 / config.slot_s if waits else config.longest_window
    return config.horizon + int(np.ceil(longest)) + 2


def looks_ahead(config: DeferrableConfig) -> bool:
    """Return whether there are columns beside those of every grid."""
    return config.load_prices or config.pausable or config.reserved > 0


def context_features(config: DeferrableConfig) -> tuple[Feature, ...]:
    """Return the features of the moment: those of `deferrable`, then those of the grid."""
    base = base_context(replace(config, horizon=slots_of(config)))
    base = tuple(replace(x, high=_inf) if x.name == "slots_left" else x for x in base)
    unlimited = {x.name: "; 0 without a limit" for x in base if x.name.startswith("capacity")}
    unlimited["free_cores"] = "; without a limit those of all jobs that can start"
    base = tuple(replace(x, description=x.description + unlimited.get(x.name, "")) for x in base)
    return (*base, *_MOMENT, *((_AHEAD,) if looks_ahead(config) else ()))


def candidate_features(config: DeferrableConfig) -> tuple[Feature, ...]:
    """Return the columns of the candidates: those of `deferrable`, then those of the grid."""
    found = (*BASE_CANDIDATES, *_ROWS, *(_PRICED if looks_ahead(config) else ()))
    found = (*found, _RAN) if config.pausable or config.reserved else found
    return (*found, _ON_RESERVED) if config.reserved else found


_ALL: Final = DeferrableConfig(pausable=True, reserved=1)
_OUTCOMES: Final = (
    Outcome("total_reward", "1", "total of the objective", "higher"),
    Outcome("carbon_kg", "kg", "carbon of the jobs"),
    Outcome("money", "money", "price of their electricity; with reserved cores the bill for cores"),
    Outcome("saved", "fraction", "carbon saved against starting every job at once", "higher"),
    Outcome("saved_g_per_kwh", "g/kWh", "the same per energy", "higher"),
    Outcome("money_saved_per_mwh", "money/MWh", "money saved against starting at once", "higher"),
    Outcome("share_of_bound", "fraction", "saved cost over that of the best starts", "higher"),
    Outcome("mean_wait_h", "h", "hours from submission to start, mean over jobs"),
    Outcome("core_hours_waited", "core-h", "cores x hours from submission to start"),
    Outcome("late", "jobs", "jobs that were started after their latest start"),
    Outcome("peak_cores", "cores", "most cores that ran in a slot"),
    Outcome("jobs", "jobs", "jobs of the episode", "neither"),
    Outcome("carbon_now_kg", "kg", "carbon of starting every job at once", "neither"),
    Outcome("energy_kwh", "kWh", "energy of the jobs", "neither"),
    Outcome("bound", "1", "upper bound of the total reward: the best start of each job", "neither"),
    Outcome("longest_wait_h", "h", "longest wait of a job"),
    Outcome("p95_wait_h", "h", ".95-quantile of the waits of jobs"),
    Outcome("wait_h_by_work", "h", "mean wait, each job by its cores x hours of work"),
)
_OF_PAUSABLE: Final = (
    Outcome("suspensions", "1", "times that a started job was not chosen again"),
    Outcome("bound_without_pause", "1", "the bound of jobs that run without pause", "neither"),
)
# The last outcome where cores are reserved.
_OF_RESERVED: Final = Outcome(
    "reserved_use", "fraction", "share of the reserved core-hours that jobs ran on", "higher"
)
MOMENT: Final = columns(context_features(_ALL))
ROW: Final = columns(candidate_features(_ALL))
TERM: Final = columns(TERMS)
OUT: Final = columns((*_OUTCOMES, *_OF_PAUSABLE))


def spec(config: DeferrableConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="deferrable",
        objective=objective,
        context=context_features(config),
        candidates=candidate_features(config),
        reward_terms=TERMS,
        outcomes=(
            *_OUTCOMES, *(_OF_PAUSABLE if config.pausable else ()),
            *((_OF_RESERVED,) if config.reserved else ()),
        ),
        discount=1.0,
    )  # fmt: skip
