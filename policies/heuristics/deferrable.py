"""Rules for `deferrable`, compiled.

`fifo`, `sjf` and `tetris` are the published baselines: they order the startable jobs and start the
longest prefix that fits (pipeline.scenarios.deferrable.slotwise_action). The others are ours and
skip what does not fit; all of them are functions of one decision's observation.

Source of tetris: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014,
which with one resource is "the largest request first".
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.deferrable.features import MOMENT, ROW
from pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit
from pipeline.simulation.kernel import FLOATS, MASK, ROWS, SCORE, compiled
from pipeline.simulation.policy import Heuristic

LATER_SLOT: Final = 0.3  # what a slot after the first is worth, of 1, to knapsack_patient
WAITING: Final = 0.5  # share of a job's later pay that it takes off where the job can wait


@compiled(types.float64(FLOATS, FLOATS))
def _gain(context, row):  # type: ignore[no-untyped-def]
    """What starting a job now pays."""
    return row[ROW.cores] * row[ROW.duration] + context[MOMENT.delay_weight] * min(
        row[ROW.until_earliest], 0.0
    )


@compiled(SCORE)
def _fifo(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The job submitted first; the slot ends at the first that does not fit."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.since_submission]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _sjf(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The shortest job; the slot ends at the first that does not fit."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.duration]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _tetris(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The job with the most cores; the slot ends at the first that does not fit."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.cores]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _fifo_skip(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Of the jobs that fit, the one that could start earliest."""
    for i in range(len(scores)):
        startable = candidates[i, ROW.is_startable] == 1.0
        scores[i] = 1.0 - candidates[i, ROW.until_earliest] if startable else 0.0


@compiled(SCORE)
def _largest_skip(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Of the jobs that fit, the one that pays most: c d - w1 (t - e)."""
    for i in range(len(scores)):
        startable = candidates[i, ROW.is_startable] == 1.0
        scores[i] = _gain(context, candidates[i]) if startable else 0.0


@compiled(types.void(types.int64, ROWS, MASK, FLOATS, FLOATS))
def choose_set(free, candidates, feasible, gains, scores):  # type: ignore[no-untyped-def]
    """Score the rows of the exact 0/1 knapsack with their gain, the close row 0, the others -1.

    gains (N,): what a row is worth; only feasible rows with a gain above 0 can be chosen.
    """
    n = len(scores)
    items = np.empty(n, np.int64)
    k = 0
    for i in range(n - 1):
        scores[i] = -1.0
        if feasible[i] and gains[i] > 0.0:
            items[k] = i
            k += 1
    scores[n - 1] = 0.0
    best = np.zeros(free + 1)  # highest sum of gains within so many cores, of the items seen
    taken = np.zeros((k, free + 1), np.bool_)
    for j in range(k):
        cores = int(np.ceil(candidates[items[j], ROW.cores]))
        for room in range(free, cores - 1, -1):
            value = best[room - cores] + gains[items[j]]
            if value > best[room]:
                best[room] = value
                taken[j, room] = True
    room = free
    for j in range(k - 1, -1, -1):
        if taken[j, room]:
            scores[items[j]] = gains[items[j]]
            room -= int(np.ceil(candidates[items[j], ROW.cores]))


@compiled(SCORE)
def _knapsack(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The jobs that together pay most now, c d - w1 (t - e), within what is free."""
    gains = np.empty(len(scores))
    for i in range(len(scores)):
        gains[i] = _gain(context, candidates[i])
    choose_set(max(0, int(context[MOMENT.free_cores])), candidates, feasible, gains, scores)


@compiled(SCORE)
def _knapsack_patient(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The knapsack with an eye on tomorrow: later slots count less, and so do jobs that can wait.

    A job pays the same per core-slot however long it runs, so a slot held later, which another
    job may want, is counted with LATER_SLOT; and of a job that could also start in the next slot
    WAITING times what it would pay then is taken off.
    """
    gains = np.empty(len(scores))
    for i in range(len(scores)):
        row = candidates[i]
        gain = _gain(context, row) - (1.0 - LATER_SLOT) * row[ROW.cores] * (row[ROW.duration] - 1.0)
        if row[ROW.until_latest] > 0.0:
            gain -= WAITING * max(0.0, gain - context[MOMENT.delay_weight])
        gains[i] = gain
    choose_set(max(0, int(context[MOMENT.free_cores])), candidates, feasible, gains, scores)


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    "fifo": Heuristic("fifo", _fifo),
    "sjf": Heuristic("sjf", _sjf),
    "tetris": Heuristic("tetris", _tetris),
    "fifo_skip": Heuristic("fifo_skip", _fifo_skip),
    "largest_skip": Heuristic("largest_skip", _largest_skip),
    "knapsack": Heuristic("knapsack", _knapsack),
    "knapsack_patient": Heuristic("knapsack_patient", _knapsack_patient),
}
