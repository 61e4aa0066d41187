"""Tests of discounted sums against numbers worked out by hand."""

import numpy as np
import pytest

from hindcast.pipeline.statistics.returns import discounted_sums, returns_to_go, step_discounts


def test_returns_to_go():
    assert returns_to_go(np.array([1.0, 2.0, 4.0])).tolist() == [7.0, 6.0, 4.0]
    assert returns_to_go(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [3.0, 4.0, 4.0]


def test_sums_of_ragged_episodes():
    """Episodes of 1, 3 and 2 decisions are discounted by one half, each separately."""
    reward = np.array([5.0, 1.0, 2.0, 4.0, -1.0, 8.0])
    episode = np.array([0, 1, 1, 1, 2, 2])
    expected = [5.0, 1.0 + 1.0 + 1.0, 4.0, 4.0, 3.0, 8.0]
    assert discounted_sums(episode, reward, np.full(6, 0.5)).tolist() == expected


def test_each_step_has_a_discount_of_its_own():
    """The sum is 1 + .5 * (2 + .25 * 4)."""
    sums = discounted_sums(np.zeros(3, int), np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 9.0]))
    assert sums.tolist() == [2.5, 3.0, 4.0]


@pytest.mark.parametrize(("per_second", "expected"), [(False, [0.5, 0.5]), (True, [1.0, 0.25])])
def test_a_discount_is_of_a_step_or_of_a_second(per_second, expected):
    found = step_discounts(np.array([0.0, 2.0]), 0.5, per_second=per_second)
    assert found.tolist() == expected
