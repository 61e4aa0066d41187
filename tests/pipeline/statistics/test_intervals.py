"""Tests of statistics over (runs, windows) tables on numbers that can be checked by hand."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindcast.pipeline.statistics.intervals import (
    autocorrelation,
    difference_cells,
    estimate,
    improvement_cells,
    iqm,
    mean_cells,
    mean_interval,
    median,
    paired_difference,
    performance_profile,
    relative_difference,
    table,
    win_tie_loss,
    windows_of_half,
)
from tests.benchmarks.intervals import Case, coverage

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


def test_the_paired_difference_is_that_of_a_t_test():
    """Differences -1, -2, -3: an error of 1 / sqrt(3), and t of 4.302653 for two degrees."""
    found = paired_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    half = 4.302653 / np.sqrt(3)
    assert found == pytest.approx((-2.0, -2.0 - half, -2.0 + half))


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
    found = mean_interval([[3.0], [5.0]], trained=True)
    assert found.value == 4.0
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("windows", "seeds", "shared"), [(10, 1, 1), (30, 5, 1), (10, 1, 5)])
def test_intervals_hold_the_truth_as_often_as_they_say(windows, seeds, shared):
    """Of 400, the standard error of a share of .95 is 1.1 points."""
    case = Case("lognormal", windows, seeds, shared)
    for share, _ in coverage(case, 400, seed=1).values():
        assert 0.91 <= share <= 0.99


def test_evaluation_seeds_enter_once_through_the_window_average():
    """With five noisy seeds per window, the interval is as wide as theory says and not wider."""
    draw = rng(2)
    values = draw.normal(size=(5, 400))
    found = mean_interval(values)
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(5 * 400), rel=0.12)


def test_training_seeds_are_a_sample_of_their_own():
    """Three seeds 10 apart and no other spread: t of 4.302653 times 10 / sqrt(3)."""
    values = np.array([[0.0], [10.0], [20.0]]) + np.zeros((3, 50))
    assert mean_interval(values) == (10.0, 10.0, 10.0)
    half = 4.302653 * 10 / np.sqrt(3)
    assert mean_interval(values, trained=True) == pytest.approx((10.0, 10.0 - half, 10.0 + half))


def test_crossed_effects_are_added_less_their_noise():
    """By hand: windows 0 and 2 and seeds 0 and 4 of an additive table have no noise."""
    additive = np.array([[0.0, 2.0], [4.0, 6.0]])
    found = estimate(mean_cells(additive, trained=True))
    windows, seeds = 2.0 / 2, 8.0 / 2  # variances of two means, each halved
    assert found.value == 3.0
    assert found.error == pytest.approx(np.sqrt(windows + seeds))
    assert found.degrees == 1.5  # 25 / (1 + 16)
    noise = np.array([[1.0, -1.0], [-1.0, 1.0]])  # of the table's own means, none is moved
    less = estimate(mean_cells(additive + noise, trained=True))
    assert less.error**2 == pytest.approx(windows + seeds - 1.0)


def test_both_sides_of_a_pair_may_have_training_seeds():
    policy = np.array([[0.0], [2.0]]) + np.zeros((2, 20))
    baseline = np.array([[1.0], [7.0], [10.0]]) + np.zeros((3, 20))
    found = estimate(difference_cells(policy, baseline, policy_trained=True, baseline_trained=True))
    assert found.value == pytest.approx(-5.0)
    assert found.error == pytest.approx(np.sqrt(2.0 / 2 + 21.0 / 3))


def test_skewed_scores_reach_farther_on_their_long_side():
    """Hall's transformation maps t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 to the quantile."""
    found = estimate(mean_cells(rng(4).lognormal(size=(1, 30))))
    plain, skewed = found._replace(skewness=0.0).interval(), found.interval()
    assert skewed.low == plain.low
    t, a = (skewed.high - found.value) / found.error, found.skewness
    mapped = -t + a * t**2 / 3 - a**2 * t**3 / 27 + a / 6
    assert mapped == pytest.approx(-scipy.stats.t.ppf(0.975, 29))
    assert estimate(mean_cells([1.0, 2.0, 3.0])).skewness == pytest.approx(0.0)


