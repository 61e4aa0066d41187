"""Tests of the consensus of estimators, and of tables of how well estimators rank policies."""

import json
import math

import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.flows.commands import ope
from hindcast.pipeline.errors import DatasetError
from hindcast.policies.ope.consensus import (
    consensus_scores,
    describe_consensus,
    describe_order,
    members_of,
    votes,
)
from hindcast.policies.ope.selection_table import selection_markdown, selection_table

TRUTH = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}
VALUES = {
    "snpdis": [9.0, 8.0, 7.0, None],
    "dm": [1e9, 2e9, 0.0, -1e9],
    "is": [0.0, 1.0, 2.0, 3.0],  # has no vote
}


def intervals(name, value):
    """Return an interval of +- 8 around values of snpdis; its truth holds for a, b and c."""
    ends = {"low": value - 8.0, "high": value} if name == "snpdis" and value is not None else {}
    paired = {"difference_low": -1.0, "difference_high": 3.0} if ends else {}
    none = dict.fromkeys(("low", "high", "difference_low", "difference_high"))
    verdict = "answers" if ends else "cannot answer" if name == "snpdis" else "beside"
    raw = {"resampled_low": ends.get("low"), "resampled_high": ends.get("high")}
    return none | ends | paired | raw | {"verdict": verdict, "left_out": 3, "left_out_held": 2}


def estimates(truth=True, values=VALUES):
    rows = [
        {"policy": policy, "kind": "heuristic" if policy == "c" else "learned",
         "logged": policy == "d", "estimator": name, "value": value, "ess": 2.0,
         **intervals(name, value), "truth": TRUTH[policy] if truth else None}
        for name, own in values.items()
        for policy, value in zip(TRUTH, own, strict=True)
    ]  # fmt: skip
    named = ("value", "truth", "low", "high", "difference_low", "difference_high",
             "resampled_low", "resampled_high")  # fmt: skip
    schema = dict.fromkeys(named, pl.Float64)
    return pl.DataFrame(rows, schema_overrides=schema)


def folder_of(path, truth=True):
    path.mkdir()
    estimates(truth).write_parquet(path / "estimates.parquet")
    about = {"scenario": "toy", "dataset": "toy-v1", "logged_return": 0.5, "windows": 4,
             "episodes": 16, "command": "hindcast ope D"}  # fmt: skip
    (path / "ope.json").write_text(json.dumps(about))
    return path


def test_every_kind_has_one_vote_and_size_does_not_count():
    """The two voting kinds rank 4 3 2 1 and 3 4 2 1, and a missing estimate ranks last."""
    assert consensus_scores(estimates()).tolist() == [3.5, 3.5, 2.0, 1.0]
    assert members_of(["is", "dm", "snpdis", "dr"]) == ["snpdis", "dm"]
    assert members_of(["dm", "is"]) == []


def test_estimators_vote_as_far_as_they_agree_with_gp():
    """Estimator dm swaps two of four policies (correlation 0.8), and dr has the order reversed.

    The rank of b is (3 + 0.8 * 4) / 1.8, and that of a (4 + 0.8 * 3) / 1.8. An estimator that does
    not tell policies apart has no vote, nor have kinds that vote only where gp is missing.
    """
    found = estimates(values={
        "gp": [4.0, 3.0, 2.0, 1.0], "dm": [7.0, 8.0, 6.0, 5.0], "dr": [1.0, 2.0, 3.0, 4.0],
        "wdr": [5.0, 5.0, 5.0, 5.0], "snpdis": [1.0, 2.0, 3.0, 4.0],
    })  # fmt: skip
    assert votes(found) == pytest.approx({"gp": 1.0, "dm": 0.8, "dr": 0.0, "wdr": 0.0})
    assert consensus_scores(found) == pytest.approx([6.4 / 1.8, 6.2 / 1.8, 2.0, 1.0])
    described = describe_consensus(found, 0.5, "c")
    assert described["order"] == ["a", "b", "c", "d"]
    assert described["description"].endswith("agree with it: dm 0.80, dr 0.00, wdr 0.00")


def test_the_order_is_that_of_gp_or_else_of_the_consensus():
    leading = estimates(values={"gp": [1.0, 2.0, 4.0, 3.0], "dm": [4.0, 3.0, 2.0, 1.0]})
    assert describe_order(leading) == {"by": "gp", "policies": ["c", "d", "b", "a"]}
    assert describe_order(estimates(truth=False)) == {
        "by": "consensus", "policies": ["a", "b", "c", "d"],
    }  # fmt: skip
    alone = leading.filter(pl.col("estimator") == "dm")
    assert describe_order(alone) is None  # one estimator that is not gp makes no default
    assert describe_order(leading.filter(pl.col("policy") == "a")) is None


def test_nothing_can_agree_with_a_gp_that_ranks_all_alike():
    found = estimates(values={"gp": [1.0] * 4, "dm": [4.0, 3.0, 2.0, 1.0]})
    assert votes(found) == {"gp": 1.0, "dm": 0.0}


