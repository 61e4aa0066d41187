"""Compiled forward passes of a trained scorer, row by row; no torch.

A batched evaluation scores a few hundred to a few ten thousand rows, ten thousands of times. Plain
loops need no calls, temporaries or threads, and the score of a row is the same, bit for bit,
whatever other observations are scored with it.

`flat` holds the weights in the order in which they are read, each bias (out,) before its weight
(in, out): [image] layer 0, [norm, query, key, value, output], layer 1, ... see
`hindcast.policies.networks.settings.Network.shapes`.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from hindcast.pipeline.simulation.kernel import FLOATS, INTS, Ints, Singles, compiled, compiled_type
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.arithmetic import dot4, fma, tanh32
from hindcast.policies.networks.features import (
    COLUMNS,
    INPUTS,
    ROWS,
    FeatureMap,
    expand_row,
    expand_rules,
)

MLP: Final = 0
DEEPSETS: Final = 1
ATTENTION: Final = 2
PLACES: Final = 3  # reads only [context | image]; one output per place

# Score of a candidate that cannot be chosen; finite, see
# hindcast.policies.networks.candidate_scorer.
FILL: Final = -1e8
NORM_EPSILON: Final = 1e-5
LANES: Final = 8  # rows that are scored side by side

_FUSED: Final = {"contract"}  # fused multiply-add only; nothing is reordered
_ENCODED: Final = types.Array(types.float32, 2, "C")


class Form(NamedTuple):
    """The settings of a candidate scorer that compiled code needs.

    Attributes:
        tanh: Whether the activation is tanh; else it is relu.
        kind: MLP, DEEPSETS, ATTENTION or PLACES.
        heads: Number of attention heads.
        norm: Whether attention reads normalised encodings.
        seen: Width of the image layer, 0 without an image.
        ruled: Number of rule columns, which are the last inputs of a candidate.
        threshold: Above 0, the network has two outputs per candidate, see `score_sets`.
    """

    tanh: bool
    kind: int
    heads: int
    norm: bool
    seen: int
    ruled: int
    threshold: float


class NetworkArrays(NamedTuple):
    """A candidate scorer with its weights, as compiled loops take it.

    Attributes:
        context: Map of the context.
        candidates: Map of the candidates, with the rule columns last
            (`hindcast.policies.networks.features.rules_last`): their part of layer 0 is added to
            the part of all other inputs, which can be kept while only ranks change.
        widths: Widths of the layers from layer 0 on.
        form: Settings.
        flat: Weights in the order of reading.
    """

    context: FeatureMap
    candidates: FeatureMap
    widths: Ints
    form: Form
    flat: Singles


NETWORK: Final = compiled_type(NetworkArrays)


@compiled(types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64))
def add_product(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any) -> None:
    """Compute out[:width] += x[:n] @ flat[at:] as (n, width), four inputs at a time.

    The indices are unsigned: numba checks signed ones for negative values, which prevents
    vectorisation of the inner loop (ten times slower).
    """
    w = np.uint64(width)
    whole = n - n % 4
    for j in range(0, whole, 4):
        i0 = np.uint64(at) + np.uint64(j) * w
        i1, i2, i3 = i0 + w, i0 + w + w, i0 + w + w + w
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for unsigned in range(width):
            k = np.uint64(unsigned)
            out[k] += dot4(x0, flat[i0 + k], x1, flat[i1 + k], x2, flat[i2 + k], x3, flat[i3 + k])
    for j in range(whole, n):
        i0, x0 = np.uint64(at) + np.uint64(j) * w, x[j]
        for unsigned in range(width):
            k = np.uint64(unsigned)
            out[k] = fma(x0, flat[i0 + k], out[k])


@compiled(types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64))
def add_products(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any) -> None:
    """Compute `add_product` of LANES rows, x as (n, LANES) and out as (width, LANES).

    Every row gets the same bits as alone. The lanes are written out, with all reads before the
    first write: a loop over them would not be vectorised, since x and out could overlap.
    """
    w, lanes = np.uint64(width), np.uint64(LANES)
    l1, l2, l3, l4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    l5, l6, l7 = np.uint64(5), np.uint64(6), np.uint64(7)
    whole = n - n % 4
    for j in range(0, whole, 4):
        i0 = np.uint64(at) + np.uint64(j) * w
        i1, i2, i3 = i0 + w, i0 + w + w, i0 + w + w + w
        a = np.uint64(j) * lanes
        b, c, d = a + lanes, a + lanes + lanes, a + lanes + lanes + lanes
        for unsigned in range(width):
            k = np.uint64(unsigned)
            w0, w1, w2, w3, o = flat[i0 + k], flat[i1 + k], flat[i2 + k], flat[i3 + k], k * lanes
            r0 = dot4(x[a], w0, x[b], w1, x[c], w2, x[d], w3)
            r1 = dot4(x[a + l1], w0, x[b + l1], w1, x[c + l1], w2, x[d + l1], w3)
            r2 = dot4(x[a + l2], w0, x[b + l2], w1, x[c + l2], w2, x[d + l2], w3)
            r3 = dot4(x[a + l3], w0, x[b + l3], w1, x[c + l3], w2, x[d + l3], w3)
            r4 = dot4(x[a + l4], w0, x[b + l4], w1, x[c + l4], w2, x[d + l4], w3)
            r5 = dot4(x[a + l5], w0, x[b + l5], w1, x[c + l5], w2, x[d + l5], w3)
            r6 = dot4(x[a + l6], w0, x[b + l6], w1, x[c + l6], w2, x[d + l6], w3)
            r7 = dot4(x[a + l7], w0, x[b + l7], w1, x[c + l7], w2, x[d + l7], w3)
            out[o] += r0
            out[o + l1] += r1
            out[o + l2] += r2
            out[o + l3] += r3
            out[o + l4] += r4
            out[o + l5] += r5
            out[o + l6] += r6
            out[o + l7] += r7
    for j in range(whole, n):
        i0, a = np.uint64(at) + np.uint64(j) * w, np.uint64(j) * lanes
        for unsigned in range(width):
            k = np.uint64(unsigned)
            w0, o = flat[i0 + k], k * lanes
            r0, r1 = fma(x[a], w0, out[o]), fma(x[a + l1], w0, out[o + l1])
            r2, r3 = fma(x[a + l2], w0, out[o + l2]), fma(x[a + l3], w0, out[o + l3])
            r4, r5 = fma(x[a + l4], w0, out[o + l4]), fma(x[a + l5], w0, out[o + l5])
            r6, r7 = fma(x[a + l6], w0, out[o + l6]), fma(x[a + l7], w0, out[o + l7])
            out[o], out[o + l1], out[o + l2], out[o + l3] = r0, r1, r2, r3
            out[o + l4], out[o + l5], out[o + l6], out[o + l7] = r4, r5, r6, r7


@compiled(types.void(INPUTS, types.int64, INPUTS, types.int64), fastmath=_FUSED)
def fill_lanes(flat: Any, at: Any, out: Any, width: Any) -> None:
    """Fill out (width, LANES) with flat[at : at + width] in every lane."""
    for unsigned in range(width):
        value = flat[np.uint64(at) + np.uint64(unsigned)]
        first = np.uint64(unsigned) * np.uint64(LANES)
        for lane in range(LANES):
            out[first + np.uint64(lane)] = value


@compiled(types.float64(INTS, types.boolean, INPUTS, types.int64, INPUTS, INPUTS), forceinline=True)
def finish_row(widths: Any, tanh: Any, flat: Any, at: Any, x: Any, h: Any) -> Any:
    """Return the output of a network for one row.

    h has the sums of layer 0, `at` is the place of the weights of layer 1, and x is scratch.
    """
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        for j in range(before):
            x[j] = tanh32(h[j]) if tanh else max(h[j], np.float32(0.0))
        h[:width] = flat[at : at + width]
        add_product(x, before, flat, at + width, h, width)
        at += width * (1 + before)
    return h[0]


@compiled(types.void(ROWS, ROWS, COLUMNS, NETWORK, FLOATS), fastmath=_FUSED)
def score_rows(context: Any, candidates: Any, offsets: Any, network: Any, scores: Any) -> None:
    """Fill scores (M,) of a network that scores every candidate on its own."""
    context, candidates, offsets, network, scores = uncounted(
        (context, candidates, offsets, network, scores)
    )
    context_map, candidate_map, widths, form, flat = network
    tanh, ruled = form.tanh, form.ruled
    n, g = len(candidate_map.mean), len(context_map.mean)
    own = n - ruled
    widest = max(widths.max(), n, g)
    x, h = np.empty(widest, np.float32), np.empty(widest, np.float32)
    start = np.empty(widths[0], np.float32)  # of layer 0: bias and the context's part
    base = np.empty(max(len(candidate_map.columns), len(context_map.columns)))
    for b in range(len(offsets) - 1):
        start[:] = flat[: widths[0]]
        if g > 0:
            expand_row(context[b], context_map, base, x)
            add_product(x, g, flat, widths[0] * (1 + n), start, widths[0])
        for i in range(offsets[b], offsets[b + 1]):
            expand_row(candidates[i], candidate_map, base, x)
            h[: widths[0]] = start
            add_product(x, own, flat, widths[0], h, widths[0])
            if ruled > 0:
                expand_rules(candidates, i, candidate_map, ruled, x, 1)
                add_product(x, ruled, flat, widths[0] * (1 + own), h, widths[0])
            at = widths[0] * (1 + n + g)
            scores[i] = finish_row(widths, tanh, flat, at, x, h)


@compiled(types.void(INPUTS, types.int64, types.boolean), fastmath=_FUSED)
def activate(h: Any, width: Any, tanh: Any) -> None:
    """Replace h[:width] by tanh or relu of it."""
    for j in range(width):
        h[j] = tanh32(h[j]) if tanh else max(h[j], np.float32(0.0))


@compiled(types.void(_ENCODED, types.int64, types.int64, INPUTS), fastmath=_FUSED)
def _pool(encoded: Any, count: Any, width: Any, pooled: Any) -> None:
    """Fill pooled (2 * width,) with mean and maximum of the first `count` rows."""
    for j in range(width):
        total, highest = 0.0, encoded[0, j]
        for i in range(count):
            total += encoded[i, j]
            highest = max(highest, encoded[i, j])
        pooled[j] = total / count
        pooled[width + j] = highest


@compiled(types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS), fastmath=_FUSED)
def normalise(row: Any, width: Any, flat: Any, at: Any, out: Any) -> None:
    """Fill `out` with (row - mean) / deviation * weight + bias, over `width` numbers."""
    mean, square = 0.0, 0.0
    for j in range(width):
        mean += row[j]
    mean /= width
    for j in range(width):
        square += (row[j] - mean) ** 2
    inverse = 1.0 / np.sqrt(square / width + NORM_EPSILON)
    for j in range(width):
        out[j] = (row[j] - mean) * inverse * flat[at + width + j] + flat[at + j]


@compiled(
    types.int64(
        _ENCODED, types.int64, types.int64, types.int64, types.boolean, INPUTS, types.int64,
        _ENCODED, _ENCODED, _ENCODED, INPUTS, INPUTS,
    ),
    fastmath=_FUSED,
)  # fmt: skip
def _attend(
    encoded: Any, count: Any, width: Any, heads: Any, norm: Any, flat: Any, at: Any,
    queries: Any, keys: Any, values: Any, share: Any, row: Any,
) -> int:  # fmt: skip
    """Add self-attention over its rows to encoded[:count]; return where the next weights begin.

    keys is (width, rows): sums over keys and over the numbers of a head then run along memory and
    are vectorised in the order in which they are written.
    """
    block = width * (1 + width)
    own = at + 2 * width if norm else at
    size = width // heads
    scale = np.float32(1.0 / np.sqrt(size))
    for i in range(count):
        if norm:
            normalise(encoded[i], width, flat, at, row)
        else:
            row[:width] = encoded[i]
        queries[i] = flat[own : own + width]
        add_product(row, width, flat, own + width, queries[i], width)
        values[i] = flat[own + 2 * block : own + 2 * block + width]
        add_product(row, width, flat, own + 2 * block + width, values[i], width)
        share[:width] = flat[own + block : own + block + width]
        add_product(row, width, flat, own + block + width, share, width)
        for j in range(width):
            keys[j, i] = share[j]
    for i in range(count):
        for head in range(heads):
            first = head * size
            for k in range(count):
                share[k] = np.float32(0.0)
            for j in range(first, first + size):
                q, of = queries[i, j] * scale, keys[j]
                for unsigned in range(count):
                    share[np.uint64(unsigned)] += q * of[np.uint64(unsigned)]
            highest = share[0]
            for k in range(1, count):
                highest = max(highest, share[k])
            total = np.float32(0.0)
            for k in range(count):
                share[k] = np.exp(share[k] - highest)
                total += share[k]
            for j in range(first, first + size):
                row[j] = np.float32(0.0)
            for k in range(count):
                for j in range(first, first + size):
                    row[j] += share[k] * values[k, j]
            for j in range(first, first + size):
                row[j] /= total
        out = own + 3 * block
        for j in range(width):
            encoded[i, j] += flat[out + j]
        add_product(row, width, flat, out + width, encoded[i], width)
    return own + 4 * block  # type: ignore[no-any-return]


@compiled(
    types.void(
        ROWS, ROWS, types.Array(types.boolean, 1, "C", readonly=True),
        types.Array(types.uint8, 2, "C", readonly=True), COLUMNS, NETWORK, FLOATS,
    ),
    fastmath=_FUSED,
)  # fmt: skip
def score_sets(
    context: Any, candidates: Any, feasible: Any, image: Any, offsets: Any, network: Any,
    scores: Any,
) -> None:  # fmt: skip
    """Fill scores (M,) of a network that reads all feasible candidates of an observation.

    Infeasible candidates are not read and get FILL; if no candidate is feasible, all are read.
    With a threshold above 0, the network has two outputs per candidate, a value and a
    log-likelihood. The score is the value if the likelihood is at least `threshold` times that of
    the likeliest candidate, else FILL. With kind PLACES, a row is one number, the place of the
    candidate among widths[0].
    """
    context, candidates, feasible, image, offsets, network, scores = uncounted(
        (context, candidates, feasible, image, offsets, network, scores)
    )
    context_map, candidate_map, widths, form, flat = network
    tanh, kind, heads, norm, seen, ruled, threshold = form
    g = len(context_map.mean)
    n = 0 if kind == PLACES else len(candidate_map.mean)
    own = n - ruled
    rows = 1
    for b in range(len(offsets) - 1):
        rows = max(rows, offsets[b + 1] - offsets[b])
    first, pixels = widths[0], image.shape[1]
    widest = max(widths.max(), n, g, 2 * first, seen, rows, 2)
    x, h = np.empty(widest, np.float32), np.empty(widest, np.float32)
    start = np.empty(first, np.float32)
    second = np.empty(widths.max(), np.float32)
    base = np.empty(max(len(candidate_map.columns), len(context_map.columns)))
    encoded = np.empty((rows, first), np.float32)
    attention = rows if kind == ATTENTION else 0
    queries = np.empty((attention, first), np.float32)
    values = np.empty((attention, first), np.float32)
    keys = np.empty((first, attention), np.float32)
    position = np.empty(rows, np.int64)
    likelihood = np.empty(rows, np.float32)
    layer0 = seen * (1 + pixels) if seen > 0 else 0
    for b in range(len(offsets) - 1):
        start[:] = flat[layer0 : layer0 + first]
        if g > 0:
            expand_row(context[b], context_map, base, x)
            add_product(x, g, flat, layer0 + first * (1 + n), start, first)
        if seen > 0:
            x[:seen] = flat[:seen]
            for p in range(pixels):
                if image[b, p] > 0:
                    bright = np.float32(image[b, p]) / np.float32(255.0)
                    for j in range(seen):
                        x[j] += bright * flat[seen + p * seen + j]
            activate(x, seen, tanh)
            add_product(x, seen, flat, layer0 + first * (1 + n + g), start, first)
        allowed = False
        for i in range(offsets[b], offsets[b + 1]):
            allowed |= feasible[i]
        count = 0
        for i in range(offsets[b], offsets[b + 1]):
            if allowed and not feasible[i]:
                scores[i] = FILL
                continue
            expand_row(candidates[i], candidate_map, base, x)
            if kind == PLACES:
                place = np.int64(x[0])
                scores[i] = start[place] if 0 <= place < first else FILL
                continue
            encoded[count] = start
            add_product(x, own, flat, layer0 + first, encoded[count], first)
            if ruled > 0:
                expand_rules(candidates, i, candidate_map, ruled, x, 1)
                add_product(x, ruled, flat, layer0 + first * (1 + own), encoded[count], first)
            if len(widths) > 1:
                activate(encoded[count], first, tanh)
            position[count] = i
            count += 1
        if count == 0:
            continue
        after = layer0 + first * (1 + n + g + seen)
        pooled = 0
        if kind == ATTENTION:
            after = _attend(
                encoded, count, first, heads, norm, flat, after, queries, keys, values, x, h
            )
        elif kind == DEEPSETS:
            pooled = 2 * first
            second[: widths[1]] = flat[after : after + widths[1]]
            _pool(encoded, count, first, x)
            add_product(x, pooled, flat, after + widths[1] * (1 + first), second, widths[1])
        likeliest = np.float32(-np.inf)
        for i in range(count):
            h[:first] = encoded[i]
            at = after
            for layer in range(1, len(widths)):
                before, width = widths[layer - 1], widths[layer]
                x[:before] = h[:before]
                if layer == 1:
                    if pooled > 0:
                        h[:width] = second[:width]
                    else:
                        h[:width] = flat[at : at + width]
                else:
                    activate(x, before, tanh)
                    h[:width] = flat[at : at + width]
                add_product(x, before, flat, at + width, h, width)
                at += width * (1 + before + (pooled if layer == 1 else 0))
            scores[position[i]] = h[0]
            if threshold > 0.0:
                likelihood[i] = h[1]
                likeliest = max(likeliest, h[1])
        if threshold > 0.0:
            for i in range(count):
                if likelihood[i] - likeliest < np.log(threshold):
                    scores[position[i]] = FILL
