"""Compiled transition of `gpupack`. The problem is described in pipeline.scenarios.gpupack."""

import numpy as np

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.classes import change
from hindcast.pipeline.scenarios.gpupack.features import TERM
from hindcast.pipeline.scenarios.gpupack.layout import WHOLE, G, U
from hindcast.pipeline.scenarios.gpupack.nodes import MOST_NODES
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_I63 = (1 << 63) - 1
_PLACES = (1 << MOST_NODES.bit_length()) - 1  # bits of a key that give way to a place


@compiled()
def _drawn_key(seed: int, arrival: int, rank: int, count: int) -> int:
    """Return the least of `count` drawn numbers: the rank of a class in ties that are drawn anew.

    They depend on the episode, the arrival and the class alone, so that policies that meet the same
    tie see the same order. The mixing is that of SplitMix64.
    """
    least = _I63
    x = np.uint64(seed) ^ (np.uint64(arrival) << np.uint64(32)) ^ (np.uint64(rank) << np.uint64(12))
    for i in range(count):
        z = (x + np.uint64(i)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        least = min(least, int((z ^ (z >> np.uint64(31))) >> np.uint64(1)))
    return least


@compiled()
def _fitting(ints: Ints) -> int:
    """Fill the classes that can take the present pod, in the order of ties; return how many."""
    pod = U(ints[U(ints[m.POD_AT] + ints[m.NOW])])
    cpu, memory = ints[U(ints[m.CPU_AT]) + pod], ints[U(ints[m.MEMORY_AT]) + pod]
    milli, number = ints[U(ints[m.MILLI_AT]) + pod], ints[U(ints[m.GPUS_AT]) + pod]
    models, found, nodes = ints[U(ints[m.MODELS_AT]) + pod], 0, 0
    for i in range(ints[m.CLASSES]):
        one = ints[U(ints[m.ORDER_AT] + i)]
        node = ints[U(ints[m.HEAD_AT] + one)]
        if ints[U(ints[m.FREE_CPU_AT] + node)] < cpu:
            continue
        if ints[U(ints[m.FREE_MEMORY_AT] + node)] < memory:
            continue
        if number > 0:
            gpus = ints[U(ints[m.NODE_GPUS_AT] + node)]
            if gpus < number or ints[U(ints[m.NODE_MODEL_AT] + node)] & models == 0:
                continue
            if ints[U(ints[m.SORTED_AT] + one * G + gpus - number)] < milli:
                continue
        ints[U(ints[m.FOUND_AT] + found)] = one
        found += 1
        nodes += ints[U(ints[m.COUNT_AT] + one)]
    ints[m.FOUND] = nodes
    if ints[m.DRAWN] == 1 and found > 1:
        fitting = ints[ints[m.FOUND_AT] : ints[m.FOUND_AT] + found]
        keys = np.empty(found, np.int64)
        for i in range(found):
            node = ints[U(ints[m.HEAD_AT] + fitting[i])]
            key = _drawn_key(
                ints[m.TIE_SEED], ints[m.NOW], ints[U(ints[m.RANK_AT] + node)],
                ints[U(ints[m.COUNT_AT] + fitting[i])],
            )  # fmt: skip
            keys[i] = (key & ~_PLACES) | i  # whole numbers are sorted faster than their places
        keys.sort()
        fitting[:] = fitting[keys & _PLACES]
    return found


@compiled()
def find_rows(ints: Ints) -> None:
    """Fill the distinct places of the present pod: classes, and for a share their GPUs."""
    pod = U(ints[U(ints[m.POD_AT] + ints[m.NOW])])
    milli, rows = ints[U(ints[m.MILLI_AT]) + pod], 0
    share = ints[U(ints[m.GPUS_AT]) + pod] > 0 and milli < WHOLE
    for i in range(_fitting(ints)):
        one = ints[U(ints[m.FOUND_AT] + i)]
        if not share:
            ints[U(ints[m.ROW_CLASS_AT] + rows)] = one
            ints[U(ints[m.ROW_GPU_AT] + rows)] = -1
            rows += 1
            continue
        node = ints[U(ints[m.HEAD_AT] + one)]
        free = ints[m.FREE_AT] + node * G
        for gpu in range(ints[U(ints[m.NODE_GPUS_AT] + node)]):
            room = ints[U(free + gpu)]
            if room < milli:
                continue
            seen = 0
            while ints[U(free + seen)] != room:
                seen += 1
            if seen == gpu:
                ints[U(ints[m.ROW_CLASS_AT] + rows)] = one
                ints[U(ints[m.ROW_GPU_AT] + rows)] = gpu
                rows += 1
    ints[m.ROWS] = rows


@compiled()
def request_of(ints: Ints, arrival: int) -> int:
    """Return the thousandths of GPUs that an arrival asks for."""
    pod = U(ints[U(ints[m.POD_AT] + arrival)])
    return ints[U(ints[m.MILLI_AT]) + pod] * ints[U(ints[m.GPUS_AT]) + pod]  # type: ignore[no-any-return]


@compiled()
def _note(ints: Ints, floats: Floats) -> None:
    """Note the state after the present arrival, and go on to the next one."""
    now = ints[m.NOW]
    ints[U(ints[m.USED_AT] + now)] = ints[m.USED_GPU]
    ints[U(ints[m.FRAGMENTS_AT] + now)] = int(np.rint(100.0 * floats[m.FRAGMENTS]))
    ints[m.NOW] = now + 1


@compiled()
def advance(ints: Ints, floats: Floats, terms: Floats) -> int:
    """Let pods arrive up to one that a node can take, or the last; add the refusals to `terms`."""
    while ints[m.NOW] < ints[m.ARRIVALS]:
        now = ints[m.NOW]
        ends = ints[m.ENDS_FROM_AT] + now
        for i in range(ints[U(ends)], ints[U(ends + 1)]):
            ended = ints[U(ints[m.ENDS_AT] + i)]
            if ints[U(ints[m.NODE_AT] + ended)] >= 0:
                change(ints, floats, ended, -1)
        request = request_of(ints, now)
        ints[m.ARRIVED] += request
        floats[k.TIME] = 100.0 * ints[m.ARRIVED] / ints[m.CLUSTER_GPU]
        find_rows(ints)
        if ints[m.ROWS] > 0:
            return k.RUNNING
        later = (ints[m.ASKED] - ints[m.ARRIVED]) / ints[m.CLUSTER_GPU]
        terms[TERM.shortfall] -= request / ints[m.CLUSTER_GPU] * later
        _note(ints, floats)
    ints[m.ROWS] = 0
    return k.TERMINATED


@compiled()
def step(ints: Ints, floats: Floats, choice: int, step_outputs: Floats) -> int:
    """Put the pod on the place in row `choice` of the last observation, and let others arrive."""
    if choice < 0 or choice >= ints[m.ROWS]:
        return k.INFEASIBLE
    before, now = floats[k.TIME] - floats[m.CARRIED + len(TERM)], ints[m.NOW]
    terms = step_outputs[k.TERMS : k.TERMS + len(TERM)]
    for term in range(len(TERM)):
        terms[term] = floats[m.CARRIED + term]
        floats[m.CARRIED + term] = 0.0
    floats[m.CARRIED + len(TERM)] = 0.0
    node = ints[U(ints[m.HEAD_AT] + ints[U(ints[m.ROW_CLASS_AT] + choice)])]
    gpu = ints[U(ints[m.ROW_GPU_AT] + choice)]
    taken = 0
    if gpu >= 0:
        taken = 1 << gpu
    else:
        wanted, i = ints[U(ints[m.GPUS_AT] + ints[U(ints[m.POD_AT] + now)])], 0
        while wanted > 0:
            if ints[U(ints[m.FREE_AT] + node * G + i)] == WHOLE:
                taken |= 1 << i
                wanted -= 1
            i += 1
    ints[U(ints[m.NODE_AT] + now)], ints[U(ints[m.TAKEN_AT] + now)] = node, taken
    change(ints, floats, now, 1)
    request = request_of(ints, now)
    ints[m.PLACED] += request
    terms[TERM.allocated] += request / ints[m.CLUSTER_GPU]
    _note(ints, floats)
    status = advance(ints, floats, terms)
    step_outputs[k.ELAPSED] = floats[k.TIME] - before
    step_outputs[k.REWARD] = terms[ints[m.OBJECTIVE]]
    return status
