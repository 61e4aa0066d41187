"""Tests of the section on off-policy estimates: true values, warnings, and bad files."""

import json
from unittest.mock import ANY

import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.report.estimates import estimates_part, scatter_plot


def write(folder, *, truth=True):
    folder.mkdir()
    rows = []
    for policy, true in (("rule", -10.0), ("agent", -8.0)):
        for estimator, value in (("snis", true - 1.0), ("dm", 1e9)):
            rows.append(
                {"policy": policy, "estimator": estimator, "value": value, "low": value - 2.0,
                 "high": value + 2.0, "ess": 3.5 if estimator == "snis" else None, "episodes": 40,
                 "truth": true if truth else None,
                 "warnings": ["one episode carries 80% of the weight"]
                 if estimator == "snis" and policy == "agent" else []}
            )  # fmt: skip
    schema = {"truth": pl.Float64, "warnings": pl.List(pl.String)}
    pl.DataFrame(rows, schema_overrides=schema).write_parquet(folder / "estimates.parquet")
    found = {
        "rank_correlation": 1.0, "regret": {"1": 0.0}, "sharpe": {"1": None}, "type_1": 0.0,
        "type_2": None,
    }  # fmt: skip
    about = {
        "dataset": "toy-v1", "split": "validation", "episodes": 40, "windows": 1, "epsilon": 0.2,
        "temperature": 0.0, "propensities": "mixture", "reference": "rule",
        "estimators": [{"name": n, **(found if truth else {})} for n in ("snis", "dm")],
        "notes": ["a note"],
    }  # fmt: skip
    (folder / "ope.json").write_text(json.dumps(about))
    return folder


def texts(table):
    return [[cell.text for cell in row.cells] for row in table.rows]


@pytest.mark.slow
def test_estimates_stand_beside_the_truth(tmp_path):
    part = estimates_part(write(tmp_path / "a"))
    agent, rule = texts(part["estimates"])  # the better truth comes first
    assert agent == ["agent", "-8.00", "-9.00 (-11.00 .. -7.00) !", ANY, "3.5"]
    assert rule[:3] == ["rule", "-10.00", "-11.00 (-13.00 .. -9.00)"]
    assert part["warnings"] == {("agent", "one episode carries 80% of the weight"): ["snis"]}
    assert texts(part["selection"])[0][:2] == ["snis", "1.00"]
    assert texts(part["trials"]) == [["1", "-8.00", "-10.00"], ["2", "-8.00", "-8.00"]]


def test_without_truth_there_is_no_ranking(tmp_path):
    part = estimates_part(write(tmp_path / "a", truth=False))
    assert part["selection"] is None
    assert part["trials"] is None
    assert texts(part["estimates"])[0][1] == "n/a"


@pytest.mark.slow
def test_same_input_same_plot_and_outliers_stay_inside():
    row = {"policy": "p", "truth": 1.0, "value": 1e12, "low": None, "high": None, "warnings": []}
    rows = [row, {**row, "truth": 3.0, "value": 2.5, "low": 2.0, "high": 3.0}]
    svg = scatter_plot({"is": rows}, "x")
    assert svg == scatter_plot({"is": rows}, "x")
    assert "is, 1 outside" in svg


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("ope.json", b"[]", "lacks the list 'estimators'"),
     ("estimates.parquet", b"no", "estimates.parquet")],
    ids=["description", "rows"],
)  # fmt: skip
def test_bad_files_are_named(tmp_path, name, content, message):
    folder = write(tmp_path / "a")
    (folder / name).write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        estimates_part(folder)


def test_a_missing_column_is_named(tmp_path):
    folder = write(tmp_path / "a")
    frame = pl.read_parquet(folder / "estimates.parquet").drop("truth")
    frame.write_parquet(folder / "estimates.parquet")
    with pytest.raises(DatasetError, match="column 'truth' is missing"):
        estimates_part(folder)
