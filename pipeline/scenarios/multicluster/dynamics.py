"""Compiled transition of `multicluster`; the problem is told in pipeline.scenarios.multicluster.

All tasks of a run take equally long, so a run completes when the tasks that were launched last
end: launching books the executors that become free per (step, cluster), and the completion once.
No task is ever looked at by itself.
"""

from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.multicluster.layout import (
    ACTUAL_AT,
    APPLICATIONS,
    ARRIVAL_AT,
    ARRIVED,
    BUSY_STEPS,
    CAPABILITY_AT,
    CARRIED,
    CLUSTER_AT,
    CLUSTER_MISSES_AT,
    CLUSTERS,
    COMPLETING_AT,
    CRITICAL_COMPLETED,
    DEADLINE_AT,
    DELAY_WEIGHT,
    DEPLOYED,
    DEPLOYED_AT,
    DONE_AT,
    DUE_AT,
    DUE_LISTS_AT,
    ENDED_AT,
    ENDING_AT,
    EXECUTION_AT,
    FINISHED,
    FIRST_NEED_AT,
    FREE_AT,
    HISTORY_AT,
    LAG,
    LAGS,
    LATER_WEIGHT,
    LEFT_AT,
    LIMIT,
    LINK_AT,
    LOWER_BOUND,
    MISS_WEIGHT,
    MISSED_AT,
    MISSES,
    MISSES_BEFORE_AT,
    MISSES_UNTIL_AT,
    NEEDS_AT,
    NOW,
    OBJECTIVE,
    OCCUPIED_AT,
    ORDER_AT,
    OWN,
    PERIOD_AT,
    POOL,
    POOLED_AT,
    QUEUED_AT,
    QUEUES_AT,
    RUNS_AT,
    RUNS_COMPLETED,
    SLOT,
    SLOTS,
)
from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    INFEASIBLE,
    INTS,
    OUTCOME,
    REWARD,
    RUNNING,
    STEP,
    TERMINATED,
    TERMS,
    TIME,
    TRUNCATED,
    compiled,
)

EVAL_MISS: Final = 0.02  # what a missed deadline weighs against a percent of delay in Eval


@compiled(types.void(INTS, types.int64, types.int64))
def _append(ints, at, application):  # type: ignore[no-untyped-def]
    """Put an application at the end of the list whose (first, last) stand at `at`."""
    ints[ints[LINK_AT] + application] = -1
    if ints[at] < 0:
        ints[at] = application
    else:
        ints[ints[LINK_AT] + ints[at + 1]] = application
    ints[at + 1] = application


@compiled(types.int64(INTS, types.int64))
def _slot_in(ints, steps):  # type: ignore[no-untyped-def]
    """The slot of the step that comes so many steps from now, fewer than there are slots."""
    slot = ints[SLOT] + steps
    return slot if slot < ints[SLOTS] else slot - ints[SLOTS]


@compiled(types.void(INTS, FLOATS, types.int64, types.int64, FLOATS))
def _complete(ints, floats, application, others, terms):  # type: ignore[no-untyped-def]
    """Book the end of an application's run and plan its next one.

    `others` deployed and unfinished applications see the miss that it may be; adds to terms (3,).
    """
    now = ints[NOW]
    actual = now - ints[ints[DUE_AT] + application]
    execution, runs = ints[ints[EXECUTION_AT] + application], ints[ints[RUNS_AT] + application]
    deadline = floats[ints[DEADLINE_AT] + application]
    ints[ints[ACTUAL_AT] + application] += actual
    ints[ints[DONE_AT] + application] += 1
    ints[RUNS_COMPLETED] += 1
    ints[CRITICAL_COMPLETED] += deadline < np.inf
    terms[0] += floats[DELAY_WEIGHT] * actual / (execution * runs)
    terms[2] += 100.0 * (actual - execution) / (execution * runs * ints[APPLICATIONS])
    if actual > deadline:
        ints[MISSES] += 1
        ints[ints[MISSED_AT] + application] += 1
        ints[ints[CLUSTER_MISSES_AT] + ints[ints[CLUSTER_AT] + application]] += 1
        terms[0] += floats[MISS_WEIGHT] + floats[LATER_WEIGHT] * others
        terms[1] += 1.0
    done = ints[ints[DONE_AT] + application]
    if done == runs:
        ints[ints[ENDED_AT] + ints[FINISHED]] = application
        ints[FINISHED] += 1
        return
    due = ints[ints[DEPLOYED_AT] + application] + done * ints[ints[PERIOD_AT] + application]
    ints[ints[DUE_AT] + application] = due
    # after a late predecessor: queued at once, behind those that are due now
    _append(ints, ints[DUE_LISTS_AT] + 2 * _slot_in(ints, max(due - now, 0)), application)


