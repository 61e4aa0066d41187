"""Tests of statistics over (runs, windows) tables on numbers that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindcast.pipeline.statistics.intervals import (
    bootstrap_interval,
    bootstrap_intervals,
    difference_cells,
    improvement_cells,
    iqm,
    mean_cells,
    median,
    paired_difference,
    performance_profile,
    relative_difference,
    table,
    win_tie_loss,
)

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))
TABLES = st.tuples(st.integers(1, 4), st.integers(2, 12)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=NUMBERS)
)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_median_takes_runs_and_windows_together():
    assert median(table([[1.0, 2.0], [3.0, 10.0]])) == 2.5


def test_iqm_is_the_mean_of_the_middle_half():
    """Of eight values, two are dropped at either end: (3 + 4 + 5 + 6) / 4."""
    assert iqm(table([100, 1, 2, 3, 4, 5, 6, -50])) == (2 + 3 + 4 + 5) / 4


def test_iqm_drops_whole_values_as_a_trimmed_mean_does():
    """Of five values one is dropped at either end; of three none."""
    assert iqm(table([0.0, 1.0, 2.0, 6.0, 100.0])) == 3.0
    assert iqm(table([0.0, 3.0, 6.0])) == 3.0


def test_iqm_agrees_with_scipy():
    scipy = pytest.importorskip("scipy.stats")
    values = rng().normal(size=(3, 7))
    assert float(iqm(values)) == pytest.approx(scipy.trim_mean(values, 0.25, axis=None))


def test_statistics_keep_leading_axes():
    values = rng().normal(size=(5, 2, 9))
    assert iqm(values).shape == (5,)
    assert iqm(values)[3] == iqm(values[3])


def test_wins_ties_and_losses_are_counted_on_window_averages():
    """Two seeds average to 2, 5 and 8 on three windows; the baseline has 3, 5 and 7."""
    policy = [[1.0, 4.0, 8.0], [3.0, 6.0, 8.0]]
    assert win_tie_loss(policy, [3.0, 5.0, 7.0], "lower") == (1, 1, 1)
    assert win_tie_loss(policy, [3.5, 5.0, 7.5], "higher") == (1, 1, 1)
    assert win_tie_loss(policy, [3.0, 5.0, 7.0], tolerance=1.0) == (0, 3, 0)


def test_the_paired_difference_is_policy_minus_baseline():
    found = paired_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert found.value == -2.0
    assert -3.0 <= found.low < -2.0 < found.high <= -1.0


def test_pairs_stay_together_so_a_constant_shift_has_no_spread():
    """Windows differ by hundreds, and the policies by exactly one on each of them."""
    windows = rng().normal(1000, 300, size=50)
    found = paired_difference(windows - 1.0, windows)
    assert found == pytest.approx((-1.0, -1.0, -1.0))


def test_the_chance_of_improvement_counts_pairs_of_runs_and_half_of_ties():
    """In window 1, 0 beats 1 and ties 0, so 3/4; in window 2 it is always worse."""
    cells = improvement_cells([[0.0, 9.0]], [[1.0, 5.0], [0.0, 5.0]])
    assert cells.mean() == (0.75 + 0.0) / 2


def test_a_policy_has_an_even_chance_against_itself():
    values = rng().normal(size=(4, 30))
    assert improvement_cells(values, values).mean() == 0.5


def test_profiles_count_what_is_at_least_as_good():
    values = [[1.0, 2.0], [2.0, 4.0]]
    assert performance_profile(values, [0, 1, 2, 4]).tolist() == [0.0, 0.25, 0.75, 1.0]
    assert performance_profile(values, [1, 2, 4, 5], "higher").tolist() == [1.0, 0.75, 0.25, 0.0]


def test_one_window_gives_an_estimate_and_no_interval():
    found = bootstrap_interval([[3.0], [5.0]], resample_runs=True)
    assert found.value == 4.0
    assert np.isnan([found.low, found.high]).all()


def test_intervals_cover_the_true_mean_about_as_often_as_they_say():
    """Of 300 samples of 40 windows from N(5, 2), 90 to 99 % have intervals that contain 5."""
    draw = rng(1)
    hits = 0
    for _ in range(300):
        sample = draw.normal(5.0, 2.0, size=(1, 40))
        found = bootstrap_interval(sample, resamples=400)
        hits += found.low <= 5.0 <= found.high
    assert 0.90 <= hits / 300 <= 0.99


def test_evaluation_seeds_enter_once_through_the_window_average():
    """With five noisy seeds per window, the interval is as wide as theory says and not wider."""
    draw = rng(2)
    values = draw.normal(size=(5, 400))
    found = bootstrap_interval(values)
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(5 * 400), rel=0.12)


def test_training_seeds_widen_the_interval():
    """Three seeds a constant apart have no spread when averaged, but do when resampled."""
    values = np.array([[0.0], [10.0], [20.0]]) + np.zeros((3, 50))
    assert bootstrap_interval(values) == (10.0, 10.0, 10.0)
    found = bootstrap_interval(values, resample_runs=True)
    assert found.low < 4.0
    assert found.high > 16.0


def test_both_sides_of_a_pair_may_have_training_seeds():
    policy = np.array([[0.0], [2.0]]) + np.zeros((2, 20))
    baseline = np.array([[1.0], [7.0], [10.0]]) + np.zeros((3, 20))
    found = paired_difference(
        policy, baseline, resample_policy=True, resample_baseline=True, resamples=4000
    )
    assert found.value == pytest.approx(-5.0)
    assert found.low <= -8.0
    assert found.high >= -1.0


def test_one_bootstrap_over_many_tables_gives_what_each_alone_gives():
    a, b = rng(3).normal(size=(2, 1, 25))
    together = bootstrap_intervals([mean_cells(a), difference_cells(a, b)])
    assert together == [bootstrap_interval(a), paired_difference(a, b)]
    assert bootstrap_intervals([]) == []


@pytest.mark.slow
def test_an_interval_does_not_depend_on_its_neighbours():
    """To the last digit: neither on other tables, their runs, nor on their size and order."""
    draw = rng(7)
    shapes = [(5, 1, 30), (1, 1, 30), (5, 3, 30), (1, 4, 30), (5, 1, 30), (40, 40, 30)]
    tables = [draw.normal(size=shape) for shape in shapes]
    alone = [bootstrap_intervals([cells], resamples=3000)[0] for cells in tables]
    assert bootstrap_intervals(tables, resamples=3000) == alone
    assert bootstrap_intervals(tables[::-1], resamples=3000) == alone[::-1]


def test_the_same_seed_gives_the_same_interval():
    values = rng(4).normal(size=(1, 30))
    assert bootstrap_interval(values, seed=5) == bootstrap_interval(values, seed=5)
    assert bootstrap_interval(values, seed=5) != bootstrap_interval(values, seed=6)


@given(TABLES)
@settings(max_examples=60, deadline=None)
def test_the_iqm_lies_between_the_quartile_values_and_ignores_order(values):
    flat = np.sort(values, axis=None)
    cut = flat.size // 4
    slack = 1e-9 * max(1.0, np.abs(flat).max())
    assert flat[cut] - slack <= iqm(values) <= flat[flat.size - cut - 1] + slack
    assert iqm(values[::-1, ::-1]) == pytest.approx(float(iqm(values)), abs=slack)


@given(TABLES, st.floats(-1e4, 1e4), st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_intervals_move_and_stretch_with_their_values(values, shift, scale):
    slack = 1e-6 * max(1.0, np.abs(values).max() * scale + abs(shift))
    plain = bootstrap_interval(values, resamples=50)
    moved = bootstrap_interval(values * scale + shift, resamples=50)
    assert moved == pytest.approx(tuple(x * scale + shift for x in plain), abs=slack)


@given(TABLES)
@settings(max_examples=30, deadline=None)
def test_exchanging_policy_and_baseline_mirrors_the_comparison(values):
    other = values[:, ::-1] + 1.0
    wins, ties, losses = win_tie_loss(values, other)
    assert win_tie_loss(other, values) == (losses, ties, wins)
    assert win_tie_loss(values, other, "higher") == (losses, ties, wins)
    chance = improvement_cells(values, other).mean()
    mirrored = improvement_cells(other, values).mean()
    assert chance + mirrored == pytest.approx(1.0)


@given(TABLES)
@settings(max_examples=30, deadline=None)
def test_profiles_never_fall_and_end_at_one(values):
    taus = np.linspace(values.min(), values.max() + 1.0, 13)
    shares = performance_profile(values, taus)
    assert (np.diff(shares) >= 0).all()
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "expected a"),
        ([[[1.0]]], "expected a"),
        ([1.0, float("nan")], "not finite"),
    ],
)
def test_what_is_no_table_of_results_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(values)


def test_unequal_windows_cannot_be_paired():
    with pytest.raises(ValueError, match="same windows, got 2 and 3"):
        win_tie_loss([1.0, 2.0], [1.0, 2.0, 3.0])


def test_a_level_is_a_probability():
    with pytest.raises(ValueError, match="between 0 and 1"):
        bootstrap_interval([1.0, 2.0], level=95)


@pytest.mark.slow
def test_an_interval_is_as_wide_as_its_level_says():
    """The ends are the normal quantiles of the mean's spread, to a part in a hundred."""
    values = rng(3).normal(size=60)
    spread = values.std() / np.sqrt(len(values))
    for level, z in ((0.95, 1.959964), (0.8, 1.281552)):
        found = bootstrap_interval(values[None], level=level, resamples=100_000)
        half = (found.high - found.low) / 2
        assert half == pytest.approx(z * spread, rel=0.01)


def test_relative_differences_are_ratios_of_means_on_the_same_windows():
    """A policy with twice the values everywhere is 100 % above, on every draw of the windows."""
    values = np.array([1.0, 5.0, 2.0, 9.0])
    assert relative_difference(2 * values, values) == pytest.approx((1.0, 1.0, 1.0))
    low = relative_difference(values, values + 1.0)
    assert low.value == pytest.approx(4.25 / 5.25 - 1.0)
    assert -1.0 < low.low < low.value < low.high < 0.0
    assert np.isnan(relative_difference([1.0], [2.0]).low)
    with pytest.raises(ValueError, match="mean of 0"):
        relative_difference(values, 0 * values)
