"""Scores of rows that each stand alone, kept in a hash table.

A network that scores every candidate on its own scores equal rows once. Most rows stay the same
from one decision to the next (of 27 pairs per decision of the packing workload, 10 are new). The
table has a fixed size; a new row replaces another row in its place. New rows of a decision are
scored side by side, LANES at a time.

Ranks of rules change with the other candidates. Of a network that reads rule columns, the table has
the part of layer 0 that does not depend on these; the rest is computed at every decision.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import named
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.arithmetic import dot4, fma
from hindcast.policies.networks.features import COLUMNS, INPUTS, expand_row, expand_rules
from hindcast.policies.networks.forward import (
    LANES,
    NETWORK,
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
_ROOM: Final = 64  # candidates that are looked up before new rows are scored
_FEW: Final = 4  # fewer rows are scored one by one: empty lanes cost as much as used ones

KEYS: Final = types.Array(types.uint64, 2, "C")
_TAGS: Final = types.Array(types.uint64, 1, "C")
_PARTS: Final = types.Array(types.float32, 2, "C")


class Table(NamedTuple):
    """Hash table of scored rows with S places, and the scratch arrays for scoring new rows."""

    keys: NDArray[np.uint64]  # (S, n) bits of the n columns that are read
    tags: NDArray[np.uint64]  # (S,) hash of these bits, compared before them
    held: NDArray[np.int64]  # (S,) -1 if free; in `gather`, the unique row
    scores: NDArray[np.float64]  # (S,)
    parts: NDArray[np.float32]  # (S, W) of W units of layer 0, without rule columns
    room: NDArray[np.int64]  # (4, _ROOM) scratch, see `score_alone` and `score_ruled`
    near: NDArray[np.float32]  # (_ROOM, W) scratch, see `score_ruled`
    base: NDArray[np.float64]
    x: NDArray[np.float32]
    h: NDArray[np.float32]


TABLE: Final = named(
    Table, KEYS, _TAGS, k.INTS, k.FLOATS, _PARTS, k.INTS2, _PARTS, k.FLOATS, INPUTS, INPUTS
)


def looks_alone(network: Network) -> bool:
    """Return whether a score depends only on its candidate's row."""
    return not (network.sees_others or network.context.size or network.settings.image)


def make_table(network: Network, *, used: bool) -> Table:
    """Return an empty table for the candidates of a network; with one place if it is not used."""
    places, columns = PLACES if used else 1, len(network.candidates.columns)
    units = [*network.settings.hidden, network.outputs]
    x, h = np.zeros((2, max(*units, network.candidates.size) * LANES), np.float32)
    kept = places if network.rules.width else 1
    return Table(
        np.empty((places, columns), np.uint64), np.zeros(places, np.uint64),
        np.full(places, -1, np.int64), np.empty(places), np.empty((kept, units[0]), np.float32),
        np.empty((4, _ROOM), np.int64), np.empty((_ROOM, units[0]), np.float32),
        np.empty(max(columns, 1)), x, h,
    )  # fmt: skip


@k.compiled(types.uint64(KEYS, types.int64, COLUMNS), forceinline=True)
def tag_of(cells: Any, row: Any, columns: Any) -> Any:
    """Return the hash of a row: a sum of products, which the processor computes side by side.

    Numbers of few digits differ in their high bits only, so these are mixed into the low bits.
    """
    total, factor = np.uint64(0), _SPREAD
    for j in range(len(columns)):
        cell = cells[row, columns[j]]
        total += (cell ^ (cell >> _HALF)) * factor
        factor += _NEXT
    return (total ^ (total >> _FOLD)) * _SPREAD


@k.compiled(
    types.boolean(KEYS, _TAGS, k.INTS, KEYS, types.int64, types.uint64, COLUMNS), forceinline=True
)
def is_held(keys: Any, tags: Any, held: Any, cells: Any, row: Any, tag: Any, columns: Any) -> Any:
    """Return whether the table has the row, whose hash is `tag`.

    Neither this function nor `put` has an early exit, with which numba would count references to
    the arrays for every row.
    """
    place = tag >> SHIFT
    different = np.uint64(held[place] < 0) | (tags[place] ^ tag)
    compared = len(columns) if different == np.uint64(0) else 0
    for j in range(compared):
        different |= keys[place, j] ^ cells[row, columns[j]]
    return different == np.uint64(0)


