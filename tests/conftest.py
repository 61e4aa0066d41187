"""Fixtures shared by all tests: the folder of real traces, and a small dataset."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.building.build import build
from pipeline.recipes.loading import load_recipe, traces_folder
from pipeline.recipes.recipe import Recipe
from policies.registry import behaviours

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


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep parsed traces in a temporary folder, never in the user's cache.

    Whether simulators had to be compiled for a test is no part of what a command says.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDCAST_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("pipeline.simulation.kernel._SAID", ["in tests"])
        yield


def require_traces() -> Path:
    """Return the folder of real traces. Skip the test where it is absent, but fail in CI."""
    folder = traces_folder()
    if not folder.is_dir():
        reason = f"no real traces at {folder}; set HINDCAST_TRACES to their folder"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


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
