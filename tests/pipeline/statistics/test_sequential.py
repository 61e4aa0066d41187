"""Tests of the sequential test: its levels against integrals, and its decisions by hand."""

import numpy as np
import pytest
import scipy.stats

from hindcast.pipeline.statistics.sequential import LEVELS, PARTS, Look, Sequential, spent
from tests.benchmarks.intervals import sequential


@pytest.mark.slow
def test_the_levels_spend_the_error_that_they_may():
    """The density of the sum of normal steps that no look has stopped, on a grid."""
    grid = np.linspace(-6.0, 6.0, 2401)
    step = scipy.stats.norm.pdf(grid[:, None] - grid, scale=0.5) * (grid[1] - grid[0])
    going, stopped = scipy.stats.norm.pdf(grid, scale=0.5), 0.0
    for part in range(1, PARTS + 1):
        bound = -scipy.stats.norm.ppf(LEVELS[part - 1] / 2.0) * (part / PARTS) ** 0.5
        tail = np.clip((np.abs(grid) - bound) / (grid[1] - grid[0]) + 0.5, 0.0, 1.0)
        stopped += float((going * tail).sum() * (grid[1] - grid[0]))
        assert stopped == pytest.approx(spent(part), rel=0.01)
        going = step @ (going * (1.0 - tail))
    assert spent(PARTS) == pytest.approx(0.05)


def test_an_early_look_needs_more_than_a_late_one():
    look = Look(50, 1.0, 0.4, 49.0, 0.0)  # t of 2.5: p = .016
    early, late = (Sequential("a", "b", 200, (look,) * count) for count in (1, 4))
    assert (early.decided, late.decided) == (False, True)
    assert early.interval.low < 0.0 < late.interval.low
    assert (early.spent, late.spent) == (spent(1), spent(4))


def test_a_table_gives_the_test_back():
    one = Sequential("a", "b", 200, (Look(50, 1.0, 0.4, 49.0, 0.2),))
    assert Sequential.from_table(one.as_table()) == one
    with pytest.raises(ValueError, match="0 looks"):
        Sequential.from_table({**one.as_table(), "looks": []})


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 5])
def test_equal_policies_are_told_apart_in_five_percent(seeds):
    """Of 500, the standard error of a share of .05 is 1 point."""
    error, _ = sequential(80, seeds, 0.0, 500, seed=3)
    assert 0.02 < error < 0.08


@pytest.mark.slow
def test_a_large_difference_needs_fewer_windows():
    power, played = sequential(80, 1, 1.0, 100, seed=3)
    assert power > 0.9
    assert played < 0.7