@k.compiled(types.void(KEYS, _TAGS, KEYS, types.int64, types.uint64, COLUMNS), forceinline=True)
def put(keys: Any, tags: Any, cells: Any, row: Any, tag: Any, columns: Any) -> None:
    """Write the key of a row to the table; the caller sets `held`."""
    place = tag >> SHIFT
    tags[place] = tag
    for j in range(len(columns)):
        keys[place, j] = cells[row, columns[j]]


@k.compiled(
    types.void(
        k.INTS, types.boolean, INPUTS, types.int64, INPUTS, INPUTS,
        k.INTS, types.int64, types.int64, k.FLOATS,
    ),
    forceinline=True,
)  # fmt: skip
def _finish_side_by_side(
    widths: Any, tanh: Any, flat: Any, at: Any, x: Any, h: Any,
    rows: Any, first: Any, count: Any, shown: Any,
) -> None:  # fmt: skip
    """Fill shown[i] for i in rows[first : first + count], at most LANES, as `finish_row`."""
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        activate(h, before * LANES, tanh)
        fill_lanes(flat, at, x, width)
        add_products(h, before, flat, at + width, x, width)
        x, h = h, x
        at += width * (1 + before)
    for lane in range(count):
        shown[rows[first + lane]] = h[lane]


@k.compiled(
    types.void(
        k.ROWS, types.int64, types.int64, k.INTS, k.MASK, types.int64, k.FLOATS, k.FLOATS,
        types.int64, INPUTS, k.FLOATS, INPUTS, INPUTS,
    ),
    forceinline=True,
)  # fmt: skip
def _begin(
    candidates: Any, row: Any, own: Any,
    columns: Any, heavy: Any, products: Any, mean: Any, inverse: Any,
    width: Any, flat: Any, base: Any, x: Any, h: Any,
) -> None:  # fmt: skip
    """Fill h[:width] with layer 0 of the first `own` inputs of a row."""
    expand_row(candidates[row], columns, heavy, products, mean, inverse, base, x)
    h[:width] = flat[:width]
    add_product(x, own, flat, width, h, width)


@k.compiled(
    types.void(
        k.ROWS, k.INTS, types.int64, types.int64, types.int64, k.INTS, k.MASK, types.int64,
        k.FLOATS, k.FLOATS, types.int64, INPUTS, k.FLOATS, INPUTS, INPUTS,
    ),
    forceinline=True,
)  # fmt: skip
def _begin_side_by_side(
    candidates: Any, rows: Any, first: Any, count: Any, own: Any,
    columns: Any, heavy: Any, products: Any, mean: Any, inverse: Any,
    width: Any, flat: Any, base: Any, x: Any, h: Any,
) -> None:  # fmt: skip
    """Fill h (width, LANES) for rows[first : first + count], at most LANES rows, as `_begin`."""
    for lane in range(count):
        expand_row(candidates[rows[first + lane]], columns, heavy, products, mean, inverse, base, h)
        for j in range(own):
            x[j * LANES + lane] = h[j]
    fill_lanes(flat, 0, h, width)
    add_products(x, own, flat, width, h, width)


