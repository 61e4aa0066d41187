"""Candidate sets of any size as arrays of K: larger sets are cut, smaller ones padded.

A set of at most K candidates keeps all of them, in their order. A larger set keeps the chosen
candidate and K - 1 of the other feasible ones, drawn uniformly, in their order; `drawn` is the
number of feasible candidates before the cut.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray


@dataclass(frozen=True)
class Padded:
    """Candidates of D observations.

    Attributes:
        candidates: (D, K, F) float32, zeros for padding.
        mask: (D, K) bool, feasible and not padding.
        choice: (D,) int64, position of the chosen candidate among the K; -1 if none was chosen.
        drawn: (D,) int64, number of feasible candidates before the cut.
        probabilities: (D, K) float32, those of the behaviour among the K, zeros where the mask is
            false. None if they are not wanted.
    """

    candidates: NDArray[np.float32]
    mask: NDArray[np.bool_]
    choice: NDArray[np.int64]
    drawn: NDArray[np.int64]
    probabilities: NDArray[np.float32] | None = None


_NONE: Final = np.zeros(0, np.float32)
_NO_ROWS: Final = np.zeros((0, 0), np.float32)


def pad(
    offsets: NDArray[np.int64],
    candidates: NDArray[np.float32],
    feasible: NDArray[np.bool_],
    rows: NDArray[np.int64],
    choice: NDArray[np.int64],
    rng: np.random.Generator,
    out: Padded,
    probabilities: NDArray[np.float32] | None = None,
) -> None:
    """Fill `out` with the candidates of `rows` (D,), of which `choice` (D,) was chosen, or -1.

    `offsets` (R + 1,) point into `candidates` (V, F), `feasible` (V,) and, if `out` has room for
    them, `probabilities` (V,), as in `hindcast.pipeline.dataset.part.Block`. Only sets larger than
    K draw from `rng`. The other K - 1 are drawn uniformly, so given the K the choice was the
    behaviour's with its probabilities divided by their sum. Raises IndexError if an index is out of
    bounds, which the compiled loop does not check.
    """
    inside = len(rows) == 0 or (rows.min() >= 0 and rows.max() + 1 < len(offsets))
    room = len(out.candidates) == len(out.mask) == len(out.choice) == len(out.drawn) == len(rows)
    held = len(choice) == len(rows) and len(candidates) == len(feasible) >= offsets[-1]
    given, wanted = _NONE, _NO_ROWS
    if out.probabilities is not None:
        given, wanted = _NONE if probabilities is None else probabilities, out.probabilities
        held = held and len(given) == len(candidates) and wanted.shape == out.mask.shape
    if not (inside and room and held and out.candidates.shape[1] == out.mask.shape[1] > 0):
        raise IndexError(
            f"{len(rows)} rows of {len(offsets) - 1}, their candidates and `out` differ in length "
            "or are out of bounds"
        )
    _pad(
        offsets, candidates, feasible, given, rows, choice, rng,
        out.candidates, out.mask, wanted, out.choice, out.drawn,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _keep(offsets, feasible, row, choice, rng, kept, pool, stays):  # type: ignore[no-untyped-def]
    """Write into `kept` (K,) which candidates of a row stay, ascending.

    Returns (number that stay, position of the choice among them, number of feasible candidates).
    `pool` (int64) and `stays` (bool) are scratch for at least as many candidates as the row has.
    """
    start, stop = offsets[row], offsets[row + 1]
    n, k = stop - start, len(kept)
    feasible_ones = 0
    for i in range(start, stop):
        feasible_ones += feasible[i]
    if n <= k:
        for i in range(n):
            kept[i] = start + i
        return n, choice, feasible_ones
    size = 0
    for i in range(n):
        stays[i] = i == choice
        pool[size] = i  # without a branch, which would be guessed wrong too often
        size += feasible[start + i] and i != choice
    draws = min(k - (choice >= 0), size)
    for i in range(draws):
        j = i + int(rng.random() * (size - i))
        pool[i], pool[j] = pool[j], pool[i]
        stays[pool[i]] = True
    total = draws + (choice >= 0)
    used, position, i = 0, -1, 0
    while used < total:
        if i == choice:
            position = used
        kept[used] = start + i
        used += stays[i]
        i += 1
    return used, position, feasible_ones


@njit(cache=True, nogil=True)
def largest_set(offsets, rows):  # type: ignore[no-untyped-def]
    """Return the size of the largest candidate set of these rows."""
    n = 0
    for row in rows:
        n = max(n, offsets[row + 1] - offsets[row])
    return n


@njit(cache=True, nogil=True)
def pick(offsets, feasible, rows, choice, rng, index, position, drawn):  # type: ignore[no-untyped-def]
    """Fill index (D, K) with the candidates of each row that stay, ascending, -1 for padding.

    `position` (D,) and `drawn` (D,) are Padded.choice and Padded.drawn; the other arguments are
    those of `pad`.
    """
    pool = np.empty(largest_set(offsets, rows), np.int64)
    stays = np.empty(len(pool), np.bool_)
    for d in range(len(rows)):
        used, position[d], drawn[d] = _keep(
            offsets, feasible, rows[d], choice[d], rng, index[d], pool, stays
        )
        index[d, used:] = -1


@njit(cache=True, nogil=True)
def _pad(  # type: ignore[no-untyped-def]
    offsets, candidates, feasible, given, rows, choice, rng, out, mask, share, position, drawn
):
    k, width = out.shape[1], out.shape[2]
    kept = np.empty(k, np.int64)
    pool = np.empty(largest_set(offsets, rows), np.int64)
    stays = np.empty(len(pool), np.bool_)
    for d in range(len(rows)):
        used, position[d], drawn[d] = _keep(
            offsets, feasible, rows[d], choice[d], rng, kept, pool, stays
        )
        for i in range(used):
            mask[d, i] = feasible[kept[i]]
            for f in range(width):
                out[d, i, f] = candidates[kept[i], f]
        mask[d, used:] = False
        out[d, used:] = 0.0
        if len(share) > 0:
            total = 0.0
            for i in range(used):
                share[d, i] = given[kept[i]] if mask[d, i] else 0.0
                total += share[d, i]
            share[d, used:] = 0.0
            if total > 0.0:
                share[d] /= total
