"""Random draws in compiled loops."""

import numpy as np
import pytest
from numba import njit

from hindcast.pipeline.simulation.draws import draws_of, uniform


@njit
def filled(draws, numbers):
    for i in range(len(numbers)):
        numbers[i] = uniform(draws)
    return numbers


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_compiled_draws_are_those_of_the_generator(kind):
    used, other = np.random.Generator(kind(3)), np.random.Generator(kind(3))
    used.integers(0, 9, dtype=np.uint32)  # leaves half a number to a later draw of integers
    other.integers(0, 9, dtype=np.uint32)
    assert np.array_equal(filled(draws_of(used), np.empty(9)), other.random(9))
    assert used.integers(0, 9, dtype=np.uint32) == other.integers(0, 9, dtype=np.uint32)
    assert used.random() == other.random()
