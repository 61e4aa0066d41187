"""Tests of calibrated quantiles and of their scores, with cases done in the head."""

import numpy as np
import pytest

from hindcast.pipeline.forecast import calibration as c


def test_quantiles_are_hazens():
    """Of 1 .. 20, the share a lies at 20 a + 1/2."""
    assert c.quantiles_of(np.arange(1, 21)[:, None])[0].tolist() == [
        1.0, 2.5, 5.5, 10.5, 15.5, 18.5, 20.0,
    ]  # fmt: skip


def test_a_forecast_that_is_half_the_truth_is_doubled():
    """On the scale of wait + 600 s, all levels alike."""
    quantiles = np.tile(np.linspace(100.0, 700.0, 7), (50, 1))
    waits = (2 * (quantiles[:, 3] + 600) - 600).astype(np.int64)
    moved = c.calibrated(quantiles[0], c.shifts_of(quantiles, waits))
    np.testing.assert_allclose(moved, 1400.0)


def test_too_few_forecasts_change_nothing():
    quantiles = np.tile(np.linspace(100.0, 700.0, 7), (c.FEWEST - 1, 1))
    assert not c.shifts_of(quantiles, np.full(c.FEWEST - 1, 10**6)).any()


@pytest.mark.parametrize("seed", range(5))
def test_calibrated_quantiles_ascend_and_cover_what_they_say(seed):
    """However wrong the forecasts were, as long as they are wrong alike: split conformal."""
    rng = np.random.default_rng(seed)
    truth = rng.lognormal(8.0, 1.0, 4000)
    center = truth * rng.lognormal(0.0, 0.7, 4000)
    raw = center[:, None] * np.exp(0.2 * rng.normal(0.0, 1.0, (1, 7)))  # not even in order
    waits = truth.astype(np.int64)
    moved = c.calibrated(raw[2000:], c.shifts_of(raw[:2000], waits[:2000]))
    assert (np.diff(moved, axis=1) >= 0).all()
    assert (moved >= 0).all()
    below = (waits[2000:, None] <= moved).mean(axis=0)
    np.testing.assert_allclose(below, c.LEVELS, atol=0.04)


def test_scores_by_hand():
    """A point at 1 h for waits of 0 and 2 h: half of the mean distance, and no width."""
    found = c.score(np.full((2, 7), 3600.0), np.array([0, 7200]))
    assert found.loss_h == pytest.approx(0.5)
    assert found.coverage == {50: 0.0, 80: 0.0, 95: 0.0}
    assert found.width_h == {50: 0.0, 80: 0.0, 95: 0.0}
    wide = c.score(np.tile([0.0, 0, 0, 0, 7200, 7200, 7200], (2, 1)), np.array([3600, 7201]))
    assert wide.coverage == {50: 0.5, 80: 0.5, 95: 0.5}
    assert wide.width_h == {50: 2.0, 80: 2.0, 95: 2.0}


def test_waits_count_as_a_week_at_most():
    quantiles = np.full((1, 7), 30.0 * 86_400)
    assert c.score(quantiles, np.array([9 * 86_400])).loss_h == 0.0
    assert c.score(quantiles, np.array([9 * 86_400])).coverage[95] == 1.0
