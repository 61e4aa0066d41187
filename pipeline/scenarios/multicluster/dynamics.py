"""Compiled transition of `multicluster`. The problem is described in its package.

All tasks of a run take equally long, so a run completes when the tasks that were launched last end.
A launch therefore records how many executors become free per (step, cluster), and the completion
once. No code handles single tasks.
"""

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.config import EVAL_MISS
from hindcast.pipeline.scenarios.multicluster.features import OUT, TERM
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.void(INTS, types.int64, types.int64))
def _append(ints, at, application):  # type: ignore[no-untyped-def]
    """Append an application to the list whose (first, last) are at `at`."""
    ints[ints[m.LINK_AT] + application] = -1
    if ints[at] < 0:
        ints[at] = application
    else:
        ints[ints[m.LINK_AT] + ints[at + 1]] = application
    ints[at + 1] = application


@compiled(types.int64(INTS, types.int64))
def _slot_in(ints, steps):  # type: ignore[no-untyped-def]
    """Return the slot of the step that is `steps` steps ahead, fewer than there are slots."""
    slot = ints[m.SLOT] + steps
    return slot if slot < ints[m.SLOTS] else slot - ints[m.SLOTS]


@compiled(types.void(INTS, FLOATS, types.int64, types.int64, FLOATS))
def _complete(ints, floats, application, others, terms):  # type: ignore[no-untyped-def]
    """Record the end of an application's run and plan its next run; add to terms (3,).

    `others` is the number of other applications that are deployed and unfinished, which a miss
    counts for.
    """
    now = ints[m.NOW]
    actual = now - ints[ints[m.DUE_AT] + application]
    execution, runs = ints[ints[m.EXECUTION_AT] + application], ints[ints[m.RUNS_AT] + application]
    deadline = floats[ints[m.DEADLINE_AT] + application]
    ints[ints[m.ACTUAL_AT] + application] += actual
    ints[ints[m.DONE_AT] + application] += 1
    ints[m.RUNS_COMPLETED] += 1
    ints[m.CRITICAL_COMPLETED] += deadline < np.inf
    terms[TERM.misses_and_delay] += floats[m.DELAY_WEIGHT] * actual / (execution * runs)
    terms[TERM.delay] += 100.0 * (actual - execution) / (execution * runs * ints[m.APPLICATIONS])
    if actual > deadline:
        ints[m.MISSES] += 1
        ints[ints[m.MISSED_AT] + application] += 1
        ints[ints[m.CLUSTER_MISSES_AT] + ints[ints[m.CLUSTER_AT] + application]] += 1
        terms[TERM.misses_and_delay] += floats[m.MISS_WEIGHT] + floats[m.LATER_WEIGHT] * others
        terms[TERM.misses] += 1.0
    done = ints[ints[m.DONE_AT] + application]
    if done == runs:
        ints[ints[m.ENDED_AT] + ints[m.FINISHED]] = application
        ints[m.FINISHED] += 1
        return
    due = ints[ints[m.DEPLOYED_AT] + application] + done * ints[ints[m.PERIOD_AT] + application]
    ints[ints[m.DUE_AT] + application] = due
    # if the predecessor was late, the batch is queued at once, behind the batches that are due now
    _append(ints, ints[m.DUE_LISTS_AT] + 2 * _slot_in(ints, max(due - now, 0)), application)


@compiled(types.void(INTS, FLOATS, FLOATS))
def _release(ints, floats, terms):  # type: ignore[no-untyped-def]
    """Free the executors of tasks that end at this step and complete their runs."""
    clusters = ints[m.CLUSTERS]
    slot = ints[m.SLOT]
    free, ending = ints[m.FREE_AT], ints[m.ENDING_AT] + slot * clusters
    for cluster in range(clusters):
        ints[free + cluster] += ints[ending + cluster]
        ints[ending + cluster] = 0
    at = ints[m.COMPLETING_AT] + 2 * slot
    application = ints[at]
    if application < 0:
        return
    ints[at] = -1
    finished = ints[m.FINISHED]
    others = ints[m.DEPLOYED] - finished - 1 + ints[m.OWN]
    while application >= 0:
        following = ints[ints[m.LINK_AT] + application]
        _complete(ints, floats, application, others, terms)
        application = following
    for i in range(finished, ints[m.FINISHED]):
        ints[ints[m.MISSES_UNTIL_AT] + ints[ints[m.ENDED_AT] + i]] = ints[m.MISSES]


