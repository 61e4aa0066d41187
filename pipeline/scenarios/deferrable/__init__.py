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
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.bounds import upper_bound
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig, check_config
from hindcast.pipeline.scenarios.deferrable.dynamics import begin_slot, outcome, step
from hindcast.pipeline.scenarios.deferrable.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.deferrable.instances import Jobs, draw_capacity, draw_jobs
from hindcast.pipeline.scenarios.deferrable.instances_from_trace import (
    demand,
    draw_trace,
    trace_slots,
)
from hindcast.pipeline.scenarios.deferrable.observation import observe
from hindcast.pipeline.simulation.scenario import (
    DRAWN_WINDOWS,
    Instance,
    Scenario,
    make_memory,
    require_room,
)
from hindcast.pipeline.workloads.schema import Workload


def windows(config: DeferrableConfig, workload: Workload) -> int:
    """Return the number of windows of the trace, or DRAWN_WINDOWS for generated instances."""
    if config.jobs == "generated":
        return DRAWN_WINDOWS
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


def make_instance(
    config: DeferrableConfig, objective: str, jobs: Jobs, capacity: NDArray[np.int64]
) -> Instance:
    """Return the memory of an episode of these jobs, by earliest start, and capacity (T,)."""
    n, horizon = len(jobs.cores), len(capacity)
    longest = int(jobs.duration.max(initial=1))
    blocks = (
        (m.CORES_AT, n, jobs.cores),
        (m.DURATION_AT, n, jobs.duration),
        (m.EARLIEST_AT, n, jobs.earliest),
        (m.LATEST_AT, n, jobs.latest),
        (m.SUBMITTED_AT, n, jobs.submitted),
        (m.BY_SUBMISSION_AT, n, np.argsort(jobs.submitted, kind="stable")),
        (m.START_AT, n, -1),
        (m.RUNNING_AT, n, 0),
        (m.STARTABLE_AT, n, 0),
        (m.FUTURE_AT, n, 0),
        (m.CAPACITY_AT, horizon, capacity),
        (m.FREED_AT, horizon + longest + m.LOOKAHEAD + 1, 0),
    )
    ints, floats = make_memory(m.INT_HEADER, blocks, m.FLOAT_HEADER)
    ints[m.JOBS], ints[m.HORIZON] = n, horizon
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    floats[m.SLOT_S] = config.slot_s
    floats[m.DELAY_WEIGHT] = config.delay_weight
    floats[m.VIOLATION_WEIGHT] = config.violation_weight
    floats[m.SHOWN_DELAY_WEIGHT] = config.delay_weight if objective == "revenue" else 0.0
    floats[m.UPPER_BOUND] = upper_bound(
        jobs, capacity, config.delay_weight, config.violation_weight
    )
    begin_slot(ints)
    return Instance(ints, floats, capacity=_most_rows(jobs, horizon))


def _most_rows(jobs: Jobs, horizon: int) -> int:
    """Return the most rows of an observation: jobs from submission to latest end, and the close."""
    latest_end = jobs.latest + jobs.duration
    change = np.bincount(np.minimum(jobs.submitted, horizon), minlength=horizon + 1)
    change -= np.bincount(np.minimum(latest_end, horizon), minlength=horizon + 1)
    return int(np.cumsum(change[:horizon]).max(initial=0)) + 1


SCENARIO: Final = Scenario(
    name="deferrable",
    config=DeferrableConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=step,
    outcome=outcome,
    demand=demand,
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
