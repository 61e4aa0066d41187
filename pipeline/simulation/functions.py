"""Compiled functions as arguments of compiled loops: each in a list with one entry, its cell.

numba looks up the address of a function in every call from Python that takes the function itself,
which takes 70 us. A typed list holds the address and takes 2 us. A loop that Python calls declares
cells, and takes the functions out before it begins::

    @compiled(types.int64(OBSERVE_CELL, STEP_CELL, EPISODE))
    def loop(observe, step, episode):
        observe, step = observe[0], step[0]

    loop(cell(scenario.observe), cell(scenario.step), memory)

Typed lists and named tuples are separate parameters: numba takes 400 us to recognise a named tuple
with a typed list inside.
"""

from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from numba import types
from numba.typed import List

from hindcast.pipeline.simulation.kernel import (
    CHOOSE,
    OBSERVE,
    OUTCOME,
    SCORE,
    STEP,
    Compiled,
    compiled,
)


def _cell(signature: Any) -> Any:
    return types.ListType(types.FunctionType(signature))  # type: ignore[no-untyped-call]


OBSERVE_CELL: Final = _cell(OBSERVE)
STEP_CELL: Final = _cell(STEP)
OUTCOME_CELL: Final = _cell(OUTCOME)
SCORE_CELL: Final = _cell(SCORE)
CHOOSE_CELL: Final = _cell(CHOOSE)

ObserveCell: TypeAlias = Annotated[Any, OBSERVE_CELL]
StepCell: TypeAlias = Annotated[Any, STEP_CELL]
OutcomeCell: TypeAlias = Annotated[Any, OUTCOME_CELL]
ScoreCell: TypeAlias = Annotated[Any, SCORE_CELL]
ChooseCell: TypeAlias = Annotated[Any, CHOOSE_CELL]


@compiled([
    _cell(signature)(types.FunctionType(signature))
    for signature in (OBSERVE, STEP, OUTCOME, SCORE, CHOOSE)
])  # fmt: skip
def _enclose(function: Any) -> Any:
    """Return the cell of a function.

    It is compiled: a list that is made in Python is compiled by every process, for most of a
    second.
    """
    found = List()
    found.append(function)
    return found


@cache
def cell(function: Compiled) -> Any:
    """Return the cell of a compiled function of a scenario or of a rule.

    Raises TypeError if the function has none of the signatures of
    hindcast.pipeline.simulation.kernel.
    """
    return _enclose(function)
