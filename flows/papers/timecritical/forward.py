"""Compiled forward pass of the network of Liu et al.; shared parts are computed once.

    moment       (C,) -> its part of layer 0, once per decision
    application  (A,) -> the rest of layer 0, ReLU, layer 1, ReLU, ..., a value per cluster,
                 once per application
    row          the value of its application at its cluster

Rows of one application are usually adjacent in an observation. If they are not, the application is
computed again, with the same scores. About half of the outputs of a ReLU are zero; the next layer
skips them. `flat` is laid out as in `hindcast.policies.networks.forward`: each bias (out,) before
its weight (in, out), and in layer 0 the application before the moment.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from hindcast.pipeline.simulation.kernel import FLOATS, INTS, Ints, Singles, compiled, compiled_type
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.arithmetic import dot4, fma
from hindcast.policies.networks.features import COLUMNS, INPUTS, ROWS, FeatureMap, expand_row
from hindcast.policies.networks.forward import add_product

_FUSED: Final = {"contract"}  # fused multiply-add; nothing is reordered


class ClustersArrays(NamedTuple):
    """Network with its weights, as compiled code reads it; `place` is the column of the cluster."""

    context: FeatureMap
    candidates: FeatureMap
    place: int
    widths: Ints
    flat: Singles


CLUSTERS: Final = compiled_type(ClustersArrays)


@compiled(
    types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64, INTS), fastmath=_FUSED
)
def _add_active(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any, active: Any) -> None:
    """Add max(x[:n], 0) @ W to out[:width]; W (n, width) is flat[at:], `active` (n,) is scratch."""
    w = np.uint64(width)
    count = 0
    for j in range(n):
        if x[j] > np.float32(0.0):
            active[count] = j
            count += 1
    whole = count - count % 4
    for j in range(0, whole, 4):
        j0, j1, j2, j3 = active[j], active[j + 1], active[j + 2], active[j + 3]
        i0, i1 = np.uint64(at + j0 * width), np.uint64(at + j1 * width)
        i2, i3 = np.uint64(at + j2 * width), np.uint64(at + j3 * width)
        x0, x1, x2, x3 = x[j0], x[j1], x[j2], x[j3]
        for unsigned in range(w):
            k = np.uint64(unsigned)
            out[k] += dot4(x0, flat[i0 + k], x1, flat[i1 + k], x2, flat[i2 + k], x3, flat[i3 + k])
    for j in range(whole, count):
        i0, x0 = np.uint64(at + active[j] * width), x[active[j]]
        for unsigned in range(w):
            k = np.uint64(unsigned)
            out[k] = fma(x0, flat[i0 + k], out[k])


@compiled(types.void(ROWS, ROWS, COLUMNS, CLUSTERS, FLOATS), fastmath=_FUSED)
def score_pairs(context: Any, candidates: Any, offsets: Any, network: Any, scores: Any) -> None:
    """Fill scores (M,) with the value of each row's application at the cluster in `place`."""
    context_map, candidate_map, place, widths, flat = uncounted(network)
    columns = candidate_map.columns
    n, g = len(candidate_map.mean), len(context_map.mean)
    first, last = widths[0], len(widths) - 1
    widest = max(widths.max(), n, g)
    x, h = np.empty(widest, np.float32), np.empty(widest, np.float32)
    start = np.empty(first, np.float32)  # of layer 0: bias and the moment's part
    active = np.empty(widest, np.int64)
    base = np.empty(max(len(columns), len(context_map.columns)))
    for b in range(len(offsets) - 1):
        start[:] = flat[:first]
        expand_row(context[b], context_map, base, x)
        add_product(x, g, flat, first * (1 + n), start, first)
        for i in range(offsets[b], offsets[b + 1]):
            same = i > offsets[b]
            for j in range(len(columns)):
                same = same and candidates[i, columns[j]] == candidates[i - 1, columns[j]]
            if not same:
                expand_row(candidates[i], candidate_map, base, x)
                h[:first] = start
                add_product(x, n, flat, first, h, first)
                at = first * (1 + n + g)
                for layer in range(1, last + 1):
                    before, width = widths[layer - 1], widths[layer]
                    x[:before] = h[:before]
                    h[:width] = flat[at : at + width]
                    _add_active(x, before, flat, at + width, h, width, active)
                    at += width * (1 + before)
            scores[i] = h[np.int64(candidates[i, place])]
