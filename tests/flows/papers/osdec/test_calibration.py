"""Tests that `deferrable` meets the numbers of its prototype."""

import polars as pl
import pytest

from hindcast.flows.papers.osdec.calibration import BASE, PAPER, SPEC, calibrate
from hindcast.pipeline.errors import InputError
from hindcast.policies.heuristics.deferrable import HEURISTICS

EPISODES = 30


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return calibrate(HEURISTICS, episodes=EPISODES)


def number(
    table: pl.DataFrame, setting: str, policy: str, metric: str, column: str = "ours"
) -> float:
    return table.filter(setting=setting, policy=policy, metric=metric)[column].item()


@pytest.mark.slow
def test_every_number_of_the_prototype_is_met_within_five_percent_or_its_errors(table):
    """The prototype's 100 trajectories have an error, too: 4 of our errors at 30 cover both."""
    checked = 0
    for (setting, policy, metric), expected in SPEC.items():
        row = table.filter(setting=setting, policy=policy, metric=metric).row(0, named=True)
        if row["ours"] is None:
            assert policy in {"optimum", "relaxation"}
            continue
        allowed = max(0.05 * abs(expected), 4 * row["standard_error"], 1.0)
        assert abs(row["ours"] - expected) < allowed, row
        checked += 1
    assert checked >= 17


@pytest.mark.slow
def test_totals_are_within_one_percent_of_the_prototype(table):
    for policy in ("fifo", "sjf", "tetris", "fifo_skip", "knapsack"):
        expected = SPEC[BASE, policy, "total_reward"]
        assert number(table, BASE, policy, "total_reward") == pytest.approx(expected, rel=0.012)


@pytest.mark.slow
def test_rules_have_the_order_that_the_headroom_says(table):
    def total(policy: str) -> float:
        return number(table, BASE, policy, "total_reward")

    assert total("fifo_skip") > 1.02 * max(total("fifo"), total("sjf"), total("tetris"))
    assert total("largest_skip") > 1.02 * total("fifo_skip")
    assert total("knapsack") > total("largest_skip")
    assert total("knapsack_patient") > total("knapsack")
    assert total("knapsack") > 1.07 * max(total("fifo"), total("sjf"), total("tetris"))
    assert total("upper_bound") > total("knapsack_patient")
    assert total("knapsack") > 0.98 * total("upper_bound")


@pytest.mark.slow
def test_fifo_scales_over_the_cases_as_printed(table):
    for case in ("core case 2", "core case 3", "duration case 1", "duration case 2"):
        ours = number(table, case, "fifo", "scaling")
        assert ours == pytest.approx(PAPER[case, "fifo", "scaling"], rel=0.06)


def test_one_episode_has_no_standard_error():
    with pytest.raises(InputError, match="expected at least 2"):
        calibrate(HEURISTICS, episodes=1)
