"""Memory of a `deferrable` episode before its first decision."""

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.bounds import upper_bound
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.dynamics import begin_slot
from hindcast.pipeline.scenarios.deferrable.features import OBJECTIVES
from hindcast.pipeline.scenarios.deferrable.grid.features import OBJECTIVES as GRIDS
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.simulation.scenario import Instance, make_memory


def make_instance(
    config: DeferrableConfig, objective: str, jobs: Jobs, capacity: NDArray[np.int64]
) -> Instance:
    """Return the memory of an episode of these jobs, by earliest start, and capacity (T,).

    On a grid, whose objectives are others, it has no bound, and the grid adds to it.
    """
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
    own = objective in OBJECTIVES
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective) if own else m.GRID + GRIDS.index(objective)
    floats[m.SLOT_S] = config.slot_s
    floats[m.DELAY_WEIGHT] = config.delay_weight
    floats[m.VIOLATION_WEIGHT] = config.violation_weight
    floats[m.SHOWN_DELAY_WEIGHT] = config.delay_weight if objective == "revenue" else 0.0
    if own:
        floats[m.UPPER_BOUND] = upper_bound(
            jobs, capacity, config.delay_weight, config.violation_weight
        )
    begin_slot(ints)
    return Instance(ints, floats, capacity=_most_rows(jobs, horizon))


def _most_rows(jobs: Jobs, horizon: int) -> int:
    """Return the most rows of an observation: jobs until their latest end, and the close row."""
    latest_end = jobs.latest + jobs.duration
    change = np.bincount(np.minimum(jobs.submitted, horizon), minlength=horizon + 1)
    change -= np.bincount(np.minimum(latest_end, horizon), minlength=horizon + 1)
    return int(np.cumsum(change[:horizon]).max(initial=0)) + 1
