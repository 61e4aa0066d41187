"""Scores of rows that each are scored apart, kept in a hash table.

A network that scores every candidate on its own scores equal rows once. Most rows stay the same
from one decision to the next (of 27 pairs per decision of the packing workload, 10 are new). The
table has a fixed size; a new row replaces another row in its place. New rows of a decision are
scored side by side, LANES at a time.

Ranks of rules change with the other candidates. Of a network that reads rule columns, the table has
the part of layer 0 that does not depend on these; the rest is computed at every decision.

Both functions that score rows are inlined. A call copies every member of a tuple as an argument,
176 numbers for a network and its table. In an episode of a small network, the calls took a quarter
of the time.
"""

from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, Rows, Singles, Singles2
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.arithmetic import dot4, fma
from hindcast.policies.networks.features import COLUMNS, FeatureMap, expand_row, expand_rules
from hindcast.policies.networks.forward import (
    LANES,
    NetworkArrays,
    activate,
    add_product,
    add_products,
    fill_lanes,
    finish_row,
)
from hindcast.policies.networks.settings import Network

PLACES: Final = 1 << 12  # places of the table of rows; 230 kB with seven columns
SHIFT: Final = np.uint64(64 - 12)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(29)
_HALF: Final = np.uint64(32)
_NEXT: Final = np.uint64(0x3C6EF372FE94F82A)  # even, so that every factor is odd
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)
_CHUNK: Final = 64  # candidates that are looked up before new rows are scored
_FEW: Final = 4  # fewer rows are scored one by one: empty lanes cost as much as used ones

Keys: TypeAlias = Annotated[NDArray[np.uint64], types.Array(types.uint64, 2, "C")]
Tags: TypeAlias = Annotated[NDArray[np.uint64], types.Array(types.uint64, 1, "C")]
Tag: TypeAlias = Annotated[Any, types.uint64]
Columns: TypeAlias = Annotated[NDArray[np.int64], COLUMNS]
_Single: TypeAlias = Annotated[Any, types.float32]


class NewRows(NamedTuple):
    """Scratch for the rows of a chunk of candidates that the table does not have."""

    candidates: Ints  # (_CHUNK,)
    places: Ints  # (_CHUNK,) places in the table
    numbers: Ints  # (_CHUNK,) numbers of the candidates within the chunk
    source: Ints  # (_CHUNK,) per candidate of the chunk: where the result for its row is, or -1
    sums: Singles2  # (_CHUNK, W) per candidate of the chunk: sums of layer 0


class Layers(NamedTuple):
    """Scratch for the layers of a network, for LANES rows."""

    base: Floats
    x: Singles
    h: Singles


class Table(NamedTuple):
    """Hash table of scored rows with S places, and the scratch arrays for scoring new rows."""

    keys: Keys  # (S, n) bits of the n columns that are read
    tags: Tags  # (S,) hash of these bits, compared before them; not set if free
    held: Ints  # (S,) -1 if free; in `gather`, the unique row
    scores: Floats  # (S,)
    sums: Singles2  # (S, W) sums of layer 0, without rule columns
    new: NewRows
    layers: Layers


def scores_rows_apart(network: Network) -> bool:
    """Return whether a score depends only on its candidate's row."""
    return not (network.sees_others or network.context.size or network.settings.image)


def make_table(network: Network, *, used: bool) -> Table:
    """Return an empty table for the candidates of a network; with one place if it is not used."""
    places, columns = PLACES if used else 1, len(network.candidates.columns)
    units = [*network.settings.hidden, network.outputs]
    x, h = np.zeros((2, max(*units, network.candidates.size) * LANES), np.float32)
    kept = places if network.rules.width else 1
    candidates, own_places, numbers, source = np.empty((4, _CHUNK), np.int64)
    chunk_sums = np.empty((_CHUNK, units[0]), np.float32)
    return Table(
        np.empty((places, columns), np.uint64),
        np.empty(places, np.uint64),
        np.full(places, -1, np.int64),
        np.empty(places),
        np.empty((kept, units[0]), np.float32),
        NewRows(candidates, own_places, numbers, source, chunk_sums),
        Layers(np.empty(max(columns, 1)), x, h),
    )


@k.compiled(forceinline=True)
def tag_of(cells: Keys, row: int, columns: Columns) -> Tag:
    """Return the hash of a row: a sum of products, which the processor computes side by side.

    Numbers of few digits differ in their high bits only, so these are mixed into the low bits.
    """
    total, factor = np.uint64(0), _SPREAD
    for j in range(len(columns)):
        cell = cells[row, columns[j]]
        total += (cell ^ (cell >> _HALF)) * factor
        factor += _NEXT
    return (total ^ (total >> _FOLD)) * _SPREAD


@k.compiled(forceinline=True)
def is_held(
    keys: Keys, tags: Tags, held: Ints, cells: Keys, row: int, tag: Tag, columns: Columns
) -> bool:
    """Return whether the table has the row, whose hash is `tag`.

    Neither this function nor `put` has an early exit, with which numba would count references to
    the arrays for every row.
    """
    place = tag >> SHIFT
    different = np.uint64(held[place] < 0) | (tags[place] ^ tag)
    compared = len(columns) if different == np.uint64(0) else 0
    for j in range(compared):
        different |= keys[place, j] ^ cells[row, columns[j]]
    return different == np.uint64(0)  # type: ignore[no-any-return]


