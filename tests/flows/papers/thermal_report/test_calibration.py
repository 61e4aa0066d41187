"""Tests of the record that the 2018 report prints."""

import pytest

from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.thermal_report.calibration import METRICS, calibrate


def test_the_record_of_figure_4_comes_out_to_the_last_digit_of_its_heats():
    ours = dict(calibrate({}).select("metric", "ours").rows())
    assert tuple(ours) == METRICS
    assert ours["total heat after job 0"] == 4.6919742701607256e-17
    assert ours["total heat after job 1"] == 8.351714200886092e-17
    printed = number(published("thermal"), "figure 4", "reward of job 0", "reward")
    assert ours["reward of job 0"] == pytest.approx(printed, abs=5e-7)
