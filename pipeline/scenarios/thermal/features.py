"""Names of the features, reward terms and outcomes of `thermal`, and their indices in arrays."""

from dataclasses import replace
from typing import Final

import numpy as np

from pipeline.scenarios.thermal.config import HEAT_CONSTANT, ThermalConfig, settled
from pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("level", "difference")
TERMS: Final = (
    *OBJECTIVES, "inefficiency", "efficiency", "heat", "heat_change", "energy", "rejected",
)  # fmt: skip

CONTEXT: Final = (
    Feature("submit", "step", 0, np.inf, "when the job comes: now", scale=1000.0),
    Feature("process", "step", 0, np.inf, "how long the job runs; 0 after the last", scale=10.0),
    Feature("resources", "unit", 0, np.inf, "what it needs while it runs", scale=10.0),
    Feature("deadline", "step", 0, np.inf, "last step in which it may run", scale=1000.0),
    Feature("slack", "step", 0, np.inf, "how much later than now it may start", scale=5.0),
    Feature("total_heat", "heat", 0, np.inf, "total heat after the last step", scale=100.0),
    Feature("alpha", "1", -np.inf, np.inf, "weight of efficiency in the objective"),
    Feature("beta", "1", -np.inf, np.inf, "weight of heat in the objective", scale=0.005),
)

# Columns of a server that a history file has.
IN_HISTORY: Final = (
    Feature("server", "index", 0, 5, "which server", identifier=True),
    Feature("capacity", "unit", 1, np.inf, "resources of the server", scale=40.0),
    Feature("x", "grid", -3, 3, "position"),
    Feature("y", "grid", -3, 3, "position"),
    Feature("distance", "grid", 0, 5, "from the centre"),
    Feature("usage", "fraction", 0, 1, "in use in this step, before the decision"),
    Feature("energy", "1", 0, 1, "drawn in this step, before the decision"),
    Feature("heat", "heat", 0, HEAT_CONSTANT, "given off in this step, before it", scale=50.0),
)
# Columns of a server that need its calendar.
CALENDAR: Final = (
    Feature("delay", "step", 0, np.inf, "steps until the job's earliest start", scale=5.0),
    Feature("ahead", "step", 0, np.inf, "work given to it, in steps of full use", scale=10.0),
    Feature("window_usage", "fraction", 0, 1, "mean usage while the job would run"),
    Feature("window_off", "fraction", 0, 1, "share of that time in which it is off"),
    Feature("window_inefficiency", "1", -np.inf, np.inf, "its rise over that time", scale=5.0),
    Feature("window_heat", "heat", 0, np.inf, "rise of all total heats from then on", scale=200.0),
    Feature("now_inefficiency", "1", -1, 1, "its rise in this step"),
    Feature("now_heat", "heat", 0, HEAT_CONSTANT, "rise of the heat of this step", scale=20.0),
)

OUTCOMES: Final = (
    Outcome("level_per_step", "1", "-alpha inefficiency - beta total heat, mean", "higher"),
    Outcome("inefficiency_per_step", "1", "sum over servers of 1 - efficiency, mean"),
    Outcome("mean_heat", "heat", "total heat, mean over steps"),
    Outcome("peak_heat", "heat", "largest total heat"),
    Outcome("energy", "server-steps", "energy of all servers; 1 is a server in full use"),
    Outcome("rejected", "jobs", "jobs that no server could finish in time"),
    Outcome("late", "jobs", "jobs that finish after their deadline"),
    Outcome("placed", "jobs", "jobs given to a server", "higher"),
    Outcome("mean_wait", "step", "from submission to start, mean over placed jobs"),
    Outcome("chosen_usage", "fraction", "usage of the chosen before the decision", "neither"),
    Outcome("others_usage", "fraction", "usage of the other servers", "neither"),
    Outcome("chosen_efficiency", "1", "efficiency of the chosen (Fig 7)", "neither"),
    Outcome("others_efficiency", "1", "efficiency of the other servers (Fig 7)", "neither"),
    Outcome("chosen_distance", "grid", "distance of the chosen (Fig 8)", "neither"),
    Outcome("others_distance", "grid", "distance of the other servers (Fig 8)", "neither"),
)

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