@k.compiled(forceinline=True)
def put(keys: Keys, tags: Tags, cells: Keys, row: int, tag: Tag, columns: Columns) -> None:
    """Write the key of a row to the table; the caller sets `held`."""
    place = tag >> SHIFT
    tags[place] = tag
    for j in range(len(columns)):
        keys[place, j] = cells[row, columns[j]]


@k.compiled(forceinline=True)
def _finish_side_by_side(
    network: NetworkArrays,
    at: int,
    x: Singles,
    h: Singles,
    rows: Ints,
    first: int,
    count: int,
    shown: Floats,
) -> None:
    """Fill shown[i] for i in rows[first : first + count], at most LANES, as `finish_row`."""
    widths, tanh, flat = network.widths, network.form.tanh, network.flat
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        activate(h, before * LANES, tanh)
        fill_lanes(flat, at, x, width)
        add_products(h, before, flat, at + width, x, width)
        x, h = h, x
        at += width * (1 + before)
    for lane in range(count):
        shown[rows[first + lane]] = h[lane]


@k.compiled(forceinline=True)
def _begin(candidates: Rows, row: int, inputs: int, network: NetworkArrays, layers: Layers) -> None:
    """Fill h[:width] with layer 0 of the first inputs of a row."""
    width, flat = network.widths[0], network.flat
    base, x, h = layers
    expand_row(candidates[row], network.candidates, base, x)
    h[:width] = flat[:width]
    add_product(x, inputs, flat, width, h, width)


@k.compiled(forceinline=True)
def _begin_side_by_side(
    candidates: Rows,
    rows: Ints,
    first: int,
    count: int,
    inputs: int,
    network: NetworkArrays,
    layers: Layers,
) -> None:
    """Fill h (width, LANES) for rows[first : first + count], at most LANES rows, as `_begin`."""
    width, flat = network.widths[0], network.flat
    base, x, h = layers
    for lane in range(count):
        expand_row(candidates[rows[first + lane]], network.candidates, base, h)
        for j in range(inputs):
            x[j * LANES + lane] = h[j]
    fill_lanes(flat, 0, h, width)
    add_products(x, inputs, flat, width, h, width)


@k.compiled(forceinline=True)
def score_rows_apart(
    candidates: Rows, allowed: Mask, network: NetworkArrays, table: Table, shown: Floats
) -> None:
    """Fill the scores of the feasible candidates, from the table if it has the row.

    The scores of infeasible candidates are left as they are. `allowed` and `shown` have one entry
    per candidate. New rows are scored together; `source` is the number of the new row that a
    candidate repeats. While rows are looked up, `held` of a row without a score is its number among
    the new rows, plus 1.
    """
    candidates, allowed, network, table, shown = uncounted(
        (candidates, allowed, network, table, shown)
    )
    cells = candidates.view(np.uint64)
    columns, widths, flat = network.candidates.columns, network.widths, network.flat
    keys, tags, held, scores = table.keys, table.tags, table.held, table.scores
    rows, places, _numbers, source, _sums = table.new
    _base, x, h = table.layers
    tanh, n = network.form.tanh, len(network.candidates.mean)
    after = widths[0] * (1 + n)
    for begin in range(0, len(shown), _CHUNK):
        end = min(begin + _CHUNK, len(shown))
        count = 0
        for i in range(begin, end):
            if not allowed[i]:
                continue
            source[i - begin] = -1
            tag = tag_of(cells, i, columns)
            place = np.int64(tag >> SHIFT)
            if not is_held(keys, tags, held, cells, i, tag, columns):
                put(keys, tags, cells, i, tag, columns)
                rows[count], places[count] = i, place
                count += 1
                held[place] = count
            elif held[place] == 0:
                shown[i] = scores[place]
            else:
                source[i - begin] = held[place] - 1
        if count == 0:
            continue
        for first in range(0, count, LANES):
            some = min(count - first, LANES)
            if some < _FEW:
                for number in range(first, first + some):
                    _begin(candidates, rows[number], n, network, table.layers)
                    shown[rows[number]] = finish_row(widths, tanh, flat, after, x, h)
            else:
                _begin_side_by_side(candidates, rows, first, some, n, network, table.layers)
                _finish_side_by_side(network, after, x, h, rows, first, some, shown)
        for number in range(count):  # in order: a row may have replaced an earlier one
            held[places[number]] = 0
            scores[places[number]] = shown[rows[number]]
        for i in range(begin, end):
            if allowed[i] and source[i - begin] >= 0:
                shown[i] = shown[rows[source[i - begin]]]


@k.compiled(forceinline=True)
def _standard(
    candidates: Rows, row: Tag, column: Tag, mean: Floats, inverse: Floats, at: Tag
) -> _Single:
    """Return a standardised number of a row, rounded to float32 as inputs are."""
    return np.float32((candidates[row, column] - mean[at]) * inverse[at])