@compiled(types.void(INTS, FLOATS, FLOATS))
def _release(ints, floats, terms):  # type: ignore[no-untyped-def]
    """Free the executors of tasks that end at this step and complete their runs."""
    clusters = ints[CLUSTERS]
    slot = ints[SLOT]
    free, ending = ints[FREE_AT], ints[ENDING_AT] + slot * clusters
    for cluster in range(clusters):
        ints[free + cluster] += ints[ending + cluster]
        ints[ending + cluster] = 0
    at = ints[COMPLETING_AT] + 2 * slot
    application = ints[at]
    if application < 0:
        return
    ints[at] = -1
    finished = ints[FINISHED]
    others = ints[DEPLOYED] - finished - 1 + ints[OWN]
    while application >= 0:
        following = ints[ints[LINK_AT] + application]
        _complete(ints, floats, application, others, terms)
        application = following
    for i in range(finished, ints[FINISHED]):
        ints[ints[MISSES_UNTIL_AT] + ints[ints[ENDED_AT] + i]] = ints[MISSES]


@compiled(types.void(INTS, types.int64))
def _queue_run(ints, application):  # type: ignore[no-untyped-def]
    """Put the next run of an application at the end of its cluster's queue."""
    cluster = ints[ints[CLUSTER_AT] + application]
    run = ints[ints[FIRST_NEED_AT] + application] + ints[ints[DONE_AT] + application]
    need = ints[ints[NEEDS_AT] + run]
    ints[ints[LEFT_AT] + application] = need
    ints[ints[QUEUED_AT] + cluster] += need
    _append(ints, ints[QUEUES_AT] + 2 * cluster, application)


@compiled(types.void(INTS))
def _queue_due(ints):  # type: ignore[no-untyped-def]
    """Queue the batches that are due at this step."""
    at = ints[DUE_LISTS_AT] + 2 * ints[SLOT]
    application = ints[at]
    ints[at] = -1
    while application >= 0:
        following = ints[ints[LINK_AT] + application]
        _queue_run(ints, application)
        application = following


@compiled(types.void(INTS))
def arrive(ints):  # type: ignore[no-untyped-def]
    """Let in the applications of this step."""
    application = ints[ARRIVED]
    while application < ints[APPLICATIONS] and ints[ints[ARRIVAL_AT] + application] <= ints[NOW]:
        ints[ints[POOLED_AT] + ints[POOL]] = application
        ints[POOL] += 1
        application += 1
    ints[ARRIVED] = application


@compiled(types.void(INTS, types.int64))
def _launch(ints, cluster):  # type: ignore[no-untyped-def]
    """Give a cluster's free executors to its oldest runs that have tasks to launch."""
    queue, free = ints[QUEUES_AT] + 2 * cluster, ints[FREE_AT] + cluster
    while ints[free] > 0 and ints[queue] >= 0:
        application = ints[queue]
        left = ints[LEFT_AT] + application
        slot = _slot_in(ints, ints[ints[EXECUTION_AT] + application])
        launched = min(ints[free], ints[left])
        ints[free] -= launched
        ints[left] -= launched
        ints[ints[QUEUED_AT] + cluster] -= launched
        ints[ints[ENDING_AT] + slot * ints[CLUSTERS] + cluster] += launched
        if ints[left] == 0:
            ints[queue] = ints[ints[LINK_AT] + application]
            _append(ints, ints[COMPLETING_AT] + 2 * slot, application)


@compiled(types.void(INTS))
def _launch_and_record(ints):  # type: ignore[no-untyped-def]
    """Launch in every cluster and write down its occupation."""
    clusters = ints[CLUSTERS]
    history = ints[HISTORY_AT] + ints[LAG]
    for cluster in range(clusters):
        if ints[ints[QUEUES_AT] + 2 * cluster] >= 0:
            _launch(ints, cluster)
        occupied = ints[ints[CAPABILITY_AT] + cluster] - ints[ints[FREE_AT] + cluster]
        ints[BUSY_STEPS] += occupied
        at = history + cluster * LAGS
        ints[ints[OCCUPIED_AT] + cluster] += occupied - ints[at]
        ints[at] = occupied


