"""Tests of results.csv: numbers that can be checked by hand, and the log as a separate baseline."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError, UnknownName
from hindcast.pipeline.evaluation.summary.results import (
    COLUMNS,
    read_results,
    results,
    results_markdown,
)
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.evaluation.summary.writing import write_summary

# policy -> group, kind, episodes in the log, makespans on four windows
SCORES = {
    "agent@0": ("agent", "learned", None, [1, 2, 3, 6]),
    "agent@1": ("agent", "learned", None, [3, 2, 3, 4]),
    "rule": ("rule", "heuristic", None, [3, 2, 4, 4]),
    "behaviour:weak": ("behaviour", "mixture", 3, [8, 8, 8, 8]),
    "behaviour:rule": ("behaviour", "mixture", 1, [4, 4, 4, 4]),
}


def write(folder, recipe="r-v1", better="lower", episodes=True):
    """Write an evaluation folder of SCORES."""
    folder.mkdir()
    rows = [
        (name, "binpack", window, 0, "makespan_s", float(value))
        for name, (_, _, _, values) in SCORES.items()
        for window, value in enumerate(values)
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": recipe,
        "scenario": "binpack",
        "headline": "makespan_s",
        "metrics": [{"name": "makespan_s", "better": better}],
        "policies": [
            {"name": n, "group": g, "kind": k} | ({"episodes": e} if e and episodes else {})
            for n, (g, k, e, _) in SCORES.items()
        ],
        "command": f"hindcast run {recipe}",
    }
    (folder / "evaluation.json").write_text(json.dumps(about))
    return folder


def pairs(folder, **settings):
    """Return the rows by policy and baseline."""
    table = results(summarise([folder]), **settings)
    assert tuple(table.columns) == COLUMNS
    return {(r["policy"], r["baseline"]): r for r in table.iter_rows(named=True)}


def test_every_policy_stands_against_all_that_was_not_learned(tmp_path):
    found = pairs(write(tmp_path / "a"))
    assert set(found) == {
        ("agent", "rule"), ("agent", "behaviour"), ("rule", "behaviour"), ("behaviour", "rule"),
    }  # fmt: skip
    row = found["agent", "rule"]
    assert (row["seeds"], row["windows"], row["higher_is_better"]) == (2, 4, False)
    assert (row["mean"], row["paired_difference"]) == (3.0, -0.25)  # 2 2 3 5 against 3 2 4 4
    assert (row["wins"], row["ties"], row["losses"]) == (2, 1, 1)
    assert row["command"] == "hindcast run r-v1"


def test_the_log_is_its_behaviours_weighted_by_their_episodes(tmp_path):
    """Three episodes of 8 and one of 4 on every window give 7, with no spread between windows."""
    row = pairs(write(tmp_path / "a"))["behaviour", "rule"]
    assert (row["mean"], row["low"], row["high"]) == (7.0, 7.0, 7.0)


def test_higher_is_better_turns_wins_into_losses(tmp_path):
    row = pairs(write(tmp_path / "a", better="higher"))["agent", "rule"]
    assert (row["wins"], row["ties"], row["losses"]) == (1, 1, 2)
    assert row["higher_is_better"]


def test_the_only_baseline_has_a_row_with_its_mean_alone(tmp_path):
    folder = write(tmp_path / "a", better="higher")
    scores = pl.read_parquet(folder / "scores.parquet")
    scores = scores.filter(~pl.col("policy").str.starts_with("behaviour"))
    scores.write_parquet(folder / "scores.parquet")
    about = json.loads((folder / "evaluation.json").read_text())
    about["policies"] = [p for p in about["policies"] if p["kind"] != "mixture"]
    (folder / "evaluation.json").write_text(json.dumps(about))
    found = pairs(folder)
    assert set(found) == {("agent", "rule"), ("rule", None)}
    row = found["rule", None]
    assert (row["mean"], row["paired_difference"], row["wins"]) == (3.25, None, None)
    out = write_summary(summarise([folder]), tmp_path / "out")
    page = (out / "results.md").read_text()
    assert "**rule** has the highest mean of 2 policies, 3.250. The best learned policy" in page
    assert "| rule | 1 | 3.250 |" in page
    assert "more baseline" not in page
    assert (
        read_results((out / "results.csv").read_bytes(), "results.csv")["baseline"].null_count()
        == 1
    )


def test_a_metric_without_a_better_side_has_no_rows(tmp_path):
    assert pairs(write(tmp_path / "a", better="neither")) == {}


def test_several_recipes_in_one_report_are_rows_of_one_table(tmp_path):
    """Rows of several recipes are in one table and are read back as they were written."""
    folders = [write(tmp_path / "a"), write(tmp_path / "b", recipe="s-v1")]
    out = write_summary(summarise(folders), tmp_path / "out")
    table = read_results((out / "results.csv").read_bytes(), "results.csv")
    assert table["recipe"].unique(maintain_order=True).to_list() == ["r-v1", "s-v1"]
    page = (out / "results.md").read_text()
    assert page.count("## ") == 2
    assert "| agent | 2 | 3.000 |" in page
    assert "1 / 1" in page


@pytest.mark.slow
def test_the_same_scores_have_the_same_interval_in_every_table(tmp_path):
    """Whatever the recipe, its digest and the policies beside them are, to the last digit."""
    folders = [write(tmp_path / "a"), write(tmp_path / "b", recipe="s-v1")]
    about = json.loads((folders[1] / "evaluation.json").read_text()) | {"digest": "d" * 64}
    about["policies"] = [p for p in about["policies"] if p["kind"] != "mixture"]
    (folders[1] / "evaluation.json").write_text(json.dumps(about))
    drawn = np.random.default_rng(3).normal(100.0, 10.0, size=(len(SCORES), 30))
    rows = [
        (name, "binpack", window, 0, "makespan_s", value)
        for name, values in zip(SCORES, drawn.tolist(), strict=True)
        for window, value in enumerate(values)
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    scores = pl.DataFrame(rows, schema=columns, orient="row")
    scores.write_parquet(folders[0] / "scores.parquet")
    fewer = scores.filter(~pl.col("policy").str.starts_with("behaviour"))
    fewer.write_parquet(folders[1] / "scores.parquet")
    summary = summarise(folders)
    table = results(summary).filter(policy="agent", baseline="rule")
    one, other = table.select("mean", "low", "high", "paired_low", "paired_high").rows()
    assert one == other
    assert one[1] < one[0] < one[2]
    shown = summary.table.filter(policy="agent").select("low", "high").unique()
    assert [tuple(float(f"{x:.6g}") for x in row) for row in shown.rows()] == [one[1:3]]


def test_a_number_of_episodes_below_one_is_refused(tmp_path):
    folder = write(tmp_path / "a")
    about = json.loads((folder / "evaluation.json").read_text())
    about["policies"][3]["episodes"] = 0
    (folder / "evaluation.json").write_text(json.dumps(about))
    with pytest.raises(DatasetError, match="episodes is 0, expected 1 or more"):
        summarise([folder])


def test_other_metrics_stand_beside_the_headline_where_they_are_asked_for(tmp_path):
    """Each metric has its own better direction, and the headline's rows do not change."""
    folder = write(tmp_path / "a")
    scores = pl.read_parquet(folder / "scores.parquet")
    gain = scores.with_columns(pl.lit("gain").alias("metric"), -pl.col("value"))
    pl.concat([scores, gain]).write_parquet(folder / "scores.parquet")
    about = json.loads((folder / "evaluation.json").read_text())
    about["metrics"].append({"name": "gain", "better": "higher"})
    (folder / "evaluation.json").write_text(json.dumps(about))
    summary = summarise([folder])
    alone = results(summary)
    both = results(summary, metrics=["gain", "makespan_s"])
    assert both.filter(pl.col("metric") == "makespan_s").equals(alone)
    other = both.filter(pl.col("metric") == "gain")
    assert other["higher_is_better"].all()
    assert other["mean"].to_list() == [-value for value in alone["mean"]]
    assert other["wins"].to_list() == alone["wins"].to_list()
    with pytest.raises(UnknownName, match="did you mean 'gain'"):
        results(summary, metrics=["gains"])


def test_a_page_compares_with_the_strongest_rules_random_and_the_log():
    """The page has the strongest rules, random and the log; only the table has all baselines."""
    head = ",".join(COLUMNS)
    rules = {"a": 1, "b": 2, "c": 3, "d": 4, "random": 9, "behaviour": 8}
    rows = [
        f"toy,toy-v1,cost,false,{policy},{other},1,2,{mean},0,9,{mean - rules[other]},0,0,1,1,0,1,x"
        for policy, mean in {**rules, "learned": 2.5}.items()
        for other in rules
        if other != policy
    ]
    page = results_markdown("\n".join([head, *rows, ""]).encode(), "x.csv")
    against = [line.split()[1].rstrip(":") for line in page.splitlines() if "Against" in line[:7]]
    assert against[-5:] == ["a", "b", "c", "random", "behaviour"]
    assert "The CSV file has 1 more baseline than" in page
    assert (
        "**a** has the lowest mean of 7 policies, 1.000; its difference to b, the strongest other "
        "baseline, is -1.000 (95 % interval 0.000 .. 0.000). The best learned policy, learned, has "
        "2.500; its difference to a" in page
    )
