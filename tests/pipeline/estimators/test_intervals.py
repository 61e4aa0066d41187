"""Tests of intervals: their formulas, and their coverage of the true value."""

import numpy as np
import pytest

from hindcast.pipeline.estimators import LoggedEpisodes, Settings, estimate
from hindcast.pipeline.estimators.intervals import bootstrap, empirical_bernstein, hoeffding

B, PI, MEAN = 0.5, np.array([0.3, 0.7]), np.array([0.2, 0.6])
TRUTH = float(PI @ MEAN)
LIMITS = (0.0, 1.4)  # the largest weight is .7 / .5, and a reward is 0 or 1


def bandit(n, rng, group=None):
    """Return episodes of one choice between two by a fair coin, with rewards 0 or 1."""
    choice = rng.integers(2, size=n)
    return LoggedEpisodes(
        offsets=np.arange(n + 1), behaviour=np.full(n, B), evaluation=PI[choice],
        reward=(rng.random(n) < MEAN[choice]).astype(float), group=group,
    )  # fmt: skip


def test_formulas():
    """The formulas give the numbers computed by hand for four values in [0, 1]."""
    values = np.array([0.0, 0.5, 0.5, 1.0])
    low, high = hoeffding(values, 0.0, 1.0, 0.9)
    half = np.sqrt(np.log(20.0) / 8.0)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))
    low, high = empirical_bernstein(values, 0.0, 1.0, 0.9)
    log = np.log(40.0)
    half = np.sqrt(2.0 * (0.5 / 3.0) * log / 4.0) + 7.0 * log / 9.0
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))


def test_bootstrap_of_one_unit_is_unknown():
    low, high = bootstrap(lambda c: c[:, 0], 1, np.random.default_rng(0), 100, 0.95)
    assert np.isnan([low, high]).all()


@pytest.mark.slow
def test_a_bootstrap_interval_is_as_wide_as_its_level_says():
    """The ends are t quantiles (59 degrees) of the mean's error, to a part in a hundred."""
    values = np.random.default_rng(3).normal(size=60)
    spread = values.std(ddof=1) / np.sqrt(len(values))
    for level, z in ((0.95, 2.000995), (0.8, 1.296066)):
        rng = np.random.default_rng(4)
        low, high = bootstrap(lambda counts: counts @ values / 60, 60, rng, 100_000, level)
        assert (high - low) / 2 == pytest.approx(z * spread, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["is", "snis"])
def test_bootstrap_holds_the_truth_about_as_often_as_it_says(name):
    """Of 400 samples, 95 % cover, within three standard errors and the known shortfall."""
    rng = np.random.default_rng(11)
    settings = Settings(resamples=400)
    held = [
        low <= TRUTH <= high
        for low, high in (
            estimate(name, bandit(100, rng), settings, rng).bootstrap for _ in range(400)
        )
    ]
    assert 0.91 <= np.mean(held) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("units", [6, 12])
def test_intervals_of_few_units_hold_the_mean_as_often_as_they_say(units):
    """Plain percentiles of six normal values hold their mean in 86 % of samples."""
    rng, held = np.random.default_rng(5), []
    for values in rng.normal(size=(1000, units)):
        low, high = bootstrap(lambda c, v=values: c @ v / units, units, rng, 2000, 0.95)
        held.append(low <= 0.0 <= high)
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.slow
def test_concentration_intervals_are_conservative():
    """With a valid range both intervals (nearly) always cover the truth, and are wider."""
    rng = np.random.default_rng(12)
    settings = Settings(resamples=100, range=LIMITS)
    found = [estimate("is", bandit(150, rng), settings, rng) for _ in range(200)]
    for name in ("hoeffding", "bernstein"):
        intervals = [getattr(e, name) for e in found]
        assert np.mean([i.low <= TRUTH <= i.high for i in intervals]) >= 0.99
        assert all(i.source == "given" and i.range == LIMITS for i in intervals)
    width = np.mean([e.bootstrap[1] - e.bootstrap[0] for e in found])
    assert width < np.mean([e.hoeffding.high - e.hoeffding.low for e in found])


def test_bernstein_beats_hoeffding_where_the_variance_is_small():
    """Bernstein's interval is narrower for 5,000 values that hardly vary in a range of one."""
    values = 0.5 + 0.01 * np.random.default_rng(0).normal(size=5000)
    wide, tight = hoeffding(values, 0.0, 1.0, 0.95), empirical_bernstein(values, 0.0, 1.0, 0.95)
    assert tight[1] - tight[0] < 0.3 * (wide[1] - wide[0])


def test_without_a_given_range_it_is_the_datas_and_said_so():
    found = estimate("is", bandit(50, np.random.default_rng(1)))
    assert found.hoeffding.source == "data"
    low, high = found.contributions.min(), found.contributions.max()
    assert found.hoeffding.range == pytest.approx((low, high))


def test_windows_are_resampled_as_a_whole():
    """Ten copies of every episode add no information: the interval does not shrink."""
    rng = np.random.default_rng(5)
    one = bandit(60, rng)
    rows = np.repeat(np.arange(60), 10)
    copies = LoggedEpisodes(
        offsets=np.arange(601), behaviour=one.behaviour[rows], evaluation=one.evaluation[rows],
        reward=one.reward[rows], group=rows,
    )  # fmt: skip
    settings = Settings(resamples=500)
    for name in ("is", "snis", "snpdis"):
        first, second = (estimate(name, log, settings) for log in (one, copies))
        assert second.units == 60
        assert second.bootstrap == pytest.approx(first.bootstrap)
        assert second.hoeffding.low == pytest.approx(first.hoeffding.low)
    alone = LoggedEpisodes(
        offsets=copies.offsets, behaviour=copies.behaviour, evaluation=copies.evaluation,
        reward=copies.reward,
    )  # fmt: skip
    low, high = estimate("is", alone, settings).bootstrap
    first = estimate("is", one, settings).bootstrap
    assert high - low < 0.5 * (first[1] - first[0])


@pytest.mark.parametrize("name", ["snis", "snpdis"])
def test_linear_parts_have_the_spread_of_the_ratio(name):
    """The standard error from contributions agrees with the bootstrap's within a fifth."""
    log = bandit(400, np.random.default_rng(6))
    found = estimate(name, log, Settings(resamples=2000))
    error = found.contributions.std(ddof=1) / np.sqrt(400)
    assert (found.bootstrap[1] - found.bootstrap[0]) / (2 * 1.96) == pytest.approx(error, rel=0.2)


def test_paired_difference_is_tighter_than_the_value():
    """Window effects that all policies share cancel in the difference to the log."""
    rng = np.random.default_rng(8)
    windows, copies = 80, 4
    group = np.repeat(np.arange(windows), copies)
    cost = rng.normal(0.0, 50.0, windows)[group]
    choice = rng.integers(2, size=windows * copies)
    log = LoggedEpisodes(
        offsets=np.arange(windows * copies + 1), behaviour=np.full(windows * copies, B),
        evaluation=PI[choice], reward=cost + choice, group=group,
    )  # fmt: skip
    found = estimate("paired_snis", log)
    width = found.bootstrap[1] - found.bootstrap[0]
    paired = found.difference_bootstrap[1] - found.difference_bootstrap[0]
    assert paired < 0.2 * width
    assert found.difference == pytest.approx(PI[1] - 0.5, abs=0.25)
    plain = estimate("is", log)
    assert abs(plain.difference - 0.2) > abs(found.difference - 0.2)