@compiled(types.void(INTS, types.int64))
def _queue_run(ints, application):  # type: ignore[no-untyped-def]
    """Append the next run of an application to its cluster's queue."""
    cluster = ints[ints[m.CLUSTER_AT] + application]
    run = ints[ints[m.FIRST_NEED_AT] + application] + ints[ints[m.DONE_AT] + application]
    need = ints[ints[m.NEEDS_AT] + run]
    ints[ints[m.LEFT_AT] + application] = need
    ints[ints[m.QUEUED_AT] + cluster] += need
    _append(ints, ints[m.QUEUES_AT] + 2 * cluster, application)


@compiled(types.void(INTS))
def _queue_due(ints):  # type: ignore[no-untyped-def]
    """Queue the batches that are due at this step."""
    at = ints[m.DUE_LISTS_AT] + 2 * ints[m.SLOT]
    application = ints[at]
    ints[at] = -1
    while application >= 0:
        following = ints[ints[m.LINK_AT] + application]
        _queue_run(ints, application)
        application = following


@compiled(types.void(INTS))
def arrive(ints):  # type: ignore[no-untyped-def]
    """Put the applications that arrive at this step into the pool."""
    application = ints[m.ARRIVED]
    while (
        application < ints[m.APPLICATIONS] and ints[ints[m.ARRIVAL_AT] + application] <= ints[m.NOW]
    ):
        ints[ints[m.POOLED_AT] + ints[m.POOL]] = application
        ints[m.POOL] += 1
        application += 1
    ints[m.ARRIVED] = application


@compiled(types.void(INTS, types.int64))
def _launch(ints, cluster):  # type: ignore[no-untyped-def]
    """Give a cluster's free executors to its oldest runs that have tasks to launch."""
    queue, free = ints[m.QUEUES_AT] + 2 * cluster, ints[m.FREE_AT] + cluster
    while ints[free] > 0 and ints[queue] >= 0:
        application = ints[queue]
        unlaunched = ints[m.LEFT_AT] + application
        slot = _slot_in(ints, ints[ints[m.EXECUTION_AT] + application])
        launched = min(ints[free], ints[unlaunched])
        ints[free] -= launched
        ints[unlaunched] -= launched
        ints[ints[m.QUEUED_AT] + cluster] -= launched
        ints[ints[m.ENDING_AT] + slot * ints[m.CLUSTERS] + cluster] += launched
        if ints[unlaunched] == 0:
            ints[queue] = ints[ints[m.LINK_AT] + application]
            _append(ints, ints[m.COMPLETING_AT] + 2 * slot, application)


@compiled(types.void(INTS))
def _launch_and_record(ints):  # type: ignore[no-untyped-def]
    """Launch in every cluster and record its occupation."""
    clusters = ints[m.CLUSTERS]
    history = ints[m.HISTORY_AT] + ints[m.LAG]
    for cluster in range(clusters):
        if ints[ints[m.QUEUES_AT] + 2 * cluster] >= 0:
            _launch(ints, cluster)
        occupied = ints[ints[m.CAPABILITY_AT] + cluster] - ints[ints[m.FREE_AT] + cluster]
        ints[m.BUSY_STEPS] += occupied
        at = history + cluster * m.LAGS
        ints[ints[m.OCCUPIED_AT] + cluster] += occupied - ints[at]
        ints[at] = occupied


@compiled(types.int64(INTS, FLOATS, FLOATS))
def advance(ints, floats, terms):  # type: ignore[no-untyped-def]
    """Finish the present step and pass to the next step with a nonempty pool, or to the end.

    Adds positive costs to terms (3,) and returns the status.
    """
    status = k.RUNNING
    while status == k.RUNNING:
        _launch_and_record(ints)
        ints[m.NOW] += 1
        ints[m.SLOT] = _slot_in(ints, 1)
        ints[m.LAG] = ints[m.LAG] + 1 if ints[m.LAG] < m.LAGS - 1 else 0
        _release(ints, floats, terms)
        if ints[m.FINISHED] == ints[m.APPLICATIONS]:
            status = k.TERMINATED
        elif ints[m.NOW] >= ints[m.LIMIT]:
            status = k.TRUNCATED
        else:
            _queue_due(ints)
            arrive(ints)
            if ints[m.POOL] > 0:
                break
    floats[k.TIME] = ints[m.NOW]
    return status


