"""Factors, fair share and usage of multifactor priority, on examples that were worked by hand."""

import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.batch_systems.multifactor import (
    Clock,
    ShareTree,
    age_factor,
    classic_factor,
    classic_fair_share,
    decay,
    fair_tree,
    levels,
    multifactor,
    size_factor,
    tree_factors,
    usage_before,
)

DAY = 86_400
HOUR = 3_600


def test_age_grows_to_its_weight():
    """Weight 1000 and PriorityMaxAge 14-0: 250 points after 3.5 days, 1000 after 14 and more."""
    assert 1000 * age_factor(int(3.5 * DAY), 14.0 * DAY) == 250
    assert 1000 * age_factor(14 * DAY, 14.0 * DAY) == 1000
    assert 1000 * age_factor(20 * DAY, 14.0 * DAY) == 1000
    assert age_factor(0, 0.0) == 1  # PriorityMaxAge=0


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ((False, False), 0.25), ((True, False), 0.75),
        ((False, True), 25 / 600 / 100), ((True, True), 1 - 25 / 600 / 100),
    ],
)  # fmt: skip
def test_size_of_25_of_100_processors(form, expected):
    """The limit is 600 minutes, so 25 processors relative to time are .000416667 of the machine."""
    one = [np.array([x]) for x in (25, 25, 36_000)]
    assert size_factor(*one, (100, 100), form)[0] == pytest.approx(expected, rel=1e-12)


def test_size_counts_nodes_beside_processors():
    """4 of 100 processors on 2 of 10 nodes: (.2 + .04) / 2; relative, whole nodes are 20."""
    one = [np.array([x]) for x in (4, 2, 61)]  # 61 s are two minutes
    assert size_factor(*one, (100, 10), (False, False))[0] == pytest.approx(0.12)
    assert size_factor(*one, (100, 10), (True, False))[0] == pytest.approx(0.88)
    assert size_factor(*one, (100, 10), (False, True))[0] == pytest.approx(20 / 2 / 100)


def test_a_factor_relative_to_time_needs_a_large_weight():
    """With weight 1000 it is cut to 0 for every limit above 1,000 n / P minutes."""
    minutes = np.array([249, 250, 251])
    cpu = np.full(3, 25)
    factor = size_factor(cpu, cpu, 60 * minutes, (100, 100), (False, True))
    assert np.floor(1000 * factor).tolist() == [1, 1, 0]
    assert np.floor(1_000_000 * factor).tolist() == [1004, 1000, 996]


def test_a_priority_is_cut_once_and_kept_within_its_range():
    assert multifactor(250.0 + 0.0, 250.0, 4084.79) == 4584
    assert multifactor(250.0 - 100.0, 250.0, 4084.79) == 4484  # nice=100
    assert multifactor(0.6, 0.6, 0.0) == 1  # not 0: the sum is cut, not the terms
    assert multifactor(-5e9, 0.0, 0.0) == 1
    assert multifactor(9e9, 0.0, 0.0) == 2**32 - 1


# root - A 40 - B 30 - user1
#             - C 10 - user2, user3
#      - D 60 - E 25 - user4
#             - F 35 - user5
TREE = ShareTree(
    parent=np.array([-1, 0, 1, 1, 0, 4, 4, 2, 3, 3, 5, 6]),
    shares=np.array([1.0, 40, 30, 10, 60, 25, 35, 1, 1, 1, 1, 1]),
    user=np.array([-1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4]),
)
USAGE = np.array([0.2, 0.25, 0.0, 0.25, 0.0])
# The example gives usage as shares of the machine, of which .3 is used by nobody in the tree.


def test_classic_fair_share_of_the_five_users():
    """Usage is relative to that of all; here a user outside the accounts has the missing .3."""
    tree = ShareTree(
        np.append(TREE.parent, 0), np.append(TREE.shares, 0.0), np.append(TREE.user, 5)
    )
    found = classic_fair_share(tree, np.append(USAGE, 0.3))
    assert found[:5] == pytest.approx([0.408479, 0.022097, 0.125, 0.5, 0.749154], abs=5e-7)
    assert math.floor(250 + 10_000 * found[0] + 250) == 4584


def test_fair_tree_of_the_five_users():
    level = levels(TREE, USAGE)
    assert level[[1, 2, 3, 4, 5]] == pytest.approx([0.6222, 1.6875, 0.45, 1.68, 0.4167], abs=5e-5)
    assert level[[6, 7, 8, 9, 10, 11]].tolist() == [math.inf, 1, 0.5, math.inf, 1, math.inf]
    factors = fair_tree(TREE, USAGE)
    assert factors.tolist() == [0.6, 0.2, 0.4, 0.8, 1.0]
    assert multifactor(250.0, 250.0, 10_000 * factors[0]) == 6500


def test_dampening_divides_the_exponent():
    half = classic_fair_share(TREE, USAGE, dampening=2.0)
    assert half == pytest.approx(np.sqrt(classic_fair_share(TREE, USAGE)))


def test_without_any_usage_everybody_has_the_factor_1():
    assert classic_fair_share(TREE, np.zeros(5)).tolist() == [1] * 5
    assert fair_tree(TREE, np.zeros(5)).tolist() == [1] * 5
    assert classic_factor(0.0, 0.0, 5, 1.0) == 1


def test_equal_accounts_are_visited_together():
    """Accounts A and B of equal level: their users are ranked as siblings, by their own levels."""
    tree = ShareTree(
        np.array([-1, 0, 0, 1, 1, 2, 2]), np.ones(7), np.array([-1, -1, -1, 0, 1, 2, 3])
    )
    assert fair_tree(tree, np.array([3.0, 1.0, 2.0, 2.0])).tolist() == [0.25, 1.0, 0.75, 0.75]


