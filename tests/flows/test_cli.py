"""Tests of the command line in this process: help, exit codes, error lines, no partial output."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hindcast.flows import cli, commands
from hindcast.flows.commands.logs import traces
from hindcast.flows.parser import parse
from hindcast.pipeline.errors import HindcastError, StorageError

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPE = "binpack-synthetic-v1"


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Return the exit code and the only line on stderr. Stdout must be empty."""
    code = cli.main(argv)
    out, err = capsys.readouterr()
    assert not out
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("hindcast: ")
    return code, lines[0].removeprefix("hindcast: ")


def test_help_lists_every_command_once_in_its_group(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for title, summaries in commands.GROUPS.items():
        listed = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == list(summaries)
    assert len(commands.SUMMARIES) == sum(map(len, commands.GROUPS.values()))


@pytest.mark.parametrize("name", commands.SUMMARIES)
def test_every_command_has_help_with_an_example_that_is_valid(name, capsys):
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    example = shown.partition("example:\n")[2].strip()
    program, *argv = shlex.split(example)
    assert program == "hindcast"
    assert parse(argv).command == name


def test_no_command_is_answered_with_the_first_ones(capsys):
    """Each is shown with a valid command line, and the way to all others."""
    assert cli.main([]) == 2
    shown = capsys.readouterr().err
    examples = re.findall(r"^ +\$ hindcast (.*)$", shown, re.MULTILINE)
    assert [parse(example.split()).command for example in examples] == list(commands.FIRST)
    assert "hindcast --help" in shown


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hindcast")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["biuld", RECIPE, "--out", "x"], "unknown command 'biuld'; did you mean 'build'?"),
        (["build", RECIPE], "the following arguments are required: --out"),
        (["build", RECIPE, "--out", "x", "--worker", "2"], "did you mean '--workers'?"),
        (["build", RECIPE, "--out", "x", "--workers", "0"], "at least 1"),
        (["build", RECIPE, "--out", "x", "--workers", "1025"], "at most 1024"),
        (["--versoin"], "unrecognized arguments: --versoin (see `hindcast --help`)"),
        (["export", "d", "--to", "cvs", "--out", "x"], "did you mean 'csv'?"),
        (["report", "a", "b", "--spread", "c"], "--spread is for one evaluation"),
        (["report", "a", "--pages", "--metrics", "c"], "--metrics is for the page"),
        (
            ["train-online", RECIPE, "--seed", "0", "--seeds", "1", "--out", "x"],
            "--seed or --seeds",
        ),
        (["build", "binpack-sythetic-v1", "--out", "x"], "did you mean 'binpack-synthetic-v1'?"),
        (["build", "zzz", "--out", "x"], "`hindcast list --recipes` lists these"),
        (["build", "logs/kth.swf", "--out", "x"], "logs/kth.swf: no such file or folder, expected"),
        (["build", "kth.swf.gz", "--out", "x"], "kth.swf.gz: no such file or folder, expected a"),
        (["build", f"{RECIPE}.toml", "--out", "x"], f"did you mean '{RECIPE}'?"),
        (["build", str(ROOT / "flows"), "--out", "x"], "is no dataset and holds no recipe.toml"),
        (["build", RECIPE, "--set", "conifg.machines=3", "--out", "x"], "did you mean 'config'?"),
        (["build", RECIPE, "--set", "config.machnes=3", "--out", "x"], "did you mean 'machines'?"),
        (["build", RECIPE, "--set", "machines", "--out", "x"], "expected section.key=value"),
        (["run", RECIPE, "--set", "train.agents=['cqll']", "--out", "x"], "did you mean 'cql'?"),
        (["run", RECIPE, "--set", "evaluate.policies=['tertis']", "--out", "x"], "'tetris'?"),
        (["evaluate", RECIPE, "--policy", "tertis", "--out", "x"], "did you mean 'tetris'?"),
        (["evaluate", RECIPE, "--policy", "no/such", "--out", "x"], "no such checkpoint folder"),
        (["evaluate", RECIPE, "--policy", "f.toml", "--out", "x"], "f.toml: no such checkpoint"),
        (["evaluate", RECIPE, "--policy", __file__, "--out", "x"], ".py:NAME, a policy in it"),
        (["evaluate", RECIPE, "--split", "tset", "--out", "x"], "did you mean 'test'?"),
        (["ingest", "alibaba2071", "x", "--out", "x"], "did you mean 'alibaba2017'?"),
        (["ingest", "alibaba2017", "no/such", "--out", "x"], "no/such: no such file or folder"),
        (["train", "no/such", "--agent", "cql", "--out", "x"], "no/such: no such folder"),
        (["train", "no/such", "--agent", "cqll", "--out", "x"], "did you mean 'cql'?"),
        (["train", "d", "--agent", "a/b", "--out", "x"], "a/b: no such file or folder, expected"),
        (["train", "d", "--agent", __file__, "--out", "x"], "is a path, expected the name of a"),
        (["train", "d", "--agent", "cql", "--set", "rate", "--out", "x"], "expected key=value"),
        (["verify", "no/such"], "no/such: no such folder"),
        (["whatif", "no/such"], "no/such: no such file or folder, expected a log of jobs"),
        (["whatif", str(ROOT / "datasets" / RECIPE / "recipe.toml")], "this is a recipe, expected"),
        (["report", "no/such", "--out", "x"], "no/such: no such folder"),
        (["list", "no/such"], "no/such: no such folder"),
        (["list", "--policies", "binpak"], "did you mean 'binpack'?"),
        (["list", "--keys", "binpack-sythetic-v1"], "did you mean 'binpack-synthetic-v1'?"),
        (["list", "--agents", "--estimators"], "--agents and --estimators exclude each other"),
        (["list", "x", "--agents"], "--agents takes no folders"),
        (["show", "no/such"], "no/such: no such folder"),
        (["show", "."], "holds no dataset, workload, evaluation, checkpoint or run"),
        (["diff", "no/such", "no/other"], "no/such: no such folder"),
        (["report", "no/such", "--out", "june.html"], "try --out june/report.html"),
        (["build", RECIPE, "--trace", "a.swf", "--out", "x"], "which reads no file, but"),
        (["run", RECIPE, "--trace", "a.swf", "--out", "x"], "which reads no file, but"),
        (["evaluate", RECIPE, "--set", "trace.path=a.swf", "--out", "x"], "which reads no file"),
        (["ope", "d", "--no-truth", "--truth-seeds", "7"], "--truth-seeds is for the simulation"),
        (["verify", "d", "--quick", "--trace", "a.swf"], "--quick does not read the trace"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(argv, said, capsys, monkeypatch, tmp_path):
    """The error line says what to do, and no output is left: faults are found before any work."""
    monkeypatch.chdir(tmp_path)
    code, line = fails(capsys, *argv)
    assert code == 2
    assert said in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.swf",
            ";\n" + " 1" * 18,
            "this is a log (SWF), expected a recipe; `hindcast whatif a.swf",
        ),
        ("a.csv", "submit,run,cores\n1,2,3\n", "a table, expected a recipe; `hindcast init a.csv`"),
        ("a.toml", "[columns]\n", "this is the mapping of a table of jobs, expected a recipe"),
        ("b.toml", "[columns\n", "this file is not valid TOML"),
    ],
)
def test_a_file_of_another_kind_than_a_recipe(name, text, said, capsys, monkeypatch, tmp_path):
    """The error says what the file is and which command reads it; a near name is suggested."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    code, line = fails(capsys, "build", name, "--out", "x")
    assert code == 2
    assert line.startswith(f"{name}: ")
    assert said in line
    assert f"did you mean '{name}'?" in fails(capsys, "whatif", f"{name}x", "--out", "x")[1]


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (StorageError("x: the disk is full"), 2, "x: the disk is full"),
        (HindcastError("no more"), 1, "no more"),
        (MemoryError(), 1, "out of memory"),
        (PermissionError(13, "Permission denied", "x/y"), 2, "x/y: Permission denied"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (KeyboardInterrupt(), 130, "the same command continues where it stopped"),
        (cli.Terminated(), 143, "the same command continues where it stopped"),
    ],
)
def test_what_a_command_raises_becomes_a_line_and_a_code(raised, code, said, capsys, monkeypatch):
    def broken(_request):
        raise raised

    monkeypatch.setattr(traces, "run", broken)
    found, line = fails(capsys, "traces")
    assert found == code
    assert said in line


def test_a_defect_is_not_dressed_up(monkeypatch):
    """An unforeseen exception keeps its traceback."""
    monkeypatch.setattr(traces, "run", lambda _request: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["traces"])


def test_traces_as_text_and_as_json(capsys):
    assert cli.main(["traces"]) == 0
    assert "terms" in capsys.readouterr().out
    assert cli.main(["traces", "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert {"format", "source", "terms", "citation"} <= set(first)


def test_list_shows_what_is_there_and_what_is_damaged(tiny_dataset, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out == "no dataset or other output of Hindcast below .\n"
    shutil.copytree(tiny_dataset, tmp_path / "good")
    shutil.copytree(tiny_dataset, tmp_path / "bad")
    (tmp_path / "bad" / "manifest.json").write_text("{")
    assert cli.main(["list", "--json"]) == 0
    bad, good = map(json.loads, capsys.readouterr().out.splitlines())
    assert (bad["folder"], good["folder"]) == ("bad", "good")
    assert "not valid JSON" in bad["damage"]
    assert good["level"] == "mixed"
    assert "damage" not in good
    assert cli.main(["list"]) == 0
    assert "DAMAGED" in capsys.readouterr().out


@pytest.mark.slow
def test_list_of_recipes(capsys):
    assert cli.main(["list", "--recipes", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert RECIPE in {recipe["name"] for recipe in found}
    assert {"random", "heuristic", "mixed"} <= {recipe["level"] for recipe in found}


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, dict]:
    """Return the rows of `hindcast list` by name or key. Each row also has a line of text."""
    assert cli.main(["list", *argv]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert cli.main(["list", *argv, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [row.get("key") or row["name"] for row in rows]
    assert [line.split()[0] for line in lines[1:]] == names
    return dict(zip(names, rows, strict=True))


def test_list_of_names(capsys):
    policies = listed(capsys, "--policies", "binpack")
    assert {"random", "tetris", "rollout"} <= set(policies)
    assert "rollout" not in listed(capsys, "--policies", "deferrable")
    agents = listed(capsys, "--agents")
    assert agents["cql"]["learns"] == "offline"
    assert agents["cql"]["scenarios"] == []
    assert all(agent["description"] for agent in agents.values())
    assert listed(capsys, "--estimators")["snis"]["description"]


def test_list_of_keys(capsys):
    """The settings of an online agent are among the keys and have descriptions."""
    keys = listed(capsys, "--keys", "thermal-online")
    epochs = keys["online.settings.epochs"]
    assert (epochs["value"], epochs["type"]) == (4, "integer")
    assert epochs["meaning"].startswith("Passes over the decisions")
    assert keys["online.settings.network.hidden"]["value"] == [32, 32]


def test_show_as_text_and_as_json(tiny_dataset, capsys):
    assert cli.main(["show", str(tiny_dataset)]) == 0
    assert "longest_spread+eps0.2" in capsys.readouterr().out
    assert cli.main(["show", str(tiny_dataset), "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["counts"]["episodes"] == 96


def test_diff_exits_with_0_where_nothing_differs_and_with_1_else(tiny_dataset, tmp_path, capsys):
    shutil.copytree(tiny_dataset, tmp_path / "d")
    assert cli.main(["diff", str(tiny_dataset), str(tmp_path / "d")]) == 0
    assert capsys.readouterr().out.startswith("the same: ")
    (tmp_path / "d" / "README.md").write_text("mine")
    assert cli.main(["diff", str(tiny_dataset), str(tmp_path / "d"), "--json"]) == 1
    head, only = map(json.loads, capsys.readouterr().out.splitlines())
    assert head["same"] is False
    assert (only["section"], only["key"]) == ("files", "README.md")


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_is_instant_since_it_loads_nothing_heavy(flag):
    """--help and --version load no heavy library and no command's module."""
    script = f"""
import sys
from hindcast.flows.cli import main
code = main([{flag!r}])
heavy = {{"prefect", "torch", "numba", "numpy", "polars", "pyarrow", "pydantic", "rich"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
early = ("hindcast.flows.commands.", "hindcast.policies")
assert not [name for name in sys.modules if name.startswith(early)]
raise SystemExit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error():
    """`hindcast traces | true` ends quietly although the reader closes the pipe early."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hindcast.flows.cli", "traces"], cwd=ROOT, stdout=writer,
        stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 141
    assert not done.stderr
