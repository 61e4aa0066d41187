"""The house rules that a reader cannot see in one file: imports, side effects, randomness."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows")
SOURCES = [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]
# what may never be imported from where, at any depth
FORBIDDEN = {
    "pipeline": {"policies", "flows", "torch", "d3rlpy", "prefect"},
    "policies": {"flows", "prefect"},
    "flows": set(),
}
GLOBAL_RANDOM = {
    "seed", "rand", "randn", "randint", "random", "choice", "shuffle", "permutation", "normal",
    "uniform",
}  # fmt: skip


def imports(path: Path) -> set[str]:
    """Top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path):
    """Flows -> policies -> pipeline; torch and d3rlpy in policies only, prefect in flows only."""
    package = path.relative_to(ROOT).parts[0]
    assert not imports(path) & FORBIDDEN[package]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_global_randomness_and_no_pickles(path):
    """Every draw comes from a passed Generator; nothing is unpickled."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Attribute):
            continue
        text = ast.unparse(node)
        assert not (
            text.startswith(("np.random.", "numpy.random.")) and node.attr in GLOBAL_RANDOM
        ), f"{path}: {text}"
        assert not text.startswith("pickle."), f"{path}: {text}"
        assert text != "torch.load", f"{path}: {text}"
    assert "pickle" not in imports(path)
    assert "random" not in imports(path)


def test_no_python_in_datasets():
    """datasets/ holds definitions; a package of that name would shadow another library."""
    assert not list((ROOT / "datasets").rglob("*.py"))


def test_top_level_is_fixed():
    """What lies in the root is what the design says."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    folders = {name.split("/")[0] for name in tracked if "/" in name}
    assert folders <= {*PACKAGES, "datasets", "tests", "docs", ".ci"}


def test_importing_everything_changes_nothing():
    """An import sets no environment variable, starts no thread and loads no heavy library."""
    modules = [
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for p in SOURCES
        if "prefect" not in imports(p)
    ]
    script = f"""
import importlib, os, random, sys, threading
import numpy as np
import numba, polars, pyarrow.parquet, gymnasium
before, state = dict(os.environ), np.random.get_state()[1].tolist()
for name in {modules!r}:
    if not name.startswith(("policies.offline", "policies.online")) and name not in (
        "policies.networks.candidate_scorer", "policies.ope.fqe", "policies.papers.deepjs.sliding"
    ):
        importlib.import_module(name)
assert dict(os.environ) == before, "environment changed"
assert np.random.get_state()[1].tolist() == state, "global randomness used"
assert threading.active_count() == 1, "threads started"
assert "prefect" not in sys.modules and "d3rlpy" not in sys.modules
assert "torch" not in sys.modules, "torch was loaded"
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_files_are_rooms_with_one_purpose():
    """No source file is longer than 400 lines; the median is 60 to 180."""
    lengths = sorted(len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES)
    assert lengths[-1] <= 400
    filled = [n for n in lengths if n > 5]
    assert 60 <= filled[len(filled) // 2] <= 180
