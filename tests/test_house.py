"""Tests of house rules that no single file shows: imports, side effects, randomness."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Container, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from tests.conftest import pytest_terminal_summary, require_traces

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows")
SOURCES = [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]
OTHERS = [ROOT / "hindcast.py"]
OTHERS += [p for folder in ("tests", "docs", "examples") for p in (ROOT / folder).rglob("*.py")]
# libraries that may never be imported from a package, at any depth
FORBIDDEN = {
    "pipeline": {"torch", "d3rlpy", "prefect"}, "policies": {"prefect"},
    "flows": set(), "flows.papers": {"prefect"},
}  # fmt: skip
# Folders of `hindcast` from the ground up; one may import those of lower rows, at any depth.
FLOORS = (
    ("pipeline.errors",),
    ("pipeline.notes", "pipeline.plugins", "pipeline.settings"),
    ("pipeline.statistics", "pipeline.storage"),
    ("pipeline.workloads", "pipeline.pages"),
    ("pipeline.traces", "pipeline.simulation"),
    ("pipeline.grids",),
    ("pipeline.scenarios",),
    ("pipeline.recipes",),
    ("pipeline.dataset",),
    ("pipeline.dataset.documents",),
    ("pipeline.dataset.building",),
    ("pipeline.dataset.verification",),
    ("pipeline.evaluation",),
    ("pipeline.evaluation.studies",),
    (
        "pipeline.exports", "pipeline.inspection", "pipeline.estimators",
        "pipeline.gymnasium_env", "pipeline.whatif",
    ),
    ("pipeline.schedules", "pipeline.exports.publishing"),
    ("pipeline.forecast", "pipeline.decisions"),
    ("pipeline.report", "pipeline.testing", "pipeline.selection"),
    ("policies.heuristics",),
    ("policies.networks",),
    ("policies.rollouts", "policies.training"),
    ("policies.training.delivery",),
    ("policies.offline",),
    ("policies.online",),
    ("policies.own_policy", "policies.own_agents"),
    ("policies.registry",),
    ("policies.entrants", "policies.deciding", "policies.deciding_logs"),
    ("policies.ope",),
    ("flows",),
    ("flows.papers",),
)  # fmt: skip
# The same within flows. The longest name counts: `flows.commands` is what its __init__.py has.
FLOORS_OF_FLOWS = (
    ("flows.commands", "flows.progress"),
    ("flows.parser", "flows.units", "flows.engine", "flows.calibrations", "flows.protocols"),
    ("flows.runners", "flows.status", "flows.diagnosis", "flows.links"),
    ("flows.runs",),  # runs of one command: seeds, sweep, ledger
    (
        "flows.commands.build", "flows.commands.doctor", "flows.commands.evaluate",
        "flows.commands.export", "flows.commands.init", "flows.commands.inspect",
        "flows.commands.ope", "flows.commands.report",
        "flows.commands.new_scenario",
        "flows.commands.train", "flows.commands.verify", "flows.commands.watch",
    ),
    (
        "flows.commands.calibrate", "flows.commands.ingest", "flows.commands.publish",
        "flows.commands.train_online",
    ),
    ("flows.runs.stages", "flows.runs.whatif"),  # runs of several commands
    ("flows.runs.starts",),
    ("flows.runs.schedules",),
    ("flows.commands.run", "flows.commands.logs", "flows.commands.schedules"),
    ("flows.runs.nightly", "flows.runs.reproduce"),
    ("flows.commands.nightly", "flows.commands.study", "flows.commands.reproduce"),
    ("flows.artifacts", "flows.calls", "flows.completion", "flows.process_setup"),
    ("flows.tasks",),
    ("flows.deployments", "flows.cli"),
    ("flows.papers",),
)  # fmt: skip
ROOMS, ROOMS_OF_FLOWS = ({r for row in f for r in row} for f in (FLOORS, FLOORS_OF_FLOWS))
GLOBAL_RANDOM = {
    "seed", "rand", "randn", "randint", "random", "choice", "shuffle", "permutation", "normal",
    "uniform",
}  # fmt: skip


class Read(NamedTuple):
    """What a file imports anywhere, and its functions of many parameters by name."""

    imports: list[ast.Import | ast.ImportFrom]
    parameters: dict[str, int]  # of functions with more than they may have


@cache
def read(path: Path) -> Read:
    """Return what the tests below need of a file. Statements are visited, expressions are not."""
    found, left = Read([], {}), [("", ast.parse(path.read_text(encoding="utf-8")))]
    while left:
        name, node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(node)
        if isinstance(node, ast.FunctionDef):
            own = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = len([a for a in own if a.arg not in {"self", "cls"}])
            compiled = any("compiled" in ast.unparse(d) for d in node.decorator_list)
            is_private = any(part.startswith("_") for part in f"{name}.{node.name}"[1:].split("."))
            if count > (12 if compiled else 10**9 if is_private else 8):
                found.parameters[f"{name}.{node.name}"[1:]] = count
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name += f".{'_' * isinstance(node, ast.FunctionDef)}{node.name}"
        kinds = ast.stmt | ast.excepthandler | ast.match_case
        left += [(name, child) for child in ast.iter_child_nodes(node) if isinstance(child, kinds)]
    return found


@pytest.fixture(scope="module", autouse=True)
def _read() -> None:
    """Read all files once, for all tests."""
    for path in SOURCES:
        read(path)


def imports(path: Path) -> set[str]:
    """Return top-level names that a file imports, anywhere in it."""
    found = set()
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").split(".")[0])
    return found


def module_name(path: Path) -> str:
    """Return the name of a module within `hindcast`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_only_policies_and_papers_import_torch_and_only_flows_prefect():
    """Minibatches for PyTorch are a class of PyTorch's; a dataset loads the file when asked."""
    loader = ROOT / "pipeline" / "dataset" / "torch_batches.py"
    assert imports(loader) & FORBIDDEN["pipeline"] == {"torch"}
    for path in {*SOURCES} - {loader}:
        parts = path.relative_to(ROOT).parts
        room = "flows.papers" if parts[:2] == ("flows", "papers") else parts[0]
        assert not imports(path) & FORBIDDEN[room], path


