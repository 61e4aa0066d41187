"""Compiled search for the feasible rows of a mask."""

from typing import Any, Final

import numpy as np
from numba import types

from hindcast.pipeline.simulation.kernel import INTS, MASK, compiled

_ONE: Final = np.uint64(1)
_BLOCK: Final = np.uint64(8)


@compiled(types.uint64(MASK, types.uint64, INTS), forceinline=True)
def feasible_rows(feasible: Any, stop: Any, rows: Any) -> Any:
    """Fill rows[:M] with the M feasible rows among the first `stop`, in order; return M.

    `rows` has at least `stop` elements. Eight infeasible rows in succession are skipped at once.
    The others are read without a branch for each, which a processor would mispredict. Indices are
    unsigned, since numba checks signed ones for negative values.
    """
    many, i = np.uint64(0), np.uint64(0)
    whole = stop - stop % _BLOCK
    while i < whole:
        some = False
        for ahead in range(_BLOCK):
            some |= feasible[i + np.uint64(ahead)]
        if some:
            for ahead in range(_BLOCK):
                row = i + np.uint64(ahead)
                rows[many] = np.int64(row)
                many += np.uint64(feasible[row])
        i += _BLOCK
    while i < stop:
        rows[many] = np.int64(i)
        many += np.uint64(feasible[i])
        i += _ONE
    return many
