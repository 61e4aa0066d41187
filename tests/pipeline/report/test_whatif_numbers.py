"""Tests of the numbers and sentences of `hindcast whatif`."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.pages.numbers import percent, time_unit
from hindcast.pipeline.report.whatif import words
from hindcast.pipeline.report.whatif.jobs import by_group, groups
from hindcast.pipeline.report.whatif.numbers import HEADLINE, Scope, pair_of, ranking
from hindcast.pipeline.whatif.shakes import Shaken
from tests.pipeline.report.made_whatif import frame_of, grade, jobs_of, material


def scope_of(**policies):
    return Scope({name: {HEADLINE: np.asarray(of, float)} for name, of in policies.items()})


def test_an_interval_half_as_wide_needs_four_times_the_weeks():
    weeks = np.arange(10.0)
    pair = pair_of(scope_of(a=weeks, b=weeks + 1.0), "a", "b")
    assert pair.clear
    assert (pair.blocks, pair.for_half, pair.to_tell) == (10, 30, 0)
    assert pair.share.value == pytest.approx(4.5 / 5.5 - 1.0)


def test_a_difference_half_as_large_as_its_interval_needs_three_times_as_many_more():
    """The interval reaches from the difference to 0 and as far beyond: half of it is too wide."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=100)
    noise -= noise.mean()
    half = 1.96 * noise.std() / np.sqrt(100)
    pair = pair_of(scope_of(a=10 + noise + half / 2, b=np.full(100, 10.0)), "a", "b")
    assert not pair.clear
    assert pair.to_tell == pytest.approx(300, rel=0.2)


def test_intervals_hold_no_impossible_number():
    """One week decides; a mean of positive numbers cannot be negative, nor 100 % of it be saved."""
    scope = scope_of(a=[1.0, 1.0, 1.0, 2.0, 1.0], b=[1.0, 2.0, 60.0, 2.0, 1.0])
    pair = pair_of(scope, "a", "b")
    assert pair.difference.low < -pair.mean
    assert pair.share.low == -1.0 < pair.share.value < 0.0 < pair.share.high
    assert scope.means["b"][HEADLINE].low == 0.0
    assert scope.means["a"][HEADLINE].low > 0.0


def test_less_than_four_blocks_have_no_interval():
    assert not pair_of(scope_of(a=[1.0, 1.0, 1.0], b=[2.0, 2.0, 2.0]), "a", "b").has_interval


def test_policies_within_the_shakes_have_one_rank():
    """Policy b is .7 less than a on average, with a spread of .9: equal; c is 6.6 more: not."""
    a = np.array([24.0, 25.0, 26.0, 25.0])
    shaken = {
        "a": Shaken(a, a),
        "b": Shaken(a - [0.7 - 1.1, 0.7 + 1.1, 0.7, 0.7], a),
        "c": Shaken(a + np.array([6.6, 6.7, 6.5, 6.6]), a),
    }
    scope = scope_of(a=[24.6], b=[24.5], c=[30.4], d=[30.5])
    assert ranking(scope, shaken, list("abcd")) == {"b": 1, "a": 1, "c": 3, "d": 4}
    assert ranking(scope, {}, list("abcd")) == {"b": 1, "a": 2, "c": 3, "d": 4}


def test_numbers_in_words():
    assert [time_unit(s).text(s) for s in (20, 900, 2460)] == ["20.0 s", "15.0 min", "0.68 h"]
    assert [percent(s) for s in (0.004, -0.25, 1.3)] == ["+0.4 %", "-25 %", "+130 %"]
    names = ("sjf easy", "fcfs all", "saf none", "mine")
    assert [words.scheduler(name) for name in names] == [
        "shortest request first with EASY backfilling",
        "order of arrival with a reservation for every job",
        "smallest area (requested time x processors) first without backfilling",
        "the scheduler of --mine",
    ]


OVER = (
    "your jobs hold more processors than the machine has in 4.6 % of what they hold; is the "
    "machine larger than 100?"
)
OPEN = (
    "jobs wait while every waiting job fits (25 % of the waiting): a part of the machine is kept "
    "from them; 2 partitions are in the log"
)
HELD = (
    "of 746 pairs of equal jobs of one user, in 24 % the later one started first: holds, "
    "dependencies or arrays in reverse"
)
ODD = "13 % of the starts come out of nothing: holds or begin times"


@pytest.mark.parametrize(
    ("numbers", "letter", "says"),
    [
        ({"over": 0.0461}, "C", OVER),
        ({"open": 0.2494}, "D", OPEN),
        ({"passed": 0.2426, "odd": 0.1307}, "C", HELD),
    ],
)
def test_the_measurement_that_fails_in_the_words_of_the_reader(numbers, letter, says):
    made = material(grade=grade(letter, **numbers), partitions=2)
    assert words.failing(made) == says
    assert ("odd" in numbers) == (ODD in words.measurements(made).values())
    assert not words.failing(material(grade=grade("B", **numbers), partitions=2))


def test_groups_hold_every_job_once_and_name_what_the_log_names():
    rng = np.random.default_rng(0)
    jobs = jobs_of(300, 20, partitions=2, unknown=40, rng=rng)
    kinds = groups(jobs, 100, {"partition": {1: "debug"}})
    assert list(kinds) == ["partition", "qos", "queue", "user", "size", "request"]
    assert set(kinds["partition"]) == {"partition 0", "partition debug"}
    wait = jobs["recorded_wait_s"]
    frames = {
        "a": frame_of(wait.fill_null(0).to_numpy(), jobs["run_s"].to_numpy()),
        "log": jobs.select(wait_s=wait, bounded_slowdown=wait),
    }
    table = by_group(jobs, frames, kinds)
    for kind in kinds:
        of = table.filter(kind=kind, policy="a")
        assert of["work_share"].sum() == pytest.approx(1.0)
        assert of["jobs"].sum() == 300
        mean = (of["jobs"] * of["mean_wait_s"]).sum() / 300
        assert mean == pytest.approx(wait.fill_null(0).mean())
    # The first 40 waits are unknown and in no mean of the log.
    known = wait.to_numpy()[40:]
    halves = [known[(np.arange(40, 300) % 2) == place].mean() for place in (0, 1)]
    of = table.filter(kind="partition", policy="log").sort("group")
    assert of["mean_wait_s"].to_list() == pytest.approx(halves)


def test_groups_that_wait_longer_are_named_in_the_unit_of_the_page():
    waits = [("recorded", 60.0, 3600.0), ("saf_easy", 3600.0, 360_000.0)]
    table = pl.DataFrame(
        [
            {"policy": policy, "kind": "queue", "group": group, "mean_wait_s": w, "work_share": 0.5}
            for policy, *of in waits
            for group, w in zip(("queue 1", "rest"), of, strict=True)
        ]
    )
    (text,) = words.losers(material(), table, time_unit(7200.0))
    assert "queue 1 (0.02 to 1.00 h), rest of the queues (1.00 to 100 h)." in text
