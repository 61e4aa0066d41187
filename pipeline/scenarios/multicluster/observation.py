"""Compiled observation of `multicluster`: the clusters, and every pair of the pool."""

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.features import MOMENT, ROW
from hindcast.pipeline.scenarios.multicluster.foresight import write_foresight
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import OBSERVE, compiled


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the past and present of the clusters, and every pair of the pool, all feasible."""
    clusters, pool, now = ints[m.CLUSTERS], ints[m.POOL], ints[m.NOW]
    ints[k.FRESH] = 1
    recorded = min(now, m.LAGS)
    newest = ints[m.LAG] - 1 if ints[m.LAG] > 0 else m.LAGS - 1
    for cluster in range(clusters):
        capability, free = ints[ints[m.CAPABILITY_AT] + cluster], ints[ints[m.FREE_AT] + cluster]
        at = cluster * len(MOMENT)
        context[at + MOMENT.cluster0_index] = cluster / 10.0
        context[at + MOMENT.cluster0_capability] = capability / 1000.0
        first = at + MOMENT.cluster0_occupation_1
        occupation = context[first : first + m.LAGS]
        history = ints[
            ints[m.HISTORY_AT] + cluster * m.LAGS : ints[m.HISTORY_AT] + (cluster + 1) * m.LAGS
        ]
        for lag in range(newest + 1):
            occupation[lag] = history[newest - lag] / capability
        for lag in range(newest + 1, m.LAGS):
            occupation[lag] = history[newest + m.LAGS - lag] / capability
        context[at + MOMENT.cluster0_missed] = ints[ints[m.CLUSTER_MISSES_AT] + cluster] / 100.0
        occupied = ints[ints[m.OCCUPIED_AT] + cluster]
        offered = capability * recorded
        mean_free = (offered - occupied) / recorded if recorded > 0 else float(capability)
        mean_occupation = occupied / offered if recorded > 0 else 0.0
        for position in range(pool):
            row = position * clusters + cluster
            candidates[row, ROW.cluster] = cluster
            candidates[row, ROW.capability] = capability / 1000.0
            candidates[row, ROW.free] = free / 1000.0
            candidates[row, ROW.queued] = ints[ints[m.QUEUED_AT] + cluster] / 1000.0
            candidates[row, ROW.mean_free] = mean_free / 1000.0
            candidates[row, ROW.mean_occupation] = mean_occupation
    for position in range(pool):
        application = ints[ints[m.POOLED_AT] + position]
        at = ints[m.ROWS_AT] + application * m.SHOWN
        features = floats[at : at + m.SHOWN]
        age = (now - ints[ints[m.ARRIVAL_AT] + application]) / 100.0
        for row in range(position * clusters, (position + 1) * clusters):
            for column in range(m.SHOWN):
                candidates[row, column] = features[column]
            candidates[row, ROW.age] = age
            feasible[row] = True
    if ints[m.FORESIGHT] == 1:
        write_foresight(ints, floats, candidates)
    return pool * clusters
