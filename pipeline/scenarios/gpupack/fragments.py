"""Fragments: the idle GPUs of a node that the typical pods cannot use, and GPUs without CPU."""

import numpy as np

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.layout import U
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled


@compiled()
def fragments(ints: Ints, floats: Floats, model: int, cpu: int, at: int, gpus: int) -> float:
    """Return F of a node in thousandths of a GPU: sum over typical pods k of w_k u_k.

    The node has a model (one bit), free CPU, and at ints[at] the free shares of its GPUs,
    ascending. u_k is all of them if k asks for no GPU, or cannot run there for its model, its GPUs
    or its CPU; memory does not count. Otherwise u_k is the sum of the shares below that of k. The
    terms are added to six sums by their reason, in the order of the typical pods, and then the
    sums: other orders give other roundings, which turn ties.
    """
    idle = 0
    for i in range(gpus):
        idle += ints[U(at + i)]
    if idle == 0:
        return 0.0
    less, crumbs = U(ints[m.LESS_AT]), U(ints[m.CRUMBS_AT])
    lacking = unused = 0
    for j in range(ints[m.SHARES]):
        share = ints[U(ints[m.SHARES_AT] + j)]
        while lacking < gpus and ints[U(at + lacking)] < share:
            unused += ints[U(at + lacking)]
            lacking += 1
        ints[less + U(j)], ints[crumbs + U(j)] = lacking, unused
    no_cpu_and_gpu = no_gpu = no_cpu = unasked = unasked_no_cpu = no_model = 0.0
    weights, cpus, shares = U(ints[m.T_WEIGHT_AT]), U(ints[m.T_CPU_AT]), U(ints[m.T_SHARE_AT])
    numbers, models = U(ints[m.T_GPUS_AT]), U(ints[m.T_MODELS_AT])
    for k in range(ints[m.TYPICAL]):
        weight = floats[weights + U(k)]
        number = ints[numbers + U(k)]
        has_cpu = cpu >= ints[cpus + U(k)]
        if number == 0:
            if has_cpu:
                unasked += weight * idle
            else:
                unasked_no_cpu += weight * idle
        elif ints[models + U(k)] & model == 0:
            no_model += weight * idle
        else:
            j = U(ints[shares + U(k)])
            if gpus - ints[less + j] < number:
                if has_cpu:
                    no_gpu += weight * idle
                else:
                    no_cpu_and_gpu += weight * idle
            elif has_cpu:
                no_gpu += weight * ints[crumbs + j]
            else:
                no_cpu += weight * idle
    return no_cpu_and_gpu + no_gpu + no_cpu + unasked + unasked_no_cpu + no_model


@compiled()
def starved(floats: Floats, cpu: int, idle: int) -> float:
    """Return the idle thousandths of GPUs for which a node has no CPU at the workload's ratio."""
    return max(0.0, idle - cpu / floats[m.KAPPA])  # type: ignore[no-any-return]


@compiled()
def points(before: float, after: float) -> int:
    """Return the score of fgd: int(100 sigmoid((F before - F after) / 1000))."""
    return int(100.0 / (1.0 + np.exp(-(before - after) / 1000.0)))
