"""Tests of an installation without extras: only what `dependencies` of pyproject.toml brings.

One process runs all command lines. In it nothing can be imported that another package installed.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hindcast.flows import cli
from hindcast.pipeline.storage.extras import EXTRAS
from tests.conftest import TINY
from tests.made_logs import sacct

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOCKING = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
LINES = """
import contextlib, io, json, warnings
warnings.simplefilter("error")
import hindcast
for name in hindcast.__all__:
    getattr(hindcast, name)
from hindcast.flows.cli import main
answers = {}
for name, line in json.loads(sys.stdin.read()).items():
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(line)
    answers[name] = code, out.getvalue(), error.getvalue()
calls = {
    "train": lambda: hindcast.train("data", "iql", out="agent"),
    "make_env": lambda: hindcast.make_env("data"),
}
for name, call in calls.items():
    try:
        call()
    except hindcast.errors.InputError as refused:
        answers[f"hindcast.{name}"] = 2, "", f"hindcast: {refused}\\n"
print(json.dumps(answers))
"""
STATE = {
    "now": 100, "processors": 8, "running": [],
    "waiting": [{"id": "B", "submitted": 90, "processors": 6, "requested": 50, "user": "bo"}],
}  # fmt: skip
SETS = [word for one in TINY for word in ("--set", one)]
WORKS = {
    "list": ["list", "--recipes"],
    "agents": ["list", "--agents"],
    "doctor": ["doctor"],
    "traces": ["traces"],
    "whatif": ["whatif", "jobs.txt", "--out", "page"],
    "behaviour": ["behaviour", "jobs.txt"],
    "ingest": ["ingest", "slurm", "jobs.txt", "--out", "workload"],
    "init": ["init", "workload", "--out", "recipe.toml"],
    "build": ["build", "binpack-synthetic-v1", *SETS, "--out", "data"],
    "verify": ["verify", "data"],
    "show": ["show", "data"],
    "evaluate": ["evaluate", "data", "--policy", "tetris", "random", "--out", "scores"],
    "report": ["report", "scores", "--out", "report.html"],
    "ope": ["ope", "data", "--policy", "tetris", "--no-truth", "--out", "ope"],
    "decide": ["decide", "saf_easy", "state.json"],
    "start": ["start", "jobs.txt", "state.json", "--at", "9000"],
}
NEEDS = {  # name -> words of the command line, what needs the module, and the module
    "train": (["train", "data", "--agent", "cql", "--out", "a"], "training", "torch"),
    "several": (["train", "data", "--agent", "cql", "--seeds", "0", "1", "--out", "a"],
                "training", "torch"),
    "online": (["train-online", "binpack-online", "--out", "a"], "training", "torch"),
    "run": (["run", "binpack-synthetic-v1", "--out", "a"], "binpack-synthetic-v1: training",
            "torch"),
    "whatif_train": (["whatif", "jobs.txt", "--train", "--out", "a"], "whatif --train", "torch"),
    "ope_dr": (["ope", "data", "--estimators", "dr"], "fitted Q evaluation (dr)", "torch"),
    "minari": (["export", "data", "--to", "minari", "--out", "a"], "this format", "h5py"),
    "s3": (["verify", "s3://bucket/data"], "s3://bucket/data: s3://", "s3fs"),
    "gs": (["verify", "gs://bucket/data"], "gs://bucket/data: gs://", "gcsfs"),
    "az": (["verify", "az://bucket/data"], "az://bucket/data: az://", "adlfs"),
    "dask": (["build", "data", "--runner", "dask", "--out", "a"], "--runner dask", "prefect_dask"),
    "ray": (["evaluate", "data", "--runner", "ray", "--out", "a"], "--runner ray", "prefect_ray"),
    "hindcast.train": ([], "training", "torch"),
    "hindcast.make_env": ([], "make_env", "gymnasium"),
}  # fmt: skip


def core() -> set[str]:
    """Return the distributions that the dependencies without extras bring."""
    found: set[str] = set()
    left = [Requirement(text).name for text in PROJECT["dependencies"]]
    while left:
        name = canonicalize_name(left.pop())
        if name in found:
            continue
        found.add(name)
        required = map(Requirement, metadata.requires(name) or [])
        left += [r.name for r in required if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def absent() -> set[str]:
    """Return the modules of all other distributions that are installed here."""
    known = {*core(), canonicalize_name(PROJECT["name"])}
    places = metadata.packages_distributions()
    return {m for m, owners in places.items() if known.isdisjoint(map(canonicalize_name, owners))}


def run(code: str, blocked: set[str], folder: Path, given: str = "") -> subprocess.CompletedProcess:
    code = f"BLOCKED = {sorted(blocked)!r}\n{BLOCKING}\nsys.path.insert(0, {str(ROOT)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, cwd=folder,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    log = sacct(900, np.random.default_rng(1), processors=32)
    (folder / "jobs.txt").write_text(log, encoding="utf-8")
    (folder / "state.json").write_text(json.dumps(STATE), encoding="utf-8")
    lines = WORKS | {name: words for name, (words, _, _) in NEEDS.items() if words}
    done = run(LINES, {*absent(), *EXTRAS}, folder, json.dumps(lines))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_a_command_of_the_core_runs(answers, name):
    code, out, error = answers[name]
    assert code == 0, error
    assert out.strip()
    assert "Prefect" not in error


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_what_needs_an_extra_names_it_in_one_line(answers, name):
    _, what, module = NEEDS[name]
    code, out, error = answers[name]
    last, extra = error.splitlines()[-1], EXTRAS[module]
    assert (code, out) == (2, "")
    assert last == (
        f"hindcast: {what} needs {module.replace('_', '-')}, which is not installed; install the "
        f"extra {extra}: pip install 'hindcast-scheduling[{extra}]', or in a checkout "
        f"pip install -c constraints.txt -e '.[{extra}]'"
    )
    assert "Traceback" not in error


@pytest.mark.slow
def test_a_result_says_what_was_left_out_without_torch(answers):
    assert "left out: fitted Q evaluation (dr, wdr, dm) needs torch" in answers["ope"][1]
    assert re.search(r"\n +logit +\d", answers["behaviour"][1])
    assert "network" not in answers["behaviour"][1]


def test_every_optional_module_is_in_its_extra():
    """The table of what is said agrees with what pip installs."""
    for module, extra in EXTRAS.items():
        names = [Requirement(text).name for text in PROJECT["optional-dependencies"][extra]]
        expected = module.replace("_", "-")
        assert expected in names or expected == "dask", f"{module}: {extra}"


@pytest.mark.slow
def test_a_system_without_file_locks_is_told_so(tmp_path):
    said = "Hindcast runs on Linux and macOS; this Python has no module fcntl"
    script = "import hindcast; hindcast.build('binpack-synthetic-v1', 'data')"
    called = run(script, {"fcntl"}, tmp_path)
    assert called.returncode == 1
    assert called.stderr.splitlines()[-1].startswith(f"ImportError: {said}")
    command = run(
        "from hindcast.flows.cli import main; sys.exit(main(['list']))", {"fcntl"}, tmp_path
    )
    assert command.returncode == 2
    assert command.stderr.startswith(f"hindcast: {said}")
    assert command.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_server_that_cannot_be_used_without_prefect_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr("hindcast.flows.cli.installed", lambda module: module != "prefect")
    log = tmp_path / "jobs.txt"
    log.write_text(sacct(60, np.random.default_rng(1)), encoding="utf-8")
    assert cli.main(["ingest", "slurm", str(log), "--out", str(tmp_path / "workload")]) == 0
    error = capsys.readouterr().err
    assert error.count("PREFECT_API_URL is set: recording a run needs prefect, which is not") == 1
