"""The wheel, installed in an environment of its own, beside modules of a user with usual names."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What a script of a user's own does with the face, as mypy --strict accepts it.
SCRIPT = """
from pathlib import Path

import hindcast
import pipeline
import policies
from flows import mine

FEW = ("split.train='0..3'", "split.validation='20..21'", "split.test='25..26'")


def main(out: Path) -> None:
    recipe = hindcast.load_recipe("binpack-synthetic-v1", FEW)
    dataset = hindcast.build(recipe, out / "dataset")
    checked = hindcast.verify(dataset)
    agent = hindcast.train(dataset, "behaviour_cloning", out=out / "agent", steps=20)
    result = hindcast.evaluate(recipe, ["tetris", agent], out=out / "evaluation")
    print(len(checked.checks), sorted(result.means), pipeline.MINE, policies.MINE, mine.MINE)


if __name__ == "__main__":
    main(Path("out"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return a wheel of the checkout; building it downloads hatchling."""
    folder = tmp_path_factory.mktemp("wheel")
    call = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
    subprocess.run(call, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Return an interpreter with the wheel, and with all other packages of this one."""
    return installed(tmp_path_factory.mktemp("environment"), wheel)


def installed(folder: Path, *what: object) -> Path:
    """Make an environment with something that pip installs; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    call = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", *what]
    subprocess.run(call, check=True)
    [packages] = folder.glob("lib/*/site-packages")
    # Files .pth of that folder, the checkout's among them, are not read.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    return python


def script_of_a_user(folder: Path) -> Path:
    """Write a script, and modules of its own that have the names of Hindcast's folders."""
    (folder / "flows").mkdir()
    for name in ("pipeline.py", "policies.py", "flows/__init__.py", "flows/mine.py"):
        (folder / name).write_text("MINE = 1\n")
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


def run(*call: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, call)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.nightly
def test_the_wheel_has_one_package_and_data(wheel):
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    stem = wheel.name.partition("-py3")[0]
    assert names == {"hindcast", f"{stem}.data", f"{stem}.dist-info"}


@pytest.mark.slow
@pytest.mark.nightly
def test_a_user_may_have_modules_of_the_same_names(python, tmp_path):
    script = script_of_a_user(tmp_path)
    assert run(python, script, cwd=tmp_path).split()[-3:] == ["1", "1", "1"]
    where = run(python, "-c", "import hindcast; print(hindcast.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parent.parent)


@pytest.mark.slow
@pytest.mark.nightly
def test_an_editable_installation_is_the_checkout(tmp_path):
    python = installed(tmp_path / "environment", "-e", ROOT)
    where = run(python, "-c", "import hindcast.flows; print(hindcast.__file__)", cwd=tmp_path)
    assert Path(where.strip()) == ROOT / "hindcast.py"
    assert "iql" in run(python.parent / "hindcast", "list", "--agents", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
def test_strict_types_accept_a_script_that_uses_the_face(python, tmp_path):
    script = script_of_a_user(tmp_path)
    call = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    assert "Success" in run(*call, "--follow-imports=silent", script, cwd=tmp_path)
