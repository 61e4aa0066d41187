"""Names of the features, reward terms and outcomes of `thermal`, and their indices in arrays."""

from dataclasses import replace
from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.thermal.config import HEAT_CONSTANT, ThermalConfig, settled
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("level", "difference")
TERMS: Final = (
    *OBJECTIVES, "inefficiency", "efficiency", "heat", "heat_change", "energy", "rejected",
)  # fmt: skip

CONTEXT: Final = (
    Feature("submit", "step", 0, np.inf, "step of the arrival of the job, which is the present one",
            scale=1000.0),
    Feature("process", "step", 0, np.inf, "steps that the job runs; 0 after the last job",
            scale=10.0),
    Feature("resources", "unit", 0, np.inf, "resources that the job needs while it runs",
            scale=10.0),
    Feature("deadline", "step", 0, np.inf, "last step in which the job may run", scale=1000.0),
    Feature("slack", "step", 0, np.inf, "steps by which the job may start later than now",
            scale=5.0),
    Feature("total_heat", "heat", 0, np.inf, "total heat after the last step", scale=100.0),
    Feature("alpha", "1", -np.inf, np.inf, "weight of efficiency in the objective"),
    Feature("beta", "1", -np.inf, np.inf, "weight of heat in the objective", scale=0.005),
)  # fmt: skip

# Columns of a server that a history file has.
IN_HISTORY: Final = (
    Feature("server", "index", 0, 5, "number of the server", identifier=True),
    Feature("capacity", "unit", 1, np.inf, "resources of the server", scale=40.0),
    Feature("x", "grid", -3, 3, "first coordinate of the server"),
    Feature("y", "grid", -3, 3, "second coordinate of the server"),
    Feature("distance", "grid", 0, 5, "distance of the server from the centre"),
    Feature("usage", "fraction", 0, 1,
            "share of the server's resources in use in this step, before the decision"),
    Feature("energy", "1", 0, 1,
            "energy that the server draws in this step, before the decision"),
    Feature("heat", "heat", 0, HEAT_CONSTANT,
            "heat that the server gives off in this step, before the decision", scale=50.0),
)  # fmt: skip
# Columns of a server that need its calendar.
CALENDAR: Final = (
    Feature("delay", "step", 0, np.inf, "steps until the job's earliest start", scale=5.0),
    Feature("ahead", "step", 0, np.inf, "work assigned to the server, in steps of full use",
            scale=10.0),
    Feature("window_usage", "fraction", 0, 1, "mean usage of the server while the job would run"),
    Feature("window_off", "fraction", 0, 1,
            "share of the time the job would run in which the server is off"),
    Feature("window_inefficiency", "1", -np.inf, np.inf,
            "rise of the server's inefficiency while the job would run", scale=5.0),
    Feature("window_heat", "heat", 0, np.inf,
            "rise of total heat by the job, summed over all later steps", scale=200.0),
    Feature("now_inefficiency", "1", -1, 1, "rise of the server's inefficiency in this step"),
    Feature("now_heat", "heat", 0, HEAT_CONSTANT, "rise of the server's heat in this step",
            scale=20.0),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("level_per_step", "1", "-alpha * inefficiency - beta * total heat, mean over steps",
            "higher"),
    Outcome("inefficiency_per_step", "1", "sum over servers of 1 - efficiency, mean over steps"),
    Outcome("mean_heat", "heat", "total heat, mean over steps"),
    Outcome("peak_heat", "heat", "largest total heat of a step"),
    Outcome("energy", "server-steps",
            "energy of all servers; 1 is a fully used server for one step"),
    Outcome("rejected", "jobs", "jobs that no server could finish in time"),
    Outcome("late", "jobs", "jobs that finish after their deadline"),
    Outcome("placed", "jobs", "jobs assigned to a server", "higher"),
    Outcome("mean_wait", "step", "start - submission, mean over placed jobs"),
    Outcome("chosen_usage", "fraction", "usage of the chosen server before the decision",
            "neither"),
    Outcome("others_usage", "fraction", "usage of the other servers before the decision",
            "neither"),
    Outcome("chosen_efficiency", "1", "efficiency of the chosen server (Fig 7)", "neither"),
    Outcome("others_efficiency", "1", "efficiency of the other servers (Fig 7)", "neither"),
    Outcome("chosen_distance", "grid", "distance of the chosen server (Fig 8)", "neither"),
    Outcome("others_distance", "grid", "distance of the other servers (Fig 8)", "neither"),
)  # fmt: skip

MOMENT: Final = columns(CONTEXT)
ROW: Final = columns(IN_HISTORY + CALENDAR)
TERM: Final = columns(TERMS)
OUT: Final = columns(OUTCOMES)


def spec(config: ThermalConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    discount = settled(config).discount
    assert discount is not None
    hidden = config.features == "history"
    return Spec(
        scenario="thermal",
        objective=objective,
        context=CONTEXT,
        candidates=IN_HISTORY + tuple(replace(f, identifier=hidden) for f in CALENDAR),
        reward_terms=TERMS,
        outcomes=OUTCOMES,
        discount=discount,
    )
