"""Tests of `hindcast study` on tiny settings: its points, tables and section of a report."""

import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.evaluation.studies.page import study_markdown
from hindcast.pipeline.evaluation.studies.study import plan
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report.quality import quality_plot
from tests.conftest import TINY

pytestmark = pytest.mark.slow

SET = [word for override in TINY for word in ("--set", override)]
RECIPE = "binpack-synthetic-v1"
STUDY = ["study", RECIPE, *SET, "--agents", "behaviour_cloning", "--steps", "5", "--direct"]
AGENTS = ("behaviour_cloning",)


def points(vary, *values):
    """Return the names of points and the recipes of these points."""
    found = plan(RECIPE, TINY, AGENTS, (0, 1), 7, vary, values)
    return {p.name: load_recipe(RECIPE, p.overrides) for p in found}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished study of two sizes."""
    out = tmp_path_factory.mktemp("study") / "sizes"
    assert cli.main([*STUDY, "--vary", "windows", "--values", "2", "4", "--out", str(out)]) == 0
    return out


def test_levels_change_the_behaviours_to_those_of_the_sibling_recipes():
    """Apart from the trained agents, only the behaviours differ."""
    found = points("level")
    assert list(found) == ["level-random", "level-heuristic", "level-mixed"]
    assert found["level-random"].behaviours == load_recipe("binpack-synthetic-random-v1").behaviours
    base = load_recipe(RECIPE, TINY)
    assert found["level-mixed"].behaviours == base.behaviours
    for recipe in found.values():
        assert recipe.split == base.split
        assert (recipe.train.agents, recipe.train.seeds, recipe.train.steps) == (AGENTS, (0, 1), 7)


def test_sizes_keep_the_first_windows():
    found = points("windows", "1", "6")
    assert found["windows-1"].split["train"] == range(1)
    assert found["windows-6"].split == load_recipe(RECIPE, TINY).split


def test_epsilon_leaves_uniform_behaviours_as_they_are_and_adds_up_what_becomes_equal():
    base = load_recipe(RECIPE, TINY)
    found = points("epsilon", "0.25")["epsilon-0.25"]
    assert {b.epsilon for b in found.behaviours if b.policy != "random"} == {0.25}
    assert {b.epsilon for b in found.behaviours if b.policy == "random"} <= {0.0}
    assert sum(b.episodes for b in found.behaviours) == sum(b.episodes for b in base.behaviours)


@pytest.mark.parametrize(
    ("vary", "value", "reason"),
    [
        ("level", "randon", "did you mean 'random'"),
        ("windows", "7", "1 to 6"),
        ("epsilon", "1.5", "a probability epsilon from 0 to 1"),
    ],
)
def test_values_that_the_recipe_cannot_have_are_refused(vary, value, reason):
    with pytest.raises(RecipeError, match=reason):
        points(vary, value)


def test_a_study_leaves_a_run_per_point_and_one_table(done, capsys):
    """The table has every policy of every point, and more decisions for twice the windows."""
    assert json.loads((done / "study.json").read_text())["points"][1]["name"] == "windows-4"
    for name in ("windows-2", "windows-4"):
        assert (done / name / "report.html").is_file()
    with (done / "data_quality.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = {(r["policy"], r["value"]): r for r in rows}
    small, large = (cells["behaviour_cloning", v] for v in ("2", "4"))
    assert int(small["train_decisions"]) < int(large["train_decisions"])
    assert cells["tetris", "2"]["mean"] == cells["tetris", "4"]["mean"]
    assert {("behaviour", "2"), ("random", "4")} <= cells.keys()
    content = (done / "data_quality.csv").read_bytes()
    assert (done / "data_quality.md").read_text() == study_markdown(content, "data_quality.csv")

    before = (done / "study.parquet").read_bytes()
    again = [*STUDY, "--vary", "windows", "--values", "2", "4", "--out", str(done)]
    assert cli.main(again) == 0
    assert capsys.readouterr().err.count("finished before, skipped") == 2 * 5
    assert (done / "study.parquet").read_bytes() == before


def test_the_report_of_a_study_draws_it(done, tmp_path):
    assert cli.main(["report", str(done), "--out", str(tmp_path), "--direct"]) == 0
    page = (tmp_path / "report.html").read_text()
    section = page.partition('id="quality"')[2].partition("</section>")[0]
    assert section.count("<svg") == 1
    assert "Means by windows. behaviour_cloning: 2 " in section
    assert "train decisions" in section


def test_costs_that_differ_by_orders_are_drawn_on_a_logarithmic_scale(done):
    """Tick labels are plain numbers, and the same rows give the same plot."""
    rows = pl.read_parquet(done / "study.parquet")
    plain = quality_plot(rows)
    scaled = pl.when(pl.col("policy") == "random").then(1000.0).otherwise(1.0)
    wide = quality_plot(rows.with_columns(pl.col("mean", "low", "high") * scaled))
    assert wide != plain == quality_plot(rows)
    assert "mathdefault" not in wide
    assert re.search(r">1(,000|e\+0\d)", wide)


def test_an_unknown_agent_is_refused_before_anything_starts(tmp_path, capsys):
    wrong = [word if word != "behaviour_cloning" else "behavior_cloning" for word in STUDY]
    assert cli.main([*wrong, "--vary", "level", "--out", str(tmp_path / "s")]) == 2
    assert "behaviour_cloning" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
