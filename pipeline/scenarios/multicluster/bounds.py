"""Bounds of `multicluster`: the least delay of any policy, and the largest pool."""

import heapq

from hindcast.pipeline.scenarios.multicluster.instances import Applications


def delay_bound(applications: Applications) -> float:
    """Return a lower bound of AJDR in percent: the waiting that one deployment per step forces.

    Even with unlimited executors, deploying application i after w_i steps costs w_i / (s_i * k_i)
    of its mean relative delay. The least sum over all orders is a schedule of unit jobs with
    release dates that minimises weighted completion time. Deploying the heaviest application of
    the pool at every step attains it: exchanging a later, heavier application for an earlier,
    lighter one never costs.
    """
    weights = 1.0 / (applications.execution * applications.runs)
    arrival, j = applications.arrival, len(applications.arrival)
    pool: list[tuple[float, int]] = []
    total, now, arrived = 0.0, 0, 0
    while pool or arrived < j:
        now = now if pool else max(now, int(arrival[arrived]))
        while arrived < j and arrival[arrived] <= now:
            heapq.heappush(pool, (-float(weights[arrived]), arrived))
            arrived += 1
        weight, application = heapq.heappop(pool)
        total -= weight * (now - int(arrival[application]))
        now += 1
    return 100.0 * total / j


def most_pooled(applications: Applications) -> int:
    """Return the largest size of the pool, which does not depend on the deployments."""
    arrival, j = applications.arrival, len(applications.arrival)
    largest = free_from = 0
    waiting_since = 0  # index of the first application that has not been deployed by now
    leaves = []
    for at in arrival:
        free_from = max(free_from, int(at))
        leaves.append(free_from)  # the step at which the pool's size falls by one for this arrival
        free_from += 1
    for i in range(j):
        while leaves[waiting_since] < arrival[i]:
            waiting_since += 1
        largest = max(largest, i + 1 - waiting_since)
    return largest
