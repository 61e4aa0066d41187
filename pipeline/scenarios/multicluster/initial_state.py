"""A `multicluster` episode laid out in its memory (pipeline.scenarios.multicluster.layout)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.scenarios.multicluster import dynamics as kernel
from pipeline.scenarios.multicluster import layout as k
from pipeline.scenarios.multicluster import observation as o
from pipeline.scenarios.multicluster.bounds import delay_bound, most_pooled
from pipeline.scenarios.multicluster.config import MulticlusterConfig
from pipeline.scenarios.multicluster.instances import STREAMING, Applications
from pipeline.simulation.scenario import Instance


def _rows(a: Applications) -> NDArray[np.float64]:
    """Features of the applications in the order of multicluster_observe, (J, SHOWN)."""
    rows = np.empty((len(a.arrival), k.SHOWN))
    rows[:, o.CATEGORY] = a.category
    rows[:, o.PROFILE : o.PROFILE + k.BINS] = a.profile
    rows[:, o.EXECUTION] = a.execution / 100.0
    rows[:, o.DEADLINE] = np.where(np.isinf(a.deadline), 0.0, a.deadline) / 100.0
    rows[:, o.DURATION] = np.where(a.category == STREAMING, a.runs * a.period, a.execution) / 1000.0
    rows[:, o.TASKS] = a.tasks / 100.0
    return rows


def lay_out(config: MulticlusterConfig, objective: int, a: Applications) -> Instance:
    """The memory of an episode with these applications; `objective` is the place of a reward term.

    Raises InputError where nothing arrives before the limit.
    """
    if a.arrival[0] >= config.limit:
        raise InputError(
            f"config.limit is {config.limit}, but the first application arrives at {a.arrival[0]}"
        )
    j, clusters, runs = len(a.arrival), len(config.clusters), len(a.needs)
    slots = int(max(a.execution.max(), a.period.max())) + 1
    blocks: tuple[tuple[int, int, Any], ...] = (
        (k.ARRIVAL_AT, j, a.arrival),
        (k.EXECUTION_AT, j, a.execution),
        (k.PERIOD_AT, j, a.period),
        (k.RUNS_AT, j, a.runs),
        (k.FIRST_NEED_AT, j, np.cumsum(a.runs) - a.runs),
        (k.POOLED_AT, j, 0),
        (k.ORDER_AT, j, 0),
        (k.ENDED_AT, j, 0),
        (k.CLUSTER_AT, j, 0),
        (k.DEPLOYED_AT, j, -1),
        (k.DUE_AT, j, a.arrival),
        (k.DONE_AT, j, 0),
        (k.MISSED_AT, j, 0),
        (k.ACTUAL_AT, j, 0),
        (k.LEFT_AT, j, 0),
        (k.LINK_AT, j, -1),
        (k.MISSES_BEFORE_AT, j, 0),
        (k.MISSES_UNTIL_AT, j, -1),
        (k.NEEDS_AT, runs, a.needs),
        (k.CAPABILITY_AT, clusters, config.clusters),
        (k.FREE_AT, clusters, config.clusters),
        (k.QUEUED_AT, clusters, 0),
        (k.CLUSTER_MISSES_AT, clusters, 0),
        (k.OCCUPIED_AT, clusters, 0),
        (k.QUEUES_AT, 2 * clusters, -1),
        (k.HISTORY_AT, clusters * k.LAGS, 0),
        (k.ENDING_AT, slots * clusters, 0),
        (k.COMPLETING_AT, 2 * slots, -1),
        (k.DUE_LISTS_AT, 2 * slots, -1),
    )
    ints = np.zeros(k.INT_HEADER + sum(length for _, length, _ in blocks), np.int64)
    at = k.INT_HEADER
    for block, length, values in blocks:
        ints[block] = at
        ints[at : at + length] = values
        at += length
    ints[k.DEADLINE_AT] = k.FLOAT_HEADER
    ints[k.ROWS_AT] = k.FLOAT_HEADER + j
    rows = _rows(a)
    floats = np.concatenate([np.zeros(k.FLOAT_HEADER), a.deadline, rows.ravel()])
    ints[k.CLUSTERS], ints[k.APPLICATIONS], ints[k.SLOTS] = clusters, j, slots
    ints[k.LIMIT], ints[k.OWN] = config.limit, config.own_misses_after
    ints[k.OBJECTIVE] = objective
    floats[k.MISS_WEIGHT], floats[k.LATER_WEIGHT] = config.miss_weight, config.later_miss_weight
    floats[k.DELAY_WEIGHT] = config.delay_weight
    floats[k.LOWER_BOUND] = delay_bound(a)

    kernel.arrive(ints)
    if ints[k.POOL] == 0:
        kernel.advance(ints, floats, np.zeros(3))
        floats[k.CARRIED] = ints[k.NOW]
    return Instance(ints, floats, capacity=most_pooled(a) * clusters)
