"""Tests of the scenario that `hindcast new-scenario` writes: installed, changed and used."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.plugins import _import_file
from hindcast.pipeline.scenarios.template import check_name, files_of
from hindcast.pipeline.testing import NOTHING, check_scenario

ROOT = Path(__file__).resolve().parents[3]
LONG = "parts_of_a_problem_with_a_very_long_name"  # 40 characters
SMALL = ('split.train="0..5"', 'split.validation="6..7"', 'split.test="8..11"', "config.jobs=5")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return the folder of a package, as the command writes it."""
    out = tmp_path_factory.mktemp("new") / "duedates"
    assert main(["new-scenario", "duedates", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def scenario(package, tmp_path_factory):
    """Return a function of edits (old, new) that imports the edited scenario.py."""
    folder, number = tmp_path_factory.mktemp("edited"), iter(range(99))

    def edited(*edits):
        text = (package / "duedates" / "scenario.py").read_text()
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        file = folder / f"edited_{next(number)}.py"
        file.write_text(text)
        return _import_file(str(file))

    return edited


def check(module, jobs=5):
    """Check a scenario as the test in the package does."""
    config = module.Config(jobs=jobs)

    def drawn(number):
        rng = np.random.default_rng(number)
        return module.instance(config, "weighted_tardiness", NOTHING, number, rng)

    check_scenario(module.SCENARIO, config, "weighted_tardiness", drawn, module.HEURISTICS)


def of_page():
    """Yield the edits of the how-to page: the lines of each hunk before and after it."""
    page = (ROOT / "docs" / "how-to" / "add-a-scenario.md").read_text(encoding="utf-8")
    for block in re.findall(r"```diff\n(.*?)```", page, re.DOTALL):
        for hunk in block.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            yield tuple("".join(r[1:] for r in lines if r[0] in kept) for kept in (" -", " +"))


@pytest.fixture
def hindcast(package, tmp_path):
    """Run the command with the package installed; return its standard output."""
    points = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]
    about = tmp_path / "installed" / "duedates-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: duedates\nVersion: 0.1.0\n")
    lines = [f"[{g}]\n" + "".join(f"{n} = {v}\n" for n, v in p.items()) for g, p in points.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join(map(str, (about.parent, package, ROOT)))

    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "hindcast.flows.cli", *words], cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("queue", "'queue' is taken by a scenario; did you mean 'my_queue'?"),
        ("decisions", "'decisions' is taken by a scenario; did you mean 'my_decisions'?"),
        ("My-Caches", "a-z, 0-9 and _, beginning with a letter, .*did you mean 'my_caches'?"),
        ("7caches", "did you mean 'scenario_7caches'?"),
        ("class", "'class' has a meaning in Python; did you mean 'my_class'?"),
        ("random", "'random' is taken by a module of Python; did you mean 'my_random'?"),
        ("../caches", "did you mean 'caches'?"),
        ("-", "did you mean 'scenario'?"),
        (LONG + "s", f"at most 40; did you mean '{LONG}'?"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_one_that_can(name, says):
    with pytest.raises(InputError, match=says) as raised:
        check_name(name)
    check_name(str(raised.value).rpartition("did you mean ")[2].strip("'?"))


@pytest.mark.slow
def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "caches").mkdir()
    assert main(["new-scenario", "caches"]) == 2
    assert "caches: this exists and is not overwritten" in capsys.readouterr().err
    assert list((tmp_path / "caches").iterdir()) == []
    (tmp_path / "file").touch()
    assert main(["new-scenario", "caches", "--out", "file/caches"]) == 2
    assert {p.name for p in tmp_path.iterdir()} == {"caches", "file"}
    assert main(["new-scenario", "caches", "--out", "s3://bucket/caches"]) == 2


