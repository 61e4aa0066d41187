"""Rules that need no knowledge of the scenario."""

from typing import Final

from pipeline.simulation.kernel import SCORE, compiled
from pipeline.simulation.policy import Heuristic


@compiled(SCORE)
def _indifferent(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Every candidate alike; uniform when used with epsilon 1."""
    for i in range(len(scores)):
        scores[i] = 0.0


INDIFFERENT: Final = Heuristic("random", _indifferent)
