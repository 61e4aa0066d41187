"""What a dataset holds, recipe by recipe: its first build, and what was appended to it.

    recipe 0      episodes 0 .. n0-1        parts 0 .. p0-1        hindcast build
    recipe 1      episodes n0 .. n1-1       parts p0 .. p1-1       hindcast build --append
    ...

All recipes of a dataset describe the same problem: scenario, config, objective, trace and seed, so
that a window is the same instance for all of them, and no window is in two splits. A behaviour's
repetitions on a window go on counting where an earlier recipe stopped: nothing is drawn twice.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from pipeline.dataset.manifest import Manifest
from pipeline.errors import DatasetError
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.workload_source import RECORDED

_SAME: Final = ("scenario", "objective", "seed", "config", "trace")  # in all recipes of a dataset

Taken = Mapping[tuple[str, int], int]  # behaviour and window -> repetitions that are there
Planned = tuple[str, str, int, int]  # split, behaviour, repetition, window


def repetitions(recipes: Sequence[Recipe]) -> Taken:
    """How often each behaviour has met each window in datasets of these recipes."""
    return Counter((behaviour, window) for _, behaviour, _, window in planned_episodes(recipes))


def planned_episodes(recipes: Sequence[Recipe]) -> Iterator[Planned]:
    """The episodes of a dataset of these recipes, in order."""
    taken: Counter[tuple[str, int]] = Counter()
    for recipe in recipes:
        for split in recipe.dataset_splits:
            for window in recipe.split[split]:
                for behaviour in recipe.behaviours:
                    first = taken[behaviour.name, window]
                    for repetition in range(first, first + behaviour.episodes):
                        yield split, behaviour.name, repetition, window
                    taken[behaviour.name, window] += behaviour.episodes


def episodes_of(recipe: Recipe) -> int:
    """How many episodes a dataset of this recipe has."""
    each = sum(behaviour.episodes for behaviour in recipe.behaviours)
    return each * sum(recipe.split[s].stop - recipe.split[s].start for s in recipe.dataset_splits)


def check_appended(manifest: Manifest, where: str) -> None:
    """DatasetError where what was appended to a dataset does not fit to what was there."""
    recipes = manifest.recipes
    for number, segment in enumerate(manifest.appended, start=1):
        if segment.digest != segment.recipe.digest:
            raise DatasetError(f"{where}: the digest of appended recipe {number} is not its own")
        check_fits(recipes[:number], segment.recipe, where)
        if segment.first_episode != sum(map(episodes_of, recipes[:number])):
            raise DatasetError(f"{where}: appended recipe {number} has other episodes before it")


def check_fits(recipes: Sequence[Recipe], recipe: Recipe, where: str) -> None:
    """DatasetError where `recipe` cannot be appended to a dataset of `recipes`.

    It names the key and both values; `where` is the dataset.
    """
    first = recipes[0]
    if first.trace.format == RECORDED:
        raise DatasetError(f"{where}: was recorded elsewhere, so that nothing can be appended")
    for key in _SAME:
        there, here = _plain(getattr(first, key)), _plain(getattr(recipe, key))
        if there != here:
            name, was, given = _difference(key, there, here)
            raise DatasetError(
                f"{where}: {name} is {was!r} there and {given!r} in the recipe {recipe.id}; only "
                "behaviours, their episodes, and windows may differ in what is appended"
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
                    f"{where}: window {first} is of the split {other} there and of {split} in the "
                    f"recipe {recipe.id}; a window cannot change its split"
                )


def _check_behaviours(earlier: Recipe, recipe: Recipe, where: str) -> None:
    known = {b.name: replace(b, episodes=1) for b in earlier.behaviours}
    for behaviour in recipe.behaviours:
        own = replace(behaviour, episodes=1)
        if known.get(behaviour.name, own) != own:
            raise DatasetError(
                f"{where}: the behaviour {behaviour.name!r} is another one there than in the "
                f"recipe {recipe.id}"
            )


def _plain(value: Any) -> Any:
    """Settings as plain values, for comparing and showing."""
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def _difference(key: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """The first value below `key` that differs, with its name."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                return _difference(f"{key}.{name}", there.get(name), here.get(name))
    return key, there, here
