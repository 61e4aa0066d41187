"""Rules that need no knowledge of the scenario."""

from typing import Final

from numba import njit

from pipeline.kernel import SCORE
from pipeline.policy import Heuristic


@njit(SCORE, cache=True, nogil=True, error_model="numpy")
def _indifferent(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Every candidate alike; uniform when used with epsilon 1."""
    for i in range(len(scores)):
        scores[i] = 0.0


INDIFFERENT: Final = Heuristic("random", _indifferent)
