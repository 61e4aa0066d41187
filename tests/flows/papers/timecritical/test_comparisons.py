"""Tests of Tables II and III of Liu et al. on numbers that can be counted by hand."""

import json

import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.flows.papers.timecritical.comparisons import comparisons

# policy -> group, kind, TMDL and AJDR on four windows
SCORES = {
    "agent-seed0": ("agent", "learned", [10, 20, 30, 0], [1.0, 2.0, 6.0, 3.0]),
    "rule": ("rule", "heuristic", [40, 10, 90, 100], [2.0, 4.0, 5.0, 9.0]),
}


def write(folder, metrics=("tmdl", "ajdr_percent")):
    """Write an evaluation folder of SCORES."""
    rows = [
        (name, "multicluster", window, 0, metric, float(value))
        for name, (_, _, *columns) in SCORES.items()
        for metric, values in zip(metrics, columns, strict=True)
        for window, value in enumerate(values)
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1",
        "scenario": "multicluster",
        "headline": metrics[0],
        "metrics": [{"name": name, "better": "lower"} for name in metrics],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k, *_rest) in SCORES.items()],
    }
    (folder / "evaluation.json").write_text(json.dumps(about))
    return folder


def test_means_ratios_and_scores_by_hand(tmp_path):
    """The policy is better on both metrics in windows 0 and 3, and on one in windows 1 and 2.

    Eval: .02 * TMDL + AJDR is 1.2, 2.4, 6.6, 3 against 2.8, 4.2, 6.8, 11, so it is better in all
    windows. The percent changes sum to -125, +50, -46.7, -166.7, so they are below 0 in three.
    """
    table = comparisons(write(tmp_path), ["rule"])
    assert table.columns[:3] == ["policy", "other", "windows"]
    assert table.columns[-4:] == ["score_a", "score_b", "score_c", "score_d"]
    row = table.filter(pl.col("policy") == "agent").row(0, named=True)
    assert (row["windows"], row["tmdl"], row["other_tmdl"], row["tmdl_ratio"]) == (4, 15, 60, 4)
    assert row["ajdr_ratio"] == pytest.approx(5 / 3)
    assert [row[f"score_{k}"] for k in "abcd"] == [50, 75, 100, 75]


def scores(folder, *policies):
    """Return the exit code of the command."""
    return cli.main(["calibrate", "multicluster-scores", str(folder), "--policy", *policies])


def test_the_command_prints_csv(tmp_path, capsys):
    assert scores(write(tmp_path), "rule") == 0
    assert capsys.readouterr().out.startswith("policy,other,windows,tmdl,")


def test_an_unknown_policy_is_named(tmp_path, capsys):
    assert scores(write(tmp_path), "rules") == 2
    assert "did you mean 'rule'" in capsys.readouterr().err


def test_an_evaluation_of_another_scenario_is_refused(tmp_path, capsys):
    assert scores(write(tmp_path, ("makespan_s", "energy_kwh")), "rule") == 2
    assert "expected an evaluation of multicluster" in capsys.readouterr().err
