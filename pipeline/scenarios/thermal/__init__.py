"""`thermal`: assign each job to one of six servers, for energy efficiency and little heat.

Six servers of equal capacity R stand on a grid at (0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3).
In each of the first 2000 of 2200 steps one job arrives. It needs `resources` for `process` steps
and must be finished by its deadline. Each server keeps a calendar: it starts a job at the earliest
step from which the job fits for its whole length, and neither pauses nor moves it. A server can be
chosen if start + process - 1 <= deadline. A job that no server can finish in time is rejected and
counted, without a decision.

    usage        u_i = used resources / R
    energy       c_i = .5 u_i + .5 if u_i > 0, else 0; with `idle_power` always .5 u_i + .5
    heat         h_i = c_i * 200 exp(-k d_i)           d_i: distance from (0, 0)
    total heat   H(t) = sum_i h_i + decay * H(t - 1)   H(-1) = 0
    efficiency   e_i = u_i / c_i, 1 for a server that is off

    level        r = -alpha sum_i (1 - e_i) - beta H(t)
    difference   r = alpha sum_i e_i + beta (H(t - 1) - H(t))

The job of step t is placed on the state before it; then energy, heat and reward of step t are
computed. Rewards of steps without a decision (rejected jobs, the steps after the last job) belong
to the decision before them; those before the first decision belong to the first.

Three properties follow. (1) The heat term of `difference` telescopes: over an episode it sums to
-beta H(end) for every policy, so without a discount beta and k have no effect. (2) With the sizes
of the report (preset "paper") the load is a tenth, no deadline binds, and always choosing the
farthest server is best in both terms. (3) Consolidation pays only because a server that is off
counts as efficient; with `idle_power` it does not pay.
"""

from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.thermal import dynamics as kernel
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig, settled
from hindcast.pipeline.scenarios.thermal.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.thermal.instances import draw_jobs, make_instance
from hindcast.pipeline.scenarios.thermal.observation import observe
from hindcast.pipeline.scenarios.thermal.picture import picture
from hindcast.pipeline.simulation.scenario import DRAWN_WINDOWS, Instance, Scenario, require_room
from hindcast.pipeline.workloads.schema import Workload


def instance(
    config: ThermalConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return jobs drawn from `rng`, on empty servers without heat."""
    full = settled(config)
    require_room(20.0 * full.steps + 10.0 * full.jobs + 2.0 * full.capacity)
    return make_instance(full, OBJECTIVES.index(objective), draw_jobs(full, rng))


SCENARIO: Final = Scenario(
    name="thermal",
    config=ThermalConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=lambda *_: DRAWN_WINDOWS,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    picture=picture,
    source='L. Dong, "Solution on Data Center Job Scheduling Problem", 2018.',
    differences=(
        (
            "The observation never contains the decision. The report's generator logged usage, "
            "energy and heat AFTER the placement, and the finish time, all of which reveal the "
            "action."
        ),
        (
            "Eq 6 as printed multiplies heat and energy and has no k. Figure 4 determines the form "
            "used here, with k = 10: 4.6919742701607256e-17 = .625 * 200 exp(-10 * 18 ** .5)."
        ),
        (
            "The report's efficiency is (u + 1e-7) / (c + 1e-7). Its Figure 4 has the reward "
            "27.00000047999997, which alpha = 5 and a heat term of the OPPOSITE sign, 1000 (H(t) - "
            "H(t - 1)), give to the last digit. Its text does not state alpha and beta; here they "
            "are 1 and .005."
        ),
        "The default objective is `level`, which does not telescope.",
        "An episode ends after 2200 steps; that of the report has no end.",
    ),
)