def test_modules_are_imported_from_the_package():
    """`import pipeline` works in a checkout, and would load everything a second time."""
    wrong = re.compile(rf"\b(from|import)\b.*\b({'|'.join(PACKAGES)})\b")
    for path in [*SOURCES, *OTHERS]:
        if wrong.search(path.read_text(encoding="utf-8")):
            assert not imports(path) & set(PACKAGES), path


@pytest.mark.slow
def test_no_global_randomness_and_no_pickles():
    """Every draw comes from a passed Generator, and nothing is unpickled."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    if name.startswith("flows.papers."):
        return name.rsplit(".", maxsplit=1)[-1] in {
            "agent", "imitation", "replay", "rollouts", "sliding", "surface", "torch_network",
        }  # fmt: skip
    gates = "policies.training.delivery"
    return (
        name.startswith(("policies.training.", "policies.offline.", "policies.online."))
        and (not name.startswith(gates) or name == f"{gates}.training")
    ) or (
        name
        in {
            "pipeline.dataset.torch_batches",
            "policies.networks.candidate_scorer",
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


def upward(floors: Sequence[Sequence[str]]) -> list[str]:
    """Return the imports between rooms, also nested or for types, that lead no floor down."""
    height = {room: height for height, row in enumerate(floors) for room in row}
    wrong = set()
    for path in SOURCES:
        room = _room(module_name(path), height)
        for other in {_room(module, height) for module in _imported_modules(path)}:
            if room and other and room != other and height[other] >= height[room]:
                wrong.add(f"{path.relative_to(ROOT)}: {room} imports {other}")
    return sorted(wrong)


def _room(module: str, rooms: Container[str]) -> str:
    """Return the innermost room of a module, empty for the packages and for other libraries."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in rooms), "")


def _imported_modules(path: Path) -> set[str]:
    """Return modules of `hindcast` that a file imports, and names that may be modules."""
    found = set()
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {n.removeprefix("hindcast.") for n in found if n.startswith("hindcast.")}


def test_every_file_has_a_room():
    """A new folder must get a floor in FLOORS first."""
    for path in SOURCES:
        module = module_name(path)
        assert _room(module, ROOMS) or module in PACKAGES, path
        assert not module.startswith("flows.") or _room(module, ROOMS_OF_FLOWS), path


def test_the_core_names_no_paper():
    """Three names mean other things there: sizes of `slots`, a column of datasets, rules."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    brought = {path.parent.name for path in (ROOT / "flows" / "papers").glob("*/__init__.py")}
    for group in ("agents", "online_agents", "scenarios"):
        brought |= points[f"hindcast.{group}"].keys()
    brought -= {"deeprm", "monte_carlo_value", "prices"}
    assert "report_dqn" in brought
    for path in SOURCES:
        if not module_name(path).startswith("flows.papers"):
            text = path.read_text(encoding="utf-8")
            assert "flows.papers" not in text, path
            assert not brought & set(re.findall(r'"([^"\n]*)"', text)), path


@pytest.mark.parametrize("room", ["simulation", "dataset", "evaluation", "pages"])
def test_rooms_of_all_scenarios_import_none(room):
    """A scenario loads its compiled functions, which those of other problems would wait for."""
    for path in (ROOT / "pipeline" / room).rglob("*.py"):
        for node in read(path).imports:
            module = getattr(node, "module", None) or node.names[0].name
            assert not module.startswith("hindcast.pipeline.scenarios."), f"{path}: {module}"


@pytest.mark.parametrize("floors", [FLOORS, FLOORS_OF_FLOWS], ids=["packages", "flows"])
def test_folders_import_lower_floors_only(floors):
    assert not upward(floors)


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


# Functions with more parameters than 8, compiled ones than 12, and why.
MANY_PARAMETERS = {
    "flows/calls.py": {"ope", "train_online", "whatif"},  # options of a command, by keyword
    "hindcast.py": {"load_decider"},  # options of a command, by keyword
    "pipeline/dataset/__init__.py": {"Dataset.batches", "Dataset.torch"},  # options, by keyword
    "pipeline/estimators/decisions/logged.py": {"LoggedDecisions.of"},  # an array per column
    "pipeline/evaluation/evaluate.py": {"evaluate"},  # options of a command, by keyword
    "pipeline/scenarios/queue/fitting.py": {"find_shadow"},  # compiled: arrays and places in them
    "flows/papers/timecritical/rollouts.py": {"play_valued"},  # problem, policy and exploration
}


def test_functions_have_few_parameters():
    """A public function has at most 8, a compiled one 12; those with more are named above."""
    files = {p.relative_to(ROOT).as_posix(): p for p in [*SOURCES, ROOT / "hindcast.py"]}
    found = {name: {*read(path).parameters} for name, path in files.items()}
    assert {name: functions for name, functions in found.items() if functions} == MANY_PARAMETERS


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
