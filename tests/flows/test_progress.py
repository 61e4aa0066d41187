"""Tests of progress: rare lines with an estimate, bars on a terminal, silence elsewhere."""

import io

import pytest

from hindcast.flows.progress import Bars, Lines, duration, estimate, note, progress, showing


def test_lines_are_at_most_one_an_interval_and_say_what_is_left():
    now = [0.0]
    lines: list[str] = []
    with Lines(lines.append, interval_s=10, clock=lambda: now[0]).progress("build") as tell:
        for done in range(0, 101, 5):
            now[0] = done / 4
            tell(done, 100)
    assert lines == [
        "build: 40 of 100, 4.0 a second, about 15 s left",
        "build: 80 of 100, 4.0 a second, about 5 s left",
    ]


def test_what_an_earlier_call_did_is_no_part_of_the_estimate():
    """A build that continues at 80 of 100 and reaches 85 after 10 s has done 5, not 85, in 10 s."""
    now = [0.0]
    lines: list[str] = []
    with Lines(lines.append, interval_s=10, clock=lambda: now[0]).progress("build") as tell:
        tell(80, 100)
        now[0] = 10.0
        tell(85, 100, "part 85")
    assert lines == ["build: part 85: 85 of 100, 30 a minute, about 30 s left"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (99, "99 s"), (120, "2 min"), (7500, "2 h 05 min")]
)
def test_durations_in_words(seconds, said):
    assert duration(seconds) == said


def test_no_estimate_without_a_speed():
    assert not estimate(0, 100, 50.0)
    assert not estimate(100, 100, 50.0)


def test_bars_name_the_step():
    stream = io.StringIO()
    bars = Bars(stream)
    with bars.progress("train cql") as tell:
        tell(1, 2, "warming up")
        bars.note("a [note]")
    assert "train cql: warming up" in stream.getvalue()
    assert "a [note]" in stream.getvalue()


def test_nobody_is_bothered_outside_a_display():
    note("unheard")
    with progress("unseen") as tell:
        tell(1, 2)


def test_the_outer_display_is_the_one_that_shows():
    """A task inside the command line writes to the terminal, not to the run's log."""
    outer: list[str] = []
    inner: list[str] = []
    with showing(Lines(outer.append)), showing(Lines(inner.append)):
        note("heard")
    assert (outer, inner) == (["heard"], [])
