"""Tests of plays from one moment on, against the player of whole runs."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.forecast import plays
from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.playing import play
from tests.pipeline.forecast.made_past import made_record, scheduled

FIELDS = ("arrive", "cpu", "requested", "run", "user", "key")


@pytest.mark.parametrize(
    "rule",
    ["fcfs_easy", "saf_easy", "aged_area_easy", "similar_area_easy", "saf_clairvoyant",
     "conservative", "sjf_greedy", "fcfs", "aged_expected_easy", "wsept_conservative"],
)  # fmt: skip
def test_with_true_run_times_and_arrivals_every_start_is_that_of_the_schedule(rule):
    """From any moment on, to the second."""
    policy = policy_of(rule)
    past = plays.past_of(scheduled(made_record(250, gap_s=700.0), rule))
    record, compared = past.record, 0
    for now in record.arrive[20::15].tolist():
        moment = plays.moment_of(past, now, policy[0])
        asked = np.arange(moment.running, len(moment.row))
        if not len(asked):
            continue
        spans = plays.Spans(*(np.array([of]) for of in (now, now + plays.HORIZON_S, 0)))
        run = record.run[moment.row][None]
        waits = plays.play_draws(past, moment, policy, asked, run, spans, known_until=LATER)
        np.testing.assert_array_equal(waits[0], record.start[moment.row[asked]] - now)
        compared += len(asked)
    assert compared > 50


def test_copies_of_arrivals_come_as_often_as_there_is_time():
    """The play is that of a run whose jobs are the copies, made here by hand."""
    policy = policy_of("saf_easy")
    past = plays.past_of(scheduled(made_record(600), "saf_easy"))
    record, day = past.record, 86_400
    now = int(record.arrive[400])
    moment = plays.moment_of(past, now, policy[0])
    asked = np.arange(moment.running, len(moment.row))
    assert len(asked) > 1
    spans = plays.Spans(np.array([now - day]), np.array([now]), np.array([day]))
    run = plays.draw_runs(past, moment, 1, np.random.default_rng(3))
    waits = plays.play_draws(past, moment, policy, asked, run, spans)[0]

    rows = np.flatnonzero((record.arrive > now - day) & (record.arrive <= now))
    copies = {name: np.tile(getattr(record, name)[rows], 14) for name in FIELDS}
    copies["arrive"] = copies["arrive"] + day * np.repeat(np.arange(1, 15), len(rows))
    unknown = np.tile(past.arrivals.end[rows] > now, 14)
    assert unknown.any()
    copies["run"] = np.where(unknown, copies["requested"], copies["run"])
    first = {**{name: getattr(moment, name) for name in FIELDS}, "run": run[0]}
    size, here = len(moment.row) + 14 * len(rows), len(moment.row)
    others = {name: np.full(size, -1) for name in plays.OF_JOB if name not in FIELDS}
    others["start"][: moment.running] = moment.start[: moment.running]
    whole = replace(
        moment, row=np.arange(size), chain=np.full(size, -1),
        counted=(np.arange(size) >= moment.running) & (np.arange(size) < here), **others,
        **{name: np.concatenate([first[name], copies[name]]) for name in FIELDS},
    )  # fmt: skip
    starts = play(whole, *policy)
    np.testing.assert_array_equal(waits, starts[asked] - now)


def test_a_job_past_its_request_ends_in_a_second_and_one_that_cannot_start_is_later():
    record = made_record(40)
    past = plays.past_of(scheduled(record, "fcfs_easy"))
    now = int(record.arrive[-1])
    moment = plays.moment_of(past, now, policy_of("fcfs_easy")[0])
    changed = {
        "cpu": np.array([16, 1, 16]), "requested": np.array([10, 10, 10]),
        "arrive": np.array([now - 50, now, now]), "start": np.array([now - 50, -1, -1]),
        "user": np.array([0, 0, 0]), "key": np.array([0, 0, 0]),
    }  # fmt: skip
    rest = {name: np.full(3, -1) for name in plays.OF_JOB if name not in changed}
    moment = replace(
        moment, running=1, row=np.arange(3), counted=np.array([False, True, True]),
        chain=np.full(3, -1), **changed, **rest,
    )  # fmt: skip
    run, asked = plays.requested_runs(moment), np.array([1, 2])
    assert run.tolist() == [[51, 10, 10]]
    for rule, free, want in (
        ("fcfs_easy", None, [1, 11]),
        ("fcfs_easy", -1, [1, plays.HORIZON_S]),  # a processor is down
        ("largest_easy", None, [11, 1]),
    ):
        got = plays.play_draws(past, moment, policy_of(rule), asked, run,
                               plays.no_arrivals(now, 1), free=free)  # fmt: skip
        assert got[0].tolist() == want


def test_spans_are_whole_weeks_of_the_log_before_the_moment():
    past = plays.past_of(scheduled(made_record(3000), "fcfs_easy"))
    week, day, rng = plays.WEEK_S, plays.DAY_S, np.random.default_rng(0)
    first, last = past.first, int(past.record.arrive[-1])
    assert last - first > 4 * week
    spans = plays.drawn_spans(past, last, 200, rng)
    assert set((spans.until - spans.since) // week) == set(range(1, (last - first) // week + 1))
    assert (spans.since >= first).all()
    assert (spans.until == last).all()
    late = plays.drawn_spans(past, last + 3 * day, 10, rng)  # the log ended days ago
    assert (late.until == last + 3 * day - week).all()
    assert (late.since + late.shift == last + 3 * day).all()
    young = plays.drawn_spans(past, first + 2 * day + 5, 3, rng)
    assert (young.until - young.since).tolist() == [2 * day] * 3
    none = plays.drawn_spans(past, first + 5, 3, rng)
    assert (none.until - none.since).tolist() == [0, 0, 0]
