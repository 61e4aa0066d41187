"""Tests of house rules that no single file shows: imports, side effects, randomness."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_terminal_summary, require_traces

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows")
SOURCES = [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]
# libraries that may never be imported from a package, at any depth
FORBIDDEN = {"pipeline": {"torch", "d3rlpy", "prefect"}, "policies": {"prefect"}, "flows": set()}
# Folders of `hindcast` from the ground up; one may import those of lower rows, at any depth.
FLOORS = (
    ("pipeline.errors",),
    ("pipeline.notes", "pipeline.plugins", "pipeline.settings"),
    ("pipeline.statistics", "pipeline.storage"),
    ("pipeline.workloads",),
    ("pipeline.traces", "pipeline.simulation"),
    ("pipeline.scenarios",),
    ("pipeline.recipes",),
    ("pipeline.dataset",),
    ("pipeline.documents",),
    ("pipeline.building",),
    ("pipeline.history", "pipeline.evaluation"),
    (
        "pipeline.exports", "pipeline.verification", "pipeline.inspection", "pipeline.studies",
        "pipeline.calibration", "pipeline.estimators", "pipeline.gymnasium_env",
    ),
    ("pipeline.report", "pipeline.testing"),
    ("pipeline.papers",),
    ("policies.heuristics",),
    ("policies.networks",),
    ("policies.rollouts", "policies.training"),
    ("policies.delivery",),
    ("policies.offline",),
    ("policies.online",),
    ("policies.papers", "policies.own_policy", "policies.own_agents"),
    ("policies.registry",),
    ("policies.entrants", "policies.deciding"),
    ("policies.ope",),
    ("flows",),
)  # fmt: skip
HEIGHT = {room: height for height, row in enumerate(FLOORS) for room in row}
GLOBAL_RANDOM = {
    "seed", "rand", "randn", "randint", "random", "choice", "shuffle", "permutation", "normal",
    "uniform",
}  # fmt: skip


@cache
def nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Attribute, ...]:
    """Return all imports of a file, and all attributes that it reads."""
    kinds = ast.Import | ast.ImportFrom | ast.Attribute
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


def imports(path: Path) -> set[str]:
    """Return top-level names that a file imports, anywhere in it."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").split(".")[0])
    return found


def module_name(path: Path) -> str:
    """Return the name of a module within `hindcast`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_only_policies_import_torch_and_only_flows_prefect():
    for path in SOURCES:
        assert not imports(path) & FORBIDDEN[path.relative_to(ROOT).parts[0]], path


def test_modules_are_imported_from_the_package():
    """`import pipeline` works in a checkout, and would load everything a second time."""
    files = [ROOT / "hindcast.py", *SOURCES]
    files += [p for folder in ("tests", "docs", "examples") for p in (ROOT / folder).rglob("*.py")]
    for path in files:
        assert not imports(path) & set(PACKAGES), path


def test_no_global_randomness_and_no_pickles():
    """Every draw comes from a passed Generator, and nothing is unpickled."""
    for path in SOURCES:
        for node in nodes(path):
            if not isinstance(node, ast.Attribute):
                continue
            text = ast.unparse(node)
            assert not (
                text.startswith(("np.random.", "numpy.random.")) and node.attr in GLOBAL_RANDOM
            ), f"{path}: {text}"
            assert not text.startswith("pickle."), f"{path}: {text}"
            assert text != "torch.load", f"{path}: {text}"
        assert not imports(path) & {"pickle", "random"}, path


def test_no_python_in_datasets():
    """datasets/ holds definitions; a package of that name would shadow another library."""
    assert not list((ROOT / "datasets").rglob("*.py"))


def test_top_level_is_fixed():
    """The root contains only what the design lists."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    folders = {name.split("/")[0] for name in tracked if "/" in name}
    assert folders <= {*PACKAGES, "datasets", "tests", "docs", "examples", ".ci", ".github"}


