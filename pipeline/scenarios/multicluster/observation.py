"""What a `multicluster` observation shows: names, units, ranges, and the compiled `observe`.

    context     per cluster: index, capability, occupation 1 .. 100 steps ago, missed deadlines
    candidates  (application, cluster) pairs of the pool, application-major

Numbers are in units that bring all of them to the order of one: hundreds of steps, thousands of
executors. Occupation and profile are fractions.
"""

from typing import Final

import numpy as np

from pipeline.scenarios.multicluster.layout import (
    ARRIVAL_AT,
    BINS,
    CAPABILITY_AT,
    CLUSTER_MISSES_AT,
    CLUSTERS,
    FREE_AT,
    HISTORY_AT,
    LAG,
    LAGS,
    NOW,
    OCCUPIED_AT,
    POOL,
    POOLED_AT,
    QUEUED_AT,
    ROWS_AT,
    SHOWN,
)
from pipeline.simulation.kernel import FRESH, OBSERVE, compiled
from pipeline.simulation.spec import Feature

CLUSTER_FEATURES: Final = LAGS + 3  # of the context, per cluster


def context_features(clusters: int) -> tuple[Feature, ...]:
    """The 103 numbers of every cluster, cluster by cluster."""
    features: list[Feature] = []
    for c in range(clusters):
        features += [
            Feature(f"cluster{c}_index", "10 clusters", 0, np.inf, "its number"),
            Feature(f"cluster{c}_capability", "1000 executors", 0, np.inf, "executors it has"),
        ]
        features += [
            Feature(f"cluster{c}_occupation_{lag}", "fraction", 0, 1,
                    f"occupied executors {lag} steps ago; 0 before the episode")
            for lag in range(1, LAGS + 1)
        ]  # fmt: skip
        features.append(
            Feature(f"cluster{c}_missed", "100 runs", 0, np.inf, "deadlines missed so far")
        )
    return tuple(features)


CANDIDATES: Final = (
    Feature("category", "category", 0, 2, "0 regular, 1 time-critical, 2 streaming"),
    *(
        Feature(f"profile_{b}", "fraction", 0, 1, f"probability that a batch needs {f:.2f} n",
                scale=0.1)
        for b, f in enumerate(np.linspace(0.55, 1.45, BINS))
    ),
    Feature("execution", "100 steps", 0, np.inf, "steps of one task", scale=0.4),
    Feature("deadline", "100 steps", 0, np.inf, "steps a run may take; 0: no deadline", scale=0.4),
    Feature("duration", "1000 steps", 0, np.inf, "batches times period, or steps of one task"),
    Feature("tasks", "100 tasks", 0, np.inf, "n, tasks of a run"),
    Feature("age", "100 steps", 0, np.inf, "steps in the pool so far", scale=0.02),
    Feature("cluster", "index", 0, np.inf, "which cluster", identifier=True),
    Feature("capability", "1000 executors", 0, np.inf, "executors of the cluster"),
    Feature("free", "1000 executors", 0, np.inf, "of these, free now", scale=0.3),
    Feature("queued", "1000 tasks", 0, np.inf, "tasks that wait in the cluster", scale=0.1),
    Feature("mean_free", "1000 executors", 0, np.inf, "free, mean over the last 100 steps",
            scale=0.3),
    Feature("mean_occupation", "fraction", 0, 1, "occupied, mean over the last 100 steps"),
)  # fmt: skip

# Columns of a candidate; 0..SHOWN-1 are the application's own.
CATEGORY: Final = 0
PROFILE: Final = 1
EXECUTION: Final = BINS + 1
DEADLINE: Final = BINS + 2
DURATION: Final = BINS + 3
TASKS: Final = BINS + 4
AGE: Final = SHOWN
CLUSTER: Final = SHOWN + 1
CAPABILITY: Final = SHOWN + 2
FREE: Final = SHOWN + 3
QUEUED: Final = SHOWN + 4
MEAN_FREE: Final = SHOWN + 5
MEAN_OCCUPATION: Final = SHOWN + 6


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """The clusters' past and present, and every pair of the pool; all of them are feasible."""
    clusters, pool, now = ints[CLUSTERS], ints[POOL], ints[NOW]
    ints[FRESH] = 1
    recorded = min(now, LAGS)
    newest = ints[LAG] - 1 if ints[LAG] > 0 else LAGS - 1
    for cluster in range(clusters):
        capability, free = ints[ints[CAPABILITY_AT] + cluster], ints[ints[FREE_AT] + cluster]
        at = cluster * CLUSTER_FEATURES
        context[at] = cluster / 10.0
        context[at + 1] = capability / 1000.0
        shown = context[at + 2 : at + 2 + LAGS]
        history = ints[ints[HISTORY_AT] + cluster * LAGS : ints[HISTORY_AT] + (cluster + 1) * LAGS]
        for lag in range(newest + 1):
            shown[lag] = history[newest - lag] / capability
        for lag in range(newest + 1, LAGS):
            shown[lag] = history[newest + LAGS - lag] / capability
        context[at + 2 + LAGS] = ints[ints[CLUSTER_MISSES_AT] + cluster] / 100.0
        occupied = ints[ints[OCCUPIED_AT] + cluster]
        offered = capability * recorded
        mean_free = (offered - occupied) / recorded if recorded > 0 else float(capability)
        mean_occupation = occupied / offered if recorded > 0 else 0.0
        for position in range(pool):
            row = position * clusters + cluster
            candidates[row, CLUSTER] = cluster
            candidates[row, CAPABILITY] = capability / 1000.0
            candidates[row, FREE] = free / 1000.0
            candidates[row, QUEUED] = ints[ints[QUEUED_AT] + cluster] / 1000.0
            candidates[row, MEAN_FREE] = mean_free / 1000.0
            candidates[row, MEAN_OCCUPATION] = mean_occupation
    for position in range(pool):
        application = ints[ints[POOLED_AT] + position]
        at = ints[ROWS_AT] + application * SHOWN
        own = floats[at : at + SHOWN]
        age = (now - ints[ints[ARRIVAL_AT] + application]) / 100.0
        for row in range(position * clusters, (position + 1) * clusters):
            for column in range(SHOWN):
                candidates[row, column] = own[column]
            candidates[row, AGE] = age
            feasible[row] = True
    return pool * clusters
