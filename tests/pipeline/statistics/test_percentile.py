"""Tests of the percentile bootstrap that gates and cards keep."""

import numpy as np
import pytest

from hindcast.pipeline.statistics.percentile import percentile_intervals


def test_the_intervals_of_released_agents_come_again():
    """To the last bit: gates have decided by these draws, and cards are files of datasets."""
    values = np.arange(12.0) ** 2
    (found,) = percentile_intervals([values], seed=3)
    assert found == (42.166666666666664, 21.33125000000002, 65.83333333333333)


def test_samples_share_their_draws_and_do_not_depend_on_each_other():
    a, b = np.random.default_rng(3).normal(size=(2, 25))
    together = percentile_intervals([a, b, a], resamples=500)
    alone = [percentile_intervals([one], resamples=500)[0] for one in (a, b, a)]
    assert together == alone


def test_one_window_has_no_interval():
    (found,) = percentile_intervals([np.array([3.0])])
    assert found.value == 3.0
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.slow
def test_it_is_as_wide_as_its_level_says():
    values = np.random.default_rng(3).normal(size=60)
    (found,) = percentile_intervals([values], resamples=100_000)
    half = 1.959964 * values.std() / np.sqrt(len(values))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.01)
