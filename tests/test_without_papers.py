"""Test of a copy of Hindcast without the folder of the papers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TINY

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import contextlib, importlib, io, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
from hindcast.flows.cli import main
answers = []
for line in json.loads(sys.argv[2]):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(line)
    answers.append([code, out.getvalue(), error.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a checkout without the papers, with the kernels that are compiled already."""
    place = tmp_path_factory.mktemp("copy")
    for name in ("pipeline", "policies", "flows", "datasets", "tests"):
        shutil.copytree(ROOT / name, place / name)
    for name in ("hindcast.py", "pyproject.toml"):
        shutil.copy2(ROOT / name, place / name)
    shutil.rmtree(place / "flows" / "papers")
    shutil.rmtree(place / "tests" / "flows" / "papers")
    return place


@pytest.mark.nightly
@pytest.mark.slow
def test_the_core_is_whole_without_the_papers(copy, tmp_path):
    """Everything is imported, listed, built and trained; names of papers are not known."""
    files = [p for name in ("pipeline", "policies", "flows") for p in (copy / name).rglob("*.py")]
    dotted = [".".join(("hindcast", *p.relative_to(copy).with_suffix("").parts)) for p in files]
    modules = sorted(name.removesuffix(".__init__") for name in dotted)
    sets = [word for override in TINY for word in ("--set", override)]
    out = str(tmp_path / "data")
    lines = {
        "agents": ["list", "--agents", "--json"],
        "rules": ["list", "--policies", "deferrable"],
        "recipes": ["list", "--recipes"],
        "build": ["build", "binpack-synthetic-v1", *sets, "--out", out, "--direct"],
        "verify": ["verify", out, "--direct"],
        "train": ["train", out, "--agent", "iql", "--steps", "2", "--seeds", "1", "--out",
                  str(tmp_path / "agents"), "--direct"],
        "reproduce": ["reproduce", "deepjs", "--direct"],
        "calibrate": ["calibrate", "thermal"],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(modules), json.dumps(list(lines.values()))],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = dict(zip(lines, json.loads(done.stdout.splitlines()[-1]), strict=True))
    for name in ("agents", "rules", "recipes", "build", "verify", "train"):
        assert answers[name][0] == 0, answers[name]
    [line] = [
        x for x in answers["recipes"][1].splitlines() if x.startswith("rlscheduler-lublin1-v1")
    ]
    assert "unknown scenario 'rlscheduler'" in line
    assert "iql" in answers["agents"][1]
    assert "report_dqn" not in answers["agents"][1]
    for name, text in (("reproduce", "unknown paper"), ("calibrate", "unknown calibration")):
        code, _, error = answers[name]
        assert (code, text in error) == (2, True), error


@pytest.mark.nightly
@pytest.mark.slow
def test_tests_of_the_core_pass_without_the_papers(copy):
    """Tests that are repeated for every recipe, export and agent are so for those of the core."""
    names = (
        "pipeline/exports", "pipeline/inspection", "pipeline/recipes", "policies/offline",
        "policies/online/test_training.py", "flows/test_cli.py",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not (slow or nightly or ray)",
         *(f"tests/{name}" for name in names)],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
