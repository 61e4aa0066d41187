"""Tests of the table of rankings with intervals, and of the committed table."""

import csv

import numpy as np
import polars as pl
import pytest

from docs.generate import ope_ranking as r
from docs.generate.results import FOLDER, RANKING

SIX = {"thermal", "multicluster", "slots", "queue", "binpack", "deferrable"}


def problem(name, values):
    truth = np.arange(6.0)[:, None] + np.array([[0.0, 100.0]])
    return r.Problem(name, values, truth, np.arange(6) < 2, 5)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(r, "DRAWS", 50)
    monkeypatch.setattr(r, "VOTES", 20)


@pytest.fixture
def problems():
    """Return three problems where gp is right but for one pair, and dm right in two of three."""
    right, nearly = np.arange(6.0), np.array([0.0, 1.0, 2.0, 3.0, 5.0, 4.0])
    wrong = dict.fromkeys(("dr", "wdr", "tempered", "snpdis", "mwl"), -right)
    return [
        problem("one", {"gp": nearly, "dm": right, **wrong}),
        problem("two", {"gp": nearly, "dm": right, **wrong}),
        problem("three", {"gp": nearly, "dm": -right, **wrong}),
    ]


@pytest.mark.slow
def test_combinations_see_nothing_of_their_own_scenario(problems):
    """With all estimates of the third problem turned round, its combinations are turned round."""
    one = r.combined(problems)[2]
    turned = {name: -values for name, values in problems[2].values.items()}
    two = r.combined([*problems[:2], problem("three", turned)])[2]
    for name in (r.CHOSEN, r.LEARNED):
        assert r.rank_correlation(one[name], -two[name]) == pytest.approx(1.0)


def test_the_consensus_drops_what_contradicts_gp(problems):
    scores = r.combined(problems)
    assert r.rank_correlation(scores[2]["consensus"], problems[2].values["gp"]) == pytest.approx(1)
    assert np.argmax(scores[0]["consensus"]) == 4  # gp's vote is 1, dm's 0.94


@pytest.mark.slow
def test_rows_have_intervals_around_their_numbers(problems):
    rows = list(csv.DictReader(r.table(problems)))
    by = {(row["scenario"], row["estimator"]): row for row in rows}
    assert float(by["one", "dm"]["rank_correlation"]) == 1.0
    assert by["one", "dm"]["low"] == by["one", "dm"]["high"] == "1.0000"
    assert float(by["one", "gp"]["regret"]) == pytest.approx(1.0 / 2.5)
    assert float(by["three", "dm"]["rank_correlation"]) == -1.0
    assert float(by["all", "dm"]["rank_correlation"]) == pytest.approx(1.0 / 3.0, abs=1e-4)
    gp = by["one", "gp"]
    assert float(gp["low"]) <= float(gp["rank_correlation"]) <= float(gp["high"])


def test_the_committed_table_has_all_six_scenarios():
    table = pl.read_csv(FOLDER / RANKING)
    assert tuple(table.columns) == r.COLUMNS
    for name in ("gp", "consensus", r.CHOSEN, r.LEARNED, "tempered", "dm"):
        assert set(table.filter(estimator=name)["scenario"]) == {*SIX, "all"}
    means = table.filter(pl.col("scenario") != "all").group_by("estimator")
    found = dict(means.agg(pl.col("rank_correlation").mean()).rows())
    for name, value in table.filter(scenario="all").select("estimator", "rank_correlation").rows():
        if name in found:
            assert value == pytest.approx(found[name], abs=1e-3)
