"""The rule `random`, which every scenario has."""

from typing import Final

from hindcast.pipeline.simulation.kernel import SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic


@compiled(SCORE)
def _indifferent(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = 0.0


INDIFFERENT: Final = Heuristic(
    "random",
    _indifferent,
    description="any feasible candidate, all with the same probability",
    formula="0 for every candidate, for epsilon 1",
    exploration=(1.0, 0.0),
)