@compiled(types.void(INTS, types.int64, types.int64))
def _deploy(ints, position, cluster):  # type: ignore[no-untyped-def]
    """Take an application out of the pool and queue its first run in a cluster."""
    pooled = ints[m.POOLED_AT]
    application = ints[pooled + position]
    ints[m.POOL] -= 1
    for i in range(position, ints[m.POOL]):
        ints[pooled + i] = ints[pooled + i + 1]
    ints[ints[m.ORDER_AT] + ints[m.DEPLOYED]] = application
    ints[m.DEPLOYED] += 1
    ints[ints[m.CLUSTER_AT] + application] = cluster
    ints[ints[m.DEPLOYED_AT] + application] = ints[m.NOW]
    ints[ints[m.MISSES_BEFORE_AT] + application] = ints[m.MISSES]
    _queue_run(ints, application)


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Deploy the pair in row `choice` of the last observation; pass to the next decision."""
    clusters = ints[m.CLUSTERS]
    if choice < 0 or choice >= ints[m.POOL] * clusters:
        return k.INFEASIBLE
    before = ints[m.NOW]
    position = choice // clusters
    _deploy(ints, position, choice - position * clusters)
    terms = step_outputs[k.TERMS : k.TERMS + len(TERM)]
    terms[:] = 0.0
    status = advance(ints, floats, terms)
    step_outputs[k.ELAPSED] = floats[m.CARRIED] + (ints[m.NOW] - before)
    floats[m.CARRIED] = 0.0
    for term in range(len(TERM)):
        terms[term] = 0.0 - terms[term]  # unlike -x, this keeps a zero +0.0
    step_outputs[k.REWARD] = terms[ints[m.OBJECTIVE]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec. Runs that have not completed count nothing.

    The lower bound holds for episodes in which every application finishes. It is 0 in a truncated
    episode, because the runs that are missing there cost nothing.
    """
    applications = ints[m.APPLICATIONS]
    percent = waited = 0.0
    for application in range(applications):
        execution = ints[ints[m.EXECUTION_AT] + application]
        done, runs = ints[ints[m.DONE_AT] + application], ints[ints[m.RUNS_AT] + application]
        delay = ints[ints[m.ACTUAL_AT] + application] - done * execution
        percent += 100.0 * delay / (execution * runs)
        deployed = ints[ints[m.DEPLOYED_AT] + application]
        if deployed >= 0:
            waited += deployed - ints[ints[m.ARRIVAL_AT] + application]
    executors = 0
    for cluster in range(ints[m.CLUSTERS]):
        executors += ints[ints[m.CAPABILITY_AT] + cluster]
    misses, critical = ints[m.MISSES], ints[m.CRITICAL_COMPLETED]
    outcomes[OUT.eval_cost] = EVAL_MISS * misses + percent / applications
    outcomes[OUT.tmdl] = misses
    outcomes[OUT.ajdr_percent] = percent / applications
    outcomes[OUT.missed_share] = misses / max(critical, 1)
    outcomes[OUT.critical_runs] = critical
    outcomes[OUT.runs] = ints[m.RUNS_COMPLETED]
    outcomes[OUT.mean_pool_wait_s] = waited / max(ints[m.DEPLOYED], 1)
    outcomes[OUT.utilisation] = ints[m.BUSY_STEPS] / (executors * max(ints[m.NOW], 1))
    outcomes[OUT.length_s] = ints[m.NOW]
    unfinished = applications - ints[m.FINISHED]
    outcomes[OUT.eval_cost_lower_bound] = floats[m.LOWER_BOUND] if unfinished == 0 else 0.0
    outcomes[OUT.unfinished] = unfinished


@compiled(OUTCOME)
def values(ints, floats, out):  # type: ignore[no-untyped-def]
    """Fill out[i] with the Monte-Carlo value of the i-th deployment, after the episode is over.

    If the episode was truncated, an application that has not ended sees all misses up to now. Runs
    that have not completed count nothing, so that the values add up to the rewards of
    `misses_and_delay`.
    """
    for i in range(ints[m.DEPLOYED]):
        application = ints[ints[m.ORDER_AT] + i]
        own_misses = ints[ints[m.MISSED_AT] + application]
        until = ints[ints[m.MISSES_UNTIL_AT] + application]
        if until < 0:
            until = ints[m.MISSES]
        after = until - ints[ints[m.MISSES_BEFORE_AT] + application]
        if ints[m.OWN] == 0:
            after -= own_misses
        optimal = ints[ints[m.EXECUTION_AT] + application] * ints[ints[m.RUNS_AT] + application]
        delay = ints[ints[m.ACTUAL_AT] + application] / optimal
        out[i] = 0.0 - (  # unlike -x, this keeps a zero +0.0
            floats[m.MISS_WEIGHT] * own_misses
            + floats[m.LATER_WEIGHT] * after
            + floats[m.DELAY_WEIGHT] * delay
        )
