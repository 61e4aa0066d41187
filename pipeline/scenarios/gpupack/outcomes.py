"""Outcomes of a `gpupack` episode, grouped and rounded as the published tables are."""

import numpy as np

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.dynamics import request_of
from hindcast.pipeline.scenarios.gpupack.features import AT, LOADS, OUT, PER_LOAD
from hindcast.pipeline.scenarios.gpupack.layout import KINDS, U
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_LOADS = np.array(LOADS)
_BLOCK = 128  # values that numpy sums in eight sums


@compiled()
def rounded(x: float) -> float:
    """Return x rounded to .01 from all its digits, since 100 x is itself rounded.

    The rest of the product is exact by the splitting of Dekker and Veltkamp.
    """
    product = 100.0 * x
    nearest = np.rint(product)
    if abs(product - nearest) == 0.5:
        split = 134217729.0 * x
        high = split - (split - x)
        rest = (100.0 * high - product) + 100.0 * (x - high)
        if rest != 0.0:
            nearest = np.ceil(product) if rest > 0.0 else np.floor(product)
    return nearest / 100.0  # type: ignore[no-any-return]


@compiled()
def _block_sum(values: Floats) -> float:
    n, total = len(values), 0.0
    if n >= 8:
        r = values[:8].copy()
        for i in range(8, n - n % 8, 8):
            for j in range(8):
                r[j] += values[i + j]
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for i in range(n - n % 8 if n >= 8 else 0, n):
        total += values[i]
    return total


@compiled()
def numpy_sum(values: Floats) -> float:
    """Return a sum with the roundings of numpy's, which adds the sums of halves."""
    todo, sums = [(0, len(values))], [0.0][:0]
    while len(todo) > 0:
        low, high = todo.pop()
        half = (high - low) // 2
        if low < 0:  # both halves are summed
            second = sums.pop()
            sums[-1] += second
        elif high - low > _BLOCK:
            middle = low + half - half % 8
            todo.append((-1, -1))
            todo.append((middle, high))
            todo.append((low, middle))
        else:
            sums.append(_block_sum(values[low:high]))
    return sums[0]


@compiled()
def _fill_loads(ints: Ints, outcomes: Floats) -> None:
    """Fill the outcomes by load: means over the arrivals whose load is rounded to it.

    If there are none, the arrivals within 1 percent count, or else the last one before it. Shares
    are rounded to .01 before and after their mean is taken.
    """
    total, n = ints[m.CLUSTER_GPU], ints[m.NOW]
    loads, used, fragments, ratio = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    arrived = 0
    for now in range(n):
        arrived += request_of(ints, now)
        loads[now] = 100.0 * arrived / total
        allocated = ints[U(ints[m.USED_AT] + now)]
        used[now] = rounded(100.0 * allocated / total)
        fragments[now] = ints[U(ints[m.FRAGMENTS_AT] + now)] / 100.0
        if allocated < total:
            ratio[now] = rounded(100.0 * fragments[now] / (total - allocated))
    whole = np.rint(loads)
    for i in range((len(outcomes) - AT) // PER_LOAD):
        load = _LOADS[i]
        first, last = np.searchsorted(whole, load), np.searchsorted(whole, load, side="right")
        if first == last:
            last = np.searchsorted(loads, load + 1.0, side="right")
            first = min(np.searchsorted(loads, load - 1.0), last - 1)
        if last > 0:
            size, at = last - first, AT + PER_LOAD * i
            outcomes[at] = np.rint(100.0 * (numpy_sum(used[first:last]) / size)) / 100.0
            share = numpy_sum(fragments[first:last]) / size / total
            outcomes[at + 1] = np.rint(100.0 * (100.0 * share)) / 100.0
            outcomes[at + 2] = numpy_sum(ratio[first:last]) / size


@compiled()
def outcome(ints: Ints, floats: Floats, outcomes: Floats) -> None:
    """Fill the outcomes in the order of the spec. Pods that have not arrived yet do not count."""
    total = ints[m.CLUSTER_GPU]
    arrived = refused = peak = 0
    first = np.inf
    refused_of = np.zeros(KINDS)
    for now in range(ints[m.NOW]):
        request = request_of(ints, now)
        arrived += request
        peak = max(peak, ints[U(ints[m.USED_AT] + now)])
        if ints[U(ints[m.NODE_AT] + now)] < 0:
            refused += request
            refused_of[ints[U(ints[m.KIND_AT] + ints[U(ints[m.POD_AT] + now)])]] += 1
        if 100 * refused >= ints[m.ASKED] and refused > 0:
            first = min(first, 100.0 * arrived / total)
    outcomes[OUT.placed] = 100.0 * ints[m.PLACED] / total
    outcomes[OUT.placed_bound] = 100.0 * floats[m.BOUND] / total
    outcomes[OUT.allocated_peak] = 100.0 * peak / total
    outcomes[OUT.refused] = 100.0 * refused / max(arrived, 1)
    outcomes[OUT.load_at_first_percent] = min(first, 100.0 * arrived / total)
    for kind in range(KINDS):
        outcomes[OUT.refused_none + kind] = refused_of[kind]
    if len(outcomes) < AT:
        return
    last = int(np.ceil(100 * ints[m.ASKED] / total))
    short, loads, now, arrived, used = 0.0, 0, 0, 0, 0
    for load in range(min(80, last), min(130, last) + 1):
        while now < ints[m.NOW] and 100 * (arrived + request_of(ints, now)) <= load * total:
            arrived += request_of(ints, now)
            used = ints[U(ints[m.USED_AT] + now)]
            now += 1
        short += min(load, 100) - 100.0 * used / total
        loads += 1
    outcomes[OUT.shortfall] = short / loads
    _fill_loads(ints, outcomes)
