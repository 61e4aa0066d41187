"""Recipes of a dataset: the one it was built from, and those appended to it.

    recipe 0      episodes 0 .. n0-1        parts 0 .. p0-1        hindcast build
    recipe 1      episodes n0 .. n1-1       parts p0 .. p1-1       hindcast build --append
    ...

All recipes of a dataset describe the same problem: scenario, config, objective, trace and seed. So
a window is the same instance for all of them, and no window is in two splits. The repetitions of a
behaviour on a window continue to count where an earlier recipe stopped, so nothing is drawn twice.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from hindcast.pipeline.dataset.manifest import Manifest
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import RECORDED

_SAME: Final = ("scenario", "objective", "seed", "config", "trace")  # in all recipes of a dataset

Taken = Mapping[tuple[str, int], int]  # (behaviour, window) -> number of its episodes
Planned = tuple[str, str, int, int]  # split, behaviour, repetition, window


def repetitions(recipes: Sequence[Recipe]) -> Taken:
    """Return how many episodes each behaviour has on each window in a dataset of these recipes."""
    return Counter((behaviour, window) for _, behaviour, _, window in planned_episodes(recipes))


def planned_episodes(recipes: Sequence[Recipe]) -> Iterator[Planned]:
    """Yield the episodes of a dataset of these recipes, in order."""
    taken: Counter[tuple[str, int]] = Counter()
    for recipe in recipes:
        for split in recipe.dataset_splits:
            for window in recipe.windows(split):
                for behaviour in recipe.behaviours:
                    first = taken[behaviour.name, window]
                    for repetition in range(first, first + behaviour.episodes):
                        yield split, behaviour.name, repetition, window
                    taken[behaviour.name, window] += behaviour.episodes


def episodes_of(recipe: Recipe) -> int:
    """Return the number of episodes that a dataset of this recipe has."""
    each = sum(behaviour.episodes for behaviour in recipe.behaviours)
    return each * sum(len(recipe.windows(split)) for split in recipe.dataset_splits)


def check_appended(manifest: Manifest, where: str) -> None:
    """Raise DatasetError if an appended recipe does not fit the dataset before it."""
    recipes = manifest.recipes
    for number, segment in enumerate(manifest.appended, start=1):
        if segment.digest != segment.recipe.digest:
            raise DatasetError(
                f"{where}: the digest of appended recipe {number} is {segment.digest[:12]}, "
                f"expected {segment.recipe.digest[:12]} from its values"
            )
        check_fits(recipes[:number], segment.recipe, where)
        if segment.first_episode != (before := sum(map(episodes_of, recipes[:number]))):
            raise DatasetError(
                f"{where}: appended recipe {number} begins at episode {segment.first_episode}, but "
                f"the recipes before it make {before} episodes"
            )


def check_fits(recipes: Sequence[Recipe], recipe: Recipe, where: str) -> None:
    """Raise DatasetError if `recipe` cannot be appended to a dataset of `recipes`.

    The message names the key and both values; `where` is the dataset.
    """
    first = recipes[0]
    if first.trace.format == RECORDED:
        raise DatasetError(
            f"{where}: this dataset was recorded elsewhere, so nothing can be appended to it"
        )
    for key in _SAME:
        there, here = _plain(getattr(first, key)), _plain(getattr(recipe, key))
        if there != here:
            name, was, given = difference(key, there, here)
            raise DatasetError(
                f"{where}: {name} is {was!r} in the dataset and {given!r} in the recipe "
                f"{recipe.id}; the recipes of a dataset may differ only in behaviours, their "
                "episodes, and windows"
            )
    for earlier in recipes:
        _check_splits(earlier, recipe, where)
        _check_behaviours(earlier, recipe, where)


def _check_splits(earlier: Recipe, recipe: Recipe, where: str) -> None:
    for split, windows in recipe.split.items():
        for other, known in earlier.split.items():
            first = max(windows.start, known.start)
            if split != other and first < min(windows.stop, known.stop):
                raise DatasetError(
                    f"{where}: window {first} is in the split {other!r} of the dataset, and in "
                    f"{split!r} of the recipe {recipe.id}; a window cannot change its split"
                )


def _check_behaviours(earlier: Recipe, recipe: Recipe, where: str) -> None:
    known = {b.name: replace(b, episodes=1) for b in earlier.behaviours}
    for behaviour in recipe.behaviours:
        own = replace(behaviour, episodes=1)
        if known.get(behaviour.name, own) != own:
            raise DatasetError(
                f"{where}: the behaviour {behaviour.name!r} of the dataset differs from that of "
                f"the recipe {recipe.id}; expected the same policy and checkpoint"
            )


def _plain(value: Any) -> Any:
    """Return settings as plain values, to compare and show them."""
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def difference(key: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """Return the first value below `key` that differs: its name, and the two values."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                return difference(f"{key}.{name}", there.get(name), here.get(name))
    return key, there, here
