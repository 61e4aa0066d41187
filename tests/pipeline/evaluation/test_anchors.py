"""Tests of anchors: which windows they are of, and who reads them."""

from dataclasses import replace

import polars as pl
import pytest

from hindcast.pipeline.evaluation import anchors as module
from hindcast.pipeline.evaluation.anchors import Anchor, anchor_of, anchor_of_evaluation, windows_of
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.exports.minari import _reference_scores
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report.tables import main_table
from hindcast.policies.entrants import entrants


@pytest.fixture
def anchor(tiny_recipe, monkeypatch) -> Anchor:
    """An anchor of the windows of a small recipe."""
    windows, count = windows_of(tiny_recipe), len(tiny_recipe.windows("test"))
    means = (900.0, 5, "tetris", 800.0, 700.0)
    one = Anchor(windows, ("x",), count, "makespan_s", "lower", *means, "makespan", -900.0, -800.0)
    assert tiny_recipe.objective == one.objective
    monkeypatch.setattr(module, "anchors", lambda: {windows: one})
    return one


def test_settings_that_add_columns_have_the_same_windows():
    plain = load_recipe("slots-online-rate10")
    assert windows_of(load_recipe(plain.id, ["config.foresight=true"])) == windows_of(plain)
    assert windows_of(load_recipe(plain.id, ["config.steps=9"])) != windows_of(plain)
    assert windows_of(plain, "validation") != windows_of(plain)


def test_the_score_of_a_report_is_that_of_the_anchor(anchor, tiny_recipe, tmp_path):
    assert (anchor.score(900.0), anchor.score(800.0), anchor.score(700.0)) == (0.0, 1.0, 2.0)
    evaluate(
        tiny_recipe, entrants(tiny_recipe, ["tetris", "random"]), split="test", out=tmp_path / "e"
    )
    summary = summarise([tmp_path / "e"])
    (one,) = summary.settings
    table = main_table(one, anchor_of_evaluation(one.setting.first), {})
    at = table.names.index("score")
    shown = {row.cells[0].text: row.cells[at].text for row in table.written}
    for policy in one.setting.headline.policies:
        score = anchor.score(float(policy.values.mean()))
        assert float(shown[policy.name].replace(",", "")) == pytest.approx(score, abs=6e-4)


def test_other_windows_have_no_score(anchor, tiny_recipe, tmp_path):
    evaluate(tiny_recipe, entrants(tiny_recipe, ["tetris"]), split="validation", out=tmp_path / "e")
    summary = summarise([tmp_path / "e"])
    (one,) = summary.settings
    table = main_table(one, anchor_of_evaluation(one.setting.first), {})
    assert "score" not in table.names


def test_reference_scores_of_minari_are_the_anchors_returns(anchor, tiny_recipe):
    episodes = pl.DataFrame({"behaviour": ["random", "a"], "return": [0.0, 1.0]})
    found = _reference_scores(tiny_recipe, episodes)
    assert (found["ref_min_score"], found["ref_max_score"]) == (-900.0, -800.0)
    other = replace(tiny_recipe, seed=tiny_recipe.seed + 1)
    assert anchor_of(other) is None
    assert _reference_scores(other, episodes)["ref_max_score"] == 1.0
