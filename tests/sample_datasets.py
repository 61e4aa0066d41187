"""Small datasets of several scenarios, and one with an episode of more than 40,000 decisions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.padding import Padded
from hindcast.pipeline.exports import EXPORTS, export
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.workloads.folder import save_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.registry import behaviours

LONG_STEPS = 41_005  # more than a row group may hold
SPLITS = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')


def make_padded(count: int, k: int, features: int) -> Padded:
    """Return padded arrays for that many observations."""
    return Padded(
        np.empty((count, k, features), np.float32),
        np.empty((count, k), np.bool_),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


def build_long(folder: Path) -> Path:
    """Build a packing dataset whose first episode has LONG_STEPS decisions."""
    instances = (LONG_STEPS - 5, 30, 20, 25)
    rows = [
        task
        for job, count in enumerate(instances)
        for task in (
            (job, 0, f"job-{job}", "many", 10.0 * job, 1.0 + job, 1.0, 0.02, count),
            (job, 1, f"job-{job}", "few", 10.0 * job, 2.0, 2.0, 0.01, 5),
        )
    ]
    tasks = pl.DataFrame(rows, schema=dict(TASK_COLUMNS), orient="row")
    save_workload(Workload(tasks, Provenance("synthetic")), folder / "workload")
    settings = (
        'id="long-v1"', 'trace.format="workload"', f'trace.path="{folder / "workload"}"',
        "trace.settings={}", "config.jobs_per_window=1", "config.machines=2",
    )  # fmt: skip
    return _build("binpack-synthetic-v1", folder / "dataset", ("random",), settings)


def build_images(folder: Path) -> Path:
    """Build a dataset of `slots` with images. The last episodes are cut off."""
    settings = ('config.observation="image"', "config.steps=5", "config.max_time_steps=15")
    return _build("slots-deeprm-v1", folder / "dataset", ("random", "sjf_now"), settings)


def build_valued(folder: Path) -> Path:
    """Build a dataset of `multicluster`, whose decisions have Monte-Carlo values."""
    settings = ("config.applications=2", "config.clusters=[500,800]")
    return _build("multicluster-uniform-v1", folder / "dataset", ("random",), settings)


def build_recorded(folder: Path) -> Path:
    """Build a dataset from a history file: episodes are cut off, and propensities are not known."""
    from hindcast.flows.papers.thermal_report.history.importing import ingest

    export(build_thermal(folder), "history", folder / "history.json")
    return ingest(folder / "history.json", folder / "recorded-v1").folder


def build_thermal(folder: Path) -> Path:
    """Build a dataset of `thermal` with few jobs."""
    settings = ("config.jobs=25", "config.steps=40")
    return _build("thermal-default-v1", folder / "dataset", ("random",), settings)


def build_pods(folder: Path) -> Path:
    """Build a dataset of `gpupack` on a few nodes, whose candidates are places with counts."""
    settings = ("config.load=0.3", "config.every=40")
    return _build("gpupack-typical-v1", folder / "dataset", ("random", "fgd"), settings)


def build_grid(folder: Path, decide: str = "slot") -> Path:
    """Build a dataset of `deferrable` on the synthetic grid, whose rewards are what jobs emit."""
    settings = (
        "config.horizon=24", "config.jobs_per_slot=1.0", "config.longest_window=6",
        f'config.decide="{decide}"',
    )  # fmt: skip
    return _build("deferrable-grid-v1", folder / "dataset", ("random", "lowest_window"), settings)


def build_starts(folder: Path) -> Path:
    """Build one in which each job chooses its start once, among the slots of its wait."""
    return build_grid(folder, "start")


def build_small(folder: Path, name: str, policies: Sequence[str], settings: Sequence[str]) -> Path:
    """Build a dataset of a recipe with an episode of each of these behaviours by window."""
    return _build(name, folder / "dataset", policies, settings)


def _build(name: str, folder: Path, policies: Sequence[str], settings: Sequence[str]) -> Path:
    recipe = load_recipe(name, (*settings, *SPLITS))
    kept = tuple(replace(b, episodes=1) for b in recipe.behaviours if b.policy in policies)
    recipe = replace(recipe, behaviours=kept)
    assert kept
    build(recipe, behaviours(recipe), folder)
    return folder


KINDS: dict[str, Callable[[Path], Path]] = {
    "long": build_long,
    "images": build_images,
    "valued": build_valued,
    "thermal": build_thermal,
    "pods": build_pods,
    "grid": build_grid,
    "starts": build_starts,
}
if "history" in EXPORTS:  # a format of a paper
    KINDS["recorded"] = build_recorded
