"""Tests of evenly spaced windows."""

import itertools

import pytest

from hindcast.pipeline.recipes.splits import evenly_spaced


@pytest.mark.parametrize(("count", "most"), [(5, 4), (101, 100), (122, 100), (4000, 400), (9, 2)])
def test_as_many_windows_as_allowed_are_chosen_with_even_gaps(count, most):
    windows = list(range(1000, 1000 + count))
    chosen = evenly_spaced(windows, most)
    gaps = {b - a for a, b in itertools.pairwise(chosen)}
    assert len(chosen) == most
    assert (chosen[0], chosen[-1]) == (windows[0], windows[-1])
    assert max(gaps) - min(gaps) <= 1
    assert min(gaps) >= 1


def test_fewer_windows_stay_as_they_are():
    assert evenly_spaced([7, 3, 5], 3) == [7, 3, 5]
    assert evenly_spaced([], 4) == []