@k.compiled(types.void(k.ROWS, k.MASK, NETWORK, TABLE, k.FLOATS))
def score_alone(candidates: Any, allowed: Any, network: Any, table: Any, shown: Any) -> None:
    """Fill the scores of the feasible candidates, from the table if it has the row.

    The scores of infeasible candidates are left as they are.

    `allowed` and `shown` have one entry per candidate. New rows are scored together: room[0] has
    their candidates, room[1] their places in the table, and room[2] has for every candidate the
    number of the new row that it repeats, or -1. While rows are looked up, `held` of a row without
    a score is its number among the new rows, plus 1.
    """
    candidates, allowed, network, table, shown = uncounted(
        (candidates, allowed, network, table, shown)
    )
    cells = candidates.view(np.uint64)
    columns, heavy, products, mean, inverse, widths, form, flat = network[5:]
    keys, tags, held, held_scores, _parts, room, _near, base, x, h = table
    tanh = form.tanh
    fresh, places, source = room[0], room[1], room[2]
    n, width = len(mean), widths[0]
    after = width * (1 + n)
    for begin in range(0, len(shown), _ROOM):
        end = min(begin + _ROOM, len(shown))
        count = 0
        for i in range(begin, end):
            if not allowed[i]:
                continue
            source[i - begin] = -1
            tag = tag_of(cells, i, columns)
            place = np.int64(tag >> SHIFT)
            if not is_held(keys, tags, held, cells, i, tag, columns):
                put(keys, tags, cells, i, tag, columns)
                fresh[count], places[count] = i, place
                count += 1
                held[place] = count
            elif held[place] == 0:
                shown[i] = held_scores[place]
            else:
                source[i - begin] = held[place] - 1
        if count == 0:
            continue
        for first in range(0, count, LANES):
            some = min(count - first, LANES)
            if some < _FEW:
                for number in range(first, first + some):
                    _begin(
                        candidates, fresh[number], n, columns, heavy, products, mean, inverse,
                        width, flat, base, x, h,
                    )  # fmt: skip
                    shown[fresh[number]] = finish_row(widths, tanh, flat, after, x, h)
            else:
                _begin_side_by_side(
                    candidates, fresh, first, some, n, columns, heavy, products, mean, inverse,
                    width, flat, base, x, h,
                )  # fmt: skip
                _finish_side_by_side(widths, tanh, flat, after, x, h, fresh, first, some, shown)
        for number in range(count):  # in order: a row may have replaced an earlier one
            held[places[number]] = 0
            held_scores[places[number]] = shown[fresh[number]]
        for i in range(begin, end):
            if allowed[i] and source[i - begin] >= 0:
                shown[i] = shown[fresh[source[i - begin]]]


@k.compiled(
    types.float32(k.ROWS, types.uint64, types.uint64, k.FLOATS, k.FLOATS, types.uint64),
    forceinline=True,
)
def _standard(candidates: Any, row: Any, column: Any, mean: Any, inverse: Any, at: Any) -> Any:
    """Return a standardised number of a row, rounded to float32 as inputs are."""
    return np.float32((candidates[row, column] - mean[at]) * inverse[at])


@k.compiled(
    types.float32(
        k.ROWS, types.int64, k.FLOATS, k.FLOATS, types.int64, INPUTS, types.int64, types.float32
    ),
    forceinline=True,
)
def _add_rules(
    wide: Any, row: Any, mean: Any, inverse: Any, ruled: Any, flat: Any, at: Any, total: Any
) -> Any:
    """Return `total` plus the product of a row's rule columns and flat[at : at + ruled].

    The bits are those of `expand_rules` and `add_product`.
    """
    first, own = np.uint64(wide.shape[1] - ruled), np.uint64(len(mean) - ruled)
    place, weight = np.uint64(row), np.uint64(at)
    whole = ruled - ruled % 4
    for unsigned in range(0, whole, 4):
        j = np.uint64(unsigned)
        total += dot4(
            _standard(wide, place, first + j, mean, inverse, own + j), flat[weight + j],
            _standard(wide, place, first + j + _1, mean, inverse, own + j + _1),
            flat[weight + j + _1],
            _standard(wide, place, first + j + _2, mean, inverse, own + j + _2),
            flat[weight + j + _2],
            _standard(wide, place, first + j + _3, mean, inverse, own + j + _3),
            flat[weight + j + _3],
        )  # fmt: skip
    for unsigned in range(whole, ruled):
        j = np.uint64(unsigned)
        value = _standard(wide, place, first + j, mean, inverse, own + j)
        total = fma(value, flat[weight + j], total)
    return total


