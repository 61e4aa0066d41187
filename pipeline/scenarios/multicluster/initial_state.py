"""The initial memory of a `multicluster` episode (pipeline.scenarios.multicluster.layout)."""

import math
from functools import partial

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.multicluster import dynamics as kernel
from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.bounds import delay_bound, most_pooled
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.features import TERM
from hindcast.pipeline.scenarios.multicluster.futures import draw_future
from hindcast.pipeline.scenarios.multicluster.instances import STREAMING, Applications, rows_of
from hindcast.pipeline.simulation.scenario import Instance, make_memory


def _most_ahead(config: MulticlusterConfig) -> int:
    """Return the largest number of steps from now to an event of an application that is drawn.

    A task ends after at most s steps. A batch completes at least s steps after it was due, so the
    next batch, one period later, is due within (period - 1) * s steps. One step is for rounding.
    """
    longest = config.execution[1]
    if config.categories[STREAMING] == 0:
        return longest
    return max(longest, math.ceil(longest * (config.period[1] - 1.0)) + 1)


def lay_out(config: MulticlusterConfig, objective: int, a: Applications) -> Instance:
    """Return the memory of an episode; `objective` is the index of the reward term.

    Raises InputError if no application arrives before the limit.
    """
    if a.arrival[0] >= config.limit:
        raise InputError(
            f"config.limit is {config.limit}, expected more than {a.arrival[0]}, the step at which "
            "the first application arrives"
        )
    j, clusters, runs = len(a.arrival), len(config.clusters), len(a.needs)
    # A drawn future brings other applications than these, with longer tasks and periods.
    slots = int(max(a.execution.max(), a.period.max(), _most_ahead(config))) + 1
    pooled = most_pooled(a)
    int_blocks = (
        (m.ARRIVAL_AT, j, a.arrival),
        (m.EXECUTION_AT, j, a.execution),
        (m.PERIOD_AT, j, a.period),
        (m.RUNS_AT, j, a.runs),
        (m.FIRST_NEED_AT, j, np.cumsum(a.runs) - a.runs),
        (m.POOLED_AT, j, 0),
        (m.ORDER_AT, j, 0),
        (m.ENDED_AT, j, 0),
        (m.CLUSTER_AT, j, 0),
        (m.DEPLOYED_AT, j, -1),
        (m.DUE_AT, j, a.arrival),
        (m.DONE_AT, j, 0),
        (m.MISSED_AT, j, 0),
        (m.ACTUAL_AT, j, 0),
        (m.LEFT_AT, j, 0),
        (m.LINK_AT, j, -1),
        (m.MISSES_BEFORE_AT, j, 0),
        (m.MISSES_UNTIL_AT, j, -1),
        (m.NEEDS_AT, runs, a.needs),
        (m.CAPABILITY_AT, clusters, config.clusters),
        (m.FREE_AT, clusters, config.clusters),
        (m.QUEUED_AT, clusters, 0),
        (m.CLUSTER_MISSES_AT, clusters, 0),
        (m.OCCUPIED_AT, clusters, 0),
        (m.QUEUES_AT, 2 * clusters, -1),
        (m.HISTORY_AT, clusters * m.LAGS, 0),
        (m.ENDING_AT, slots * clusters, 0),
        (m.COMPLETING_AT, 2 * slots, -1),
        (m.DUE_LISTS_AT, 2 * slots, -1),
        (m.LAST_STEPS_AT, pooled + 1 if config.foresight else 0, 0),
    )
    float_blocks = ((m.DEADLINE_AT, j, a.deadline), (m.ROWS_AT, j * m.SHOWN, rows_of(a).ravel()))
    ints, floats = make_memory(m.INT_HEADER, int_blocks, m.FLOAT_HEADER, float_blocks)
    ints[m.CLUSTERS], ints[m.APPLICATIONS], ints[m.SLOTS] = clusters, j, slots
    ints[m.LIMIT], ints[m.OWN] = config.limit, config.own_misses_after
    ints[m.OBJECTIVE], ints[m.FORESIGHT] = objective, config.foresight
    floats[m.MIDDLE_EXECUTION] = sum(config.execution) / 200.0
    floats[m.MISS_WEIGHT], floats[m.LATER_WEIGHT] = config.miss_weight, config.later_miss_weight
    floats[m.DELAY_WEIGHT] = config.delay_weight
    floats[m.LOWER_BOUND] = delay_bound(a)

    kernel.arrive(ints)
    if ints[m.POOL] == 0:
        kernel.advance(ints, floats, np.zeros(len(TERM)))
        floats[m.CARRIED] = ints[m.NOW]
    return Instance(ints, floats, pooled * clusters, partial(draw_future, config, a))
