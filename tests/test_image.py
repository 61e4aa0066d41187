"""Tests of the Dockerfile without a container engine: what its lines name exists."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and line[0] not in "# "]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lines(name: str) -> list[str]:
    return [rest for word, rest in LINES if word == name]


def copied() -> list[str]:
    """Return the sources of COPY lines that copy from the checkout."""
    found = [line.split()[:-1] for line in lines("COPY") if not line.startswith("--from")]
    return [source for sources in found for source in sources]


def in_wheel() -> set[str]:
    """Return the files and folders that the wheel is made of."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    target = wheel["targets"]["wheel"]
    hook = ast.parse((ROOT / "hatch_build.py").read_text("utf-8"))
    [files] = [ast.literal_eval(n.value) for n in hook.body if isinstance(n, ast.Assign)]
    folders = {*target["only-include"], *target["shared-data"], *files}
    return {*folders, *PROJECT["license-files"], "README.md"}


def test_what_is_copied_exists_and_reaches_the_builder():
    """Everything else is left out: results, caches and the history of the repository."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied())
    assert all((ROOT / source).exists() for source in copied())


def test_the_sources_of_the_wheel_are_copied():
    assert {*in_wheel(), "hatch_build.py"} <= set(copied())


def test_the_image_has_what_operators_need():
    """Hindcast with its extras is installed before the sources are copied, then again with them."""
    [early] = [line for line in lines("RUN") if "$EXTRAS" in line]
    [named] = re.findall(r'"\.\[([\w,]+),\$EXTRAS\]"', early)
    [more] = [line.partition("=")[2] for line in lines("ARG") if line.startswith("EXTRAS=")]
    extras = PROJECT["optional-dependencies"]
    assert {"flows", "train"} <= {*named.split(","), *more.split(",")} <= set(extras)
    assert any(name.startswith("prefect>=") for name in extras["flows"])
    assert lines("RUN")[-2] == "pip install --no-deps --force-reinstall ."
    assert "hindcast" in PROJECT["scripts"]


def test_a_package_without_sources_can_be_made_as_the_image_does(tmp_path):
    """Its files are those that the wheel names, and empty."""
    [made] = [line for line in lines("RUN") if "$EXTRAS" in line]
    subprocess.run(["sh", "-c", made.partition("&& pip")[0]], cwd=tmp_path, check=True)
    assert in_wheel() == {path.name for path in tmp_path.iterdir()}


def test_both_stages_have_a_python_that_is_supported_and_the_last_user_is_not_root():
    images = {line.split()[0] for line in lines("FROM")}
    [image] = images
    version = tuple(map(int, re.fullmatch(r"python:(\d+)\.(\d+)-slim", image).groups()))
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    assert version >= least
    assert lines("USER") == ["hindcast"]
    names = [word for word, _ in LINES]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name in {"RUN", "COPY"})
