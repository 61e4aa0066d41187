"""Compiled episodes of a network that draws its choices, and their replay for a gradient.

`sample` plays an episode and keeps only choices and rewards. `gather` plays the same choices again
and writes the network's inputs. A batch of long episodes then needs the inputs of only one episode
in memory, the one whose gradient is computed. No Python runs between two decisions, and the GIL is
released.

A network that scores every candidate on its own scores equal rows once. Most rows stay the same
from one decision to the next (of 27 pairs per decision of the packing workload, 10 are new). Both
functions keep rows in a hash table of fixed size; a new row replaces another row in its place. New
rows of a decision are scored side by side, LANES at a time.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.simulation import kernel as k
from pipeline.simulation.arrays import EPISODE, STEPS, named
from pipeline.simulation.functions import OBSERVE_CELL, STEP_CELL
from pipeline.simulation.policy import GENERATOR, draw_choice, fill_probabilities
from policies.networks.arithmetic import tanh32
from policies.networks.features import COLUMNS, INPUTS, expand_row
from policies.networks.forward import (
    LANES,
    NETWORK,
    NetworkArrays,
    activate,
    add_product,
    add_products,
    fill_lanes,
    score_sets,
)
from policies.networks.rules import RULES, rule_buffers, widen
from policies.networks.settings import Network

PLACES: Final = 1 << 12  # places of the table of rows; 230 kB with seven columns
_SHIFT: Final = np.uint64(64 - 12)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(29)
_HALF: Final = np.uint64(32)
_NEXT: Final = np.uint64(0x3C6EF372FE94F82A)  # even, so that every factor is odd
_ROOM: Final = 64  # candidates that are looked up before new rows are scored
_FEW: Final = 4  # fewer rows are scored one by one: empty lanes cost as much as used ones

# rows of the array `numbers` that `sample` writes
N_LOG_PROBABILITY: Final = 0
N_REWARD: Final = 1
N_ELAPSED: Final = 2
N_TIME: Final = 3
NUMBERS: Final = 4

# members of the cursor: decisions, candidates and unique rows written; the next decision
C_DECISIONS: Final = 0
C_CANDIDATES: Final = 1
C_ROWS: Final = 2
C_NEXT: Final = 3

_KEYS: Final = types.Array(types.uint64, 2, "C")


class Table(NamedTuple):
    """Hash table of scored rows with S places, and the scratch arrays for scoring new rows."""

    keys: NDArray[np.uint64]  # (S, n) bits of the n columns that are read
    tags: NDArray[np.uint64]  # (S,) hash of these bits, compared before them
    held: NDArray[np.int64]  # (S,) -1 if free; in `gather`, the unique row
    scores: NDArray[np.float64]  # (S,)
    room: NDArray[np.int64]  # (3, _ROOM) scratch, see `score_alone`
    base: NDArray[np.float64]
    x: NDArray[np.float32]
    h: NDArray[np.float32]


class DeciderArrays(NamedTuple):
    """A network that decides, or if `guided` a rule with these parameters instead."""

    guided: bool
    parameters: NDArray[np.float64]
    alone: bool  # whether a score depends only on its row; if not, the table is unused
    network: NetworkArrays
    table: Table


class LookedArrays(NamedTuple):
    """Buffers for the arrays of a `policies.rollouts.trajectories.NetworkInputs`."""

    rows: NDArray[np.float64]
    row_of: NDArray[np.int64]
    context: NDArray[np.float64]
    image: NDArray[np.uint8]
    row_numbers: NDArray[np.int64]  # `index` of NetworkInputs
    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    decision: NDArray[np.int64]


_TAGS: Final = types.Array(types.uint64, 1, "C")
TABLE: Final = named(Table, _KEYS, _TAGS, k.INTS, k.FLOATS, k.INTS2, k.FLOATS, INPUTS, INPUTS)
DECIDER: Final = named(DeciderArrays, types.boolean, k.FLOATS, types.boolean, NETWORK, TABLE)
LOOKED: Final = named(
    LookedArrays, k.ROWS, k.INTS, k.ROWS, types.Array(types.uint8, 2, "C"), *[k.INTS] * 4
)


def make_table(network: Network, *, used: bool) -> Table:
    """Return an empty table for the candidates of a network; with one place if it is not used."""
    places, columns = PLACES if used else 1, len(network.candidates.columns)
    widest = max(*network.settings.hidden, network.outputs, network.candidates.size)
    x, h = np.zeros((2, widest * LANES), np.float32)
    return Table(
        np.empty((places, columns), np.uint64), np.zeros(places, np.uint64),
        np.full(places, -1, np.int64), np.empty(places), np.empty((3, _ROOM), np.int64),
        np.empty(max(columns, 1)), x, h,
    )  # fmt: skip


@k.compiled(types.uint64(_KEYS, types.int64, COLUMNS), forceinline=True)
def _tag(cells: Any, row: Any, columns: Any) -> Any:
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
    types.boolean(_KEYS, _TAGS, k.INTS, _KEYS, types.int64, types.uint64, COLUMNS), forceinline=True
)
def _there(keys: Any, tags: Any, held: Any, cells: Any, row: Any, tag: Any, columns: Any) -> Any:
    """Return whether the table has the row; if not, write its key (the caller sets `held`)."""
    place = tag >> _SHIFT
    same = held[place] >= 0 and tags[place] == tag
    if same:
        for j in range(len(columns)):
            if keys[place, j] != cells[row, columns[j]]:
                same = False
                break
    if not same:
        tags[place] = tag
        for j in range(len(columns)):
            keys[place, j] = cells[row, columns[j]]
    return same


@k.compiled(
    types.float64(
        k.ROWS, types.int64, k.INTS, k.MASK, types.int64, k.FLOATS, k.FLOATS, k.INTS,
        types.boolean, INPUTS, k.FLOATS, INPUTS, INPUTS,
    ))  # fmt: skip
def _score(
    candidates: Any, row: Any,
    columns: Any, heavy: Any, products: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any, base: Any, x: Any, h: Any,
) -> Any:  # fmt: skip
    """Return the score of one row, bit for bit that of `score_rows`."""
    n, width = len(mean), widths[0]
    expand_row(candidates[row], columns, heavy, products, mean, inverse, base, x)
    h[:width] = flat[:width]
    add_product(x, n, flat, width, h, width)
    at = width * (1 + n)
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        for j in range(before):
            x[j] = tanh32(h[j]) if tanh else max(h[j], np.float32(0.0))
        h[:width] = flat[at : at + width]
        add_product(x, before, flat, at + width, h, width)
        at += width * (1 + before)
    return h[0]


@k.compiled(
    types.void(
        k.ROWS, k.INTS, types.int64, types.int64, k.INTS, k.MASK, types.int64, k.FLOATS, k.FLOATS,
        k.INTS, types.boolean, INPUTS, k.FLOATS, INPUTS, INPUTS, k.FLOATS,
    ))  # fmt: skip
def _score_side_by_side(
    candidates: Any, fresh: Any, first: Any, count: Any,
    columns: Any, heavy: Any, products: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any, base: Any, x: Any, h: Any, shown: Any,
) -> None:  # fmt: skip
    """Fill shown[i] for i in fresh[first : first + count], at most LANES rows, as `_score` does."""
    n, width = len(mean), widths[0]
    for lane in range(count):
        expand_row(
            candidates[fresh[first + lane]], columns, heavy, products, mean, inverse, base, h
        )
        for j in range(n):
            x[j * LANES + lane] = h[j]
    fill_lanes(flat, 0, h, width)
    add_products(x, n, flat, width, h, width)
    at = width * (1 + n)
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        activate(h, before * LANES, tanh)
        fill_lanes(flat, at, x, width)
        add_products(h, before, flat, at + width, x, width)
        x, h = h, x
        at += width * (1 + before)
    for lane in range(count):
        shown[fresh[first + lane]] = h[lane]


@k.compiled(
    types.void(
        k.ROWS, _KEYS, k.MASK, k.INTS, k.MASK, types.int64, k.FLOATS, k.FLOATS, k.INTS,
        types.boolean, INPUTS, _KEYS, _TAGS, k.INTS, k.FLOATS, k.INTS2,
        k.FLOATS, INPUTS, INPUTS, k.FLOATS,
    ))  # fmt: skip
def score_alone(
    candidates: Any, cells: Any, allowed: Any,
    columns: Any, heavy: Any, products: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any,
    keys: Any, tags: Any, held: Any, held_scores: Any, room: Any,
    base: Any, x: Any, h: Any, shown: Any,
) -> None:  # fmt: skip
    """Fill the scores of the feasible candidates, from the table if it has the row.

    `cells` are the bits of `candidates`; `allowed` and `shown` have one entry per candidate. New
    rows are scored together: room[0] has their candidates, room[1] their places in the table, and
    room[2] has for every candidate the number of the new row that it repeats, or -1. While rows are
    looked up, `held` of a row without a score is its number among the new rows, plus 1.

    The members of NetworkArrays and Table are 16 parameters, not two, because taking arrays out of
    a named tuple counts references. Doing so once per decision here made episodes of `slots` 13 %
    slower (.37 against .33 ms), once per row in `_score` 45 %. `sample` takes them out once.
    """
    fresh, places, source = room[0], room[1], room[2]
    for begin in range(0, len(shown), _ROOM):
        end = min(begin + _ROOM, len(shown))
        count = 0
        for i in range(begin, end):
            source[i - begin] = -1
            if not allowed[i]:
                shown[i] = 0.0
                continue
            tag = _tag(cells, i, columns)
            place = np.int64(tag >> _SHIFT)
            if not _there(keys, tags, held, cells, i, tag, columns):
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
                    shown[fresh[number]] = _score(
                        candidates, fresh[number], columns, heavy, products, mean, inverse,
                        widths, tanh, flat, base, x, h,
                    )  # fmt: skip
            else:
                _score_side_by_side(
                    candidates, fresh, first, some, columns, heavy, products, mean, inverse,
                    widths, tanh, flat, base, x, h, shown,
                )  # fmt: skip
        for number in range(count):  # in order: a row may have replaced an earlier one
            held[places[number]] = 0
            held_scores[places[number]] = shown[fresh[number]]
        for i in range(begin, end):
            if source[i - begin] >= 0:
                shown[i] = shown[fresh[source[i - begin]]]


@k.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, DECIDER, RULES,
        types.float64, types.float64, GENERATOR, k.INTS, k.ROWS, types.int64,
    ))  # fmt: skip
def sample(
    observe: Any, step: Any, episode: Any, arrays: Any, decider: Any, rules: Any,
    temperature: Any, epsilon: Any, rng: Any, choices: Any, numbers: Any, first: Any,
) -> Any:  # fmt: skip
    """Play from decision `first` until the episode is over or the arrays are full.

    The decider's network, which reads the columns of `rules`, draws from softmax(scores /
    temperature), or takes the best candidate at temperature 0; with probability `epsilon` the
    choice is uniform. Returns 4 * decisions + status, where the status is RUNNING if the arrays are
    full; or INFEASIBLE for a forbidden choice.
    """
    observe, step = observe[0], step[0]
    ints, floats, context, image, candidates, feasible = episode
    scores, probabilities, step_outputs, totals = arrays
    _guided, _parameters, alone, network, table = decider
    (
        c_columns, c_heavy, c_products, c_mean, c_inverse,
        columns, heavy, products, mean, inverse, widths, form, flat,
    ) = network  # fmt: skip
    keys, tags, held, held_scores, room, base, x, h = table
    wide, able, values = rule_buffers(rules, candidates)
    ruled = len(rules) > 0
    rows = wide if ruled else candidates
    cells = rows.view(np.uint64)
    moment, picture = context.reshape((1, len(context))), image.reshape((1, len(image)))
    span = np.zeros(2, np.int64)
    at, status = first, k.RUNNING
    while status == k.RUNNING and at < len(choices):
        numbers[N_TIME, at] = floats[k.TIME]
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        if ruled:
            widen(rules, context, candidates[:n], allowed, shown, wide, able, values)
        if alone:
            score_alone(
                rows, cells, allowed, columns, heavy, products, mean, inverse,
                widths, form.tanh, flat, keys, tags, held, held_scores, room, base, x, h, shown,
            )  # fmt: skip
        else:
            span[1] = n
            score_sets(
                moment, rows[:n], allowed, picture, span,
                c_columns, c_heavy, c_products, c_mean, c_inverse,
                columns, heavy, products, mean, inverse, widths, form, flat, shown,
            )  # fmt: skip
        choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0:
            return k.INFEASIBLE
        status = step(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        choices[at] = choice
        if epsilon > 0.0:  # draw_choice leaves epsilon out, and fills none for a uniform draw
            fill_probabilities(shown, allowed, temperature, epsilon, probabilities)
        drawn = temperature > 0.0 or epsilon > 0.0
        chosen = np.log(probabilities[choice]) if drawn else 0.0
        numbers[N_LOG_PROBABILITY, at] = chosen
        numbers[N_REWARD, at] = step_outputs[k.REWARD]
        numbers[N_ELAPSED, at] = step_outputs[k.ELAPSED]
        for term in range(len(step_outputs)):
            totals[term] += step_outputs[term]
        at += 1
    return 4 * at + status


@k.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, types.boolean,
        COLUMNS, TABLE, RULES, k.INTS, types.int64, types.int64, LOOKED, k.INTS,
    ))  # fmt: skip
def gather(
    observe: Any, step: Any, episode: Any, arrays: Any, alone: Any, columns: Any, table: Any,
    rules: Any, choices: Any, every: Any, offset: Any, looked: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play the choices again and write decisions offset, offset + every, ... to `looked`.

    Returns 0 if the next decision might not fit into `looked`, 1 when all choices are made, and
    INFEASIBLE for a forbidden choice. The layout is that of
    `policies.rollouts.trajectories.NetworkInputs`.
    """
    observe, step = observe[0], step[0]
    ints, floats, context, image, candidates, feasible = episode
    rows, row_of, contexts, images, index, starts, chosen, which = looked
    wide, able, values = rule_buffers(rules, candidates)
    ruled = len(rules) > 0
    seen = wide if ruled else candidates
    keys, tags, held, cells = table.keys, table.tags, table.held, seen.view(np.uint64)
    capacity = len(feasible)
    t, m, u = cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS]
    at, code = cursor[C_NEXT], 1
    while at < len(choices):
        if t == len(chosen) or m + capacity > len(index) or u + capacity > len(rows):
            code = 0
            break
        n = observe(ints, floats, context, image, candidates, feasible)
        choice = choices[at]
        if at % every == offset:
            if ruled:
                widen(
                    rules,
                    context,
                    candidates[:n],
                    feasible[:n],
                    arrays.scores[:n],
                    wide,
                    able,
                    values,
                )
            starts[t] = m
            which[t] = at
            for c in range(contexts.shape[1]):
                contexts[t, c] = context[c]
            for p in range(images.shape[1]):
                images[t, p] = image[p]
            for i in range(n):
                if not feasible[i]:
                    continue
                if i == choice:
                    chosen[t] = m
                tag = _tag(cells, i, columns) if alone else np.uint64(0)
                place = np.int64(tag >> _SHIFT)
                if not alone or not _there(keys, tags, held, cells, i, tag, columns):
                    held[place] = u
                    for f in range(rows.shape[1]):
                        rows[u, f] = seen[i, f]
                    row_of[u] = t
                    u += 1
                index[m] = held[place]
                m += 1
            t += 1
        if step(ints, floats, choice, arrays.step_outputs) == k.INFEASIBLE:
            return k.INFEASIBLE
        at += 1
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    cursor[C_NEXT] = at
    return code
