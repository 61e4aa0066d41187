"""Tests of DeepJS's protocol: its commands, and what is read from made-up files."""

import json

import polars as pl
import pytest

from hindcast.flows.papers.deepjs import protocol as paper
from hindcast.flows.papers.published import number, published
from hindcast.flows.protocols import OUT, Setting
from hindcast.pipeline.errors import DatasetError

FULL, QUICK = Setting((0, 1, 2, 3, 4)), Setting((0, 1), quick=True)
WINDOWS = 40
# Makespan on every window but each fourth, on which all have that of the agent.
MEANS = {
    "random": 150.0, "first_fit": 160.0, "tetris_reference": 170.0, "tetris": 165.0,
    "longest_first": 145.0, "longest_spread": 140.0,
}  # fmt: skip
AGENTS = {"reinforce": 141.0, "evolution-best": 130.0, "trajectory_preference": 135.0}


def evaluation(folder):
    """Write an evaluation of rules, and of two seeds of each agent."""
    known = {name: (name, "random" if name == "random" else "heuristic") for name in MEANS}
    known |= {f"{group}-seed{seed}": (group, "learned") for group in AGENTS for seed in (0, 1)}
    rows = []
    for name, (group, _) in known.items():
        for window in range(WINDOWS):
            free = MEANS.get(group) or AGENTS[group] + float(name[-1])
            value = 141.0 + window if window % 4 == 0 else free + window
            rows.append((name, "binpack", window, 0, "makespan_s", value))
            rows.append((name, "binpack", window, 0, "lower_bound_s", 100.0 + window))
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    folder.mkdir(parents=True)
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "binpack", "headline": "makespan_s",
        "bound": "lower_bound_s", "bound_kind": "lower",
        "metrics": [{"name": "makespan_s", "better": "lower"}],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k) in known.items()],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("deepjs")
    evaluation(place / "evaluation")
    slid = [
        (window, 10 * window, policy, 1, base - 2.0 * window * (policy == "reinforce"))
        for window in range(1, 20)
        for policy, base in (("reinforce", 170.0), ("first_fit", 150.0),
                             ("tetris_reference", 155.0), ("longest_first", 130.0))
    ]  # fmt: skip
    columns = ["window", "step", "policy", "draws", "value"]
    pl.DataFrame(slid, schema=columns, orient="row").write_csv(place / "sliding.csv")
    for name, r in (("machines", 0.8), ("chunks", 0.3)):
        (place / f"{name}-correlation.csv").write_text(
            f"pearson,spearman,within,agreement,candidates,decisions,windows\n{r},{r},.2,.5,9,3,1\n"
        )
        points = "".join(f"{i},{i + 40 * (i % 3)}\n" for i in range(100))
        (place / f"{name}-points.csv").write_text(f"first,second\n{points}")
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return paper.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    found = results.tables.filter(table=table, row=row, column=column)
    return found.row(0, named=True)


def test_the_network_of_each_seed_is_trained_and_scored():
    stages = {stage.name: stage.words for stage in paper.stages(FULL)}
    for seed in FULL.seeds:
        assert f"{OUT}/agents/reinforce-seed{seed}" in stages["evaluate"]
        assert "2000" in stages[f"train reinforce-seed{seed}"]
    assert 'split.test="200..519"' in stages["evaluate"]
    sliding = [name for name, words in stages.items() if "--checkpoint-every" in words]
    assert sliding == ["train reinforce-seed0"]


def test_printed_numbers_are_those_of_the_paper():
    printed = published("deepjs")
    assert [number(printed, "table 2", "First-fit", c) for c in ("< 0", "= 0", "> 0")] == [
        45, 36, 239,
    ]  # fmt: skip
    assert number(printed, "figure 5", "chunk 5 and chunk 6", "correlation") == 0.55


@pytest.mark.slow
def test_table_2_counts_chunks_by_sign(results):
    """Every fourth window is a tie for all."""
    ties = cell(results, "table 2", "First-fit", "= 0")
    assert (ties["published"], ties["measured"]) == (36, WINDOWS / 4)
    assert cell(results, "table 2", "First-fit", "> 0")["measured"] == WINDOWS * 3 / 4
    assert cell(results, "table 2", "Tetris", "< 0")["measured"] == 0.0


@pytest.mark.slow
def test_means_and_quartiles_are_paired_differences(results):
    mean = cell(results, "figure 7", "First-fit", "mean reduction")
    assert mean["measured"] == pytest.approx((160.0 - 141.5) * 3 / 4)
    assert mean["low"] < mean["measured"] < mean["high"]
    assert cell(results, "figure 7b", "First-fit", "minimum")["measured"] == 0.0
    assert cell(results, "figure 7b", "First-fit", "maximum")["measured"] == pytest.approx(18.5)


@pytest.mark.slow
def test_beside_names_the_strongest_rule_and_the_bound(results):
    beside = results.tables.filter(table="beside")
    assert "strongest rule: longest_spread" in beside["row"].to_list()
    gap = cell(results, "beside", "best online agent: evolution-best", "minus the paper's agent")
    assert gap["measured"] == pytest.approx(-11.0 * 3 / 4)
    assert gap["high"] < 0.0
    assert cell(results, "beside", "bound", "makespan_s")["measured"] == pytest.approx(119.5)


@pytest.mark.slow
def test_claims_have_their_verdicts(results):
    found = {row["claim"]: row for row in results.claims.to_dicts()}
    assert found["mean-first_fit"]["direction"] == "yes"
    assert found["mean-first_fit"]["size"] == "smaller"
    assert found["share-tetris_reference"]["measured"] == pytest.approx(0.75)
    assert found["sliding-first_fit"]["direction"] == "yes"
    assert found["sliding-first_fit"]["published"] is None
    assert found["alike-machines"]["published"] == 0.74
    assert found["alike-machines"]["measured"] == 0.8


@pytest.mark.slow
def test_figures_have_a_point_for_every_chunk(results):
    assert set(results.figures["figure"]) == set(results.figure_texts)
    chunks = results.figures.filter(figure="figure 6", series="first_fit")
    assert chunks.height == WINDOWS
    slid = results.figures.filter(figure="figure 4", series="first_fit")
    assert slid["y"][0] == 150.0 - 168.0


def test_a_missing_file_is_named(place, tmp_path):
    evaluation(tmp_path / "evaluation")
    with pytest.raises(DatasetError, match=r"machines-correlation\.csv: this table cannot be read"):
        paper.results(tmp_path, QUICK)