def learns(name: str) -> bool:
    """Return whether a module is only for training, so that it may load torch; acting must not."""
    if name.startswith("policies.papers."):
        return name.rsplit(".", maxsplit=1)[-1] in {
            "agent", "imitation", "replay", "rollouts", "sliding", "surface", "torch_network",
        }  # fmt: skip
    return name.startswith(("policies.training.", "policies.offline.", "policies.online.")) or (
        name
        in {
            "policies.networks.candidate_scorer",
            "policies.delivery.training",
            "policies.ope.fqe",
            "policies.ope.behaviour.network",
        }
    )


@pytest.mark.slow
def test_importing_everything_changes_nothing():
    """An import sets no environment variable, starts no thread and loads no heavy library."""
    modules = [module_name(p) for p in SOURCES if "prefect" not in imports(p)]
    modules = [name for name in modules if not learns(name)]
    script = f"""
import importlib, os, random, sys, threading
import numpy as np
import numba, polars, pyarrow.parquet, gymnasium
before, state = dict(os.environ), np.random.get_state()[1].tolist()
for name in {modules!r}:
    importlib.import_module(f"hindcast.{{name}}")
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


def rooms_and_imports() -> list[tuple[str, str, str]]:
    """Return all imports between rooms, also nested or for types: file, its room, the other."""
    found = []
    for path in SOURCES:
        room = _room(module_name(path))
        for module in sorted(_imported_modules(path)):
            other = _room(module)
            if room and other and room != other:
                found.append((str(path.relative_to(ROOT)), room, other))
    return found


def _room(module: str) -> str:
    """Return the room of a module, empty for the packages themselves and for other libraries."""
    parts = module.split(".")
    return next((r for n in (1, 2) if (r := ".".join(parts[:n])) in HEIGHT), "")


def _imported_modules(path: Path) -> set[str]:
    """Return modules of `hindcast` that a file imports, and names that may be modules."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {n.removeprefix("hindcast.") for n in found if n.startswith("hindcast.")}


def test_every_file_has_a_room():
    """A new folder must get a floor in FLOORS first."""
    for path in SOURCES:
        module = module_name(path)
        assert _room(module) or module in PACKAGES, path


def test_folders_import_lower_floors_only():
    wrong = [
        f"{path}: {room} imports {other}"
        for path, room, other in rooms_and_imports()
        if HEIGHT[other] >= HEIGHT[room]
    ]
    assert not wrong, "\n".join(wrong)


def test_files_import_each_other_in_no_circle():
    """This includes files inside one room, and imports inside functions."""
    names = {module_name(path): path for path in SOURCES}
    graph = {}
    for name, path in names.items():
        found = {m if m in names else m.rpartition(".")[0] for m in _imported_modules(path)}
        graph[name] = (found & names.keys()) - {name}
    while free := {name for name, needs in graph.items() if not needs & graph.keys()}:
        for name in free:
            del graph[name]
    assert not graph, f"in a circle, or above one: {sorted(graph)}"


def test_rooms_are_of_a_size_that_one_reads():
    """Limits are 5 files beside the folders of pipeline/, 20 in a folder, 600 lines a file."""
    count = Counter(path.parent for path in SOURCES)
    assert count[ROOT / "pipeline"] <= 5
    assert max(count.values()) <= 20
    assert max(len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES) <= 600


def test_skipped_tests_are_one_line_per_reason():
    lines = []
    places = [
        ("a.py", 3, "Skipped: no traces"),
        ("b.py", 7, "Skipped: no traces"),
        ("c.py", 1, "no"),
    ]
    skipped = [SimpleNamespace(longrepr=place) for place in places]
    pytest_terminal_summary(SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append))
    assert lines == ["SKIPPED 2: no traces", "SKIPPED 1: no"]


def test_missing_traces_skip_a_test_but_fail_in_ci(tmp_path, monkeypatch):
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path / "none"))
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="no real traces; set HINDCAST_TRACES"):
        require_traces("swf")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="none/swf"):
        require_traces("swf")
    (tmp_path / "none").mkdir()
    with pytest.raises(pytest.fail.Exception, match="the folder of real traces has no swf"):
        require_traces("swf")
