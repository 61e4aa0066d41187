"""Compiled rules for `gpupack`; the candidates are distinct places of the arriving pod.

The published rules score nodes with whole numbers from 0 to 100, and ties go by the order of the
rows. The GPU of a share is the one with the least sufficient room, except for `random` and `fgd`.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, and its simulator, hkust-adsl/kubernetes-scheduler-simulator at
8f3d641. `fgd_unrounded`, `fit_starved`, `fit_starved_scarce` and `fit_starved_scarce_nodes` are
ours.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.gpupack.features import MOMENT, ROW
from hindcast.pipeline.simulation.kernel import SCORE, Floats, Rows, compiled
from hindcast.pipeline.simulation.policy import Heuristic

_FIT: Final = 0.1  # weight of what is left on the node, in GPUs
_FRAGMENTS: Final = 0.5  # these two were chosen on train lists and resampled ones, see docs
_NODES: Final = 1.5


@compiled()
def _leave_to_tightest(candidates: Rows, scores: Floats) -> None:
    """Rule out GPUs of a node for which another one with less room suffices."""
    for i in range(len(scores)):
        if candidates[i, ROW.tightest] == 0.0:
            scores[i] = -np.inf


@compiled(SCORE)
def _random(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = np.log(candidates[i, ROW.weight])


@compiled(SCORE)
def _dot_product(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    p, q = context[MOMENT.pod_cpu], context[MOMENT.pod_gpus] * context[MOMENT.pod_milli]
    for i in range(len(scores)):
        cpu = (candidates[i, ROW.free_cpu] + p) / context[MOMENT.largest_cpu]
        gpu = (candidates[i, ROW.free_gpu] + q) / context[MOMENT.largest_gpu]
        product = cpu * (p / context[MOMENT.largest_cpu]) + gpu * (q / context[MOMENT.largest_gpu])
        scores[i] = int(100.0 * (1.0 - product / 2.0))
    _leave_to_tightest(candidates, scores)


@compiled(SCORE)
def _clustering(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    q = context[MOMENT.pod_gpus] * context[MOMENT.pod_milli]
    for i in range(len(scores)):
        if q == 0.0:
            scores[i] = 0.0
            continue
        largest = context[MOMENT.largest_gpu]
        scores[i] = 25.0 * (largest - candidates[i, ROW.free_gpu] - q) // largest
        others = candidates[i, ROW.holds_other] > 0.0
        if candidates[i, ROW.holds_same] > 0.0:
            scores[i] += 50.0 if others else 75.0
        elif not others:
            scores[i] += 25.0
    _leave_to_tightest(candidates, scores)


@compiled(SCORE)
def _packing(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    number, milli = context[MOMENT.pod_gpus], context[MOMENT.pod_milli]
    for i in range(len(scores)):
        gpus = candidates[i, ROW.gpus]
        room = candidates[i, ROW.left] + milli
        if number == 0.0:
            scores[i] = 0.0
        elif candidates[i, ROW.first] > 0.0:
            scores[i] = max(33.0 - gpus, gpus)
        elif milli == 1000.0 or candidates[i, ROW.opens] > 0.0:
            scores[i] = max(50.0 - number, 33.0)
        else:
            scores[i] = max(100.0 - (100.0 * room // 1000.0) // 10.0, 50.0)
    _leave_to_tightest(candidates, scores)


@compiled(SCORE)
def _best_fit(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        cpu = 0.5 * candidates[i, ROW.free_cpu] / context[MOMENT.largest_cpu]
        gpu = 0.5 * candidates[i, ROW.free_gpu] / context[MOMENT.largest_gpu]
        scores[i] = int(100.0 * (1.0 - (cpu + gpu)))
    _leave_to_tightest(candidates, scores)


@compiled(SCORE)
def _fgd(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.points]


@compiled(SCORE)
def _fit_starved(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        cost = candidates[i, ROW.delta_starved]
        cost += _FIT * candidates[i, ROW.free_cpu] / context[MOMENT.largest_cpu]
        scores[i] = -(cost + _FIT * candidates[i, ROW.free_gpu] / context[MOMENT.largest_gpu])
    _leave_to_tightest(candidates, scores)


@compiled(SCORE)
def _fit_starved_scarce(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    request = context[MOMENT.pod_gpus] * context[MOMENT.pod_milli] / 1000.0
    _fit_starved(context, candidates, feasible, parameters, scores)
    for i in range(len(scores)):
        scores[i] -= candidates[i, ROW.scarcity] * request


@compiled(SCORE)
def _fgd_unrounded(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.delta_fragments]


@compiled(SCORE)
def _fit_starved_scarce_nodes(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    request = context[MOMENT.pod_gpus] * context[MOMENT.pod_milli] / 1000.0
    _fit_starved(context, candidates, feasible, parameters, scores)
    for i in range(len(scores)):
        scores[i] -= _FRAGMENTS * candidates[i, ROW.delta_fragments]
        scores[i] -= _NODES * candidates[i, ROW.node_scarcity] * request


_RULES: Final = (
    Heuristic(
        "random", _random,
        description="any node that can take the pod, and any of its GPUs with room",
        formula="log(weight), for temperature 1",
        exploration=(0.0, 1.0),
    ),
    Heuristic(
        "dot_product", _dot_product,
        description="the node with the smallest product of what is free and what the pod asks for",
        formula="int(100 (1 - mean of (free_cpu + p) p / largest_cpu^2 and (free_gpu + q) q / "
            "largest_gpu^2)), p and q the pod's",
    ),
    Heuristic(
        "clustering", _clustering,
        description="a node that holds pods of the same kind and no others, the fullest of them",
        formula="25 (largest_gpu - free) // largest_gpu + 75, 50, 25 by holds_same, holds_other",
    ),
    Heuristic(
        "packing", _packing,
        description="a GPU in use with the least room, then a node in use, then an empty node",
        formula="100 - tenths of the GPU's room; 50 - GPUs opened; 33 - gpus on an empty node",
    ),
    Heuristic(
        "best_fit", _best_fit,
        description="the node with the least CPU and GPUs left afterwards",
        formula="int(100 (1 - (free_cpu / largest_cpu + free_gpu / largest_gpu) / 2))",
    ),
    Heuristic(
        "fgd", _fgd,
        description="fragmentation gradient descent: the place that raises the fragments least",
        formula="points",
    ),
    Heuristic(
        "fit_starved", _fit_starved,
        description="the node that least takes the CPU from idle GPUs, with a little best fit",
        formula="-delta_starved - .1 (free_cpu / largest_cpu + free_gpu / largest_gpu)",
    ),
    Heuristic(
        "fit_starved_scarce", _fit_starved_scarce,
        description="as fit_starved, and spares the models that bound pods need",
        formula="fit_starved - scarcity * GPUs of the pod",
    ),
    Heuristic(
        "fit_starved_scarce_nodes", _fit_starved_scarce_nodes,
        description="as fit_starved with some fragments, and spares the nodes that pods need which "
            "few others can take",
        formula="fit_starved - .5 delta_fragments - 1.5 node_scarcity * GPUs of the pod",
        needs=("node_scarcity",),
    ),
    Heuristic(
        "fgd_unrounded", _fgd_unrounded,
        description="as fgd without rounding to whole points, which leaves hardly a tie",
        formula="-delta_fragments",
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {rule.name: rule for rule in _RULES}
