"""Tests of `hindcast reproduce` with a made-up paper whose stages are real, tiny commands."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.flows.commands import directly
from hindcast.flows.papers import claims
from hindcast.flows.papers.cells import difference, mean, mean_cells, pairing
from hindcast.flows.papers.cells import runs as runs_of
from hindcast.flows.papers.published import SCHEMA
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.protocols import PROTOCOLS, Setting, Stage
from hindcast.flows.runs import reproduce as runs

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
             "--policy", *RULES, "--out", f"{{out}}/{name}",
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
    """Return a function that makes `reproduce` know other stages as those of the paper `made`."""

    def know(stages, **changed):
        made = replace(protocol_of("Made", "Nobody", stages, results), **changed)
        monkeypatch.setattr(PROTOCOLS, "_known", {"made": made})

    know(stages)
    return know


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


def test_an_interruption_between_stages_changes_no_byte(paper, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    runs.reproduce(["made"], Setting((0,), quick=True), str(whole))

    def interrupted(request):
        if request.out == str(out / "made" / "late"):
            raise KeyboardInterrupt
        return directly(request)

    with pytest.raises(KeyboardInterrupt):
        runs.reproduce(["made"], Setting((0,), quick=True), str(out), interrupted)
    assert not (out / "made" / "index.html").exists()
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    assert content(out / "made") == content(whole / "made")


def test_a_changed_output_is_made_again(paper, tmp_path, capsys):
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
    said = capsys.readouterr().err
    assert "holds a reproduction of made --quick with digest" in said
    assert "but this reproduction, made, has" in said
    assert content(out / "made") == before


@pytest.mark.nightly
def test_more_seeds_keep_what_they_can_and_replace_the_rest(paper, tmp_path):
    """A dataset is not built over another one: the folder of the old one has to be removed."""

    def with_log(setting):
        log = ("build", "slots-deeprm-v1", "--set", f'split.train="0..{len(setting.seeds)}"',
               "--set", 'dataset_splits=["train"]', "--out", "{out}/log", "--direct")  # fmt: skip
        return (*stages(setting), Stage("log", log, "log/manifest.json", 0.1))

    paper(with_log)
    whole, out = tmp_path / "whole", tmp_path / "out"
    runs.reproduce(["made"], Setting((0, 1), quick=True), str(whole))
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    before = (out / "made" / "late" / "evaluation.json").stat().st_mtime_ns
    runs.reproduce(["made"], Setting((0, 1), quick=True), str(out))
    assert (out / "made" / "late" / "evaluation.json").stat().st_mtime_ns == before
    logs = [json.loads((at / "made" / "log" / "manifest.json").read_text()) for at in (whole, out)]
    assert logs[0]["digest"] == logs[1]["digest"]


def test_an_interrupted_stage_with_another_command_is_continued(paper, tmp_path):
    out = tmp_path / "out"
    runs.reproduce(["made"], Setting((0,), quick=True), str(out))
    more = ("--set", "evaluate.seeds=2")
    paper(lambda s: tuple(replace(stage, words=(*stage.words, *more)) for stage in stages(s)))
    there = []

    def interrupted(request):
        there.append(Path(request.out, "half").exists())
        Path(request.out).mkdir(exist_ok=True)
        Path(request.out, "half").touch()
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            runs.reproduce(["made"], Setting((0,), quick=True), str(out), interrupted)
    assert there == [False, True]


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


@pytest.mark.nightly
def test_stages_side_by_side_give_the_same_bytes(paper, tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    for out, workers in ((one, "1"), (two, "2")):
        argv = ["reproduce", "made", "--quick", "--workers", workers, "--out", str(out), "--direct"]
        assert main(argv) == 0
    assert content(one / "made") == content(two / "made")
    assert main(["reproduce", "made", "--quick", "--out", str(two), "--direct"]) == 0
    said = capsys.readouterr().err
    assert all(f"{name}: finished before, skipped" in said for name in ("early", "late"))


def test_an_error_of_a_process_ends_the_others_and_is_one_line(paper, tmp_path, capsys):
    out = tmp_path / "out"
    words = ("evaluate", "slots-deeprm-v1", "--policy", str(tmp_path / "no-agent"))
    lost = (*words, "--out", "{out}/lost", "--direct")
    paper(lambda s: (*stages(s)[:1], Stage("lost", lost, "lost/evaluation.json", 0.1)))
    argv = ["reproduce", "made", "--workers", "2", "--out", str(out), "--direct"]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert "no-agent" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_stage_is_run_again_when_what_it_reads_has_changed_and_no_other_is(
    paper, tmp_path, monkeypatch
):
    """The third stage names a folder in the output of the first one."""
    out = tmp_path / "out" / "made"
    ran, written = [], {"a": "1", "b": "1", "c": "1"}

    def run(request):
        folder = Path(request.out)
        ran.append(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "evaluation.json").write_text(written[folder.name])
        return {}

    def stage(name, *policies):
        words = ("evaluate", "slots-deeprm-v1", "--policy", *policies, "--out", f"{{out}}/{name}")
        return Stage(name, words, f"{name}/evaluation.json", 0.1)

    made = (stage("a", "random"), stage("b", "random"), stage("c", "{out}/a/best"))
    assert runs.reads(made) == {"a": frozenset(), "b": frozenset(), "c": frozenset({"a"})}
    paper(lambda setting: made, publish=lambda place, setting, ran: place)
    monkeypatch.setattr("hindcast.flows.commands.evaluate.check", lambda request: None)
    monkeypatch.setattr("hindcast.flows.commands.evaluate.show", lambda result: None)

    def again():
        ran.clear()
        runs.reproduce(["made"], Setting((0,)), str(out.parent), run)
        return list(ran)

    assert again() == ["a", "b", "c"]
    assert again() == []
    (out / "b" / "evaluation.json").write_text("changed")
    assert again() == ["b"]
    (out / "a" / "evaluation.json").unlink()
    assert again() == ["a"]  # which writes the same as before
    (out / "a" / "evaluation.json").unlink()
    written["a"] = "2"
    assert again() == ["a", "c"]
    (out / "c" / "evaluation.json").unlink()
    assert again() == ["c"]


def test_estimates_follow_the_pace_of_finished_stages():
    pace = runs.Pace()
    assert pace.of(30.0) == 30.0
    assert runs.Pace(2.0).of(30.0) == 60.0
    assert pace.basis() == "on two cores"
    pace.add(0.5, 90.0)
    assert pace.of(30.0) == 30.0  # too little to judge by
    pace.add(9.5, 1110.0)
    assert pace.of(30.0) == pytest.approx(60.0)
    assert runs.minutes(pace.of(60.0)) == "2.0 hours"
    assert pace.basis() == "by the stages so far"
