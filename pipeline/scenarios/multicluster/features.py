"""Names of the features, reward terms and outcomes of `multicluster`, and their indices in arrays.

    context     per cluster: index, capability, occupation 1 .. 100 steps ago, missed deadlines
    candidates  (application, cluster) pairs of the pool, by application, then by cluster; the
                columns of `foresight` come last

Units bring all numbers to the order of one: hundreds of steps, thousands of executors. Occupation
and profile are fractions.
"""

from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("misses_and_delay", "misses", "delay")


def context_features(clusters: int) -> tuple[Feature, ...]:
    """Return the 103 features of every cluster, cluster by cluster."""
    features: list[Feature] = []
    for c in range(clusters):
        features += [
            Feature(f"cluster{c}_index", "10 clusters", 0, np.inf, "number of the cluster"),
            Feature(
                f"cluster{c}_capability", "1000 executors", 0, np.inf, "executors of the cluster"
            ),
        ]
        features += [
            Feature(f"cluster{c}_occupation_{lag}", "fraction", 0, 1,
                    f"share of the executors occupied {lag} steps ago; 0 before the episode")
            for lag in range(1, m.LAGS + 1)
        ]  # fmt: skip
        features.append(
            Feature(f"cluster{c}_missed", "100 runs", 0, np.inf, "deadlines missed in the cluster")
        )
    return tuple(features)


CANDIDATES: Final = (
    Feature("category", "category", 0, 2,
            "category of the application: 0 regular, 1 time-critical, 2 streaming"),
    *(
        Feature(f"profile_{b}", "fraction", 0, 1, f"probability that a batch needs {f:.2f} n tasks",
                scale=0.1)
        for b, f in enumerate(np.linspace(0.55, 1.45, m.BINS))
    ),
    Feature("execution", "100 steps", 0, np.inf, "steps of one task (s)", scale=0.4),
    Feature("deadline", "100 steps", 0, np.inf, "steps that a run may take; 0 without a deadline",
            scale=0.4),
    Feature("duration", "1000 steps", 0, np.inf,
            "batches times period; for an application with one run, steps of one task"),
    Feature("tasks", "100 tasks", 0, np.inf, "tasks of a run (n)"),
    Feature("age", "100 steps", 0, np.inf, "steps that the application has been in the pool",
            scale=0.02),
    Feature("cluster", "index", 0, np.inf, "number of the cluster", identifier=True),
    Feature("capability", "1000 executors", 0, np.inf, "executors of the cluster"),
    Feature("free", "1000 executors", 0, np.inf, "free executors of the cluster", scale=0.3),
    Feature("queued", "1000 tasks", 0, np.inf, "tasks that wait in the cluster", scale=0.1),
    Feature("mean_free", "1000 executors", 0, np.inf,
            "free executors of the cluster, mean over the last 100 steps",
            scale=0.3),
    Feature("mean_occupation", "fraction", 0, 1,
            "share of the cluster's executors occupied, mean over the last 100 steps"),
)  # fmt: skip

FORESIGHT: Final = (
    Feature("critical", "flag", 0, 1, "1 if the application is time-critical with one run"),
    Feature("streaming", "flag", 0, 1, "1 if the application is streaming"),
    Feature("due_now", "flag", 0, 1,
            "1 if the application meets its deadline only if it is deployed now"),
    Feature("late", "flag", 0, 1, "1 if the deadline of the application can no longer be met"),
    Feature("slack", "steps", 0, 5,
            "steps that the application can wait and still meet its deadline; 0 if late, 5 without "
            "a deadline"),
    Feature("tight_critical", "flag", 0, 1,
            "1 if the application is time-critical with one run, and a step lost by it or by the "
            "applications due before it causes a miss; these are D + 1 within steps 0 .. D"),
    Feature("tight_streaming", "flag", 0, 1, "as tight_critical, for a streaming application"),
    Feature("others_late", "applications", 0, np.inf,
            "other applications of the pool that will be late if this one is deployed now"),
    Feature("shorter", "applications", 0, np.inf,
            "applications of the pool with shorter tasks that are not streaming"),
    Feature("execution_streaming", "100 steps", -np.inf, np.inf,
            "steps of one task less the middle of their range; 0 unless streaming", scale=0.02),
    Feature("duration_streaming", "1000 steps", 0, np.inf,
            "duration; 0 unless streaming"),
    Feature("room_behind", "1000 executors", 0, np.inf,
            "free executors less queued tasks of the cluster, below those of the best cluster",
            scale=0.3),
    Feature("spare", "1000 executors", 0, np.inf,
            "free executors that the queued tasks and the application leave in the cluster",
            scale=0.3),
    Feature("short", "1000 tasks", 0, np.inf,
            "tasks of the application that find no executor in the cluster now", scale=0.1),
)  # fmt: skip

OUTCOMES: Final = (
    Outcome("eval_cost", "1", "1 / Eval = .02 * TMDL + AJDR"),
    Outcome("tmdl", "runs", "TMDL: runs that missed their deadline"),
    Outcome("ajdr_percent", "percent",
            "AJDR: 100 * (AR / OR - 1), mean over runs, then over applications"),
    Outcome("missed_share", "fraction",
            "share of the completed runs with a deadline that missed it"),
    Outcome("critical_runs", "runs", "completed runs with a deadline", "neither"),
    Outcome("runs", "runs", "completed runs", "neither"),
    Outcome("mean_pool_wait_s", "s",
            "deployment - arrival, mean over applications; the same for all policies", "neither"),
    Outcome("utilisation", "fraction", "executor-steps occupied divided by executor-steps offered",
            "neither"),
    Outcome("length_s", "s", "steps of the episode, of one second each", "neither"),
    Outcome("eval_cost_lower_bound", "1",
            "lower bound of eval_cost: the cost of unavoidable waiting in the pool", "neither"),
    Outcome("unfinished", "applications", "applications that did not finish"),
)  # fmt: skip

MOMENT: Final = columns(context_features(1))  # of cluster 0; those of the other clusters follow
ROW: Final = columns((*CANDIDATES, *FORESIGHT))
TERM: Final = columns(OBJECTIVES)
OUT: Final = columns(OUTCOMES)


def spec(config: MulticlusterConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="multicluster",
        objective=objective,
        context=context_features(len(config.clusters)),
        candidates=(*CANDIDATES, *FORESIGHT) if config.foresight else CANDIDATES,
        reward_terms=OBJECTIVES,
        outcomes=OUTCOMES,
        valued=True,
    )
