"""Feasible rows of masks of every length, sparse and dense."""

from itertools import product

import numpy as np
from numba import njit

from hindcast.pipeline.simulation.masks import feasible_rows


@njit
def _rows(feasible, stop, rows):
    return feasible_rows(feasible, np.uint64(stop), rows)


def test_rows_are_those_of_the_mask_before_the_stop():
    for length, share in product([*range(20), 113, 128], [0.0, 0.05, 0.5, 1.0]):
        rng = np.random.default_rng(length)
        mask = rng.random(length + 3) < share
        rows = np.full(max(length, 1), -7, np.int64)
        many = int(_rows(mask, length, rows))
        np.testing.assert_array_equal(rows[:many], np.flatnonzero(mask[:length]))
