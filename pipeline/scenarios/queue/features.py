"""Names of the features, reward terms and outcomes of `queue`, and their indices in arrays.

Logarithms are natural. A share is a share of the machine's processors. With several resources or
pools there are more columns and outcomes, in the order of the resources.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.queue.asks import TYPE
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.machines import Machine, machine_of
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("bounded_slowdown", "wait")
TERMS: Final = ("bounded_slowdown", "wait_h")

CONTEXT: Final = (
    Feature("free", "share", 0, 1, "processors that are free", scale=0.3),
    Feature("running", "ln jobs", 0, np.inf, "ln(1 + jobs that run)"),
    Feature("waiting", "ln jobs", 0, np.inf, "ln(1 + jobs that wait)"),
    Feature("waiting_area", "ln h", 0, np.inf,
            "ln(1 + requested processor-hours of the waiting jobs / processors)"),
    Feature("closed", "flag", 0, 1, "1 while a job holds the reservation"),
    Feature("shadow_in", "ln s", 0, np.inf,
            "ln(1 + seconds until the reservation); 0 without one", scale=4.0),
    Feature("spare", "share", 0, 1,
            "processors that stay free beside the reservation; 0 without one", scale=0.3),
    Feature("remainder", "ln s", 0, np.inf,
            "ln(1 + requested seconds left), mean over the running jobs before the logarithm",
            scale=4.0),
    Feature("arrivals", "ln jobs", 0, np.inf, "ln(1 + jobs that arrived in the last hour)"),
    Feature("day_sin", "1", -1, 1, "sine of the time of day"),
    Feature("day_cos", "1", -1, 1, "cosine of the time of day"),
    Feature("week_sin", "1", -1, 1, "sine of the time of the week"),
    Feature("week_cos", "1", -1, 1, "cosine of the time of the week"),
)  # fmt: skip

_IS_WAIT: Final = Feature("is_wait", "flag", 0, 1, "1 in the row that waits for the next event")

CANDIDATES: Final = (
    Feature("log_waited", "ln s", 0, np.inf, "ln(60 + seconds that the job has waited)"),
    Feature("log_requested", "ln s", 0, np.inf, "ln of the requested seconds"),
    Feature("log_processors", "ln processors", 0, np.inf, "ln of the job's processors"),
    Feature("log_area", "ln processor s", 0, np.inf, "ln(requested seconds * processors)"),
    Feature("log_predicted", "ln s", 0, np.inf,
            "ln of the predicted seconds, at least ln 10: mean of the last two completed runs of "
            "the job's user, at most the requested time; that time if the user has no such run"),
    Feature("log_similar", "ln s", 0, np.inf,
            "ln of the seconds, at least ln 10, of the last completed run of the same user, "
            "processors and requested time, at most that time; log_predicted if there is none"),
    Feature("fits", "flag", 0, 1, "1 if the job's processors are free"),
    Feature("share_of_free", "1", 0, 2, "processors / free processors, at most 2"),
    Feature("share_of_machine", "share", 0, 1, "processors of the job", scale=0.3),
    Feature("safe", "flag", 0, 1,
            "1 if the job can start now beside the reservation; without one, if it fits"),
    Feature("start_in", "ln s", 0, np.inf,
            "ln(1 + seconds until the job would start if it held the reservation)", scale=4.0),
    Feature("spare_after", "share", 0, 1, "processors that are then free beside it", scale=0.3),
    Feature("user_running", "share", 0, np.inf,
            "processors that jobs of the same user hold; 0 if the user is unknown", scale=0.3),
    Feature("user_waiting", "ln jobs", 0, np.inf,
            "ln(1 + waiting jobs of the same user); 0 if the user is unknown"),
    Feature("first_of_user", "flag", 0, 1, "1 in the oldest waiting job of each known user"),
    Feature("oldest", "flag", 0, 1, "1 in the oldest waiting job"),
    Feature("age_rank", "1", 0, 1, "number of older waiting jobs / waiting jobs", scale=0.5),
    Feature("queue", "1", 0, np.inf, "number of the job's queue in the log; 0 if it is unknown",
            scale=2.0),
    Feature("submitted", "s", 0, np.inf,
            "1 + seconds between the first submission of all jobs and that of the job",
            identifier=True),
    _IS_WAIT,
)  # fmt: skip

# Columns of config.run_times, behind all others.
RUN_TIMES: Final = (
    Feature("log_weight", "1", -42, 0,
            "ln of the expected 10 s / max(run, 10 s): learned from the completed runs of similar "
            "requested times, of the user, and of the user's jobs like it, see `run_times`"),
    Feature("log_expected", "ln s", 0, np.inf,
            "ln of the expected run time in s, at most the requested time, learned likewise"),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("mean_bounded_slowdown", "1",
            "max(1, (wait + run) / max(run, 10 s)), mean over the counted jobs"),
    Outcome("mean_wait_s", "s", "wait since the submission or the start of the window, mean over "
            "the counted jobs"),
    Outcome("max_wait_s", "s", "longest wait of a counted job"),
    Outcome("p95_wait_s", "s", "wait that 95 % of the counted jobs do not exceed"),
    Outcome("p99_wait_s", "s", "wait that 99 % of the counted jobs do not exceed"),
    Outcome("starved_share", "fraction", "counted jobs that waited longer than 48 h"),
    Outcome("user_fairness", "fraction", "Jain's index of the mean bounded slowdowns of the users, "
            "1 if all are equal: (sum x)^2 / (users * sum x^2); 1 if no user is known", "higher"),
    Outcome("mean_slowdown_wide", "1", "mean bounded slowdown of the counted jobs that need a "
            "quarter of the machine or more; 0 if there is none"),
    Outcome("mean_slowdown_long", "1", "mean bounded slowdown of the counted jobs that request 4 h "
            "or more; 0 if there is none"),
    Outcome("utilisation", "fraction",
            "processor-seconds in use until the start of the last counted job, over those offered",
            "neither"),
    Outcome("starts", "jobs", "jobs that started in the episode", "neither"),
    Outcome("follow_starts", "jobs", "follow-on jobs that started in the episode", "neither"),
    Outcome("carried", "jobs", "counted jobs that were waiting when the window began", "neither"),
    Outcome("bounded_slowdown_lower_bound", "1", "lower bound of mean_bounded_slowdown", "neither"),
    Outcome("wait_lower_bound", "s", "lower bound of mean_wait_s", "neither"),
)  # fmt: skip

_UTILISATION: Final = next(o for o in OUTCOMES if o.name == "utilisation")
MOMENT: Final = columns(CONTEXT)
ROW: Final = columns(CANDIDATES)
TERM: Final = columns(TERMS)
OUT: Final = columns(OUTCOMES)


def _context_of(machine: Machine) -> tuple[Feature, ...]:
    """Return the further features of the moment with several resources or pools."""
    others = machine.names[1:]
    if not machine.is_several:
        return ()
    return (
        *(Feature(f"free_{r}", "share", 0, 1, f"{r} that are free / capacity", scale=0.3)
          for r in others),
        *(Feature(f"spare_{r}", "share", 0, 1,
                  f"{r} that stay free beside the reservation / capacity; 0 without one, or with "
                  "pools", scale=0.3) for r in others),
        *(Feature(f"over_{r}", "share", 0, np.inf,
                  f"{r} that running jobs hold beyond the capacity / capacity", scale=0.3)
          for r in machine.names),
        *(Feature(f"waiting_area_{r}", "ln h", 0, np.inf,
                  f"ln(1 + requested hours x {r} of the waiting jobs / capacity)")
          for r in machine.names),
    )  # fmt: skip


def _columns_of(machine: Machine) -> tuple[Feature, ...]:
    """Return the further columns of the candidates with several resources or pools."""
    others = machine.names[1:]
    if not machine.is_several:
        return ()
    has_types = any(name.startswith(TYPE) for name in machine.names)
    return (
        Feature("dominant", "share", 0, 1,
                "dominant share: the greatest share of a resource's capacity that the job asks for",
                scale=0.3),
        Feature("log_equivalent", "ln processors", 0, np.inf,
                "ln of the equivalent processors: dominant share x processors of the machine"),
        *(_POOL_COLUMNS if machine.has_pools else ()),
        *(Feature(f"ask_{r}", "share", 0, 1,
                  f"{r} that the job asks for / capacity; GPUs of any type at the type that it "
                  "would take", scale=0.3) for r in others),
        *(Feature(f"fits_{r}", "flag", 0, 1,
                  f"1 if what the job asks for of {r} is free; GPUs of any type in some type")
          for r in machine.names),
        *((Feature("any_type", "flag", 0, 1, "1 if the job asks for GPUs of any type"),)
          if has_types else ()),
        *((Feature(f"free_{r}", "share", 0, 1, f"{r} that are free in the job's pool / capacity",
                   scale=0.3) for r in others) if machine.has_pools else ()),
        *(Feature(f"spare_after_{r}", "share", 0, 1,
                  f"{r} that are free beside the job at the time of start_in / capacity", scale=0.3)
          for r in others),
    )  # fmt: skip


_POOL_COLUMNS: Final = (
    Feature("closed", "flag", 0, 1, "1 while a job of the same pool holds the reservation"),
    Feature("shadow_in", "ln s", 0, np.inf,
            "ln(1 + seconds until the reservation of the pool); 0 without one", scale=4.0),
)  # fmt: skip
EQUIVALENT: Final = ROW.is_wait + 1  # column log_equivalent
CLOSED: Final = ROW.is_wait + 2  # column `closed`, with pools


def spec(config: QueueConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes.

    Without `allow_wait` rows have no column `is_wait`, and without `run_times` not the two that
    would stand behind it.
    """
    machine = machine_of(config)
    return Spec(
        scenario="queue",
        objective=objective,
        context=CONTEXT + _context_of(machine),
        candidates=CANDIDATES[:-1]
        + _columns_of(machine)
        + ((_IS_WAIT,) if config.allow_wait else ())
        + (RUN_TIMES if config.run_times else ()),
        reward_terms=TERMS,
        outcomes=(*OUTCOMES, *_outcomes_of(machine)),
    )


def _outcomes_of(machine: Machine) -> tuple[Outcome, ...]:
    """Return the further outcomes with several resources."""
    return tuple(
        replace(_UTILISATION, name=f"utilisation_{r}", description=f"{r}, as utilisation")
        for r in machine.names[1:]
    )
