"""Tests of submissions: one is built, submitted and checked, and cheats and damages are found."""

import hashlib
import io
import json
import runpy
import shutil
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

from docs.generate import leaderboard
from docs.generate.leaderboard import FOLDER
from hindcast.flows.cli import main
from hindcast.pipeline.evaluation import submissions
from hindcast.pipeline.storage.files import json_text

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ("slots-demo-v1", "--set", 'split.test="900..909"')
RULES = ["--policy", "hold_8", "--policy", "sjf_now"]
AGENT = """
from pathlib import Path
Path("was_run").touch()

def seed(number):
    def scores(context, candidates, feasible):
        return candidates[:, 0] * float((Path(__file__).parent / "w.txt").read_text()) * number
    scores.weights = "w.txt"
    return scores

"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run commands in an empty folder with a ledger of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINDCAST_CACHE", str(tmp_path / "cache"))
    yield tmp_path
    forget()


def forget() -> None:
    """Forget the modules of agents, as another process would not know them."""
    for name, module in list(sys.modules.items()):
        if Path(str(getattr(module, "__file__", ""))).name == "net.py":
            del sys.modules[name]


def agent(seeds: int = 3, scored: int = 3) -> list[str]:
    """Write an agent of some seeds; return the words that name the first ones of them."""
    lines = "".join(f"seed{n} = seed({n - 1})\n" for n in range(seeds))
    Path("net.py").write_text(AGENT + lines)
    Path("w.txt").write_text("-1.0")
    return ["--policy", "mine=" + ",".join(f"net.py:seed{n}" for n in range(scored))]


def evaluated(*words: str) -> None:
    assert main(["evaluate", *RECIPE, *words, "--out", "ev"]) == 0


def submitted(*words: str) -> None:
    assert main(["submit", "ev", *words, "--out", "s.zip"]) == 0
    forget()
    Path("was_run").unlink(missing_ok=True)


def checked(capsys, *words: str, code: int = 0) -> dict[str, str]:
    """Check a submission and return the line of each check, the verdict and the last caution."""
    capsys.readouterr()
    assert main(["check-submission", "s.zip", *words]) == code
    lines = capsys.readouterr().out.splitlines()
    forget()
    return {line.split(":")[0].strip(): line.partition(":")[2].strip() for line in lines}


def content() -> dict[str, bytes]:
    with zipfile.ZipFile("s.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(members: dict[str, bytes], *, honest: bool = True) -> None:
    """Write an archive; `honest` makes the manifest agree with the members."""
    manifest = json.loads(members.pop("submission.json"))
    if honest:
        files = {name: hashlib.sha256(value).hexdigest() for name, value in members.items()}
        manifest["files"] = files
    with zipfile.ZipFile("s.zip", "w") as archive:
        for name, value in {"submission.json": json_text(manifest), **members}.items():
            archive.writestr(name, value)


def with_scores(change) -> None:
    """Change the scores of a submission, and its manifest with it."""
    members = content()
    table, buffer = pl.read_parquet(io.BytesIO(members["scores.parquet"])), io.BytesIO()
    change(table).write_parquet(buffer)
    written(members | {"scores.parquet": buffer.getvalue()})


def with_json(name: str, change) -> None:
    members = content()
    value = json.loads(members[name])
    change(value)
    written(members | {name: json_text(value).encode()})


@pytest.mark.slow
def test_a_submission_comes_again_and_code_is_run_only_when_asked(capsys):
    words = [*RULES, *agent()]
    assert main(["plan", *RECIPE, *words, "--out", "plan.json"]) == 0
    evaluated("--plan", "plan.json")
    submitted("--plan", "plan.json")
    names = {"submission.json", "evaluation.json", "scores.parquet", "plan.json"}
    assert set(content()) == names | {"policies/0/net.py", "policies/0/w.txt"}
    for path in (*Path("ev").iterdir(), Path("net.py"), Path("w.txt"), Path("plan.json")):
        path.unlink()
    found = checked(capsys)
    assert not Path("was_run").exists()
    assert found["policies"].startswith("not checked: 2 have the digests")
    assert "(--run-code)" in found["policies"]
    assert found["scores"].startswith("not checked: ")
    assert found["plan"].endswith("nothing deviates from it")
    found = checked(capsys, "--run-code")
    assert Path("was_run").exists()
    assert found.pop("s.zip") == "nothing fails; read the 2 cautions above"
    assert "10 of 10 episodes of mine-seed2, which never ended one" in found.pop("caution")
    assert all(line.startswith("holds") for line in found.values())
    assert found["recipe"] == "holds: slots-demo-v1 with other split; test, 10 windows"
    assert found["seeds"].startswith("holds: training seeds: mine 3")


@pytest.mark.slow
def test_one_seed_of_ten_is_found_with_a_plan_and_without(capsys):
    evaluated(*RULES, *agent(seeds=10, scored=1))
    submitted()
    assert "seed9 are not scored" in checked(capsys, code=1)["seeds"]
    Path("s.zip").unlink()
    assert main(["plan", *RECIPE, *RULES, *agent(), "--out", "plan.json"]) == 0
    (Path("ev") / "evaluation.json").unlink()
    evaluated(*RULES, *agent(scored=1), "--plan", "plan.json")
    submitted("--plan", "plan.json")
    found = checked(capsys, "--run-code", code=1)["plan"]
    assert "FAILS: mine-seed1 was planned and is not scored" in found


@pytest.mark.slow
def test_a_training_that_is_counted_twice_is_shown(capsys, folder, monkeypatch):
    words = agent(seeds=2, scored=2)
    Path("net.py").write_text(Path("net.py").read_text() + "seed2 = seed(0)\n")
    evaluated(*RULES, words[0], f"{words[1]},net.py:seed2")
    submitted()
    assert "mine-seed2 has the scores of mine-seed0" in capsys.readouterr().out
    assert checked(capsys)["s.zip"].endswith("; read the 1 caution above")
    monkeypatch.setattr(leaderboard, "FOLDER", folder)
    assert "| mine (1 caution) |" in leaderboard.leaderboard()


@pytest.mark.slow
def test_agents_that_were_tried_and_not_submitted_are_counted(capsys):
    for trial in ("a", "b"):
        agent()
        Path("w.txt").write_text(f"-{ord(trial)}.0")
        words = ["--policy", f"{trial}=net.py:seed0,net.py:seed1", "--out", trial]
        assert main(["evaluate", *RECIPE, *RULES, *words]) == 0
    evaluated(*RULES, *agent())
    submitted()
    assert "4 other agents had been scored" in checked(capsys)["looks"]


@pytest.mark.slow
def test_cheats_with_a_manifest_that_agrees_are_found(capsys):
    evaluated(*RULES, *agent())
    submitted()
    whole = Path("s.zip").read_bytes()
    value = pl.col("value")
    mine = pl.col("policy").str.starts_with("mine")
    worst = pl.col("window") == 900

    def found(name: str, change, *parts: str) -> None:
        Path("s.zip").write_bytes(whole)
        change()
        line = checked(capsys, "--run-code", code=1)[name]
        assert all(part in line for part in ("FAILS", *parts)), line

    better = pl.when(mine).then(value * 0.9).otherwise(value)
    found("scores", lambda: with_scores(lambda t: t.with_columns(value=better)), "are others now")
    found("scores", lambda: with_scores(lambda t: t.filter(~worst)), "are not in the file")
    nothing = pl.when(mine & worst).then(float("nan")).otherwise(value)
    found("scores", lambda: with_scores(lambda t: t.with_columns(value=nothing)), "are others now")
    twice = pl.lit(77, pl.Int64).alias("seed")
    found("scores", lambda: with_scores(lambda t: pl.concat([t, t.head(1).with_columns(twice)])),
          "1 scores are not in the evaluation")  # fmt: skip
    members = content()
    found(
        "policies", lambda: written(members | {"policies/0/w.txt": b"-2.0"}), "mine-seed0: digest"
    )

    def rule_learned(table):
        table["policies"][0] |= {"kind": "learned", "group": "mine"}

    found("policies", lambda: with_json("evaluation.json", rule_learned), "hold_8: group is hold_8")

    def turned(table):
        for metric in table["metrics"]:
            metric["better"] = {"lower": "higher", "higher": "lower"}.get(metric["better"], "lower")

    found("reading", lambda: with_json("evaluation.json", turned), "metrics")


@pytest.mark.slow
def test_a_plan_that_is_left_out_or_changed_is_found(capsys):
    words = [*RULES, *agent(seeds=2, scored=2)]
    assert main(["plan", *RECIPE, *words, "--out", "plan.json"]) == 0
    evaluated("--plan", "plan.json")
    assert main(["submit", "ev", "--out", "s.zip"]) == 2
    assert "name its file with --plan" in capsys.readouterr().err
    submitted("--plan", "plan.json")
    whole = Path("s.zip").read_bytes()
    members = content()
    members.pop("plan.json")
    written(members)
    assert "which is not in the file" in checked(capsys, code=1)["plan"]
    Path("s.zip").write_bytes(whole)
    with_json("plan.json", lambda plan: plan.update(written="2020-01-01T00:00:00+00:00"))
    assert "the plan is not the one" in checked(capsys, code=1)["plan"]
    Path("s.zip").write_bytes(whole)
    with_json("evaluation.json", lambda table: table["plan"].update(agents=["other"]))
    assert "the plan is not the one" in checked(capsys, code=1)["plan"]


DAMAGES = {
    "cut": (lambda _: Path("s.zip").write_bytes(Path("s.zip").read_bytes()[:-40]), "no archive"),
    "no archive": (lambda _: Path("s.zip").write_text("scores"), "no archive that can be read"),
    "a file is changed": (
        lambda m: written(m | {"policies/0/w.txt": b"-3.0"}, honest=False), "w.txt was changed"),
    "a file is added": (
        lambda m: written(m | {"more.txt": b""}, honest=False), "more.txt is not in the manifest"),
    "a file leads out": (lambda m: written(m | {"../more.txt": b""}), "is no path below a folder"),
    "no manifest": (
        lambda m: written(m | {"submission.json": b"{}"}), "this is None of version None"),
    "a word leads out": (
        lambda m: written(m | {"submission.json": m["submission.json"].replace(
            b"policies/0/net.py:seed0", b"policies/0/../x.py:f")}), "names no policy"),
    "a word is a module": (
        lambda m: written(m | {"submission.json": m["submission.json"].replace(
            b"hold_8", b"os:abort")}), "names no policy"),
    "other settings": (
        lambda m: written(m | {"evaluation.json": m["evaluation.json"].replace(
            b'"steps": 40', b'"steps": 41')}), "one of them was changed"),
}  # fmt: skip


@pytest.mark.slow
def test_damages_are_one_line(capsys):
    evaluated(*RULES, *agent())
    submitted()
    whole = Path("s.zip").read_bytes()
    for name, (damage, message) in DAMAGES.items():
        Path("s.zip").write_bytes(whole)
        damage(content())
        capsys.readouterr()
        assert main(["check-submission", "s.zip", "--run-code"]) == 2, name
        told = capsys.readouterr().err.strip()
        assert message in told, name
        assert "\n" not in told, name
        assert not Path("was_run").exists(), name


@pytest.mark.slow
def test_what_cannot_be_submitted(capsys):
    def refused(*words: str, message: str) -> None:
        capsys.readouterr()
        assert main(["submit", "ev", *words]) == 2
        assert message in capsys.readouterr().err

    refused("--out", "s.zip", message="ev: no such folder")
    evaluated(*RULES, *agent())
    Path("w.txt").write_text("-4.0")
    forget()
    refused("--out", "s.zip", message="submit from the folder where it was evaluated")
    agent()
    Path("there.zip").touch()
    refused("--out", "there.zip", message="exists already")
    refused("--out", "s.zip", "--plan", "w.txt", message="leave out --plan")
    assert not Path("s.zip").exists()


@pytest.mark.slow
def test_a_trace_of_the_submitters_is_not_opened(capsys):
    evaluated(*RULES)
    submitted()

    def foreign(table):
        table["settings"]["trace"] = {"format": "swf", "path": "/etc/hostname", "settings": {}}
        table["digest"] = submissions.parse_recipe(table["settings"], "x").digest

    with_json("evaluation.json", foreign)
    assert main(["check-submission", "s.zip"]) == 2
    assert "name your copy with --trace" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slots-counterfactual", "thermal-ppo"])
def test_rows_of_the_leaderboard_come_again(name, capsys):
    """The third file takes minutes: looking ahead plays every candidate."""
    assert main(["check-submission", str(FOLDER / f"{name}.zip")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("everything holds")
    assert any("training seeds: " in line and " 5" in line for line in lines)


@pytest.mark.slow
def test_the_example_of_five_seeds_is_one_row_with_an_interval_over_seeds(tmp_path, capsys):
    """A copy of the example outside the repository is trained, evaluated, submitted and checked."""
    shutil.copy(ROOT / "examples" / "five_seeds.py", "net.py")
    small = ["--set", 'split.train="0..1"', "--set", 'split.validation="120..120"']
    assert main(["build", "slots-demo-v1", *small, "--out", "dataset"]) == 0
    runpy.run_path("net.py")["train"]("dataset")
    words = "mine=" + ",".join(f"net.py:seed{n}" for n in range(5))
    evaluated("--policy", "hold_8", words)
    assert main(["report", "ev", "--out", "report/report.html"]) == 0
    rows = pl.read_csv("report/results.csv").filter(policy="mine", baseline="hold_8").to_dicts()
    assert [(row["seeds"], row["windows"]) for row in rows] == [(5, 10)]
    assert rows[0]["low"] < rows[0]["mean"] < rows[0]["high"]
    submitted()
    found = checked(capsys, "--run-code")
    assert found["seeds"].startswith("holds: training seeds: mine 5")
    assert found["scores"].startswith("holds")
