"""Tests of `hindcast decide`: states in files and on stdin, shadow mode, serving, errors."""

import io
import json
import sys

import pytest

from hindcast.flows import cli
from tests.policies.test_deciding import BROKEN, KTH, example


def lines(*states) -> str:
    return "".join(json.dumps(state) + "\n" for state in states)


def decide(capsys, *argv: str) -> tuple[int, list[dict], str]:
    """Run a command with --json; return exit code, the objects on stdout, and stderr."""
    code = cli.main(["decide", *argv, "--json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_a_file_holds_one_state_or_one_a_line(capsys, tmp_path):
    one, many = tmp_path / "one.json", tmp_path / "many.jsonl"
    one.write_text(json.dumps(example(), indent=2))
    many.write_text(lines(example(id=1), example(id=2)) + "\n")
    code, found, _ = decide(capsys, "fcfs_easy", str(one))
    assert code == 0
    assert [each.get("start") for each in found] == [["C", "E"], None]
    code, found, _ = decide(capsys, "fcfs_easy", str(many), "--first", "--rows", "0")
    assert [each.get("id") for each in found] == [1, 2, None]
    assert found[0]["decisions"][0]["action"] == "reserve"
    assert "rows" not in found[0]["decisions"][0]
    summary = found[-1]["summary"]
    assert (summary["states"], summary["starts"], summary["decisions"]) == (2, 0, {"policy": 2})
    assert summary["formula"] == "-s; s = submitted"


def test_text_has_columns_with_what_each_feature_adds(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(example())))
    assert cli.main(["decide", KTH, "--margin", "1e6", "--rule", "saf_easy"]) == 0
    out = capsys.readouterr().out
    assert "at 1: start E, D; keep the machine free for B at 100" in out
    assert ", by margin in place of " in out
    row = next(line for line in out.splitlines() if line.strip().startswith("log_requested"))
    assert row.count("(+") + row.count("(-") == 3
    assert "decisions by policy 0, margin 3" in out


def test_text_names_the_features_that_are_out_of_range(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(example())))
    assert cli.main(["decide", KTH, "--range", "0.1", "--rows", "0", "--first"]) == 0
    out = capsys.readouterr().out
    assert "by range in place of E\n    out of range: log_waited, log_requested, " in out


def test_shadow_mode_compares_with_what_was_done(capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(
        lines(example(done=["E", "C"]), example(done="C"), example(done=None), example(done=["E"]))
    )
    code, found, _ = decide(capsys, "fcfs_easy", "--shadow", str(log))
    assert code == 0
    assert [each["agrees"] for each in found[:-1]] == [True, False, False, False]
    summary = found[-1]["summary"]
    assert (summary["compared"], summary["agree"]) == (4, 1)
    assert (summary["starts"], summary["done_starts"], summary["same_starts"]) == (8, 4, 4)
    assert cli.main(["decide", "fcfs_easy", "--shadow", str(log), "--rows", "0"]) == 0
    out = capsys.readouterr().out
    assert "done: C (not the same)" in out
    assert "as was done: 1 of 4 states (25.0%); 4 of 4 starts" in out


def test_serving_answers_every_line_and_goes_on_after_an_error(capsys, monkeypatch):
    text = lines(example(id=1)) + "\n\udcff\n" + lines(example(now=0), example(id=4))
    given = io.BytesIO(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given, "utf-8"))
    assert cli.main(["decide", "fcfs_easy", "--serve"]) == 2
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert not err
    assert [each.get("start") for each in found] == [["C", "E"], None, None, ["C", "E"], None]
    assert found[1]["error"].startswith("stdin, line 3: not JSON")
    assert found[2]["error"].startswith("stdin, line 4: waiting[0].submitted is 1, expected at")
    assert found[-1]["summary"]["errors"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty, expected a state as JSON"),
        (lines(example(), BROKEN[5][0]), "log.jsonl, line 2: the state has an unknown key"),
        (lines(example()) + '{"now": }\n', "log.jsonl, line 2: not JSON (Expecting value"),
        ('{\n"now": 1,\n}', "log.jsonl: not JSON"),
        ("[1]", "the state is a list, expected an object"),
        (lines(example()) * 2 + lines(5), "line 3: the state is 5, expected an object"),
        (lines(example()), "line 1: done is missing, expected the jobs that were started"),
        (lines(example(done={})), "line 1: done is {}, expected the id of a job"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_broken_state_is_one_line_and_nothing_else_is_printed(text, said, capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(text.encode("utf-8", "surrogateescape"))
    given = ["--shadow", str(log)] if "done" in said else [str(log)]
    code, found, err = decide(capsys, "saf_easy", *given)
    assert (code, found) == (2, [])
    assert len(err.splitlines()) == 1
    assert said in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["saf_easy", "no.json"], "no.json: no such file, expected states"),
        (["saf_easy", "a", "--shadow", "b"], "leave out STATES and --serve"),
        (["saf_easy", "a", "--serve"], "--serve reads states from stdin"),
        (["saf_easy", "--set", "config.visible=1"], "expected --recipe too"),
        (["saf_easy", "--scenario", "thermal"], "scenario thermal has no live states"),
        (["saf_easy", "--recipe", "slots-online"], "its scenario is slots, expected queue"),
        (["saf_easy", "--margin", "nan"], "guard.margin is nan, expected from 0"),
        (["saf_easy", "--margins", "1"], "did you mean '--margin'?"),
        (["saf_easz"], "did you mean 'saf_easy'?"),
    ],
)
def test_options_are_checked_before_anything_is_read(argv, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, found, err = decide(capsys, *argv)
    assert (code, found) == (2, [])
    assert said in err


def test_a_recipe_gives_the_settings(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(example())))
    given = ("--recipe", "queue-swf", "--set", "config.visible=2")
    _, found, _ = decide(capsys, "saf_easy", *given)
    assert found[0]["decisions"][0]["candidates"] == 2
    assert found[0]["start"] == ["C"]
