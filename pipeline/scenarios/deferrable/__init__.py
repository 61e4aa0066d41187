"""`deferrable`: start jobs that can wait on the capacity that on-demand work leaves free.

Time is divided into slots. A job needs `c` cores for `d` slots without interruption, may start in
any slot from `e` to `l`, and is known from slot `g <= e` on. The capacity `C_t` is the number of
cores that on-demand work leaves free in slot t. It is known up to slot t, and may fall below the
cores of the jobs that already run. The order of events in every slot:

    submit jobs with g <= t; end jobs with start + d <= t; show C_t; drop jobs with l < t (expired)
    decide: start a startable job that fits C_t, any number of times without passing of time; close
    violation v_t = max(0, running cores - C_t); the next slot begins

    utilisation   r = c d                                              paid at the start of a job
    delay         r = -w1 (t - e)                                      paid at the start of a job
    violation     r = -w2 v_t                                          paid at the close of a slot
    revenue       r = utilisation + delay + violation                  the published reward

Candidates are the jobs that run, that can start, or that will be able to start, followed by a last
row that closes the slot. Only startable jobs that fit and the last row are feasible. A slot in
which no job can be started is shown too, so every slot has exactly one close. The published action,
a score per startable job, is hindcast.pipeline.scenarios.deferrable.slotwise_action.
"""

from typing import Final

import numpy as np

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig, check_config
from hindcast.pipeline.scenarios.deferrable.features import OBJECTIVES
from hindcast.pipeline.scenarios.deferrable.features import spec as own_spec
from hindcast.pipeline.scenarios.deferrable.grid import features as grid_features
from hindcast.pipeline.scenarios.deferrable.grid import instances as grid_instances
from hindcast.pipeline.scenarios.deferrable.grid.dynamics import outcome, step
from hindcast.pipeline.scenarios.deferrable.grid.observation import observe
from hindcast.pipeline.scenarios.deferrable.instances import draw_capacity, draw_jobs
from hindcast.pipeline.scenarios.deferrable.instances_from_trace import demand as trace_demand
from hindcast.pipeline.scenarios.deferrable.instances_from_trace import (
    draw_trace,
    trace_slots,
)
from hindcast.pipeline.scenarios.deferrable.memory import make_instance
from hindcast.pipeline.scenarios.deferrable.picture import picture
from hindcast.pipeline.simulation.scenario import (
    DRAWN_WINDOWS,
    Demand,
    Instance,
    Scenario,
    require_room,
)
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.workloads.schema import Workload

GRID: Final = grid_features.OBJECTIVES


def demand(config: DeferrableConfig, workload: Workload, window: int) -> Demand:
    """Return the work of a window of a log or a trace of virtual machines."""
    of = grid_instances.demand if config.jobs == "log" else trace_demand
    return of(config, workload, window)


def spec(config: DeferrableConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return (grid_features.spec if objective in GRID else own_spec)(config, objective)


def windows(config: DeferrableConfig, workload: Workload) -> int:
    """Return the number of windows of the trace, or DRAWN_WINDOWS for generated instances."""
    if config.jobs == "generated":
        return DRAWN_WINDOWS
    if config.jobs == "log":
        return grid_instances.windows(config, workload)
    return trace_slots(config, workload) // config.horizon * config.draws_per_window


def instance(
    config: DeferrableConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs and the capacity of a window, at the first decision of slot 0."""
    check_config(config)
    if objective in GRID:
        return grid_instances.instance(config, objective, workload, window, rng)
    if config.jobs == "log":
        raise RecipeError(
            f'config.jobs = "log": the objective {objective!r} is about virtual machines; expected '
            f"one of a grid: {', '.join(GRID)}"
        )
    require_room(500.0 * config.horizon * (1.0 + config.jobs_per_slot))  # the bound takes time
    if config.jobs == "trace":
        count = windows(config, workload)
        if window >= count:
            raise InputError(
                f"window {window} does not exist: the {trace_slots(config, workload)} slots of the "
                f"trace make {count} windows of {config.horizon} slots"
            )
        jobs, capacity = draw_trace(config, workload, window, rng)
    else:
        jobs = draw_jobs(config, rng)
        capacity = draw_capacity(config, rng)
    return make_instance(config, objective, jobs, capacity)


SCENARIO: Final = Scenario(
    name="deferrable",
    config=DeferrableConfig,
    objectives=(*OBJECTIVES, *GRID),
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=step,
    outcome=outcome,
    picture=picture,
    demand=demand,
    added={"priced_now": "load_prices"},
    bound="upper_bound",
    bound_kind="upper",
    source=(
        'Dong, Zhu, Shan et al., "An Advanced Reinforcement Learning Framework for Online '
        'Scheduling of Deferrable Workloads in Cloud Computing" (OSDEC).'
    ),
    differences=(
        (
            "One job is started per decision. The published action covers a whole slot and is "
            "expressed by these decisions."
        ),
        (
            "The paper does not say how jobs and capacity were made from the Azure trace. Here a "
            "slot is an hour, an episode is a week, arrivals by earliest start are Poisson, cores "
            "(1, 2, 4, 8) and durations (1, 2, 3, 4, 6, 8) follow the published cases, windows and "
            "notices follow the config, and the capacity is a daily swing with autocorrelated "
            "noise. Its level was found by matching the published totals of the three rules."
        ),
        (
            "The capacity of other cases grows with the mean work of a job, because no fixed "
            "capacity can give the published totals: there the total of Tetris grows 2.37 times "
            "while the offered work grows 1.98 times. Only the scaling of FIFO is expected to "
            "match."
        ),
        "In the published constraint a job occupies d + 1 slots; here it occupies d.",
        (
            "A job that expires costs only its lost revenue. Expired jobs and jobs that still wait "
            "at the end are counted. Revenue is paid in full at the start, even if the job ends "
            "after the horizon."
        ),
        "A Lagrangian bound, `upper_bound`, is reported with every total reward.",
    ),
)