@k.compiled(types.void(k.ROWS, k.ROWS, k.INTS, NETWORK, TABLE, k.FLOATS))
def score_ruled(
    candidates: Any, wide: Any, able: Any, network: Any, table: Any, shown: Any
) -> None:
    """Fill the scores of the candidates `able` of a network with rule columns.

    The rule columns are the last ones of `wide`, and `able` has the rows of the feasible
    candidates, see `hindcast.policies.networks.rules.fill_rule_columns`. The table has layer 0 of
    each row without the rule columns. `near` has this part for the candidates that are looked up
    together. room[2] has for every candidate the entry of `near` that is computed for its row, or
    -1 if the table had the row; room[3] has the entry of every new row. The other arrays are those
    of `score_alone`.
    """
    candidates, wide, able, network, table, shown = uncounted(
        (candidates, wide, able, network, table, shown)
    )
    cells = candidates.view(np.uint64)
    columns, heavy, products, mean, inverse, widths, form, flat = network[5:]
    keys, tags, held, _scores, parts, room, near, base, x, h = table
    tanh, ruled = form.tanh, form.ruled
    fresh, places, source, entries = room[0], room[1], room[2], room[3]
    own, width = len(mean) - ruled, widths[0]
    further = width * (1 + own)  # where the weights of the rule columns begin
    after, linear = further + width * ruled, len(widths) == 1
    for begin in range(0, len(able), _ROOM):
        rows = able[begin : begin + _ROOM]
        count = 0
        for entry in range(len(rows)):
            i = rows[entry]
            source[entry] = -1
            tag = tag_of(cells, i, columns)
            place = np.int64(tag >> SHIFT)
            if not is_held(keys, tags, held, cells, i, tag, columns):
                put(keys, tags, cells, i, tag, columns)
                fresh[count], places[count], entries[count] = i, place, entry
                source[entry] = entry
                count += 1
                held[place] = count
            elif held[place] != 0:
                source[entry] = entries[held[place] - 1]
            elif linear:
                shown[i] = _add_rules(
                    wide, i, mean, inverse, ruled, flat, further, parts[np.uint64(place), 0]
                )
            else:
                for j in range(width):
                    near[entry, j] = parts[place, j]
        for first in range(0, count, LANES):
            some = min(count - first, LANES)
            if some < _FEW:
                for number in range(first, first + some):
                    _begin(
                        candidates, fresh[number], own, columns, heavy, products, mean, inverse,
                        width, flat, base, x, h,
                    )  # fmt: skip
                    for j in range(width):
                        near[entries[number], j] = h[j]
            else:
                _begin_side_by_side(
                    candidates, fresh, first, some, own, columns, heavy, products, mean, inverse,
                    width, flat, base, x, h,
                )  # fmt: skip
                for lane in range(some):
                    for j in range(width):
                        near[entries[first + lane], j] = h[j * LANES + lane]
        for number in range(count):  # in order: a row may have replaced an earlier one
            held[places[number]] = 0
            for j in range(width):
                parts[places[number], j] = near[entries[number], j]
        if linear and count == 0:
            continue
        if linear:
            for entry in range(len(rows)):
                if source[entry] >= 0:
                    shown[rows[entry]] = _add_rules(
                        wide, rows[entry], mean, inverse, ruled, flat, further,
                        near[source[entry], 0],
                    )  # fmt: skip
            continue
        for entry in range(len(rows)):
            if source[entry] >= 0:
                for j in range(width):
                    near[entry, j] = near[source[entry], j]
        for first in range(0, len(rows), LANES):
            some = min(len(rows) - first, LANES)
            for lane in range(some):
                i = rows[first + lane]
                expand_rules(wide, i, mean, inverse, ruled, x[lane:], LANES)
                for j in range(width):
                    h[j * LANES + lane] = near[first + lane, j]
            add_products(x, ruled, flat, further, h, width)
            _finish_side_by_side(widths, tanh, flat, after, x, h, rows, first, some, shown)
