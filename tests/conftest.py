"""Fixtures shared by all tests: the folder of real traces, and a small dataset."""

import atexit
import gc
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.location import traces_folder
from hindcast.policies.registry import behaviours

TINY = (
    "trace.settings.n_jobs=60",
    "trace.settings.instances_scale=0.05",
    "config.jobs_per_window=5",
    "config.machines=2",
    'split.train="0..5"',
    'split.validation="6..7"',
    'split.test="8..11"',
    "train.steps=20",
    "evaluate.seeds=2",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep modules and collected tests out of every later garbage collection.

    They are millions of objects that stay until the end, and each full collection visits them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # libraries complain about what is left at the end
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per reason of skipped tests, most frequent first.

    `-r` in pyproject.toml leaves out s, with which pytest prints a line per place.
    """
    skipped = Counter(
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", ())
    )
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"SKIPPED {count}: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep parsed traces in a temporary folder, never in the user's cache.

    Whether simulators had to be compiled for a test is no part of what a command says.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDCAST_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("hindcast.pipeline.simulation.kernel._SAID", ["in tests"])
        yield


@pytest.fixture(autouse=True)
def _own_ledger(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count looks at test windows for each test apart, so that no test says what others did."""
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    monkeypatch.setattr("hindcast.pipeline.evaluation.looks.LEDGER", f"looks-{name}.jsonl")


def require_traces(part: str = "") -> Path:
    """Return a path below the folder of real traces. Skip where it is absent, but fail in CI."""
    folder = traces_folder()
    path = folder / part
    if not path.exists():
        reason = "no real traces; set HINDCAST_TRACES to their folder"
        if folder.is_dir():
            reason = f"the folder of real traces has no {part}"
        if os.environ.get("CI"):
            pytest.fail(f"{reason} (searched: {path})")
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of real traces, see `require_traces`."""
    return require_traces()


@pytest.fixture(scope="session")
def tiny_recipe() -> Recipe:
    """Return the demonstration's recipe, small enough for a test."""
    return load_recipe("binpack-synthetic-v1", TINY)


@pytest.fixture(scope="session")
def tiny_dataset(tiny_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of the tiny recipe. Tests that change the dataset copy it first."""
    folder = tmp_path_factory.mktemp("dataset") / "tiny"
    build(tiny_recipe, behaviours(tiny_recipe), folder)
    return folder
