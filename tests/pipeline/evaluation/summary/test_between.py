"""Tests of one agent in several evaluations: differences by hand, and refused comparisons."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.errors import DatasetError, UnknownName
from hindcast.pipeline.evaluation.summary.between import COLUMNS, differences

RULE = (4.0, 2.0, 1.0, 16.0)


@pytest.fixture
def evaluation(tmp_path):
    """Write an evaluation folder of a name and makespans of the agent's seeds and the rule."""

    def make(name, seeds, rule=RULE, windows=range(4), rule_name="rule"):
        scores = {f"agent-seed{k}": values for k, values in enumerate(seeds)} | {rule_name: rule}
        rows = [
            (policy, "binpack", window, 0, "makespan_s", float(value))
            for policy, values in scores.items()
            for window, value in zip(windows, values, strict=True)
        ]
        columns = ["policy", "scenario", "window", "seed", "metric", "value"]
        folder = tmp_path / name
        folder.mkdir()
        pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
        kinds = {n: ("agent", "learned") if n != rule_name else (n, "heuristic") for n in scores}
        about = {
            "recipe": name,
            "scenario": "binpack",
            "headline": "makespan_s",
            "metrics": [{"name": "makespan_s", "better": "lower"}],
            "policies": [{"name": n, "group": g, "kind": k} for n, (g, k) in kinds.items()],
        }
        (folder / "evaluation.json").write_text(json.dumps(about))
        return folder

    return make


def test_every_two_of_them_by_hand(evaluation):
    a = evaluation("a", [(1, 2, 3, 8), (3, 2, 3, 4)])
    b = evaluation("b", [(2, 3, 4, 7)])
    c = evaluation("c", [(0, 0, 0, 0), (2, 2, 2, 2), (4, 4, 4, 4)])
    table = differences([a, b, c], "agent")
    assert tuple(table.columns) == COLUMNS
    assert table.select("evaluation", "other").rows() == [("a", "b"), ("a", "c"), ("b", "c")]
    assert table["windows"].to_list() == [4, 4, 4]
    assert table.select("mean", "other_mean", "difference").row(0) == (3.25, 4.0, -0.75)
    assert table["difference"].to_list() == pytest.approx([-0.75, 1.25, 2.0])
    assert all(
        low <= d <= high for d, low, high in table.select("difference", "low", "high").rows()
    )
    assert table.equals(differences([a, b, c], "agent"))


def test_windows_are_paired_and_training_seeds_drawn(evaluation):
    """A constant difference has no spread over windows; a difference between training seeds has.

    Two seeds 2 apart: a standard error of 1 with one degree of freedom, whose t is 12.7062.
    """
    a = evaluation("a", [(1, 20, 300, 4000)])
    b = evaluation("b", [(2, 21, 301, 4001)])
    c = evaluation("c", [(1, 20, 300, 4000), (3, 22, 302, 4002)])
    table = differences([a, b, c], "agent")
    np.testing.assert_allclose(table.select("difference", "low", "high").row(0), (-1, -1, -1))
    np.testing.assert_allclose(
        table.select("difference", "low", "high").row(1), (-1, -13.7062, 11.7062), rtol=1e-5
    )


def test_what_is_not_compared(evaluation):
    a = evaluation("a", [(1, 2, 3, 8)])
    with pytest.raises(DatasetError, match="at least two"):
        differences([a], "agent")
    with pytest.raises(UnknownName, match="did you mean 'agent'"):
        differences([a, a], "agnt")
    other = evaluation("other", [(1, 2, 3, 8)], rule=(4, 2, 1, 17))
    with pytest.raises(DatasetError, match="a and other: the rule rule has other scores in one"):
        differences([a, other], "agent")
    shifted = evaluation("shifted", [(1, 2, 3, 8)], windows=range(1, 5))
    with pytest.raises(DatasetError, match="expected the same windows"):
        differences([a, shifted], "agent")
    foreign = evaluation("foreign", [(1, 2, 3, 8)], rule_name="another")
    with pytest.raises(DatasetError, match="no rule in common"):
        differences([a, foreign], "agent")


def test_the_command(evaluation, capsys):
    a, b = evaluation("a", [(1, 2, 3, 8)]), evaluation("b", [(2, 3, 4, 9)])
    report = ["report", str(a), str(b), "--between"]
    assert cli.main([*report, "agent"]) == 0
    assert "a,b,makespan_s,4,3.500,4.500,-1.000,-1.000,-1.000" in capsys.readouterr().out
    assert cli.main([*report, "agent", "--json", "--metrics", "makespan_s"]) == 0
    assert json.loads(capsys.readouterr().out)["difference"] == -1.0
    assert cli.main([*report, "nobody"]) == 2
    assert "unknown policy 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--spread", "rule"], "give one of --between, --spread"),
        (["--out", "x"], "--out is for the page"),
        (["--metrics", "a", "b"], "several metrics are for the page"),
    ],
)
def test_options_of_the_page_are_not_for_a_table(more, said, evaluation, capsys):
    a, b = evaluation("a", [(1, 2, 3, 8)]), evaluation("b", [(2, 3, 4, 9)])
    assert cli.main(["report", str(a), str(b), "--between", "agent", *more]) == 2
    assert said in capsys.readouterr().err
