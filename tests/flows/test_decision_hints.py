"""Tests that commands which are given a log of decisions name the way to import it."""

import pytest

from hindcast.flows.cli import main
from tests.pipeline.decisions.decision_cases import long_table

WAY = "hindcast ingest decisions"


@pytest.fixture
def table(tmp_path):
    long_table(20).write_csv(tmp_path / "log.csv")
    return tmp_path / "log.csv"


@pytest.mark.parametrize("command", ["whatif", "build", "behaviour", "start"])
def test_a_table_is_refused_with_both_ways(command, table, capsys):
    out = [] if command == "start" else ["--out", f"{table.parent}/out"]
    assert main([command, str(table), *out]) == 2
    said = capsys.readouterr().err
    assert "hindcast init" in said
    assert WAY in said


def test_estimates_of_a_table_are_refused_with_the_way_to_a_dataset(table, capsys):
    assert main(["ope", str(table)]) == 2
    assert f"`hindcast init` and `{WAY}`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["id,x\n1,2\n", '{"id": 1}', '[{"id": 1, "candidates": []}]'],
    ids=["no JSON", "an object", "other records"],
)  # fmt: skip
def test_other_records_than_of_thermal_are_refused_with_the_way(text, tmp_path, capsys):
    (tmp_path / "log.json").write_text(text)
    line = ["ingest", "history", f"{tmp_path}/log.json", "--out", f"{tmp_path}/out"]
    assert main(line) == 2
    assert WAY in capsys.readouterr().err


def test_help_says_that_logs_of_decisions_are_read(capsys):
    for command in (["--help"], ["ingest", "--help"], ["init", "--help"]):
        assert main(command) == 0
        assert "of decisions" in " ".join(capsys.readouterr().out.split())
