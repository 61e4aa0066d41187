"""Tests of the numbers of `hindcast whatif`: comparisons, the plan of a log, and the grade."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.report.whatif import nearness as near
from hindcast.pipeline.report.whatif.fidelity import fidelity
from hindcast.pipeline.report.whatif.numbers import HEADLINE, Cast, Scope, pair_of
from hindcast.pipeline.report.whatif.words import losers, percent, verdict_of, wait_unit
from hindcast.pipeline.scenarios.queue.instances import Log, read_log
from hindcast.pipeline.statistics.intervals import bootstrap_interval
from tests.conftest import require_traces


def scope_of(**policies):
    values = {name: {HEADLINE: np.asarray(of, float)} for name, of in policies.items()}
    means = {name: {HEADLINE: bootstrap_interval(of[HEADLINE])} for name, of in values.items()}
    return Scope(None, values, means)


def test_an_interval_half_as_wide_needs_four_times_the_weeks():
    weeks = np.arange(10.0)
    pair = pair_of(scope_of(a=weeks, b=weeks + 1.0), "a", "b")
    assert verdict_of(pair) == "win"
    assert (pair.blocks, pair.for_half, pair.to_tell) == (10, 30, 0)
    assert pair.share.value == pytest.approx(4.5 / 5.5 - 1.0)


def test_a_difference_half_as_large_as_its_interval_needs_three_times_as_many_more():
    """The interval reaches from the difference to 0 and as far beyond: half of it is too wide."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=100)
    noise -= noise.mean()
    half = 1.96 * noise.std() / np.sqrt(100)
    pair = pair_of(scope_of(a=10 + noise + half / 2, b=np.full(100, 10.0)), "a", "b")
    assert verdict_of(pair) == "unclear"
    assert pair.to_tell == pytest.approx(300, rel=0.2)


def test_one_block_has_no_interval_and_no_advice():
    pair = pair_of(scope_of(a=[1.0], b=[2.0]), "a", "b")
    assert not pair.has_interval
    assert pair.to_tell is None
    assert verdict_of(pair) == "unclear"


def log_of(submit, start, run, cpu, processors):
    of = {k: np.asarray(v, np.int64) for k, v in {
        "submit": submit, "start": start, "run": run, "cpu": cpu}.items()}  # fmt: skip
    nothing = np.zeros(0, np.int64)
    return Log(processors, row=np.arange(len(submit)), arrive=of["submit"],
               known=np.ones(len(submit), bool),
               requested=of["run"], user=nothing, key=nothing, queue=nothing,
               by_end=nothing, ends=of["start"] + of["run"], **of)  # fmt: skip


def test_waiting_while_fitting_by_hand():
    """Job 1 waits for job 0 from 5 to 10, and from 10 to 20 though it fits.

    Job 2 exceeds the machine by 2 processors from 20 to 24, when job 1 ends. 24 s of 40 have gone.
    """
    log = log_of([0, 5, 20], [0, 20, 20], [10, 4, 20], [3, 3, 3], 4)
    fitting, over = near.waiting_of(log)
    assert fitting == pytest.approx(10 / 15)
    assert over == pytest.approx(4 / 40)


def test_the_distance_of_samples_is_0_for_equal_ones_and_1_for_apart_ones():
    a = np.arange(10.0)
    assert near.distance(a, a) == 0.0
    assert near.distance(a, a + 100) == 1.0
    assert near.distance(a, np.concatenate([a[:5], a[:5] + 100])) == pytest.approx(0.5)


def test_the_grade_is_the_worst_of_the_measurements():
    """Nobody waits although a job fits, and the record is that of EASY: A. Then waits differ."""
    log = log_of([0, 1], [0, 10], [10, 10], [4, 4], 4)
    waits = np.array([0.0, 9.0])
    best = near.nearness(log, waits, waits)
    assert (best.grade, best.reasons, best.near) == ("A", (), True)
    worse = near.nearness(log, waits, 3 * waits)
    assert worse.grade == "D"
    assert worse.grades["easy_to_log"] == "D"
    assert "3.00 times as long as recorded" in worse.reasons[0]
    assert not worse.near


def test_numbers_in_words():
    assert [wait_unit(s).text(s) for s in (20, 900, 2460)] == ["20.0 s", "15.0 min", "0.68 h"]
    assert [percent(s) for s in (0.004, -0.25, 1.3)] == ["+0.4 %", "-25 %", "+130 %"]


def test_waits_of_all_sizes_have_the_unit_of_the_page():
    cast = Cast("recorded", "fcfs_easy", "saf_easy", "fcfs_easy", None, "saf_easy")
    waits = [("fcfs_easy", 60.0, 600.0), ("saf_easy", 3600.0, 400_000.0)]
    groups = pl.DataFrame([
        {"policy": policy, "kind": "size", "group": group, "mean_wait_s": wait, "work_share": 0.5}
        for policy, *of in waits for group, wait in zip(("small", "wide"), of, strict=True)
    ])  # fmt: skip
    (text,) = losers(cast, groups, wait_unit(7200.0))
    assert "small (0.02 to 1.00 h), wide (0.17 to 111 h)." in text


def test_a_schedule_beside_the_log_by_hand():
    """Three jobs of a machine with 4 processors; a run that begins at 10, when job 0 waits."""
    log = log_of([0, 20, 30], [15, 50, 30], [10, 20, 40], [2, 2, 2], 4)
    jobs = pl.DataFrame({"job": [0, 1, 2], "week": [0, 0, 1]})
    kinds = {"size": pl.Series("size", ["small", "rest", "small"])}
    found = fidelity(log, jobs, 10, {"now": np.zeros(3)}, kinds, wait_unit(5000.0))
    assert found.columns == ("the log", "now")
    waits = np.array([5.0, 30.0, 0.0])
    assert found.measures["mean wait [h]"] == (pytest.approx(waits.mean() / 3600), 0.0)
    slowdowns = [(5 + 10) / 10, (30 + 20) / 20, 1.0]
    assert found.measures["mean bounded slowdown"] == (pytest.approx(np.mean(slowdowns)), 1.0)
    # Until 30, when the last job comes: job 0 runs from 15 to 25; without waits, from 10 and 20.
    assert found.measures["processors in use, by these jobs [%]"] == (
        pytest.approx(100 * 20 / 80), pytest.approx(100 * 40 / 80),
    )  # fmt: skip
    assert found.measures["distance of the waits from the log (KS)"] == (0.0, pytest.approx(2 / 3))
    rows = found.groups.rows(named=True)
    assert [row["group"] for row in rows] == ["small", "rest"]
    assert (rows[0]["jobs"], rows[0]["the log"], rows[0]["now"]) == (2, 2.5, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share", "over"),
    [("kth", 0.53, 0.0007), ("sdsc-sp2", 0.24, 0.014)],  # as an independent program found
)
def test_waiting_while_fitting_on_real_logs(name, share, over):
    """The machine of SDSC SP2 is near its log, that of KTH is not."""
    recipe = load_recipe(f"queue-{name}-v1")
    require_traces()
    log = read_log(load_source(recipe))
    fitting, exceeded = near.waiting_of(log)
    assert fitting == pytest.approx(share, abs=0.005)
    assert exceeded == pytest.approx(over, abs=0.0005)
