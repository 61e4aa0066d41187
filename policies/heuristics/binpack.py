"""Rules for `binpack`, compiled; candidates are (machine, task) pairs, machine-major.

The wait row (machine -1), where there is
one, is never preferred. Source of tetris: Grandl et al., "Multi-Resource Packing for Cluster
Schedulers", SIGCOMM 2014; of the `_reference` rules: the simulator published with DeepJS.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from pipeline.scenarios.binpack.features import MOMENT, ROW
from pipeline.simulation.kernel import SCORE, compiled
from pipeline.simulation.policy import Heuristic

REFERENCE_TAKE: Final = 0.2  # probability with which the reference's random rule takes a pair


@compiled(SCORE)
def _first_fit(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The first machine on which anything fits, with its first fitting task."""
    for i in range(len(scores)):
        scores[i] = -i


@compiled(SCORE)
def _first_fit_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The last machine on which anything fits, with its first fitting task."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.machine]


@compiled(SCORE)
def _best_fit(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The pair with the least largest normalised leftover."""
    for i in range(len(scores)):
        cores = (candidates[i, ROW.free_cores] - candidates[i, ROW.cores]) / context[
            MOMENT.machine_cores
        ]
        memory = (candidates[i, ROW.free_memory] - candidates[i, ROW.memory]) / context[
            MOMENT.machine_memory
        ]
        scores[i] = -max(cores, memory) if candidates[i, ROW.machine] >= 0 else -np.inf


@compiled(SCORE)
def _tetris(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The highest dot product of request and free resources, both in machines."""
    cores = 1.0 / context[MOMENT.machine_cores] ** 2
    memory = 1.0 / context[MOMENT.machine_memory] ** 2
    for i in range(len(scores)):
        scores[i] = (
            candidates[i, ROW.free_cores] * candidates[i, ROW.cores] * cores
            + candidates[i, ROW.free_memory] * candidates[i, ROW.memory] * memory
        )


@compiled(SCORE)
def _tetris_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The raw dot product: memory, a fraction, hardly counts beside cores."""
    for i in range(len(scores)):
        scores[i] = (
            candidates[i, ROW.free_cores] * candidates[i, ROW.cores]
            + candidates[i, ROW.free_memory] * candidates[i, ROW.memory]
        )


@compiled(SCORE)
def _shortest_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The task with the shortest duration."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.duration_s] if candidates[i, ROW.machine] >= 0 else -np.inf


@compiled(SCORE)
def _longest_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The task with the longest duration."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.duration_s]


@compiled(SCORE)
def _longest_spread(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The longest task, on the machine with the most free (cores + memory, in machines)."""
    longest = 0.0
    for i in range(len(scores)):
        longest = max(longest, candidates[i, ROW.duration_s])
    for i in range(len(scores)):
        if candidates[i, ROW.duration_s] == longest:
            scores[i] = (
                candidates[i, ROW.free_cores] / context[MOMENT.machine_cores]
                + candidates[i, ROW.free_memory] / context[MOMENT.machine_memory]
            )
        else:
            scores[i] = candidates[i, ROW.duration_s] - longest - 1.0


@compiled(SCORE)
def _most_instances_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The task with the most unplaced instances."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.unplaced]


@compiled(SCORE)
def _random_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Log-probabilities of the reference's random rule (to be used with temperature 1).

    Machines in order, each machine's pairs in order, each taken with probability .2 and then on
    to the next machine; a later machine's hit overrides; without a hit, uniform over all pairs.
    """
    n = len(scores)
    pairs = 0
    for i in range(n):
        pairs += candidates[i, ROW.machine] >= 0
    miss_all = (1.0 - REFERENCE_TAKE) ** pairs
    later_miss = 1.0  # probability that no later machine hits
    end = pairs
    while end > 0:
        start = end - 1
        while start > 0 and candidates[start - 1, ROW.machine] == candidates[end - 1, ROW.machine]:
            start -= 1
        reach = later_miss
        for i in range(start, end):
            scores[i] = np.log(reach * REFERENCE_TAKE + miss_all / pairs)
            reach *= 1.0 - REFERENCE_TAKE
        later_miss = reach
        end = start
    for i in range(pairs, n):
        scores[i] = -np.inf


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    "first_fit": Heuristic("first_fit", _first_fit),
    "first_fit_reference": Heuristic("first_fit_reference", _first_fit_reference),
    "best_fit": Heuristic("best_fit", _best_fit),
    "tetris": Heuristic("tetris", _tetris),
    "tetris_reference": Heuristic("tetris_reference", _tetris_reference),
    "shortest_first": Heuristic("shortest_first", _shortest_first),
    "longest_first": Heuristic("longest_first", _longest_first),
    "longest_spread": Heuristic("longest_spread", _longest_spread),
    "most_instances_first": Heuristic("most_instances_first", _most_instances_first),
    "random_reference": Heuristic("random_reference", _random_reference),
}