@compiled(types.int64(INTS, FLOATS, FLOATS))
def advance(ints, floats, terms):  # type: ignore[no-untyped-def]
    """Let time pass to the next step with an application in the pool, or to the end.

    Finishes the present step first; adds to terms (3,), unsigned, and returns the status.
    """
    status = RUNNING
    while status == RUNNING:
        _launch_and_record(ints)
        ints[NOW] += 1
        ints[SLOT] = _slot_in(ints, 1)
        ints[LAG] = ints[LAG] + 1 if ints[LAG] < LAGS - 1 else 0
        _release(ints, floats, terms)
        if ints[FINISHED] == ints[APPLICATIONS]:
            status = TERMINATED
        elif ints[NOW] >= ints[LIMIT]:
            status = TRUNCATED
        else:
            _queue_due(ints)
            arrive(ints)
            if ints[POOL] > 0:
                break
    floats[TIME] = ints[NOW]
    return status


@compiled(types.void(INTS, types.int64, types.int64))
def _deploy(ints, position, cluster):  # type: ignore[no-untyped-def]
    """Take an application out of the pool and queue its first run in a cluster."""
    pooled = ints[POOLED_AT]
    application = ints[pooled + position]
    ints[POOL] -= 1
    for i in range(position, ints[POOL]):
        ints[pooled + i] = ints[pooled + i + 1]
    ints[ints[ORDER_AT] + ints[DEPLOYED]] = application
    ints[DEPLOYED] += 1
    ints[ints[CLUSTER_AT] + application] = cluster
    ints[ints[DEPLOYED_AT] + application] = ints[NOW]
    ints[ints[MISSES_BEFORE_AT] + application] = ints[MISSES]
    _queue_run(ints, application)


@compiled(STEP)
def step(ints, floats, choice, booked):  # type: ignore[no-untyped-def]
    """Deploy the pair in row `choice` of the last observation; time passes to the next decision."""
    clusters = ints[CLUSTERS]
    if choice < 0 or choice >= ints[POOL] * clusters:
        return INFEASIBLE
    before = ints[NOW]
    position = choice // clusters
    _deploy(ints, position, choice - position * clusters)
    terms = booked[TERMS : TERMS + 3]
    terms[:] = 0.0
    status = advance(ints, floats, terms)
    booked[ELAPSED] = floats[CARRIED] + (ints[NOW] - before)
    floats[CARRIED] = 0.0
    for term in range(3):
        terms[term] = 0.0 - terms[term]  # not -x: a zero stays +0.0
    booked[REWARD] = terms[ints[OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec; runs that have not completed count nothing."""
    applications = ints[APPLICATIONS]
    percent = waited = 0.0
    for application in range(applications):
        execution = ints[ints[EXECUTION_AT] + application]
        done, runs = ints[ints[DONE_AT] + application], ints[ints[RUNS_AT] + application]
        delay = ints[ints[ACTUAL_AT] + application] - done * execution
        percent += 100.0 * delay / (execution * runs)
        deployed = ints[ints[DEPLOYED_AT] + application]
        if deployed >= 0:
            waited += deployed - ints[ints[ARRIVAL_AT] + application]
    executors = 0
    for cluster in range(ints[CLUSTERS]):
        executors += ints[ints[CAPABILITY_AT] + cluster]
    misses, critical = ints[MISSES], ints[CRITICAL_COMPLETED]
    outcomes[0] = EVAL_MISS * misses + percent / applications
    outcomes[1] = misses
    outcomes[2] = percent / applications
    outcomes[3] = misses / max(critical, 1)
    outcomes[4] = critical
    outcomes[5] = ints[RUNS_COMPLETED]
    outcomes[6] = waited / max(ints[DEPLOYED], 1)
    outcomes[7] = ints[BUSY_STEPS] / (executors * max(ints[NOW], 1))
    outcomes[8] = ints[NOW]
    outcomes[9] = floats[LOWER_BOUND]
    outcomes[10] = applications - ints[FINISHED]


@compiled(OUTCOME)
def values(ints, floats, out):  # type: ignore[no-untyped-def]
    """Fill out[i] with the Monte-Carlo value of the i-th deployment, once the episode is over.

    An application that has not ended (truncated) sees all misses up to now; runs that have not
    completed count nothing, so that the values add up to the rewards of `misses_and_delay`.
    """
    for i in range(ints[DEPLOYED]):
        application = ints[ints[ORDER_AT] + i]
        own = ints[ints[MISSED_AT] + application]
        until = ints[ints[MISSES_UNTIL_AT] + application]
        if until < 0:
            until = ints[MISSES]
        after = until - ints[ints[MISSES_BEFORE_AT] + application]
        if ints[OWN] == 0:
            after -= own
        optimal = ints[ints[EXECUTION_AT] + application] * ints[ints[RUNS_AT] + application]
        delay = ints[ints[ACTUAL_AT] + application] / optimal
        out[i] = 0.0 - (
            floats[MISS_WEIGHT] * own + floats[LATER_WEIGHT] * after + floats[DELAY_WEIGHT] * delay
        )