def test_a_user_equal_to_an_account_comes_first_and_shares_its_rank():
    tree = ShareTree(np.array([-1, 0, 0, 1]), np.ones(4), np.array([-1, -1, 0, 1]))
    assert fair_tree(tree, np.array([2.0, 2.0])).tolist() == [1.0, 1.0]
    assert fair_tree(tree, np.array([2.0, 1.0])).tolist() == [0.5, 1.0]


def flat(users: int) -> ShareTree:
    return ShareTree(np.r_[-1, np.zeros(users, np.int64)], np.ones(users + 1), np.arange(-1, users))


@pytest.mark.parametrize("seed", range(5))
def test_flat_trees_have_the_factors_of_the_compiled_functions(seed):
    rng = np.random.default_rng(seed)
    usage = np.round(rng.exponential(100.0, 40) * (rng.random(40) < 0.7))
    tree = flat(len(usage))
    each = [classic_factor(one, usage.sum(), len(usage), 3.0) for one in usage]
    assert classic_fair_share(tree, usage, 3.0) == pytest.approx(each, rel=1e-12)
    factors = np.empty(len(usage))
    tree_factors(usage, factors)
    assert factors.tolist() == [float((usage >= one).mean()) for one in usage]
    assert fair_tree(tree, usage).tolist() == factors.tolist()


def test_usage_is_halved_every_half_life():
    """1,000 processor-hours are 500 after 7 days at 7-0, and 707.1 at 14-0."""
    for days, expected in ((7, 500.0), (14, 1000 / math.sqrt(2)), (0, 1000.0)):
        usage = np.array([1000.0])
        decay(usage, np.zeros(1, np.int64), 7 * DAY, float(days * DAY))
        assert usage[0] == pytest.approx(expected, rel=1e-12)


def test_steps_of_slurm_lead_to_nearly_the_same():
    """Slurm's steps of 5 minutes with 1 - .693 / half-life leave 500.07 of 1,000."""
    kept = (1 - 0.693 / (7 * DAY)) ** 300
    assert round(1000 * kept ** (7 * DAY // 300), 2) == 500.07


def test_steps_of_any_length_are_one_step():
    held = np.array([3, 0])
    once, often = np.array([100.0, 7.0]), np.array([100.0, 7.0])
    decay(once, held, 5_000, 3_600.0)
    for step in (1, 999, 4_000):
        decay(often, held, step, 3_600.0)
    assert often == pytest.approx(once, rel=1e-12)


def test_a_log_of_three_accounts_over_two_half_lives():
    """User a holds 100 processors in the first half-life, b in the second, c in both.

    In units of 100 H / ln 2 their usage is 1/4, 1/2 and 3/4, of 3/2: shares 1/6, 1/3 and 1/2.
    """
    life = 7 * DAY
    start, run = np.array([0, life, 0, 3 * life]), np.array([life, life, 5 * life, life])
    held = np.array([0, 1, 2, 0]), np.full(4, 100)
    usage = usage_before(2 * life, start, run, held, float(life), 0)
    assert usage / (100 * life / math.log(2)) == pytest.approx([0.25, 0.5, 0.75], rel=1e-12)
    assert classic_fair_share(flat(3), usage) == pytest.approx([2**-0.5, 0.5, 2**-1.5], rel=1e-12)
    assert fair_tree(flat(3), usage) == pytest.approx([1, 2 / 3, 1 / 3])
    plain = usage_before(2 * life, start, run, held, 0.0, 0)
    assert plain.tolist() == [100 * life, 100 * life, 200 * life]


def test_usage_before_a_reset_is_forgotten_and_unknown_starts_have_none():
    start, run = np.array([0, 0, NEVER]), np.array([100, 1000, 50])
    held = np.array([0, 1, 2]), np.array([2, 3, 4])
    assert usage_before(200, start, run, held, 0.0, 0).tolist() == [200, 600, 0]
    assert usage_before(200, start, run, held, 0.0, 150).tolist() == [0, 150, 0]


def test_usage_is_reset_at_local_midnight():
    """Second 0 is 12:00 in Berlin on Friday, 28 March 2025; clocks go forward on Sunday."""
    zone = ZoneInfo("Europe/Berlin")
    noon = int(datetime(2025, 3, 28, 12, tzinfo=zone).timestamp())
    clock = Clock(noon, zone)
    days = clock.resets("DAILY", 0, 4 * DAY).tolist()
    assert days == [12 * HOUR, 36 * HOUR, 59 * HOUR, 83 * HOUR]
    assert clock.resets("WEEKLY", 0, 10 * DAY).tolist() == [36 * HOUR, 36 * HOUR + 7 * DAY - HOUR]
    assert clock.resets("MONTHLY", 0, 10 * DAY).tolist() == [83 * HOUR]
    assert clock.resets("QUARTERLY", 0, 40 * DAY).tolist() == [83 * HOUR]
    assert clock.resets("YEARLY", 0, 300 * DAY).tolist() == [
        int(datetime(2026, 1, 1, tzinfo=zone).timestamp()) - noon
    ]
    assert clock.resets("NONE", 0, 300 * DAY).tolist() == []


def test_a_clock_that_begins_at_midnight_resets_there():
    clock = Clock(int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()))  # a Monday
    assert clock.resets("DAILY", 0, DAY).tolist() == [0, DAY]
    assert clock.resets("WEEKLY", 0, 13 * DAY).tolist() == [6 * DAY, 13 * DAY]
