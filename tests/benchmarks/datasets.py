"""A dataset of Hindcast against a Minari HDF5 dataset of the same episodes.

    python -m tests.benchmarks datasets

The real packing workload (eight behaviours on two windows), or the synthetic one where there are no
traces. Minari's is written in its own layout (`hindcast export --to minari`), padded to the largest
candidate set, so that nothing is cut; Minari 0.5 has no compression. Bytes are of the decisions and
their descriptions, without the workload, which only ours has.

Reading: one pass in shuffled minibatches of 256 with what followed, as arrays. Ours is
`Dataset.batches`. Minari gives whole episodes: its reader takes eight random ones at a time and
gathers minibatches from them with numpy. The files are in the page cache; the two take turns, and
medians over the rounds are compared.
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.exports import export
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.location import traces_folder
from hindcast.policies.registry import behaviours

MINIBATCH = 256
EPISODES = 8  # the number of episodes that Minari's reader holds at once
CUT = 32
ROUNDS = 3
WINDOWS = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')


def workload() -> Recipe:
    """Return a recipe in which every behaviour plays two training windows once each."""
    real = (traces_folder() / "alibaba2017").is_dir()
    name = "binpack-alibaba2017-v1" if real else "binpack-synthetic-v1"
    recipe = load_recipe(name, WINDOWS)
    once = tuple(dataclasses.replace(b, episodes=1) for b in recipe.behaviours)
    return dataclasses.replace(recipe, behaviours=once, dataset_splits=("train",))


def folder_bytes(folder: Path, without: str = "") -> int:
    """Return the bytes of all files below a folder, leaving out one folder in it."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and (not without or folder / without not in path.parents)
    )


def own_pass(dataset: ds.Dataset, k: int | None) -> int:
    """Read our dataset once and return the number of decisions."""
    batches = dataset.batches(MINIBATCH, np.random.default_rng(0), k=k)
    return sum(len(batch) for batch in batches)


def minari_batches(dataset: Any, rng: np.random.Generator) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield shuffled minibatches from Minari's episodes, as a user would write it."""
    order = rng.permutation(dataset.episode_indices)
    for start in range(0, len(order), EPISODES):
        episodes = list(dataset.iterate_episodes(order[start : start + EPISODES]))
        names = tuple(episodes[0].observations)
        steps = np.array([len(e.actions) for e in episodes])
        seen = {n: np.concatenate([e.observations[n] for e in episodes]) for n in names}
        action = np.concatenate([e.actions for e in episodes])
        reward = np.concatenate([e.rewards for e in episodes])
        done = np.concatenate([e.terminations for e in episodes])
        # an episode has one observation more than decisions
        row = np.arange(len(action)) + np.repeat(np.arange(len(steps)), steps)
        shuffled = rng.permutation(len(action))
        for at in range(0, len(shuffled), MINIBATCH):
            chosen = shuffled[at : at + MINIBATCH]
            yield {
                **{name: seen[name][row[chosen]] for name in names},
                **{f"next_{name}": seen[name][row[chosen] + 1] for name in names},
                "action": action[chosen],
                "reward": reward[chosen],
                "terminated": done[chosen],
            }


def minari_pass(dataset: Any) -> int:
    """Read Minari's dataset once and return the number of decisions."""
    return sum(len(b["action"]) for b in minari_batches(dataset, np.random.default_rng(0)))


def measure() -> list[tuple[str, float, str, str]]:
    """Return rows of (quantity, value, unit, comparison)."""
    with tempfile.TemporaryDirectory() as scratch:
        return _measure(Path(scratch))


def _measure(scratch: Path) -> list[tuple[str, float, str, str]]:
    recipe = workload()
    build(recipe, behaviours(recipe), scratch / "ours", workers=2)
    export(scratch / "ours", "minari", scratch / "minari", split="all")
    os.environ["MINARI_DATASETS_PATH"] = str(scratch / "minari")
    import minari

    [name] = minari.list_local_datasets()
    theirs, ours = minari.load_dataset(name), ds.open(scratch / "ours")
    k = theirs.observation_space["candidates"].shape[0]
    readers = {
        "ours": lambda: own_pass(ours, None),
        "cut": lambda: own_pass(ours, CUT),
        "minari": lambda: minari_pass(theirs),
    }
    own_pass(ours, CUT)  # this pass compiles
    rate: dict[str, list[float]] = {reader: [] for reader in readers}
    for _ in range(ROUNDS):
        for reader, run in readers.items():
            start = time.perf_counter()
            seen = run()
            rate[reader].append(seen / (time.perf_counter() - start))
            assert seen == ours.manifest.counts["decisions"]
    median = {reader: float(np.median(values)) for reader, values in rate.items()}
    size = folder_bytes(scratch / "ours", "workload"), folder_bytes(scratch / "minari")
    beside = f"{recipe.id}, {ours.manifest.counts['decisions']:,} decisions, up to {k} candidates"
    return [
        ("datasets, bytes of ours", size[0] / 1e6, "MB", beside),
        ("datasets, bytes of Minari's HDF5", size[1] / 1e6, "MB", f"padded to K = {k}"),
        ("datasets, bytes, ratio", size[1] / size[0], "x smaller", "at least 20"),
        ("datasets, minibatches of ours, nothing cut", median["ours"], "decisions/s", "256 a time"),
        (f"datasets, minibatches of ours, K = {CUT}", median["cut"], "decisions/s", ""),
        ("datasets, minibatches out of Minari's", median["minari"], "decisions/s", f"K = {k}"),
        ("datasets, minibatches, ratio", median["ours"] / median["minari"], "x", "at least 1"),
        (f"datasets, minibatches, ratio, K = {CUT}", median["cut"] / median["minari"], "x", ""),
    ]
