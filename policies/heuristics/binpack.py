"""Compiled rules for `binpack`; the candidates are (machine, task) pairs, machine by machine.

A setting may add a wait row (machine -1), which no rule prefers to a pair. Sources: `tetris` is
from Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014; the
`_reference` rules are those of the simulator published with DeepJS.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.binpack.features import MOMENT, ROW
from hindcast.pipeline.simulation.kernel import SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic

REFERENCE_TAKE: Final = 0.2  # probability with which the reference's random rule takes a pair


@compiled(SCORE)
def _first_fit(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -i


@compiled(SCORE)
def _first_fit_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.machine]


@compiled(SCORE)
def _best_fit(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
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
    cores = 1.0 / context[MOMENT.machine_cores] ** 2
    memory = 1.0 / context[MOMENT.machine_memory] ** 2
    for i in range(len(scores)):
        scores[i] = (
            candidates[i, ROW.free_cores] * candidates[i, ROW.cores] * cores
            + candidates[i, ROW.free_memory] * candidates[i, ROW.memory] * memory
        )


@compiled(SCORE)
def _tetris_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = (
            candidates[i, ROW.free_cores] * candidates[i, ROW.cores]
            + candidates[i, ROW.free_memory] * candidates[i, ROW.memory]
        )


@compiled(SCORE)
def _shortest_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.duration_s] if candidates[i, ROW.machine] >= 0 else -np.inf


@compiled(SCORE)
def _longest_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.duration_s]


@compiled(SCORE)
def _longest_spread(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
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
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.unplaced]


@compiled(SCORE)
def _random_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Fill the log-probabilities of the reference's random rule, to be used with temperature 1.

    The reference goes through the machines in order and through the pairs of each machine in order.
    It takes a pair with probability REFERENCE_TAKE and then moves on to the next machine, whose
    pair replaces an earlier one. If it takes no pair at all, it draws one of all pairs uniformly.
    """
    n = len(scores)
    pairs = 0
    for i in range(n):
        pairs += candidates[i, ROW.machine] >= 0
    miss_all = (1.0 - REFERENCE_TAKE) ** pairs
    later_miss = 1.0  # probability that no later machine takes a pair
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


_RULES: Final = (
    Heuristic(
        "first_fit", _first_fit,
        description="the first machine on which a task fits, with the first task that fits there",
        formula="-(row number)",
    ),
    Heuristic(
        "first_fit_reference", _first_fit_reference,
        description="the last machine on which a task fits, with the first task that fits there",
        formula="machine",
    ),
    Heuristic(
        "best_fit", _best_fit,
        description="the pair that leaves the smallest share of the machine free, by the larger "
            "of its two leftovers; never waits",
        formula="-max((free_cores - cores) / machine_cores, (free_memory - memory) / "
            "machine_memory)",
    ),
    Heuristic(
        "tetris", _tetris,
        description="the pair with the largest dot product of request and free resources, in "
            "fractions of a machine",
        formula="free_cores * cores / machine_cores^2 + free_memory * memory / machine_memory^2",
    ),
    Heuristic(
        "tetris_reference", _tetris_reference,
        description="as tetris in raw units, in which memory, a fraction, hardly counts beside "
            "cores",
        formula="free_cores * cores + free_memory * memory",
    ),
    Heuristic(
        "shortest_first", _shortest_first,
        description="the task with the shortest duration; never waits",
        formula="-duration_s",
    ),
    Heuristic(
        "longest_first", _longest_first,
        description="the task with the longest duration",
        formula="duration_s",
    ),
    Heuristic(
        "longest_spread", _longest_spread,
        description="the task with the longest duration, on the machine with the most free "
            "resources",
        formula="free_cores / machine_cores + free_memory / machine_memory; other tasks: "
            "duration_s - max(duration_s) - 1",
    ),
    Heuristic(
        "most_instances_first", _most_instances_first,
        description="the task with the most unplaced instances",
        formula="unplaced",
    ),
    Heuristic(
        "random_reference", _random_reference,
        description=f"random: each pair is taken with probability {REFERENCE_TAKE}, and of the "
            "machines the last with a taken pair wins",
        formula="log-probability of the pair, for temperature 1; uniform if no pair is taken",
        exploration=(0.0, 1.0),
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {rule.name: rule for rule in _RULES}
