"""Tests of families of comparisons against numbers worked out by hand, and against simulation."""

import math

import numpy as np
import pytest
import scipy.stats

from docs.generate.families import marked, mde, verdicts
from hindcast.pipeline.statistics.families import detectable, holm, read_interval
from hindcast.pipeline.statistics.intervals import Estimate, Interval, estimate, mean_cells
from tests.benchmarks.families import family_errors
from tests.benchmarks.intervals import Case, power

Z = 1.959964
MANY = 100_000  # windows: Student's t is normal


def row(value, low, high, higher="true"):
    numbers = {
        "policy": "agent",
        "seeds": "1",
        "windows": MANY,
        "paired_difference": value,
        "paired_low": low,
        "paired_high": high,
    }
    return {name: str(number) for name, number in numbers.items()} | {"higher_is_better": higher}


def p_of(value, low, high, windows=MANY, degrees=None):
    return read_interval(Interval(value, low, high), windows, degrees, towards_zero=True).p_value


def test_a_p_value_agrees_with_the_interval_of_a_table():
    assert p_of(Z, 0.0, 9.0) == pytest.approx(0.05, abs=1e-5)
    assert p_of(-Z, -9.0, 0.0) == pytest.approx(0.05, abs=1e-5)
    assert p_of(1.0, -1.0, 3.0) > 0.05 > p_of(1.0, 0.1, 3.0)
    assert p_of(0.0, 0.0, 0.0) == 1.0
    assert p_of(2.0, 2.0, 2.0) == 0.0
    assert math.isnan(p_of(1.0, np.nan, np.nan))
    assert p_of(2.5, 0.0, 9.0, windows=5, degrees=3.7) == pytest.approx(0.05)


def test_a_p_value_is_below_a_level_where_the_interval_excludes_zero():
    """The ends of an interval move to 0 one by one; there the p-value is the rest of its level."""
    found = estimate(mean_cells(np.random.default_rng(2).lognormal(size=12)))
    for level in (0.95, 0.8):
        low, high = found.interval(level)[1:]
        for end in (low, high):
            moved = found._replace(value=found.value - end)
            assert moved.p_value == pytest.approx(1.0 - level)


def test_holm_by_hand():
    """Sorted .01, .02, .03 are multiplied by 3, 2, 1; .03 may not be below the .04 before it."""
    assert holm([0.03, 0.01, 0.02]).tolist() == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.01, 0.9]).tolist() == pytest.approx([0.02, 0.9])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_what_is_unknown_is_no_comparison():
    found = holm([0.02, np.nan, 0.04])
    assert found[0] == pytest.approx(0.04)
    assert np.isnan(found[1])
    assert len(holm([])) == 0


def test_few_windows_need_more_than_an_interval_that_excludes_zero():
    """Of 5 windows, 1.96 bootstrap errors are 1.96 sqrt(4 / 5) = 1.753 t units: p = .155."""
    found = p_of(Z, 0.0, 9.0, windows=5)
    assert found == pytest.approx(2.0 * scipy.stats.t.sf(Z * np.sqrt(0.8), 4))
    assert math.isnan(p_of(1.0, 0.0, 2.0, windows=1))


def test_the_detectable_effect_by_hand():
    """Half a width of 1.96 standard errors: 2.80 of them are seen with a power of 80 %."""
    one = Interval(5.0, 5.0 - Z, 5.0 + Z)
    assert detectable(read_interval(one, MANY, None)) == pytest.approx(Z + 0.841621, abs=1e-4)
    assert math.isnan(detectable(read_interval(Interval(1.0, np.nan, np.nan), 10, None)))
    assert math.isnan(detectable(read_interval(one, 1, None)))
    assert detectable(Estimate(1.0, 0.0, 9.0)) == 0.0


def test_the_detectable_effect_is_seen_with_its_power():
    """Normal windows, whose standard errors are drawn twice: half a width of h, an effect of c."""
    rng = np.random.default_rng(4)
    for degrees in (3.0, 9.0, 40.0):
        here, there = np.sqrt(rng.chisquare(degrees, size=(2, 400_000)) / degrees)
        effect = detectable(Estimate(1.0, 2.0, degrees)) / 2.0
        half = scipy.stats.t.ppf(0.975, degrees)
        seen = (rng.normal(size=400_000) + effect * here > half * there).mean()
        assert seen == pytest.approx(0.8, abs=0.02)


def test_a_gain_is_bold_only_after_holm():
    rows = [row(3, 2, 4), row(2, 0.1, 3.9), row(-3, -4, -2), row(-3, -4, -2, "false"), row(0, 0, 0)]
    assert verdicts(rows).tolist() == [1, 0, -1, 1, 0]
    assert marked(rows, [1] * 5) == [
        "**+3.0** (+2.0 .. +4.0)", r"+2.0\* (+0.1 .. +3.9)", "-3.0 (-4.0 .. -2.0)",
        "**-3.0** (-4.0 .. -2.0)", "0",
    ]  # fmt: skip
    assert verdicts(rows[1:2]).tolist() == [1]  # a family of its own
    assert [mde(one, 1) for one in (rows[0], rows[4])] == ["1.4", ""]


@pytest.mark.slow
def test_the_family_error_keeps_its_level():
    """Of 200 families, the standard error of a share of .03 is 1.2 points."""
    adjusted, plain = family_errors(windows=50, families=200, seed=1)
    assert adjusted < 0.07
    assert plain > 0.3


@pytest.mark.slow
def test_the_power_is_near_what_it_says():
    """Of 400 trials, the standard error of .8 is 2 points. Heavy tails lower it: intervals.csv."""
    assert 0.72 < power(Case("normal", 30, 1, 1), repeats=400, seed=1)[0] < 0.88
    assert 0.6 < power(Case("lognormal", 30, 1, 1), repeats=400, seed=1)[0] < 0.85
