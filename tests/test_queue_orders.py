"""Tests of the orders by handicap and usage, of their judgement, and of the committed table."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest

from docs.generate import queue_orders as q
from docs.generate.results import FOLDER, ORDERS
from hindcast.pipeline.whatif.orders import EASY, policy_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.whatif.run import run_of
from tests.pipeline.whatif.records import by_hand
from tests.pipeline.whatif.test_playing import drawn_log

HOUR = 3600


@pytest.mark.parametrize(("rule", "g"), [("aged_expected_easy", 0.5), ("wsept_easy", 1.0)])
def test_without_usage_the_aged_form_is_the_rule(rule, g):
    for seed in range(3):
        record = read_record(drawn_log(seed))
        run = run_of(record, 50)
        form = q.order_of_form("form", q.Form(q._AGED, g=g), record)
        assert play(run, form, EASY).tolist() == play(run, *policy_of(rule)).tolist()


def starts_of(name, record, first):
    run = run_of(record, first)
    order, mode = q.policy(name, record)
    return play(run, order, mode)[run.counted].tolist()


def test_the_user_with_the_least_usage_is_first():
    """User 0 had 1 h on all processors, user 1 half an hour; user 0's next job came first."""
    jobs = [(0, 0, 3600, 4), (0, 3600, 1800, 4), (5400, None, 600, 4), (5400, None, 600, 4)]
    record = by_hand(4, *jobs, user=[0, 1, 0, 1], key=[0, 1, 0, 1])
    assert starts_of("usage, 7 d", record, 2) == [6000, 5400]


def test_usage_is_that_of_the_run_as_well():
    """The second job of user 1 comes behind user 0's, because its first one has just run."""
    jobs = [(0, 0, 600, 4), (600, None, 900, 4), (601, None, 60, 4), (602, None, 60, 4)]
    record = by_hand(4, *jobs, user=[0, 1, 1, 0], key=[0, 1, 1, 0])
    assert starts_of("usage, 7 d", record, 1) == [600, 1560, 1500]


def test_a_handicap_is_a_delay_in_the_order_of_submission():
    """2 r n: 80 s for the first job and 8 s for the second, which comes 71 or 73 s later."""
    for later, wanted in ((71, [101, 100]), (73, [100, 110])):
        jobs = [(0, 0, 100, 4), (1, None, 10, 4), (1 + later, None, 1, 4)]
        record = by_hand(4, *jobs, user=[-1] * 3, key=[-1] * 3)
        assert starts_of("2 r n", record, 1) == wanted


def test_a_handicap_by_expected_work_uses_what_has_run():
    """Both request 1 h. User 0's run took 1 min, so its job is expected to be the shorter one."""
    jobs = [(0, 0, 60, 4), (60, 60, 600, 4), (61, None, 60, 4), (62, None, 60, 4)]
    record = by_hand(4, *jobs, user=[0, 2, 1, 0], key=[0, 2, 1, 0], requested=[HOUR] * 4)
    assert starts_of("1 e n", record, 2) == [720, 660]


def score(slowdowns, longest=1.0):
    return q.Score(np.array(slowdowns), np.ones(len(slowdowns)), np.array([1, 1, longest, 1.0]))


def judged(own, base, longest=1.0):
    scores = {}
    for log, (one, other) in enumerate(zip(own, base, strict=True)):
        scores[str(log), "new"] = [score(one, longest)]
        scores[str(log), q.BASE] = [score(other)]
    return q.judge(scores, "new", [str(log) for log in range(len(own))])


def test_a_ratio_that_is_the_same_in_all_weeks_has_no_spread():
    found = judged([[8.0, 4.0], [2.0, 2.0]], [[10.0, 5.0], [2.5, 2.5]])
    assert [found.mean, found.low, found.high] == pytest.approx([math.log(0.8)] * 3)
    assert found.better


def test_one_bad_log_one_long_wait_or_a_wide_interval_is_enough_to_fail():
    base = [[10.0] * 6, [10.0] * 6]
    assert judged([[5.0] * 6, [10.9] * 6], base).better
    assert not judged([[5.0] * 6, [11.1] * 6], base).better
    assert not judged([[5.0] * 6, [10.0] * 6], base, longest=1.6).better
    uncertain = judged([[1.0, 1.0, 1.0, 1.0, 1.0, 44.0], [9.0] * 6], base)
    assert uncertain.mean < 0
    assert not uncertain.better


def committed():
    """Return the committed rows by part, policy and log."""
    found = defaultdict(dict)
    with (FOLDER / ORDERS).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["part"], row["policy"]][row["log"]] = row
    return found


def test_the_table_has_every_candidate_on_every_log():
    table = committed()
    for name in (*q.COMPARATORS, *q.CANDIDATES):
        assert list(table["train", name]) == [*q.LOGS, "all"]
    assert len(q.CANDIDATES) == len(q.FAMILIES) == 24


def longest(table, part, name):
    """Return the ratios of the longest waits of the logs."""
    mine, base = table[part, name], table[part, q.BASE]
    return [
        float(mine[log]["longest_wait_h"]) / float(base[log]["longest_wait_h"]) for log in q.LOGS
    ]


def test_no_candidate_passes_by_the_rule_of_the_page():
    """Nor was one played on the last 30 %."""
    table = committed()
    for name in q.CANDIDATES:
        mine = table["train", name]
        passes = (
            float(mine["all"]["high"]) < 1
            and all(float(mine[log]["ratio"]) <= 1.1 for log in q.LOGS)
            and max(longest(table, "train", name)) <= 1.5
        )
        assert not passes
        assert ("test", name) not in table


def test_the_second_question_is_answered_by_its_three_conditions():
    table = committed()
    met = [
        [
            float(table["validation", name]["all"]["ratio"]) <= 1.1,
            math.prod(longest(table, "validation", name)) ** (1 / len(q.LOGS)) <= 0.5,
            float(table["train + validation", name]["all"]["high"]) < 1,
        ]
        for name in q.SECOND
    ]
    assert met == [[True, False, False], [True, False, True]]
