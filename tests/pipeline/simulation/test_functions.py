"""Compiled functions in cells."""

import numpy as np
import pytest
from numba import types

from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.simulation import functions
from hindcast.pipeline.simulation.functions import cell
from hindcast.pipeline.simulation.kernel import compiled


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_cell_holds_the_function_of_its_signature(scenario):
    known = load_scenario(scenario)
    kinds = (functions.OBSERVE_CELL, functions.STEP_CELL, functions.OUTCOME_CELL)
    for function, kind in zip((known.observe, known.step, known.outcome), kinds, strict=True):
        assert cell(function)._list_type == kind
        assert len(cell(function)) == 1
        assert cell(function) is cell(function)


@pytest.mark.slow
def test_a_function_is_called_through_its_cell():
    @compiled(functions.CHOOSE_CELL.dtype.signature, cache=False)
    def choose(ints, floats):
        return ints[0] + len(floats)

    @compiled(types.int64(functions.CHOOSE_CELL, types.Array(types.int64, 1, "C")), cache=False)
    def loop(choose, ints):
        return choose[0](ints, np.zeros(2))

    assert loop(cell(choose), np.array([40])) == 42


def test_a_function_of_another_signature_has_no_cell():
    @compiled(types.int64(types.int64), cache=False)
    def other(number):
        return number

    with pytest.raises(TypeError, match="not available"):
        cell(other)
