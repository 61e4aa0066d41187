"""`thermal`: give each job to one of six servers, for energy efficiency and little heat.

Six servers of equal capacity R stand on a grid at (0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3).
In every step of the first 2000 of 2200 one job comes that needs `resources` for `process` steps and
has to be finished by its deadline. Each server keeps a calendar; the server that a job is given to
starts it at the earliest step from which it fits for its whole length, and neither pauses nor moves
it. A server can be chosen when start + process - 1 <= deadline; a job that no server can finish in
time is rejected and counted, and no decision is taken.

    usage        u_i = used resources / R
    energy       c_i = .5 u_i + .5 where u_i > 0, else 0; with `idle_power` always .5 u_i + .5
    heat         h_i = c_i * 200 exp(-k d_i)           d_i: distance from (0, 0)
    total heat   H(t) = sum_i h_i + decay * H(t - 1)   H(-1) = 0
    efficiency   e_i = u_i / c_i, 1 for a server that is off

    level        r = -alpha sum_i (1 - e_i) - beta H(t)
    difference   r = alpha sum_i e_i + beta (H(t - 1) - H(t))

The job of step t is placed on the state before it, then energy, heat and reward of step t are
taken. Rewards of steps without a decision (rejected jobs, the run-out after the last job) are
booked with the decision before them; those before the first decision with the first.

Three facts to know. (1) The heat term of `difference` telescopes: over an episode it comes to
-beta H(end), whatever the policy does, so without a discount beta and k change nothing. (2) With
the report's sizes (preset "paper") load is a tenth, no deadline binds, and always taking the
farthest server is best in both terms. (3) Consolidation pays only because a server that is off
counts as efficient; with `idle_power` it does not.

Source: L. Dong, "Solution on Data Center Job Scheduling Problem", 2018.

Differences from the paper:
- The state never contains the decision. The report's generator logged usage, energy and heat AFTER
  the placement, and the finish time, which reveal the action; pipeline.history.exporting writes
  such a file only when told to.
- Eq 6 as printed multiplies heat and energy and has no k; its Figure 4 fixes the form above
  (4.6919742701607256e-17 = .625 * 200 exp(-10 * 18 ** .5)), with k = 10.
- The report's efficiency is (u + 1e-7) / (c + 1e-7); its Figure 4 has the reward 27.00000047999997,
  which alpha = 5 and a heat term of the OPPOSITE sign, 1000 (H(t) - H(t - 1)), give to the last
  digit. Alpha and beta are not in its text; here they are 1 and .005.
- `level` is the default objective: it does not telescope.
- An episode ends after 2200 steps; the report's has no end.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from pipeline.scenarios.thermal import dynamics as kernel
from pipeline.scenarios.thermal.instances import (
    HEAT_CONSTANT,
    ThermalConfig,
    draw_jobs,
    make_instance,
    settled,
)
from pipeline.scenarios.thermal.observation import observe
from pipeline.simulation.scenario import Instance, Scenario, require_room
from pipeline.simulation.spec import Feature, Outcome, Spec
from pipeline.workloads.schema import Workload

OBJECTIVES: Final = ("level", "difference")
TERMS: Final = (
    *OBJECTIVES, "inefficiency", "efficiency", "heat", "heat_change", "energy", "rejected",
)  # fmt: skip
WINDOWS: Final = 1_000_000

_CONTEXT: Final = (
    Feature("submit", "step", 0, np.inf, "when the job comes: now", scale=1000.0),
    Feature("process", "step", 0, np.inf, "how long the job runs; 0 after the last", scale=10.0),
    Feature("resources", "unit", 0, np.inf, "what it needs while it runs", scale=10.0),
    Feature("deadline", "step", 0, np.inf, "last step in which it may run", scale=1000.0),
    Feature("slack", "step", 0, np.inf, "how much later than now it may start", scale=5.0),
    Feature("total_heat", "heat", 0, np.inf, "total heat after the last step", scale=100.0),
    Feature("alpha", "1", -np.inf, np.inf, "weight of efficiency in the objective"),
    Feature("beta", "1", -np.inf, np.inf, "weight of heat in the objective", scale=0.005),
)

# What a history file has of a server ...
_IN_HISTORY: Final = (
    Feature("server", "index", 0, 5, "which server", identifier=True),
    Feature("capacity", "unit", 1, np.inf, "resources of the server", scale=40.0),
    Feature("x", "grid", -3, 3, "position"),
    Feature("y", "grid", -3, 3, "position"),
    Feature("distance", "grid", 0, 5, "from the centre"),
    Feature("usage", "fraction", 0, 1, "in use in this step, before the decision"),
    Feature("energy", "1", 0, 1, "drawn in this step, before the decision"),
    Feature("heat", "heat", 0, HEAT_CONSTANT, "given off in this step, before it", scale=50.0),
)
# ... and what only its calendar tells.
_CALENDAR: Final = (
    Feature("delay", "step", 0, np.inf, "steps until the job's earliest start", scale=5.0),
    Feature("ahead", "step", 0, np.inf, "work given to it, in steps of full use", scale=10.0),
    Feature("window_usage", "fraction", 0, 1, "mean usage while the job would run"),
    Feature("window_off", "fraction", 0, 1, "share of that time in which it is off"),
    Feature("window_inefficiency", "1", -np.inf, np.inf, "its rise over that time", scale=5.0),
    Feature("window_heat", "heat", 0, np.inf, "rise of all total heats from then on", scale=200.0),
    Feature("now_inefficiency", "1", -1, 1, "its rise in this step"),
    Feature("now_heat", "heat", 0, HEAT_CONSTANT, "rise of the heat of this step", scale=20.0),
)

_OUTCOMES: Final = (
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


def spec(config: ThermalConfig, objective: str) -> Spec:
    """Names of the observation, the reward terms and the outcomes."""
    discount = settled(config).discount
    assert discount is not None
    hidden = config.features == "history"
    return Spec(
        scenario="thermal",
        objective=objective,
        context=_CONTEXT,
        candidates=_IN_HISTORY + tuple(replace(f, identifier=hidden) for f in _CALENDAR),
        reward_terms=TERMS,
        outcomes=_OUTCOMES,
        discount=discount,
    )


def windows(config: ThermalConfig, workload: Workload) -> int:
    """As many as anyone may want: the number of a window only says which jobs are drawn."""
    return WINDOWS


def instance(
    config: ThermalConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Jobs drawn from `rng`, on empty servers without heat."""
    full = settled(config)
    require_room(20.0 * full.steps + 10.0 * full.jobs + 2.0 * full.capacity)
    return make_instance(full, OBJECTIVES.index(objective), draw_jobs(full, rng))


SCENARIO: Final = Scenario(
    name="thermal",
    config=ThermalConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    about=__doc__,
)
