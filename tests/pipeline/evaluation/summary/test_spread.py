"""Tests of differences by window on numbers that can be counted by hand."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.evaluation.summary.spread import COLUMNS, spread, spreads

# policy -> group, kind, makespans on five windows
SCORES = {
    "agent-seed0": ("agent", "learned", [1, 2, 3, 8, 5]),
    "agent-seed1": ("agent", "learned", [3, 2, 3, 4, 5]),
    "rule": ("rule", "heuristic", [4, 2, 1, 16, 5]),
}


@pytest.fixture
def evaluation(tmp_path):
    """Write an evaluation folder of SCORES."""
    rows = [
        (name, "binpack", window, 0, "makespan_s", float(value))
        for name, (_, _, values) in SCORES.items()
        for window, value in enumerate(values)
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(tmp_path / "scores.parquet")
    about = {
        "recipe": "r-v1",
        "scenario": "binpack",
        "headline": "makespan_s",
        "metrics": [{"name": "makespan_s", "better": "lower"}],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k, _) in SCORES.items()],
    }
    (tmp_path / "evaluation.json").write_text(json.dumps(about))
    return tmp_path


def test_counts_and_quartiles_by_hand():
    """The differences (other - policy) are 2, 0, -2, 10, 0."""
    found = spread(np.array([2.0, 2, 3, 6, 5]), np.array([4.0, 2, 1, 16, 5]))
    assert (found["below"], found["equal"], found["above"]) == (1, 2, 2)
    assert found["mean"] == 2.0
    assert found["deviation"] == pytest.approx(np.sqrt((0 + 4 + 16 + 64 + 4) / 4))
    assert [found[k] for k in ("lowest", "quartile_1", "median", "quartile_3", "highest")] == [
        -2.0, 0.0, 0.0, 2.0, 10.0,
    ]  # fmt: skip


def test_an_agent_and_each_of_its_seeds(evaluation):
    """The agent and each seed have a row each, and no policy is compared with itself."""
    table = spreads(evaluation, ["rule"])
    assert tuple(table.columns) == COLUMNS
    means = dict(table.select("policy", "mean").rows())
    assert means == pytest.approx({"agent": 2.0, "agent-seed0": 1.8, "agent-seed1": 2.2})
    assert table["policy"].to_list() == ["agent-seed1", "agent", "agent-seed0"]


def test_the_command_prints_csv_and_names_the_nearest_policy(evaluation, capsys):
    assert cli.main(["report", str(evaluation), "--spread", "rule"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("agent-seed1,rule,5,1,2,2,2.200")
    assert cli.main(["report", str(evaluation), "--spread", "rul"]) == 2
    assert "did you mean 'rule'" in capsys.readouterr().err
    with pytest.raises(UnknownName):
        spreads(evaluation, ["nobody"])


def test_one_policy_has_nothing_to_be_compared_with(evaluation):
    scores = pl.read_parquet(evaluation / "scores.parquet").filter(policy="rule")
    scores.write_parquet(evaluation / "scores.parquet")
    about = json.loads((evaluation / "evaluation.json").read_text())
    about["policies"] = [p for p in about["policies"] if p["name"] == "rule"]
    (evaluation / "evaluation.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="no policy beside rule"):
        spreads(evaluation, ["rule"])
