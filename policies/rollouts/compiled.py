"""Compiled episodes of a network that draws its choices, and their replay for a gradient.

`sample` plays: it keeps choices and rewards only. `gather` plays the same choices again and writes
down what the network looked at, so that the memory of a batch of long episodes is that of the one
whose gradient is taken. No Python runs between two decisions, and the GIL is free.

A network that looks at every candidate on its own is asked once about equal rows: from one decision
to the next most of them stay (of 27 pairs a decision of the packing workload 10 are new). Both
functions remember rows in a table of fixed size, where a row that falls on the place of another
takes it:

    keys (S, n) uint64   bits of the row's n columns that are read
    held (S,)            -1: free; `gather`: which unique row it is
"""

from typing import Any, Final

import numpy as np
from numba import types

from pipeline.simulation.kernel import (
    ELAPSED,
    FLOATS,
    IMAGE,
    INFEASIBLE,
    INTS,
    MASK,
    OBSERVE,
    REWARD,
    ROWS,
    RUNNING,
    STEP,
    TIME,
    compiled,
)
from pipeline.simulation.policy import GENERATOR, draw_choice
from policies.networks.features import COLUMNS, CONSTANTS, FLAGS, INPUTS, expand_row
from policies.networks.forward import add_product, score_sets

TABLE: Final = 1 << 12  # places of the table of rows; 230 kB with seven columns
_SHIFT: Final = np.uint64(64 - 12)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(29)

# rows of what `sample` writes
N_LOG_PROBABILITY: Final = 0
N_REWARD: Final = 1
N_ELAPSED: Final = 2
N_TIME: Final = 3
NUMBERS: Final = 4

# what has been written: decisions, candidates, unique rows; and the number of the next decision
C_DECISIONS: Final = 0
C_CANDIDATES: Final = 1
C_ROWS: Final = 2
C_NEXT: Final = 3

_MAP: Final = (COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS)
NETWORK: Final = (  # LearnedPolicy.arrays
    *_MAP, *_MAP, COLUMNS, types.boolean, types.int64, types.int64, types.boolean,
    types.int64, types.float64, INPUTS,
)  # fmt: skip
KEYS: Final = types.Array(types.uint64, 2, "C")
_NUMBERS: Final = types.Array(types.float64, 2, "C")
_IMAGES: Final = types.Array(types.uint8, 2, "C")
SCRATCH: Final = (types.Array(types.float64, 1, "C"), INPUTS, INPUTS)


@compiled(types.int64(KEYS, types.int64, COLUMNS))
def _place(cells: Any, row: Any, columns: Any) -> Any:
    """Where in the table a row belongs."""
    h = np.uint64(0)
    for j in range(len(columns)):
        h = (h ^ cells[row, columns[j]]) * _SPREAD
        h ^= h >> _FOLD
    return np.int64((h * _SPREAD) >> _SHIFT)


@compiled(types.boolean(KEYS, INTS, KEYS, types.int64, types.int64, COLUMNS))
def _there(keys: Any, held: Any, cells: Any, row: Any, place: Any, columns: Any) -> Any:
    """Whether the table has the row; where not, it has now (and `held` is for the caller)."""
    same = held[place] >= 0
    if same:
        for j in range(len(columns)):
            if keys[place, j] != cells[row, columns[j]]:
                same = False
                break
    if not same:
        for j in range(len(columns)):
            keys[place, j] = cells[row, columns[j]]
    return same


@compiled(
    types.float64(
        ROWS, types.int64, COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS, COLUMNS,
        types.boolean, INPUTS, *SCRATCH,
    ))  # fmt: skip
def _score(
    candidates: Any, row: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any, base: Any, x: Any, h: Any,
) -> Any:  # fmt: skip
    """Score of one row by a network that reads nothing else, bit for bit that of `score_rows`."""
    n, width = len(mean), widths[0]
    expand_row(candidates[row], columns, heavy, quadratic, mean, inverse, base, x)
    h[:width] = flat[:width]
    add_product(x, n, flat, width, h, width)
    at = width * (1 + n)
    for layer in range(1, len(widths)):
        before, width = widths[layer - 1], widths[layer]
        for j in range(before):
            x[j] = np.tanh(h[j]) if tanh else max(h[j], np.float32(0.0))
        h[:width] = flat[at : at + width]
        add_product(x, before, flat, at + width, h, width)
        at += width * (1 + before)
    return h[0]


@compiled(types.Tuple(SCRATCH)(COLUMNS, CONSTANTS, COLUMNS))  # type: ignore[no-untyped-call]
def make_scratch(columns: Any, mean: Any, widths: Any) -> Any:
    """What `score_alone` works in."""
    widest = max(widths.max(), len(mean))
    base = np.empty(max(len(columns), 1))
    return base, np.empty(widest, np.float32), np.empty(widest, np.float32)


@compiled(
    types.void(
        ROWS, KEYS, MASK, COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS, COLUMNS,
        types.boolean, INPUTS, KEYS, INTS, FLOATS, *SCRATCH, FLOATS,
    ))  # fmt: skip