def test_the_order_does_not_see_the_truth():
    blind = describe_consensus(estimates(truth=False), 0.5, None)
    seeing = describe_consensus(estimates(), 0.5, "c")
    assert blind["order"] == seeing["order"] == ["a", "b", "c", "d"]
    assert "rank_correlation" not in blind
    assert seeing["rank_correlation"] == pytest.approx(4.5 / math.sqrt(5.0 * 4.5))
    assert (seeing["type_1"], seeing["type_2"]) == (0.0, 0.0)


def test_one_policy_or_one_vote_is_no_consensus():
    assert describe_consensus(estimates().filter(pl.col("estimator") != "dm"), 0.0, None) is None
    assert describe_consensus(estimates().filter(pl.col("policy") == "a"), 0.0, None) is None


def test_new_policies_are_correlated_apart():
    """For a, b, c the consensus ties the first two: 1.5 / sqrt(1.5 * 2)."""
    found = describe_consensus(estimates(), 0.5, "c")
    assert found["rank_correlation_new"] == pytest.approx(math.sqrt(0.75))
    few = estimates().filter(pl.col("policy").is_in(["a", "b", "d"]))
    assert math.isnan(describe_consensus(few, 0.5, None)["rank_correlation_new"])


def test_a_person_reads_the_order(tmp_path):
    about = {"dataset": "toy-v1", "episodes": 1, "windows": 1, "split": "validation",
             "logged_return": 0.0, "epsilon": 0.1, "temperature": 0.0, "estimators": [],
             "notes": [], "out": None, "reference": "c", "sentences": {}, "left_out": {},
             "consensus": describe_consensus(estimates(), 0.5, "c")}  # fmt: skip
    about["order"] = describe_order(estimates())
    lines = ope.show({"about": about, "rows": []}).lines
    assert "order by consensus, best first: a, b, c, d" in lines
    assert any(line.endswith("best first: a, b, c, d") for line in lines)
    assert lines[-1].startswith("consensus")


def test_the_table_has_a_row_per_estimator_and_the_consensus(tmp_path):
    table = selection_table([folder_of(tmp_path / "x")])
    by = {row["estimator"]: row for row in table.to_dicts()}
    assert list(by) == ["snpdis", "is", "dm", "consensus"]  # without bias first
    assert (by["snpdis"]["answers"], by["snpdis"]["answers_hold"]) == (3, 3)
    assert (by["dm"]["answers"], by["dm"]["resampled_hold"], by["dm"]["left_out"]) == (0, 0, 3)
    assert by["consensus"]["answers"] is None
    assert by["snpdis"]["rank_correlation"] == 1.0
    assert by["is"]["rank_correlation"] == -1.0
    assert by["is"]["regret_at_1"] == 3.0
    assert by["snpdis"]["sharpe_ratio_at_4"] == pytest.approx(2.5 / math.sqrt(1.25), abs=1e-4)
    assert by["consensus"]["median_ess"] is None
    assert {row["new_policies"] for row in by.values()} == {3}
    page = selection_markdown(table.write_csv().encode(), "x.csv")
    assert "- toy, at least 0.8: snpdis, consensus, dm\n" in page
    assert "| toy | 4 | **0.949 / 0.866** | **0.8 / 0.5** | -1 / -1 | **1 / 1** |" in page
    assert "| snpdis | 3 of 3 (100%) | - | 3 of 4 (75%) | 2 of 3 (67%) |" in page
    assert "| all | 3 of 3 (100%) | - | 3 of 12 (25%) | 6 of 9 (67%) |" in page


def test_a_table_whose_policies_nobody_ranks_has_a_page(tmp_path):
    """Policies of the same truth have no rank correlation."""
    folder = folder_of(tmp_path / "x")
    rows = pl.read_parquet(folder / "estimates.parquet").with_columns(truth=pl.lit(1.0))
    rows.write_parquet(folder / "estimates.parquet")
    page = selection_markdown(selection_table([folder]).write_csv().encode(), "x.csv")
    assert "- toy: no estimator ranks these policies" in page
    assert "Mean over the scenarios: unknown." in page


def test_the_command_writes_the_table_and_its_page(tmp_path, capsys):
    table = tmp_path / "ope.csv"
    folder = str(folder_of(tmp_path / "x"))
    assert cli.main(["report", folder, "--ranking", str(table)]) == 0
    assert capsys.readouterr().out == f"{table.with_suffix('.md')}\n"
    assert table.read_text() == selection_table([tmp_path / "x"]).write_csv()
    page = table.with_suffix(".md")
    written = page.read_bytes()
    assert written == selection_markdown(table.read_bytes(), "ope.csv").encode()
    page.unlink()
    assert cli.main(["report", str(table), "--pages"]) == 0
    assert page.read_bytes() == written


def test_what_is_no_such_table_is_refused():
    with pytest.raises(DatasetError, match=r"x\.csv"):
        selection_markdown(b"scenario,recipe\n1,2\n", "x.csv")


def test_a_folder_without_truths_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="expected estimates with truths"):
        selection_table([folder_of(tmp_path / "x", truth=False)])
