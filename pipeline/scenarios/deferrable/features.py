"""Names of the features, reward terms and outcomes of `deferrable`, and their indices in arrays."""

from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("revenue", "utilisation")
TERMS: Final = (*OBJECTIVES, "delay", "violation")


def context_features(config: DeferrableConfig) -> tuple[Feature, ...]:
    """Return the features of the moment; settings differ only in the ranges."""
    level, inf = max(config.capacity, 1.0), np.inf
    lags = (
        Feature(f"capacity_{lag}_ago", "cores", 0, inf, f"capacity {lag} slots ago", scale=level)
        for lag in range(1, m.LAGS + 1)
    )
    freed = (
        Feature(f"freed_in_{ahead}", "cores", 0, inf,
                f"cores of running jobs that end in {ahead} slots", scale=level / 4)
        for ahead in range(1, m.LOOKAHEAD + 1)
    )  # fmt: skip
    return (
        Feature("capacity", "cores", 0, inf, "cores left by on-demand work", scale=level),
        *lags,
        Feature("running_cores", "cores", 0, inf, "cores of running jobs", scale=level),
        Feature("free_cores", "cores", -inf, inf,
                "capacity - running cores; negative in a violation", scale=level),
        *freed,
        Feature("startable", "jobs", 0, inf, "startable jobs: jobs that can start now", scale=10.0),
        Feature("startable_mean_cores", "cores", 0, inf, "mean cores of the startable jobs",
                scale=2.0),
        Feature("startable_mean_duration", "slots", 0, inf, "mean duration of the startable jobs",
                scale=2.0),
        Feature("future", "jobs", 0, inf, "future jobs: known jobs that cannot start yet",
                scale=100.0),
        Feature("future_mean_cores", "cores", 0, inf, "mean cores of the future jobs", scale=2.0),
        Feature("future_mean_duration", "slots", 0, inf, "mean duration of the future jobs",
                scale=2.0),
        Feature("slots_left", "slots", 0, config.horizon, "slots until the end of the episode",
                scale=float(config.horizon)),
        Feature("delay_weight", "1", 0, inf, "cost of a slot of delay in the objective",
                scale=2.0),
    )  # fmt: skip


CANDIDATES: Final = (
    Feature("cores", "cores", 0, np.inf, "cores that the job needs", scale=2.0),
    Feature("duration", "slots", 0, np.inf, "slots that the job runs", scale=2.0),
    Feature("until_earliest", "slots", -np.inf, np.inf, "slots from now to the earliest start",
            scale=10.0),
    Feature("until_latest", "slots", -np.inf, np.inf, "slots from now to the latest start",
            scale=10.0),
    Feature("since_submission", "slots", 0, np.inf, "slots since the submission", scale=10.0),
    Feature("remaining", "slots", 0, np.inf, "slots that the job still has to run", scale=2.0),
    Feature("is_running", "1", 0, 1, "1 if the job runs"),
    Feature("is_startable", "1", 0, 1, "1 if the job can start now"),
    Feature("is_future", "1", 0, 1, "1 if the job cannot start yet"),
    Feature("closes", "1", 0, 1, "1 in the row that closes the slot"),
    Feature("job", "index", -1, np.inf,
            "number of the job, by earliest start; -1 in the row that closes the slot",
            identifier=True),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("total_reward", "core-slots", "utilisation plus both penalties (the paper's)",
            "higher"),
    Outcome("utilisation", "core-slots", "cores * duration, summed over the started jobs",
            "higher"),
    Outcome("delay_penalty", "core-slots",
            "-w1 * (start - earliest start), summed over the started jobs", "higher"),
    Outcome("violation_penalty", "core-slots", "-w2 * cores above the capacity, summed over slots",
            "higher"),
    Outcome("mean_delay_slots", "slots", "start - earliest start, mean over the started jobs"),
    Outcome("violation", "core-slots", "cores above the capacity, summed over slots"),
    Outcome("jobs", "jobs", "jobs of the episode", "neither"),
    Outcome("started", "jobs", "jobs that were started", "higher"),
    Outcome("expired", "jobs", "jobs that were not started by their latest start"),
    Outcome("waiting_at_end", "jobs", "jobs that had neither started nor expired at the end"),
    Outcome("offered", "core-slots", "cores * duration, summed over all jobs", "neither"),
    Outcome("capacity", "core-slots", "capacity, summed over slots", "neither"),
    Outcome("capacity_used", "fraction", "core-slots occupied divided by the capacity", "higher"),
    Outcome("upper_bound", "core-slots", "upper bound of the total reward of any policy",
            "neither"),
    Outcome("optimality_ratio", "1", "total reward divided by the upper bound", "higher"),
)  # fmt: skip

MOMENT: Final = columns(context_features(DeferrableConfig()))
ROW: Final = columns(CANDIDATES)
TERM: Final = columns(TERMS)
OUT: Final = columns(OUTCOMES)


def spec(config: DeferrableConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="deferrable",
        objective=objective,
        context=context_features(config),
        candidates=CANDIDATES,
        reward_terms=TERMS,
        outcomes=OUTCOMES,
        discount=0.99,
    )