def score_alone(
    candidates: Any, cells: Any, allowed: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any,
    keys: Any, held: Any, held_scores: Any, base: Any, x: Any, h: Any, shown: Any,
) -> None:  # fmt: skip
    """Fill the scores of the feasible candidates, of rows in the table from there.

    `cells` are the bits of `candidates`; the lengths of `allowed` and `shown` are their number.
    """
    for i in range(len(shown)):
        if not allowed[i]:
            shown[i] = 0.0
            continue
        place = _place(cells, i, columns)
        if not _there(keys, held, cells, i, place, columns):
            held[place] = 0
            held_scores[place] = _score(
                candidates, i, columns, heavy, quadratic, mean, inverse,
                widths, tanh, flat, base, x, h,
            )  # fmt: skip
        shown[i] = held_scores[place]


@compiled(
    types.int64(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), INTS, FLOATS, types.boolean,
        *NETWORK, types.float64, types.float64, GENERATOR,
        FLOATS, IMAGE, ROWS, MASK, FLOATS, FLOATS, KEYS, INTS, FLOATS, FLOATS, FLOATS, INTS,
        _NUMBERS, types.int64,
    ))  # fmt: skip
def sample(
    observe: Any, step: Any, ints: Any, floats: Any, alone: Any,
    c_columns: Any, c_heavy: Any, c_quadratic: Any, c_mean: Any, c_inverse: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, kind: Any, heads: Any, norm: Any, seen: Any, threshold: Any, flat: Any,
    temperature: Any, epsilon: Any, rng: Any,
    context: Any, image: Any, candidates: Any, feasible: Any, scores: Any, probabilities: Any,
    keys: Any, held: Any, held_scores: Any,
    booked: Any, totals: Any, choices: Any, numbers: Any, first: Any,
) -> Any:  # fmt: skip
    """Play from decision `first` until the episode is over or the arrays are full.

    `alone` says that a score depends on its own row only; else the table is not used. Choices are
    drawn from softmax(scores / temperature), or are the best ones at temperature 0, and uniform
    with probability `epsilon`. Returns 4 * decisions + status; the status is RUNNING where the
    arrays are full, and the result INFEASIBLE where a choice is forbidden.
    """
    cells = candidates.view(np.uint64)
    moment, picture = context.reshape((1, len(context))), image.reshape((1, len(image)))
    span = np.zeros(2, np.int64)
    base, x, h = make_scratch(columns, mean, widths)
    at, status = first, RUNNING
    while status == RUNNING and at < len(choices):
        numbers[N_TIME, at] = floats[TIME]
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        if alone:
            score_alone(
                candidates, cells, allowed, columns, heavy, quadratic, mean, inverse,
                widths, tanh, flat, keys, held, held_scores, base, x, h, shown,
            )  # fmt: skip
        else:
            span[1] = n
            score_sets(
                moment, candidates[:n], allowed, picture, span,
                c_columns, c_heavy, c_quadratic, c_mean, c_inverse,
                columns, heavy, quadratic, mean, inverse, widths, tanh, kind, heads, norm, seen,
                threshold, flat, shown,
            )  # fmt: skip
        choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0:
            return INFEASIBLE
        status = step(ints, floats, choice, booked)
        if status == INFEASIBLE:
            return INFEASIBLE
        choices[at] = choice
        drawn = temperature > 0.0 or epsilon > 0.0
        chosen = np.log(probabilities[choice]) if drawn else 0.0
        numbers[N_LOG_PROBABILITY, at] = chosen
        numbers[N_REWARD, at] = booked[REWARD]
        numbers[N_ELAPSED, at] = booked[ELAPSED]
        for k in range(len(booked)):
            totals[k] += booked[k]
        at += 1
    return 4 * at + status


@compiled(
    types.int64(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), INTS, FLOATS, types.boolean,
        COLUMNS, FLOATS, IMAGE, ROWS, MASK, KEYS, INTS, FLOATS, INTS, types.int64, types.int64,
        ROWS, INTS, ROWS, _IMAGES, INTS, INTS, INTS, INTS, INTS,
    ))  # fmt: skip
def gather(
    observe: Any, step: Any, ints: Any, floats: Any, alone: Any, columns: Any,
    context: Any, image: Any, candidates: Any, feasible: Any, keys: Any, held: Any, booked: Any,
    choices: Any, every: Any, offset: Any,
    rows: Any, row_of: Any, contexts: Any, images: Any,
    index: Any, starts: Any, chosen: Any, which: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play the choices again and write down decisions offset, offset + every, ...

    Stops where the next decision might not fit: 0 then, 1 when all choices were made, INFEASIBLE
    where one is forbidden. Layout in `policies.rollouts.trajectories.Looked`.
    """
    cells = candidates.view(np.uint64)
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
                place = _place(cells, i, columns) if alone else 0
                if not alone or not _there(keys, held, cells, i, place, columns):
                    held[place] = u
                    for f in range(rows.shape[1]):
                        rows[u, f] = candidates[i, f]
                    row_of[u] = t
                    u += 1
                index[m] = held[place]
                m += 1
            t += 1
        if step(ints, floats, choice, booked) == INFEASIBLE:
            return INFEASIBLE
        at += 1
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    cursor[C_NEXT] = at
    return code
