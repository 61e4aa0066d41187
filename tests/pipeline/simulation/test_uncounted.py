"""Arrays of compiled loops whose references are not counted."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic

from hindcast.pipeline.simulation.uncounted import uncounted


class Pair(NamedTuple):
    first: np.ndarray
    number: int


@intrinsic
def counted(_context, array):
    """Return whether numba counts references to an array."""

    def emit(compiler, builder, signature, arguments):
        one = compiler.make_array(signature.args[0])(compiler, builder, arguments[0])
        return builder.icmp_unsigned("!=", one.meminfo, one.meminfo.type(None))

    return types.boolean(array), emit


@njit
def of_array(array):
    return counted(array), counted(uncounted(array))


@njit
def of_groups(inner, outer):
    first, number = uncounted(inner)
    (nested, _number), last = uncounted(outer)
    return counted(first), counted(nested), counted(last), number


@njit
def doubled(arrays, rounds):
    first, second = uncounted(arrays)
    for _ in range(rounds):
        first[1:] *= 2.0
        second[0, :] += first[1:]
    return first.sum()


def test_references_to_uncounted_arrays_are_not_counted():
    assert of_array(np.arange(3.0)) == (True, False)


@pytest.mark.slow
def test_arrays_in_nested_named_tuples_are_uncounted_and_other_members_stay():
    pair = Pair(np.arange(3.0), 7)
    assert of_groups(pair, (pair, np.zeros((2, 2)))) == (False, False, False, 7)


@pytest.mark.slow
def test_writes_reach_the_arrays_of_the_caller_and_nothing_is_released():
    first, second = np.arange(4.0), np.zeros((2, 3))
    doubled((first.copy(), second.copy()), 0)  # numba keeps the arguments of the call that compiles
    before = sys.getrefcount(first), sys.getrefcount(second)
    for _ in range(100):
        doubled((first, second), 1)
        first[1:] /= 2.0
    assert (sys.getrefcount(first), sys.getrefcount(second)) == before
    assert doubled((first, second), 2) == pytest.approx(4 * 6.0)
    np.testing.assert_array_equal(first, [0.0, 4.0, 8.0, 12.0])
    np.testing.assert_array_equal(second[0], 100 * 2.0 * np.arange(1.0, 4.0) + [6.0, 12.0, 18.0])
