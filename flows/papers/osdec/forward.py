"""Compiled forward pass of an OSDEC network: the mean scores of one slot.

    history            -> GRU -> low -> high                          the auxiliary module
    [rows | moment]    -> mlp                                         one score per place
                       -> embed -> GRU, last job first -> pointing    one score per job
                       -> embed -> attention, norm, ... -> layer      one score per job

A slot is scored alone, in loops of a fixed order, so a score does not depend on what else is asked.
`flat` is laid out as in `hindcast.policies.networks.forward`: each bias (out,) before its weight
(in, out), in the order of reading.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from hindcast.flows.papers.osdec.network import (
    HIGH,
    LOW,
    RECURRENT,
    SlotScoresNetwork,
    SlotScoresSettings,
)
from hindcast.pipeline.simulation.kernel import FLOATS, Floats, Singles, compiled, compiled_type
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.arithmetic import tanh32
from hindcast.policies.networks.features import INPUTS, ROWS, FeatureMap, expand_row
from hindcast.policies.networks.forward import add_product, normalise
from hindcast.policies.networks.settings import Weights

MLP: Final = 0
POINTER: Final = 1
ATTENTION: Final = 2
_KINDS: Final = {"mlp": MLP, "pointer": POINTER, "attention": ATTENTION}

_FUSED: Final = {"contract"}  # fused multiply-add; nothing is reordered
_MATRIX: Final = types.Array(types.float32, 2, "C")


class SlotArrays(NamedTuple):
    """An OSDEC network with its weights, as compiled code reads it.

    Attributes:
        context: Map of the context.
        jobs: Map of the jobs.
        h_mean: (HISTORY,) subtracted from the history.
        h_inverse: (HISTORY,) factor of it.
        kind: MLP, POINTER or ATTENTION.
        width: Width of an encoded job, or of a layer of the mlp.
        layers: Layers of attention.
        most: Rows that are read.
        low: Factor of the low outputs of the auxiliary module, 0 if they are not read.
        high: Factor of its high outputs.
        flat: The weights, in the order of reading.
    """

    context: FeatureMap
    jobs: FeatureMap
    h_mean: Floats
    h_inverse: Floats
    kind: int
    width: int
    layers: int
    most: int
    low: float
    high: float
    flat: Singles


_SLOT: Final = compiled_type(SlotArrays)


def slot_arrays(network: SlotScoresNetwork, weights: Weights) -> SlotArrays:
    """Return the arrays of a network with these weights."""
    s = network.settings
    names = [f"{layer}.{part}" for layer in _read(s) for part in ("bias", "weight")]
    flat = np.concatenate([np.ascontiguousarray(weights[name].T).ravel() for name in names])
    return SlotArrays(
        network.context, network.candidates, *network.scale_of_history(), _KINDS[s.encoder],
        s.width * (4 if s.encoder == "mlp" else 1), s.layers, s.rows,
        s.low_coefficient if s.auxiliary in {"low", "both"} else 0.0,
        s.high_coefficient if s.auxiliary in {"high", "both"} else 0.0, flat.astype(np.float32),
    )  # fmt: skip


def _read(settings: SlotScoresSettings) -> Iterator[str]:
    """Yield the layers in the order of reading."""
    if settings.auxiliary != "none":
        yield from ("past.input", "past.state", "shared", "task")
    if settings.encoder == "mlp":
        yield from ("layer0", "layer1")
    else:
        yield "embed"
    if settings.encoder == "pointer":
        yield from ("jobs.input", "jobs.state", "pointer", "reference")
    if settings.encoder == "attention":
        for i in range(settings.layers):
            for part in ("query", "key", "value", "output", "seen", "inner", "outer", "made"):
                yield f"{part}{i}"
        yield "mean_layer"
    yield "mean"


@compiled(
    types.int64(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64), fastmath=_FUSED
)
def _dense(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any) -> int:
    """Fill out[:width] with a layer of x[:n]; return where the next layer begins."""
    out[:width] = flat[at : at + width]
    add_product(x, n, flat, at + width, out, width)
    return at + width * (1 + n)  # type: ignore[no-any-return]


@compiled(
    types.int64(
        _MATRIX, types.int64, types.int64, INPUTS, types.int64, _MATRIX, types.int64, INPUTS, INPUTS
    ),
    fastmath=_FUSED,
)
def _recurrent(
    x: Any, count: Any, n: Any, flat: Any, at: Any, states: Any, width: Any, given: Any, kept: Any
) -> int:
    """Fill states[:count, :width] of a GRU that reads x[:count, :n], from state zero.

    given and kept (3 * width,) are scratch. Returns where the next layer begins.
    """
    one = np.float32(1.0)
    after = at + 3 * width * (1 + n)
    for t in range(count):
        _dense(x[t], n, flat, at, given, 3 * width)
        if t == 0:
            kept[: 3 * width] = flat[after : after + 3 * width]
        else:
            _dense(states[t - 1], width, flat, after, kept, 3 * width)
        for j in range(width):
            reset = one / (one + np.exp(-(given[j] + kept[j])))
            update = one / (one + np.exp(-(given[width + j] + kept[width + j])))
            new = tanh32(given[2 * width + j] + reset * kept[2 * width + j])
            before = states[t - 1, j] if t > 0 else np.float32(0.0)
            states[t, j] = (one - update) * new + update * before
    return after + 3 * width * (1 + width)  # type: ignore[no-any-return]


@compiled(
    types.int64(_MATRIX, types.int64, types.int64, INPUTS, types.int64, INPUTS, INPUTS),
    fastmath=_FUSED,
)
def _attend(encoded: Any, count: Any, width: Any, flat: Any, at: Any, row: Any, share: Any) -> int:
    """Replace encoded[:count] by one layer of attention over it.

    row (2 * width,) and share, as long as the longer of count and 2 * width, are scratch. Returns
    where the next layer begins.
    """
    block = width * (1 + width)
    queries, values = np.empty((count, width), np.float32), np.empty((count, width), np.float32)
    keys = np.empty((width, count), np.float32)  # so that sums over jobs run along memory
    scale = np.float32(1.0 / np.sqrt(width))
    for i in range(count):
        _dense(encoded[i], width, flat, at, queries[i], width)
        _dense(encoded[i], width, flat, at + block, row, width)
        _dense(encoded[i], width, flat, at + 2 * block, values[i], width)
        for j in range(width):
            keys[j, i] = row[j]
    output = at + 3 * block
    seen = output + block
    inner = seen + 2 * width
    outer = inner + 2 * block
    made = outer + width * (1 + 2 * width)
    for i in range(count):
        for k in range(count):
            share[k] = np.float32(0.0)
        for j in range(width):
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
        row[:width] = np.float32(0.0)
        for k in range(count):
            for j in range(width):
                row[j] += share[k] * values[k, j]
        for j in range(width):
            row[j] /= total
        for j in range(width):
            encoded[i, j] += flat[output + j]
        add_product(row, width, flat, output + width, encoded[i], width)
        normalise(encoded[i], width, flat, seen, row)
        encoded[i, :width] = row[:width]
        _dense(row, width, flat, inner, share, 2 * width)
        for j in range(2 * width):
            row[j] = max(share[j], np.float32(0.0))
        for j in range(width):
            encoded[i, j] += flat[outer + j]
        add_product(row, 2 * width, flat, outer + width, encoded[i], width)
        normalise(encoded[i], width, flat, made, row)
        encoded[i, :width] = row[:width]
    return made + 2 * width  # type: ignore[no-any-return]


@compiled(types.void(FLOATS, ROWS, ROWS, types.int64, _SLOT, INPUTS), fastmath=_FUSED)
def slot_means(
    moment: Any, rows: Any, history: Any, startable: Any, network: Any, means: Any
) -> None:
    """Fill means (startable,) of the first rows of a slot, which are those of startable jobs.

    moment (C,), rows (J, F) of all jobs that are read and history (LAGS + 1, HISTORY) describe the
    beginning of the slot, J is at most the number of rows that the network reads.
    """
    (
        context_map, job_map, h_mean, h_inverse, kind, width, layers, most, low, high, flat,
    ) = uncounted(network)  # fmt: skip
    jobs, each, lags = len(rows), len(job_map.mean), len(history)
    wide = len(context_map.mean) + (LOW if low > 0.0 else 0) + (HIGH if high > 0.0 else 0)
    flatly = kind == MLP
    read = most * each + wide if flatly else each + wide
    x = np.zeros(max(read, 2 * width, RECURRENT), np.float32)
    y = np.empty(max(3 * width, 3 * RECURRENT, most), np.float32)
    z = np.empty(max(3 * width, 3 * RECURRENT, most), np.float32)
    base = np.empty(max(len(job_map.columns), len(context_map.columns)))
    more = np.empty(wide, np.float32)
    expand_row(moment, context_map, base, more)
    at = 0
    if low > 0.0 or high > 0.0:
        told = np.empty((lags, len(h_mean)), np.float32)
        for lag in range(lags):
            for j in range(len(h_mean)):
                told[lag, j] = (history[lag, j] - h_mean[j]) * h_inverse[j]
        past = np.empty((lags, RECURRENT), np.float32)
        at = _recurrent(told, lags, len(h_mean), flat, at, past, RECURRENT, y, z)
        at = _dense(past[lags - 1], RECURRENT, flat, at, y, LOW)
        for j in range(LOW):
            x[j] = tanh32(y[j])
        at = _dense(x, LOW, flat, at, y, HIGH)
        place = len(context_map.mean)
        if low > 0.0:
            for j in range(LOW):
                more[place + j] = x[j] * np.float32(low)
            place += LOW
        if high > 0.0:
            for j in range(HIGH):
                more[place + j] = tanh32(y[j]) * np.float32(high)
    if flatly:
        x[:] = np.float32(0.0)
        for i in range(jobs):
            expand_row(rows[i], job_map, base, x[i * each : (i + 1) * each])
        x[most * each : read] = more
        n = read
        for _layer in range(2):
            at = _dense(x, n, flat, at, y, width)
            for j in range(width):
                x[j] = max(y[j], np.float32(0.0))
            n = width
        _dense(x, width, flat, at, y, most)
        for i in range(startable):
            means[i] = tanh32(y[i])
        return
    encoded = np.empty((jobs, width), np.float32)
    after = at
    for i in range(jobs):
        expand_row(rows[i], job_map, base, x)
        x[each:read] = more
        own = jobs - 1 - i if kind == POINTER else i  # the GRU reads the last job first
        after = _dense(x, read, flat, at, encoded[own], width)
    at = after
    if kind == POINTER:
        states = np.empty((jobs, width), np.float32)
        at = _recurrent(encoded, jobs, width, flat, at, states, width, y, z)
        at = _dense(states[jobs - 1], width, flat, at, z, width)
        for i in range(startable):
            after = _dense(states[jobs - 1 - i], width, flat, at, y, width)
            for j in range(width):
                x[j] = tanh32(y[j] + z[j])
            _dense(x, width, flat, after, y, 1)
            means[i] = tanh32(y[0])
        return
    row = np.empty(2 * width, np.float32)
    share = np.empty(max(jobs, 2 * width), np.float32)
    for _layer in range(layers):
        at = _attend(encoded, jobs, width, flat, at, row, share)
    for i in range(startable):
        after = _dense(encoded[i], width, flat, at, y, width)
        for j in range(width):
            x[j] = max(y[j], np.float32(0.0))
        _dense(x, width, flat, after, y, 1)
        means[i] = tanh32(y[0])
