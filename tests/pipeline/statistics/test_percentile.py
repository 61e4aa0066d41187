"""Tests of the percentile bootstrap that gates keep."""

import numpy as np
import pytest

from hindcast.pipeline.statistics.percentile import percentile_interval


def test_the_intervals_of_released_agents_come_again():
    """To the last bit: gates have decided by these draws."""
    values = np.arange(12.0) ** 2
    found = percentile_interval(values, seed=3)
    assert found == (42.166666666666664, 21.33125000000002, 65.83333333333333)


def test_draws_depend_on_the_number_of_windows_alone():
    """Values that are moved have a moved interval, and the same values have the same one again."""
    a, b = np.random.default_rng(3).normal(size=(2, 25))
    first, _, again = (percentile_interval(one, resamples=500) for one in (a, b, a))
    assert first == again
    assert percentile_interval(a + 2.0, resamples=500) == pytest.approx(np.add(first, 2.0))


def test_one_window_has_no_interval():
    found = percentile_interval(np.array([3.0]))
    assert found.value == 3.0
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.slow
def test_it_is_as_wide_as_its_level_says():
    values = np.random.default_rng(3).normal(size=60)
    found = percentile_interval(values, resamples=100_000)
    half = 1.959964 * values.std() / np.sqrt(len(values))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.01)
