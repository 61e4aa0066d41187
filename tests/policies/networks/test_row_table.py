"""Tests of scores from the table of rows: the same bits, whatever is scored beside a row."""

import dataclasses

import numpy as np
import pytest

from hindcast.pipeline.simulation.spec import Feature
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.row_table import (
    Table,
    make_table,
    score_rows_apart,
    score_ruled_rows,
)
from hindcast.policies.networks.settings import NetworkSettings, make_network

COLUMNS = tuple(Feature(name, "1", -np.inf, np.inf, "") for name in "abcdef")
SHAPES = {
    "pairs": NetworkSettings(hidden=(3, 9, 6), activation="tanh", quadratic=False),
    "wide": NetworkSettings(hidden=(32, 7), quadratic=False),
    "linear": NetworkSettings(hidden=(), quadratic=True),
    "one column": NetworkSettings(hidden=(5,), quadratic=False, columns=("c",)),
}
RNG = 20261124
RULES = {"no rules": (), "one rule": ("sjf_now",), "three rules": ("sjf_now", "hold_5", "hold_8")}


@pytest.fixture(params=[(shape, rules) for shape in SHAPES for rules in RULES], ids="-".join)
def policy(request):
    """Return a network of six columns, and those of rules, with random weights."""
    shape, rules = request.param
    settings = dataclasses.replace(SHAPES[shape], rules=RULES[rules])
    rng = np.random.default_rng(RNG)
    width = 6 + 2 * len(settings.rules)
    network = make_network((), COLUMNS, settings, rng.normal(size=(50, width)), scenario="slots")
    weights = {k: rng.normal(size=s).astype(np.float32) for k, s in network.shapes.items()}
    return LearnedPolicy("random", network, weights, (), COLUMNS)


def asked(policy, table: Table, rows, allowed):
    """Return the scores of one decision."""
    shown, own = np.full(len(rows), np.nan), np.ascontiguousarray(rows[:, : len(COLUMNS)])
    if policy.arrays.form.ruled:
        score_ruled_rows(own, rows, np.flatnonzero(allowed), policy.arrays, table, shown)
    else:
        score_rows_apart(own, allowed, policy.arrays, table, shown)
    return shown


def with_ranks(policy, rows, rng):
    """Return the rows with new values in the columns of the rules."""
    return np.concatenate([rows, rng.random((len(rows), policy.arrays.form.ruled))], axis=1)


def alone(policy, rows):
    """Return the scores of rows, each in an observation without other rows."""
    starts = np.arange(len(rows) + 1)
    return policy.batch_scores(np.zeros((len(rows), 0)), rows, starts)


def assert_same(policy, table, rows, allowed=None):
    allowed = np.ones(len(rows), np.bool_) if allowed is None else allowed
    expected = np.where(allowed, alone(policy, rows), np.nan)
    assert np.array_equal(asked(policy, table, rows, allowed), expected, equal_nan=True)


def test_new_rows_are_scored_as_alone(policy):
    for count in (1, 3, 4, 7, 8, 9, 17, 64, 65, 200):
        rng, table = np.random.default_rng(count), make_table(policy.network, used=True)
        rows = rng.normal(size=(count, 6))
        assert_same(policy, table, with_ranks(policy, rows, rng))
        assert_same(policy, table, with_ranks(policy, rows, rng))  # all are in the table now


def test_rows_that_repeat_within_a_decision_and_between_decisions(policy):
    rng, table = np.random.default_rng(RNG), make_table(policy.network, used=True)
    known = rng.normal(size=(40, 6))
    for _ in range(30):
        known[rng.integers(0, 40, 8)] = rng.normal(size=(8, 6))
        rows = known[rng.integers(0, 40, 90)]
        assert_same(policy, table, with_ranks(policy, rows, rng), rng.random(90) < 0.8)


def test_rows_that_replace_each_other_in_the_table(policy):
    """Of 6,000 rows in 4,096 places, many share a place, some of them within a decision."""
    rng, table = np.random.default_rng(RNG), make_table(policy.network, used=True)
    known = rng.normal(size=(6000, 6))
    for _ in range(60):
        some = rng.integers(0, len(known), 150)
        rows = known[np.concatenate([some, some[::-1]])]
        assert_same(policy, table, with_ranks(policy, rows, rng))


def test_no_row_may_be_chosen(policy):
    rng, table = np.random.default_rng(RNG), make_table(policy.network, used=True)
    assert_same(policy, table, with_ranks(policy, np.ones((5, 6)), rng), np.zeros(5, np.bool_))
