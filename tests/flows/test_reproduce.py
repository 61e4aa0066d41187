"""Tests of `hindcast reproduce` with a made-up paper whose stages are real, tiny commands."""

import json
import types
from pathlib import Path

import polars as pl
import pytest

from flows import papers
from flows.cli import main
from flows.papers import Setting, Stage
from flows.runs import reproduce as runs
from pipeline.papers import claims
from pipeline.papers.cells import difference, mean, mean_cells, pairing
from pipeline.papers.cells import runs as runs_of
from pipeline.papers.published import SCHEMA
from pipeline.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText

pytestmark = pytest.mark.slow
RULES = {"sjf_now": "SJF", "packer_now": "Packer"}
PRINTED = pl.DataFrame(
    [("made", "table 1", "SJF", "slowdown", 4.9, "-", "p. 3")], schema=SCHEMA, orient="row"
)


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return two evaluations on other windows."""
    last = 1 if setting.quick else 2
    return tuple(
        Stage(
            name,
            ("evaluate", "slots-deeprm-v1", "--set", f'split={{test="{first}..{first + last}"}}',
                "--set",
                'dataset_splits=["test"]',
             "--policy", *RULES, "--workers", str(setting.workers), "--out", f"{{out}}/{name}",
             "--direct"),
            f"{name}/evaluation.json", 0.1,
        )
        for name, first in (("early", 0), ("late", 5))
    )  # fmt: skip


def results(place: Path, setting: Setting) -> Results:
    """Return a table of both stages, a figure and a claim."""
    rows, points = [], []
    for name in ("early", "late"):
        scores = pairing(place / name)
        rows += mean_cells(f"table {name}", "slowdown", "-", scores, RULES, PRINTED)
        for policy in RULES:
            values = runs_of(scores, policy).window_means
            points += [("one", name, policy, str(i), v, None, None) for i, v in enumerate(values)]
    gap = difference(pairing(place / "late"), "packer_now", "sjf_now")
    claim = claims.difference_claim("gap", "figure 1", "SJF is better", "-", 2.0, gap)
    return Results(
        pl.DataFrame(rows, schema=TABLE),
        {"table early": TableText("Early"), "table late": TableText("Late")},
        pl.DataFrame(points, schema=FIGURE, orient="row"),
        {"one": FigureText("Windows", "sorted", "windows, sorted", "slowdown (-)")},
        pl.DataFrame([claim], schema=CLAIM),
    )


@pytest.fixture
def paper(monkeypatch):
    """Return a module of a paper that `reproduce` knows as `made`."""
    module = types.SimpleNamespace(
        TITLE="Made", SOURCE="Nobody", stages=stages, results=results
    )  # fmt: skip
    monkeypatch.setattr(papers, "PAPERS", {"made": "made"})
    monkeypatch.setattr(papers, "find", lambda name: module)
    monkeypatch.setattr("flows.commands.reproduce.PAPERS", {"made": "made"})
    monkeypatch.setattr("flows.commands.reproduce.find", lambda name: module)
    return module


def content(folder: Path) -> dict[str, bytes]:
    """Return the files that do not depend on the machine."""
    kept = {"tables.csv", "figures.csv", "claims.csv"}
    return {
        p.name: p.read_bytes() for p in folder.iterdir() if p.name in kept or p.suffix == ".svg"
    }


def test_a_paper_from_its_commands_to_its_page(paper, tmp_path, capsys):
    out = tmp_path / "out"
    argv = ["reproduce", "made", "--quick", "--out", str(out), "--direct"]
    assert main(argv) == 0
    first = content(out / "made")
    assert {"tables.csv", "one-early.svg", "one-late.svg"} <= set(first)
    said = capsys.readouterr()
    assert said.out.splitlines() == [str(out / "made" / "index.html"), str(out / "index.html")]
    assert "stage 2 of 2, late" in said.err
    about = json.loads((out / "made" / "paper.json").read_text())
    assert about["setting"] == {"seeds": [0, 1], "quick": True}
    assert [stage["name"] for stage in about["stages"]] == ["early", "late"]
    assert about["stages"][0]["command"].endswith("--out made/early --direct")
    assert "Windows" in (out / "made" / "page.md").read_text()

    before = (out / "made" / "late" / "evaluation.json").stat().st_mtime_ns
    assert main(argv) == 0
    assert "late: finished before, skipped" in capsys.readouterr().err
    assert (out / "made" / "late" / "evaluation.json").stat().st_mtime_ns == before
    assert content(out / "made") == first


def test_an_interruption_between_stages_changes_no_byte(paper, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "out"
    runs.reproduce(["made"], Setting((0,), quick=True), str(whole))

    def interrupted(words, call):
        if "{out}/late".replace("{out}", str(out / "made")) in words:
            raise KeyboardInterrupt
        return run(words, call)

    run = runs._run
    monkeypatch.setattr(runs, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    assert not (out / "made" / "index.html").exists()
    monkeypatch.setattr(runs, "_run", run)
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    assert content(out / "made") == content(whole / "made")


def test_a_changed_output_is_made_again_with_all_that_follows(paper, tmp_path, capsys):
    out = tmp_path / "out"
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    (out / "made" / "early" / "evaluation.json").write_text("{}")
    capsys.readouterr()
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    assert mean(pairing(out / "made" / "early"), "sjf_now").value > 1.0
    ledger = json.loads((out / "made" / "run.json").read_text())
    assert list(ledger["stages"]) == ["early", "late"]


def test_another_setting_needs_another_folder(paper, tmp_path, capsys):
    out = tmp_path / "out"
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    before = content(out / "made")
    assert main(["reproduce", "made", "--out", str(out), "--direct"]) == 2
    assert "holds a reproduction of made" in capsys.readouterr().err
    assert content(out / "made") == before


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["deepj"], "unknown paper 'deepj'; did you mean 'deepjs'?"),
        (["deepjs", "--seeds", "0"], "expected a whole number of at least 1"),
        (["deepjs", "--runner", "slurm"], "invalid choice: 'slurm'"),
    ],
)
def test_wrong_words_end_with_one_line(argv, said, tmp_path, capsys):
    assert main(["reproduce", *argv, "--out", str(tmp_path / "out"), "--direct"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "out").exists()


def test_estimates_follow_the_pace_of_finished_stages():
    pace = runs.Pace()
    assert pace.words(30.0) == "30 minutes"
    assert pace.basis() == "on two cores"
    pace.add(0.5, 90.0)
    assert pace.words(30.0) == "30 minutes"  # too little to judge by
    pace.add(9.5, 1110.0)
    assert pace.words(30.0) == "60 minutes"
    assert pace.words(60.0) == "2.0 hours"
    assert pace.basis() == "by the stages so far"
