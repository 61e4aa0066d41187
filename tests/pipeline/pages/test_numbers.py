"""Tests of numbers as tables and reports write them."""

from hindcast.pipeline.pages.numbers import write_estimate, write_interval


def test_an_interval_begins_with_its_low_end():
    assert write_interval(4.24, 1300.0, 1) == "4.2 .. 1,300.0"
    assert write_interval(-1.0, 2.0, 0, signed=True) == "-1 .. +2"
    assert write_estimate(3.0, 1.0, 4.0, 0) == "3 (1 .. 4)"
    assert write_interval(None, 2.0, 0) == "n/a"
