"""Tests of `hindcast start`: states and checks on the command line, and errors."""

import json
from pathlib import Path

import polars as pl
import pytest

from hindcast.flows import cli

LOG = str(Path(__file__).resolve().parents[2] / "examples" / "example.swf")
STATE = {
    "now": 2_000_000, "processors": 16,
    "running": [
        {"id": 1, "started": 1_999_000, "processors": 16, "requested": 7200, "user": 3},
    ],
    "waiting": [
        {"id": 2, "submitted": 1_999_500, "processors": 8, "requested": 43_200, "user": 1},
        {"id": 3, "submitted": 1_999_600, "processors": 2, "requested": 3600, "user": 2},
    ],
}  # fmt: skip


def start(capsys, *argv: str) -> tuple[int, list[dict], str]:
    """Run a command with --json; return exit code, the objects on stdout, and stderr."""
    code = cli.main(["start", *argv, "--json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE))
    return str(path)


@pytest.mark.slow
def test_a_state_is_answered_with_intervals(capsys, state):
    words = (LOG, state, "--rule", "saf_easy", "--job", "processors=1,requested=60")
    code, (answer,), _ = start(capsys, *words, "--draws", "10")
    assert code == 0
    assert answer["rule"] == "saf_easy"
    assert answer["schedule"] == "simulated"
    assert [job["id"] for job in answer["jobs"]] == [2, 3, "job 1"]
    for job in answer["jobs"]:
        assert STATE["now"] <= job["95"][0] <= job["median"] <= job["95"][1]
        assert job["requested"] >= 2_006_200  # when the running job has used its request
    assert start(capsys, *words, "--draws", "10")[1] == [answer]


@pytest.mark.slow
def test_a_state_may_count_seconds_since_1970(capsys, tmp_path, state):
    """The header of the log says when it began."""
    begin, path = 1_704_067_200, tmp_path / "moved.json"
    moved = json.loads(json.dumps(STATE))
    for job in (*moved["waiting"], *moved["running"], moved):
        for key in {"now", "submitted", "started"} & job.keys():
            job[key] += begin
    path.write_text(json.dumps(moved))
    (here,), (there,) = (start(capsys, LOG, one, "--draws", "3")[1] for one in (state, str(path)))
    for one, other in zip(here["jobs"], there["jobs"], strict=True):
        assert other["median"] == one["median"] + begin
        assert other["requested"] == one["requested"] + begin


@pytest.mark.slow
def test_text_says_when_from_now_on(capsys, state):
    assert cli.main(["start", LOG, state, "--draws", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("at 2000000, under fcfs_easy, calibrated on ")
    assert lines[1].split()[:3] == ["job", "starts", "in"]
    assert [line.split()[0] for line in lines[2:]] == ["2", "3"]
    assert lines[2].endswith("1:43 h       1:43 h")


@pytest.mark.slow
def test_decide_says_the_same_beside_its_decisions(capsys, state):
    assert cli.main(["decide", "saf_easy", state, "--starts", LOG, "--json"]) == 0
    decided = json.loads(capsys.readouterr().out.splitlines()[0])
    assert decided["start"] == []
    _, (answer,), _ = start(capsys, LOG, state, "--rule", "saf_easy")
    assert decided["forecast"] == answer
    assert cli.main(["decide", "saf_easy", state, "--starts", "no/log"]) == 2


@pytest.mark.slow
def test_a_check_prints_and_writes_scores(capsys, tmp_path):
    table = tmp_path / "scores.csv"
    words = ("--check", "--count", "40", "--draws", "5", "--rule", "fcfs_easy", "--out", str(table))
    code, rows, _ = start(capsys, LOG, *words)
    assert code == 0
    names = ["draws", "requested", "reservation", "draws, not calibrated", "past"]
    assert [row["forecast"] for row in rows] == names
    read = pl.read_csv(table)
    assert read["forecast"].to_list() == names
    assert set(read["log"]) == {"example.swf"}
    assert read["loss_h"].to_list() == pytest.approx([row["loss_h"] for row in rows], abs=1e-4)
    assert cli.main(["start", LOG, "--check", "--count", "40", "--draws", "5", "--recorded"]) == 0
    assert "fcfs_easy, recorded starts: 40 jobs of the last 30 %" in capsys.readouterr().out
    assert cli.main(["start", LOG, *words]) == 2  # the table is there


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["no.swf"], "no.swf: no such file or folder, expected a log of jobs"),
        ([LOG, "--rule", "saf_eazy"], "did you mean 'saf_easy'?"),
        ([LOG, "--check", "--at", "5"], "--check is about the log alone"),
        ([LOG, "no.json"], "no.json: no such file, expected states as JSON"),
        ([LOG, "--out", "a.csv"], "--out is for the table of --check"),
        ([LOG, "--rule", "fcfs", "sjf"], "expected one rule; several are for --check"),
        ([LOG, "--job", "cores=2"], "unknown key of --job 'cores'"),
    ],
)
def test_what_cannot_be_answered_is_refused(capsys, words, error):
    assert cli.main(["start", *words]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow
def test_a_faulty_state_is_named_with_its_line(capsys, tmp_path):
    path = tmp_path / "states.jsonl"
    path.write_text(json.dumps(STATE) + "\n" + json.dumps({**STATE, "now": 5}) + "\n")
    code, _, err = start(capsys, LOG, str(path), "--draws", "2")
    assert code == 2
    assert f"{path}, line 2: waiting[0].submitted is 1999500, expected at most now, 5" in err
