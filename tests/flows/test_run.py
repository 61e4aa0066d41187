"""Tests of real commands with --direct: a whole tiny run, and the same run repeated."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hindcast.flows import cli
from hindcast.flows.commands import directly, name_of, run, train, verify
from hindcast.flows.runs.stages import run_stages
from hindcast.pipeline.errors import DatasetError
from tests.conftest import TINY
from tests.flows.test_deployment import SMALL, write_log

pytestmark = pytest.mark.slow

SET = [word for override in TINY for word in ("--set", override)]
RECIPE = ["binpack-synthetic-v1", *SET, "--direct"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run."""
    out = tmp_path_factory.mktemp("run") / "tiny"
    assert cli.main(["run", *RECIPE, "--out", str(out)]) == 0
    return out


def test_a_run_leaves_everything_that_it_promises(done, capsys):
    """The last line names the report. When repeated, each stage says that it is skipped."""
    for name in ("dataset/manifest.json", "evaluation/scores.parquet", "report.html", "run.json"):
        assert (done / name).is_file()
    assert (done / "agents" / "trajectory_preference-seed0" / "checkpoint.json").is_file()

    assert cli.main(["run", *RECIPE, "--out", str(done)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == str(done / "report.html")
    notes = [line for line in err.splitlines() if not line.startswith("warning: ")]
    assert err.count("finished before, skipped") == len(notes) == 5


def test_a_run_as_json_has_one_line_per_stage(done, capsys):
    assert cli.main(["run", *RECIPE, "--out", str(done), "--json"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["stage"].split()[0] for r in results] == [
        "build", "verify", "train", "evaluate", "report",
    ]  # fmt: skip
    assert results[3]["means"]["trajectory_preference-seed0"] > 0
    assert results[-1]["report"] == str(done / "report.html")


def test_what_is_missing_is_made_again_and_the_rest_is_kept(done, tmp_path, capsys):
    """A stage whose output is missing runs again and writes the same bytes."""
    copy = tmp_path / "copy"
    shutil.copytree(done, copy)
    checkpoint = copy / "agents" / "trajectory_preference-seed0" / "checkpoint.json"
    before = json.loads(checkpoint.read_text())["weights"]
    shutil.rmtree(checkpoint.parent)
    assert cli.main(["run", *RECIPE, "--out", str(copy)]) == 0
    notes = capsys.readouterr().err
    assert "build: finished before" in notes
    assert "train trajectory_preference-seed0: started" in notes
    assert json.loads(checkpoint.read_text())["weights"] == before


def test_the_folder_of_another_recipe_is_refused(done, capsys):
    code = cli.main(["run", *RECIPE, "--set", "seed=99", "--out", str(done)])
    assert code == 2
    assert "choose another --out" in capsys.readouterr().err


def test_an_interrupted_run_goes_on(tmp_path):
    """If a stage fails, the finished stages before it are not run again."""
    calls = []

    def failing(step):
        calls.append(name_of(step))
        if isinstance(step, train.Request):
            raise KeyboardInterrupt
        return directly(step)

    request = run.Request("binpack-synthetic-v1", str(tmp_path / "out"), TINY)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_stages(request, failing)
    assert calls == ["build", "verify", "train", "train"]


def test_the_workload_is_compared_with_the_trace_that_was_given(tmp_path):
    """The trace of `hindcast run --trace` is that of its verification."""
    trace, checks = tmp_path / "day.swf", []
    write_log(trace, np.random.default_rng(1))

    def verified(step):
        result = directly(step)
        if isinstance(step, verify.Request):
            checks.extend(result["checks"])
            raise KeyboardInterrupt
        return result

    out = str(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        run_stages(run.Request("queue-kth-v1", out, SMALL, trace=str(trace)), verified)
    assert f"read again from {trace}" in str(checks)


def test_a_foreign_ledger_is_refused(tmp_path):
    (tmp_path / "run.json").write_text('{"stages": 3}')
    with pytest.raises(DatasetError, match="not the ledger of a run"):
        run_stages(run.Request("binpack-synthetic-v1", str(tmp_path), TINY))


def test_the_commands_one_by_one(tmp_path, capsys):
    """The commands work one by one: build, verify, train with a setting, evaluate, report.

    A rule and a checkpoint are evaluated.
    """
    data, agent, scores = tmp_path / "d", tmp_path / "a", tmp_path / "e"
    assert cli.main(["build", *RECIPE, "--out", str(data), "--workers", "2", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert built["dataset"] == str(data)
    assert built["episodes"] > 0

    assert cli.main(["verify", str(data)]) == 0
    assert capsys.readouterr().out.startswith(f"{data}: verified\n")

    train = ["train", str(data), "--agent", "behaviour_cloning", "--steps", "5", "--seed", "3"]
    train += ["--set", "learning_rate=0.01", "--out", str(agent), "--direct"]
    assert cli.main(train) == 0
    described = json.loads((agent / "checkpoint.json").read_text())["training"]
    assert (described["seed"], described["config"]["learning_rate"]) == (3, 0.01)
    capsys.readouterr()

    evaluate = ["evaluate", *RECIPE, "--policy", "tetris", "random", "--policy", str(agent)]
    assert cli.main([*evaluate, "--out", str(scores), "--json"]) == 0
    means = json.loads(capsys.readouterr().out)["means"]
    assert list(means) == ["tetris", "random", "behaviour_cloning-seed3"]
    described = json.loads((scores / "evaluation.json").read_text())
    assert [p["kind"] for p in described["policies"]] == ["heuristic", "random", "learned"]
    assert described["command"].startswith("hindcast evaluate binpack-synthetic-v1")

    assert (
        cli.main(["report", str(scores), "--out", str(tmp_path / "report.html"), "--direct"]) == 0
    )
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "report.html")
    assert (tmp_path / "summary.md").is_file()


def test_a_report_of_a_run_folder_shows_its_dataset_and_training(done, tmp_path, capsys):
    assert cli.main(["report", str(done), "--out", str(tmp_path), "--direct"]) == 0
    page = Path(capsys.readouterr().out.splitlines()[-1]).read_text()
    assert 'id="training"' in page
    assert 'id="datasets"' in page


def test_verify_fails_with_1_and_the_reason(done, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(done / "dataset", copy)
    part = copy / "data" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"\0")
    assert cli.main(["verify", str(copy)]) == 1
    assert capsys.readouterr().err.startswith(f"hindcast: {part}: ")


def test_two_checkpoints_of_one_seed_are_told_apart(done, tiny_recipe, tmp_path):
    """Names of one seed's checkpoints contain the beginning of their weights' digest."""
    from hindcast.policies.entrants import entrants

    first = done / "agents" / "trajectory_preference-seed0"
    second = tmp_path / "more"
    train.run(train.Request(str(done / "dataset"), "trajectory_preference", str(second), steps=3))
    found = entrants(tiny_recipe, [str(first), "tetris", str(second), "tetris"])
    names = [c.behaviour.name for c in found]
    assert len(set(names)) == len(names) == 3
    assert {c.group for c in found if c.kind == "learned"} == {"trajectory_preference"}
