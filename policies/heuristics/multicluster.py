"""Compiled rules for `multicluster`; the candidates are (application, cluster) pairs.

Each rule chooses an application first and then a cluster for it. Ties go to the application that
arrived first and to the first cluster, which is the order of the rows. n is the number of tasks of
a run.

`sf_p`, `lf_p`, `sf_e` and `lf_e` are from Liu et al., see hindcast.pipeline.scenarios.multicluster.
The other rules are ours. `least_slack` and `urgent_first` beat `most_free_now` on both TMDL and
AJDR: smallest n first lets streaming applications, which have many runs and are delayed least by a
step of waiting, go ahead of applications to which that step costs more. For the same reason
`urgent_shortest` is better than `urgent_first`: a step of waiting is a larger share of a short run.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.multicluster.features import ROW
from hindcast.pipeline.scenarios.multicluster.instances import CRITICAL, REGULAR, STREAMING
from hindcast.pipeline.simulation.kernel import FLOATS, ROWS, SCORE, Compiled, compiled
from hindcast.pipeline.simulation.policy import Heuristic

_EXECUTORS: Final = 1000.0  # unit of free and queued, which are whole numbers of executors
_STEPS: Final = 100.0  # unit of execution, deadline and age
_OTHERS: Final = -1e9  # lower than the score of every cluster
_ORDER: Final = 1e9  # weight of a whole rank against the score of a cluster
_LONGEST: Final = 1e6  # steps; a longer execution counts as this, so that scores are exact


@compiled(types.void(ROWS, types.float64, FLOATS))
def _keep_first_by_tasks(candidates, sign, scores):  # type: ignore[no-untyped-def]
    """Move applications with more than the least sign * n below all others, by sign * n."""
    least = np.inf
    for i in range(len(scores)):
        least = min(least, sign * candidates[i, ROW.tasks])
    for i in range(len(scores)):
        if sign * candidates[i, ROW.tasks] > least:
            scores[i] = _OTHERS - (sign * candidates[i, ROW.tasks] - least)


def _by_tasks(sign: float, column: int, direction: float) -> Compiled:
    """Return the rule that prefers the least sign * n, then the highest direction * column."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        for i in range(len(scores)):
            scores[i] = direction * candidates[i, column]
        _keep_first_by_tasks(candidates, sign, scores)

    return score


@compiled(types.float64(ROWS, types.int64))
def _room(candidates, i):  # type: ignore[no-untyped-def]
    """Return the free executors less the queued tasks of the row's cluster now.

    The difference is rounded: thousandths are not exact, and ties matter.
    """
    return np.rint(_EXECUTORS * (candidates[i, ROW.free] - candidates[i, ROW.queued]))


@compiled(types.float64(ROWS, types.int64))
def _slack(candidates, i):  # type: ignore[no-untyped-def]
    """Return the steps that the row's application can wait and be in time; < 0 if late."""
    least_run_time = candidates[i, ROW.execution] + candidates[i, ROW.age]
    return _STEPS * (candidates[i, ROW.deadline] - least_run_time)


@compiled(SCORE)
def _most_free_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _room(candidates, i)
    _keep_first_by_tasks(candidates, 1.0, scores)


@compiled(SCORE)
def _least_slack(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        slack = _slack(candidates, i)
        critical = candidates[i, ROW.category] > REGULAR and slack >= 0.0
        scores[i] = _room(candidates, i) - _ORDER * (slack if critical else _STEPS)


@compiled(types.float64(ROWS, types.int64))
def _tier(candidates, i):  # type: ignore[no-untyped-def]
    """Return 0 if the row's application must start now to meet its deadline, else its class.

    1 is time-critical, 2 regular or late, 3 streaming.
    """
    slack = _slack(candidates, i)
    category = candidates[i, ROW.category]
    if category > REGULAR and 0.0 <= slack < 1.0:
        return 0.0
    if category == CRITICAL and slack >= 0.0:
        return 1.0
    return 3.0 if category == STREAMING else 2.0


@compiled(SCORE)
def _urgent_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _room(candidates, i) - _ORDER * _tier(candidates, i)


@compiled(SCORE)
def _urgent_shortest(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        execution = min(np.rint(_STEPS * candidates[i, ROW.execution]), _LONGEST)
        order = _LONGEST * _tier(candidates, i) + execution
        scores[i] = _room(candidates, i) - _ORDER * order


_RULES: Final = (
    Heuristic(
        "sf_p", _by_tasks(1.0, ROW.mean_occupation, -1.0),
        description="the application with the fewest tasks, on the cluster with the lowest "
            "occupation over 100 steps",
        formula="-mean_occupation among the applications with the fewest tasks; the others lie "
            "below, by tasks",
    ),
    Heuristic(
        "lf_p", _by_tasks(-1.0, ROW.mean_occupation, -1.0),
        description="the application with the most tasks, on the cluster with the lowest "
            "occupation over 100 steps",
        formula="-mean_occupation among the applications with the most tasks; the others lie "
            "below, by tasks",
    ),
    Heuristic(
        "sf_e", _by_tasks(1.0, ROW.mean_free, 1.0),
        description="the application with the fewest tasks, on the cluster with the most free "
            "executors over 100 steps",
        formula="mean_free among the applications with the fewest tasks; the others lie below, "
            "by tasks",
    ),
    Heuristic(
        "lf_e", _by_tasks(-1.0, ROW.mean_free, 1.0),
        description="the application with the most tasks, on the cluster with the most free "
            "executors over 100 steps",
        formula="mean_free among the applications with the most tasks; the others lie below, by "
            "tasks",
    ),
    Heuristic(
        "most_free_now", _most_free_now,
        description="the application with the fewest tasks, on the cluster with the most free "
            "executors less queued tasks now",
        formula="1000 * (free - queued) among the applications with the fewest tasks; the others "
            "lie below, by tasks",
    ),
    Heuristic(
        "least_slack", _least_slack,
        description="the application nearest to a deadline that it can still meet, on the "
            "cluster as most_free_now",
        formula="1000 * (free - queued) - 1e9 * slack; slack = 100 * (deadline - execution - "
            "age), 100 without a deadline or if late",
    ),
    Heuristic(
        "urgent_first", _urgent_first,
        description="applications that must start now to meet their deadline, then "
            "time-critical, regular and streaming ones, on the cluster as most_free_now",
        formula="1000 * (free - queued) - 1e9 * rank; rank 0 if 0 <= slack < 1, 1 if "
            "time-critical, 2 if regular or late, 3 if streaming",
    ),
    Heuristic(
        "urgent_shortest", _urgent_shortest,
        description="as urgent_first, but of the applications of a rank the one with the shortest "
            "tasks",
        formula="1000 * (free - queued) - 1e9 * (1e6 * rank + steps); rank as in urgent_first, "
            "steps = 100 * execution, at most 1e6",
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {rule.name: rule for rule in _RULES}