@k.compiled(forceinline=True)
def _add_rules(
    widened: Rows,
    row: int,
    feature_map: FeatureMap,
    ruled: int,
    flat: Singles,
    at: int,
    total: _Single,
) -> _Single:
    """Return `total` plus the product of a row's rule columns and flat[at : at + ruled].

    The bits are those of `expand_rules` and `add_product`.
    """
    mean, inverse = feature_map.mean, feature_map.inverse
    first, own = np.uint64(widened.shape[1] - ruled), np.uint64(len(mean) - ruled)
    place, weight = np.uint64(row), np.uint64(at)
    whole = ruled - ruled % 4
    for unsigned in range(0, whole, 4):
        j = np.uint64(unsigned)
        total += dot4(
            _standard(widened, place, first + j, mean, inverse, own + j),
            flat[weight + j],
            _standard(widened, place, first + j + _1, mean, inverse, own + j + _1),
            flat[weight + j + _1],
            _standard(widened, place, first + j + _2, mean, inverse, own + j + _2),
            flat[weight + j + _2],
            _standard(widened, place, first + j + _3, mean, inverse, own + j + _3),
            flat[weight + j + _3],
        )
    for unsigned in range(whole, ruled):
        j = np.uint64(unsigned)
        value = _standard(widened, place, first + j, mean, inverse, own + j)
        total = fma(value, flat[weight + j], total)
    return total


@k.compiled(forceinline=True)
def score_ruled_rows(
    candidates: Rows,
    widened: Rows,
    feasible_rows: Ints,
    network: NetworkArrays,
    table: Table,
    shown: Floats,
) -> None:
    """Fill the scores of the feasible candidates of a network with rule columns.

    The rule columns are the last ones of `widened`, see
    `hindcast.policies.networks.rules.fill_rule_columns`. The table has the sums of layer 0 of each
    row without the rule columns. `source` is the number of the candidate in the chunk whose sums
    are computed for the row, or -1 if the table had the row. All else is as in `score_rows_apart`.
    """
    candidates, widened, feasible_rows, network, table, shown = uncounted(
        (candidates, widened, feasible_rows, network, table, shown)
    )
    cells = candidates.view(np.uint64)
    columns, flat, ruled = network.candidates.columns, network.flat, network.form.ruled
    keys, tags, held, sums = table.keys, table.tags, table.held, table.sums
    new_rows, places, numbers, source, chunk_sums = table.new
    _base, x, h = table.layers
    own, width = len(network.candidates.mean) - ruled, network.widths[0]
    further = width * (1 + own)  # where the weights of the rule columns begin
    after, linear = further + width * ruled, len(network.widths) == 1
    for begin in range(0, len(feasible_rows), _CHUNK):
        rows = feasible_rows[begin : begin + _CHUNK]
        count = 0
        for number in range(len(rows)):
            i = rows[number]
            source[number] = -1
            tag = tag_of(cells, i, columns)
            place = np.int64(tag >> SHIFT)
            if not is_held(keys, tags, held, cells, i, tag, columns):
                put(keys, tags, cells, i, tag, columns)
                new_rows[count], places[count], numbers[count] = i, place, number
                source[number] = number
                count += 1
                held[place] = count
            elif held[place] != 0:
                source[number] = numbers[held[place] - 1]
            elif linear:
                shown[i] = _add_rules(
                    widened, i, network.candidates, ruled, flat, further, sums[np.uint64(place), 0]
                )
            else:
                for j in range(width):
                    chunk_sums[number, j] = sums[place, j]
        for first in range(0, count, LANES):
            some = min(count - first, LANES)
            if some < _FEW:
                for new in range(first, first + some):
                    _begin(candidates, new_rows[new], own, network, table.layers)
                    for j in range(width):
                        chunk_sums[numbers[new], j] = h[j]
            else:
                _begin_side_by_side(candidates, new_rows, first, some, own, network, table.layers)
                for lane in range(some):
                    for j in range(width):
                        chunk_sums[numbers[first + lane], j] = h[j * LANES + lane]
        for new in range(count):  # in order: a row may have replaced an earlier one
            held[places[new]] = 0
            for j in range(width):
                sums[places[new], j] = chunk_sums[numbers[new], j]
        if linear and count == 0:
            continue
        if linear:
            for number in range(len(rows)):
                if source[number] >= 0:
                    shown[rows[number]] = _add_rules(
                        widened,
                        rows[number],
                        network.candidates,
                        ruled,
                        flat,
                        further,
                        chunk_sums[source[number], 0],
                    )
            continue
        for number in range(len(rows)):
            if source[number] >= 0:
                for j in range(width):
                    chunk_sums[number, j] = chunk_sums[source[number], j]
        for first in range(0, len(rows), LANES):
            some = min(len(rows) - first, LANES)
            for lane in range(some):
                i = rows[first + lane]
                expand_rules(widened, i, network.candidates, ruled, x[lane:], LANES)
                for j in range(width):
                    h[j * LANES + lane] = chunk_sums[first + lane, j]
            add_products(x, ruled, flat, further, h, width)
            _finish_side_by_side(network, after, x, h, rows, first, some, shown)
