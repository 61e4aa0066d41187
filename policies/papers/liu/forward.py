"""Compiled forward pass of the network of Liu et al., with what a decision's rows share done once.

    moment       (C,) -> its part of layer 0, once per decision
    application  (A,) -> the rest of layer 0, ReLU, layer 1, ReLU, ..., a value per cluster,
                 once per application
    row          the value of its application at its cluster

Rows of one application stand together in an observation; where they do not, the application is
computed again, and the scores are the same. Half of what a ReLU lets through is zero and is left
out. `flat` is laid out as in `policies.networks.forward`: each bias (out,) before its weight (in,
out), in layer 0 the application before the moment.
"""

from typing import Any, Final

import numpy as np
from numba import njit, types

from pipeline.simulation.kernel import INTS
from policies.networks.features import COLUMNS, CONSTANTS, FLAGS, INPUTS, ROWS, expand_row
from policies.networks.forward import add_product

_COMPILE: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},  # fused multiply-add; nothing is reordered
}
_SCORES: Final = types.Array(types.float64, 1, "C")
MAP: Final = (COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS)


@njit(
    types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64, INTS),
    **_COMPILE,
)
def _add_active(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any, active: Any) -> None:
    """out[:width] += max(x[:n], 0) @ flat[at:] as (n, width); `active` (n,) is scratch."""
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
            out[k] += x0 * flat[i0 + k] + x1 * flat[i1 + k] + x2 * flat[i2 + k] + x3 * flat[i3 + k]
    for j in range(whole, count):
        i0, x0 = np.uint64(at + active[j] * width), x[active[j]]
        for unsigned in range(w):
            k = np.uint64(unsigned)
            out[k] += x0 * flat[i0 + k]


@njit(
    types.void(
        ROWS, ROWS, COLUMNS, *MAP, *MAP, types.int64, COLUMNS, INPUTS, _SCORES,
    ),
    **_COMPILE,
)  # fmt: skip
def score_pairs(
    context: Any, candidates: Any, offsets: Any,
    c_columns: Any, c_heavy: Any, c_quadratic: Any, c_mean: Any, c_inverse: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    place: Any, widths: Any, flat: Any, scores: Any,
) -> None:  # fmt: skip
    """Fill scores (M,): the value of every row's application at the cluster in column `place`."""
    n, g, first, last = len(mean), len(c_mean), widths[0], len(widths) - 1
    widest = max(widths.max(), n, g)
    x, h = np.empty(widest, np.float32), np.empty(widest, np.float32)
    start = np.empty(first, np.float32)  # of layer 0: bias and the moment's part
    active = np.empty(widest, np.int64)
    base = np.empty(max(len(columns), len(c_columns)))
    for b in range(len(offsets) - 1):
        start[:] = flat[:first]
        expand_row(context[b], c_columns, c_heavy, c_quadratic, c_mean, c_inverse, base, x)
        add_product(x, g, flat, first * (1 + n), start, first)
        for i in range(offsets[b], offsets[b + 1]):
            same = i > offsets[b]
            for j in range(len(columns)):
                same = same and candidates[i, columns[j]] == candidates[i - 1, columns[j]]
            if not same:
                expand_row(candidates[i], columns, heavy, quadratic, mean, inverse, base, x)
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