def test_the_name_is_the_only_difference_between_two_packages():
    one, other = files_of("caches"), files_of(LONG)
    assert [place.replace("caches", LONG) for place in one] == list(other)
    for place, text, again in zip(other, one.values(), other.values(), strict=True):
        assert text.replace("caches", LONG) == again
        assert max(map(len, again.splitlines())) <= 100
        if place.endswith(".py"):
            compile(again, place, "exec")
        if place.endswith(".toml"):
            tomllib.loads(again)


@pytest.mark.nightly
@pytest.mark.parametrize("jobs", [1, 5])
def test_the_scenario_passes_the_checks(scenario, jobs):
    check(scenario(), jobs)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("[k.REWARD] = -cost", "[k.REWARD] = cost"), "lower is better: .* the wrong sign"),
        (
            ("    if not 0 <= choice < ints[LEFT]:\n        return k.INFEASIBLE\n", ""),
            "step accepted choice -1, which is not feasible",
        ),
        (("[row, ROW.length] = length", "[row, ROW.length] = -length"), "length is -.* expected 0"),
        (("    outcomes[OUT.late_jobs] = floats[LATE]\n", ""), "outcome wrote nan as late_jobs"),
        (("capacity=config.jobs)", "capacity=config.jobs - 1)"), "observe returned 5 rows"),
        (("= rng.exponential", "= np.random.default_rng().exponential"), "instance 0 differs"),
    ],
    ids=["sign", "infeasible", "range", "outcome", "capacity", "draws"],
)
def test_the_checks_find_wrong_edits(scenario, edit, says):
    with pytest.raises(AssertionError, match=says):
        check(scenario(edit))


@pytest.mark.nightly
def test_the_edits_of_the_page_give_another_scenario(scenario):
    """Lengths 3 and 1, the machine set up for odd jobs, due at 2 and 1, as the page says."""
    edits = [*of_page()]
    assert len(edits) == 9
    module = scenario(*edits)
    check(module)
    ints, outputs = np.array([0, 2, 1, 0, 1]), np.zeros(3)
    floats = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 3.0, 1.0, 1.0, 2.0, 2.0, 1.0])
    module.step(ints, floats, 1, outputs)
    assert outputs.tolist() == [1.0, 0.0, 0.0]
    module.step(ints, floats, 0, outputs)
    assert outputs.tolist() == [4.0, -3.0, 3.0]


@pytest.mark.nightly
def test_its_own_tests_linter_and_types_accept_it(package, tmp_path):
    """Ruff with its defaults and with all rules of this project, mypy in strict mode."""
    every = ("--config", str(ROOT / "pyproject.toml"), "--ignore", "ARG001,I001,INP001,S101")
    hindcast = tmp_path / "hindcast"  # the package as a wheel has it
    hindcast.mkdir()
    (hindcast / "__init__.py").symlink_to(ROOT / "hindcast.py")
    for name in ("pipeline", "policies", "flows", "py.typed"):
        (hindcast / name).symlink_to(ROOT / name)
    for words in (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("ruff", "check", *every, "."),
        ("mypy", "--strict", "--follow-imports=silent", "duedates", "tests"),
        ("pytest", "-q", "-p", "no:cacheprovider", "tests"),
    ):
        path = os.pathsep.join(map(str, (package, ROOT)))
        environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=package, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_an_installed_package_is_built_verified_scored_and_learned_from(hindcast):
    sets = [word for setting in SMALL for word in ("--set", setting)]
    assert "duedates-v1" in hindcast("list", "--recipes")
    assert "tardiness_cost" in hindcast("list", "--policies", "duedates")
    hindcast("build", "duedates-v1", "--direct", "--out", "dataset", *sets)
    assert "replayed in the simulator" in hindcast("verify", "dataset")
    hindcast(
        "train", "dataset", "--agent", "advantage_regression", "--steps", "5", "--direct",
        "--out", "agent",
    )  # fmt: skip
    scored = hindcast(
        "evaluate", "duedates-v1", "--direct", "--out", "evaluation", "--policy", "agent", *sets
    )
    assert "advantage_regression" in scored