def test_windows_that_share_jobs_are_told_apart_in_waves():
    """Three of four jobs in common, eleven jobs in all: as many degrees as 2.75 windows, less 1."""
    values, stretches = rng(5).normal(size=8), tuple((i, i + 4) for i in range(8))
    found = estimate(mean_cells(values), stretches)
    assert found.degrees == 2.0
    waves = np.cos(np.pi / 8 * np.outer([1, 2], np.arange(8) + 0.5)) / 2.0
    common = np.maximum(0.0, 1 - np.abs(np.subtract.outer(range(8), range(8))) / 4)
    seen = np.einsum("kv,vw,kw->k", waves, common, waves).mean()
    variance = common.mean() / seen * ((waves @ values) ** 2).mean()
    assert found.error == pytest.approx(np.sqrt(variance))


def test_the_order_of_windows_and_windows_apart_change_nothing():
    values, stretches = rng(6).normal(size=9), [(5 * i, 5 * i + 8) for i in range(9)]
    order = rng(7).permutation(9)
    moved = estimate(mean_cells(values[order]), tuple(stretches[i] for i in order))
    assert moved == pytest.approx(estimate(mean_cells(values), tuple(stretches)))
    apart = tuple((10 * i, 10 * i + 10) for i in range(9))
    assert estimate(mean_cells(values), apart) == estimate(mean_cells(values))


def test_the_mean_of_shared_windows_is_less_sure():
    values = rng(8).normal(size=40)
    shared = estimate(mean_cells(values), tuple((i, i + 5) for i in range(40)))
    assert shared.degrees == round(44 / 5 - 1)


def test_autocorrelation_by_hand_and_in_the_order_of_the_log():
    """Around 2: -1, 0, 1. Products of neighbours are 0 and 0; of 1, 3, 2 they are -1 and 0."""
    assert autocorrelation([1.0, 2.0, 3.0]) == 0.0
    assert autocorrelation([1.0, 3.0, 2.0]) == -0.5
    assert autocorrelation([1.0, 3.0, 2.0], ((0, 1), (2, 3), (1, 2))) == 0.0
    assert np.isnan(autocorrelation([1.0, 2.0]))
    assert np.isnan(autocorrelation([0.1, 0.1, 0.1]))


def test_windows_of_half_by_hand():
    """Of a sum of 10, the windows with 4 and 3 carry half; of -10 likewise; 0 has no half."""
    assert windows_of_half([4.0, 3.0, 2.0, 2.0, -1.0]) == 2
    assert windows_of_half([-4.0, -3.0, -2.0, -2.0, 1.0]) == 2
    assert windows_of_half([5.0, 5.0]) == 1
    assert windows_of_half([1.0, -1.0]) == 0


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
    plain = mean_interval(values)
    moved = mean_interval(values * scale + shift)
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
        mean_interval(values)


def test_unequal_windows_cannot_be_paired():
    with pytest.raises(ValueError, match="same windows, got 2 and 3"):
        win_tie_loss([1.0, 2.0], [1.0, 2.0, 3.0])


def test_a_level_is_a_probability():
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], level=95)


def test_an_interval_is_as_wide_as_its_level_says():
    values = rng(3).normal(size=30)
    values = np.concatenate([values, -values])  # of no skewness
    spread = values.std(ddof=1) / np.sqrt(len(values))
    for level, t in ((0.95, 2.000995), (0.8, 1.296066)):
        found = paired_difference(values, 0 * values, level=level)
        assert (found.high - found.low) / 2 == pytest.approx(t * spread, rel=1e-5)


def test_relative_differences_are_ratios_of_means_on_the_same_windows():
    """A policy with twice the values everywhere is 100 % above, whatever the windows."""
    values = np.array([1.0, 5.0, 2.0, 9.0, 4.0, 4.0])
    assert relative_difference(2 * values, values) == pytest.approx((1.0, 1.0, 1.0))
    assert np.isnan(relative_difference([1.0], [2.0]).low)
    assert np.isnan(relative_difference([1.0, 2.0], [1.0, 9.0]).low)  # the mean 5 may be 0
    with pytest.raises(ValueError, match="mean of 0"):
        relative_difference(values, 0 * values)


def test_the_ends_of_a_ratio_are_where_the_difference_is_no_longer_shown():
    policy, baseline = rng(9).lognormal(size=(2, 20))
    found = relative_difference(policy, baseline)
    for end in (found.low, found.high):
        apart = estimate(difference_cells(policy, (1.0 + end) * baseline))
        assert abs(apart.value / apart.error) == pytest.approx(scipy.stats.t.ppf(0.975, 19))
