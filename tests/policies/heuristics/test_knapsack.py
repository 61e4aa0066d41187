"""The exact knapsack of `deferrable` against all sets of jobs."""

from itertools import combinations

import numpy as np
import pytest

from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.policies.heuristics.knapsack import choose_set, feasible_jobs

JOBS = 7


def drawn(seed):
    """Return the free cores, candidates, feasible rows and values of one decision."""
    rng = np.random.default_rng(seed)
    free = int(rng.integers(0, 14))
    candidates = np.zeros((JOBS + 1, len(ROW)))
    candidates[:JOBS, ROW.cores] = rng.integers(1, 7, JOBS) - rng.choice([0.0, 0.5], JOBS)
    feasible = (rng.random(JOBS + 1) < 0.8) & (candidates[:, ROW.cores] <= free)
    feasible[JOBS] = True
    values = np.round(rng.normal(4.0, 4.0, JOBS + 1), 2)
    return free, candidates, feasible, values


def best_value(free, candidates, feasible, values):
    """Return the highest sum of values of a set of feasible jobs that fits."""
    cores = np.ceil(candidates[:, ROW.cores])
    allowed = np.flatnonzero(feasible[:JOBS])
    sets = (list(s) for size in range(JOBS + 1) for s in combinations(allowed, size))
    return max(values[s].sum() for s in sets if cores[s].sum() <= free)


def test_the_chosen_set_fits_and_no_other_is_worth_more():
    for seed in range(200):
        free, candidates, feasible, values = drawn(seed)
        scores = np.full(JOBS + 1, np.nan)
        longer = np.append(feasible, [True, False])  # buffers may be longer than an observation
        jobs = feasible_jobs(longer, scores)
        scores[jobs] = values[jobs]
        choose_set(free, candidates, jobs, scores)
        chosen = np.flatnonzero(scores > 0.0)
        assert feasible[chosen].all()
        assert np.ceil(candidates[chosen, ROW.cores]).sum() <= free
        assert values[chosen].sum() == pytest.approx(best_value(free, candidates, feasible, values))
        np.testing.assert_array_equal(scores[chosen], values[chosen])
        others = np.setdiff1d(np.arange(JOBS), chosen)
        np.testing.assert_array_equal(scores[others], -1.0)
        assert scores[JOBS] == 0.0


def test_the_draws_have_sets_that_fit_and_sets_that_do_not():
    fits = []
    for seed in range(200):
        free, candidates, feasible, values = drawn(seed)
        wanted = feasible[:JOBS] & (values[:JOBS] > 0.0)
        fits.append(np.ceil(candidates[:JOBS][wanted, ROW.cores]).sum() <= free)
    assert 30 < sum(fits) < 170
