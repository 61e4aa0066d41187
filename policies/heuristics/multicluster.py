"""Rules for `multicluster`, compiled; candidates are (application, cluster) pairs.

Each rule takes an application and then a cluster for it; ties go to the application that arrived
first and to the first cluster, which is the order of the rows.

    sf_p, lf_p      smallest or largest n; the lowest mean occupation over the last 100 steps
    sf_e, lf_e      smallest or largest n; the most free executors, mean over the last 100 steps
    most_free_now   smallest n; the most free executors less queued tasks at this moment
    least_slack     the time-critical application nearest to its deadline, those without one or too
                    late for theirs last; cluster as most_free_now
    urgent_first    those for which the next step is too late, then critical, regular, streaming
                    (whose many runs a step of waiting delays least); cluster as most_free_now

Source of the first four: Liu et al., see pipeline.scenarios.multicluster; the others are ours. The
last two are better than most_free_now on TMDL and on AJDR, because smallest n first lets streaming
applications go ahead of everything that a step of waiting costs more.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.multicluster.features import ROW
from pipeline.scenarios.multicluster.instances import CRITICAL, REGULAR, STREAMING
from pipeline.simulation.kernel import FLOATS, ROWS, SCORE, Compiled, compiled
from pipeline.simulation.policy import Heuristic

_EXECUTORS: Final = 1000.0  # unit of free and queued, which are whole numbers of executors
_STEPS: Final = 100.0  # unit of execution, deadline and age
_OTHERS: Final = -1e9  # below the score of every cluster
_ORDER: Final = 1e9  # what a whole rank weighs against the score of a cluster


@compiled(types.void(ROWS, types.float64, FLOATS))
def _keep_first_by_tasks(candidates, sign, scores):  # type: ignore[no-untyped-def]
    """Put applications with other than the least sign * n below all scores, in that order."""
    least = np.inf
    for i in range(len(scores)):
        least = min(least, sign * candidates[i, ROW.tasks])
    for i in range(len(scores)):
        if sign * candidates[i, ROW.tasks] > least:
            scores[i] = _OTHERS - (sign * candidates[i, ROW.tasks] - least)


def _by_tasks(sign: float, column: int, direction: float) -> Compiled:
    """Return a rule: the least sign * n, then the highest direction * column."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        for i in range(len(scores)):
            scores[i] = direction * candidates[i, column]
        _keep_first_by_tasks(candidates, sign, scores)

    return score


@compiled(types.float64(ROWS, types.int64))
def _room(candidates, i):  # type: ignore[no-untyped-def]
    """Free executors less queued tasks of the row's cluster now.

    Rounded, because a difference of thousandths is not exact and ties matter.
    """
    return np.rint(_EXECUTORS * (candidates[i, ROW.free] - candidates[i, ROW.queued]))


@compiled(types.float64(ROWS, types.int64))
def _slack(candidates, i):  # type: ignore[no-untyped-def]
    """Steps that the row's application can still wait and meet its deadline; < 0: too late."""
    spent = candidates[i, ROW.execution] + candidates[i, ROW.age]
    return _STEPS * (candidates[i, ROW.deadline] - spent)


@compiled(SCORE)
def _most_free_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Smallest n, most free executors less queued tasks."""
    for i in range(len(scores)):
        scores[i] = _room(candidates, i)
    _keep_first_by_tasks(candidates, 1.0, scores)


@compiled(SCORE)
def _least_slack(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Least slack, most free executors less queued tasks."""
    for i in range(len(scores)):
        slack = _slack(candidates, i)
        critical = candidates[i, ROW.category] > REGULAR and slack >= 0.0
        scores[i] = _room(candidates, i) - _ORDER * (slack if critical else _STEPS)


@compiled(SCORE)
def _urgent_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Urgent, critical, regular, streaming; most free executors less queued tasks."""
    for i in range(len(scores)):
        slack = _slack(candidates, i)
        category = candidates[i, ROW.category]
        if category > REGULAR and 0.0 <= slack < 1.0:
            rank = 0.0
        elif category == CRITICAL and slack >= 0.0:
            rank = 1.0
        else:
            rank = 3.0 if category == STREAMING else 2.0
        scores[i] = _room(candidates, i) - _ORDER * rank


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    "sf_p": Heuristic("sf_p", _by_tasks(1.0, ROW.mean_occupation, -1.0)),
    "lf_p": Heuristic("lf_p", _by_tasks(-1.0, ROW.mean_occupation, -1.0)),
    "sf_e": Heuristic("sf_e", _by_tasks(1.0, ROW.mean_free, 1.0)),
    "lf_e": Heuristic("lf_e", _by_tasks(-1.0, ROW.mean_free, 1.0)),
    "most_free_now": Heuristic("most_free_now", _most_free_now),
    "least_slack": Heuristic("least_slack", _least_slack),
    "urgent_first": Heuristic("urgent_first", _urgent_first),
}
