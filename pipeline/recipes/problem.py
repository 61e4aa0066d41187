"""Problem instances of a recipe and its workload, and digests that tell problems apart."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import GENERATED
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import sha256_text
from hindcast.pipeline.workloads.schema import Workload

_KEYS: Final = ("scenario", "config", "trace", "seed")


def make_instance(recipe: Recipe, scenario: Scenario, workload: Workload, window: int) -> Instance:
    """Return the problem instance of a window, which is the same for every policy."""
    rng = generator(recipe.seed, "instance", window)
    return scenario.instance(recipe.config, recipe.objective, workload, window, rng)


def further_windows(recipe: Recipe, available: int, count: int) -> list[int]:
    """Return up to `count` windows that are in no split; none for a trace, whose windows are few.

    `available` is the number of windows of the scenario.
    """
    if recipe.trace.format != GENERATED:
        return []
    used = {window for split in recipe.split for window in recipe.windows(split)}
    return list(islice((w for w in range(available - 1, -1, -1) if w not in used), count))


def problem_key(recipe: Recipe) -> str:
    """Return a digest of the settings that decide which instance the number of a window means."""
    return _key(recipe, {})


def windows_key(recipe: Recipe, split: str) -> str:
    """Return a digest of the windows of a split: recipes of the same windows share it."""
    return _key(recipe, {"windows": recipe.windows(split)})


def _key(recipe: Recipe, more: Mapping[str, Any]) -> str:
    table = recipe.to_dict()
    told = {**{name: table[name] for name in _KEYS}, **more}
    return sha256_text(json.dumps(told, sort_keys=True))
