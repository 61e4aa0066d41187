"""Loading of recipes: finding the file, applying overrides, checking every key."""

import copy
import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import (
    DatasetError,
    InputError,
    RecipeError,
    TraceError,
    did_you_mean,
    is_path,
    nearest,
    no_such_path,
)
from hindcast.pipeline.recipes.checkpoints import (
    built_from,
    check_behaviour,
    inside_places,
    pin_checkpoints,
)
from hindcast.pipeline.recipes.own_code import pin_code
from hindcast.pipeline.recipes.recipe import (
    OF_THIS_MACHINE,
    Origin,
    Recipe,
    digest_of_dataset,
    refuse_file,
)
from hindcast.pipeline.recipes.shipped import known_recipes, recipe_file
from hindcast.pipeline.recipes.splits import read_split
from hindcast.pipeline.recipes.toml_text import check_table, parse_toml, read_toml
from hindcast.pipeline.recipes.workload_source import DECISIONS
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.settings.ranges import shown
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.storage.location import location

_MOST_EPISODES: Final = 1_000_000  # of a dataset, or of a policy in an evaluation


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe by path or id and apply `section.key=value` overrides (values are TOML).

    If overrides change the digest and give no id, the id is marked, see
    `hindcast.pipeline.recipes.recipe`. The folder of a dataset counts as the recipe that builds it
    again; nothing outside the folder is used, unless an override names it. For a recipe file,
    checkpoints among the behaviours are searched below its folder, then below the working folder.
    Raises RecipeError that names the file and the key, or the checkpoint that is missing or
    changed.
    """
    path = location(name)
    is_folder = path.is_dir()
    if is_folder:
        if (manifest := built_from(path)) is not None:
            return _of_dataset(manifest, path, overrides)
        path = path / "recipe.toml"
    found = path if path.is_file() else recipe_file(str(name))
    if found is None:
        raise _no_recipe(str(name), is_folder=is_folder)
    return _resolved(_read(found), found.parent, str(found), overrides)


def _no_recipe(name: str, *, is_folder: bool) -> RecipeError:
    """Return the error for a name or path that leads to no recipe."""
    if is_folder:
        return RecipeError(f"{name}: this folder is no dataset and holds no recipe.toml")
    expected = "a recipe.toml, the folder of a dataset, or the id of a recipe of Hindcast"
    if is_path(name):
        return RecipeError(no_such_path(name, expected, known_recipes()))
    close = nearest(name, known_recipes())
    hint = f"did you mean {close!r}?" if close else "`hindcast list --recipes` lists these"
    return RecipeError(
        f"there is no recipe {name!r}: it is neither a file nor one of the recipes that come with "
        f"Hindcast; {hint}"
    )


def _read(path: Path) -> dict[str, Any]:
    """Return the table of a recipe's file; raise RecipeError with the kind of any other file."""
    try:
        table = read_toml(path)
    except RecipeError as error:
        if path.suffix != ".toml" and (log_error := _error_for_log(path)) is not None:
            raise log_error from error
        raise
    if "columns" in table and "scenario" not in table:
        raise RecipeError(
            f"{path}: this is the mapping of a table of jobs, expected a recipe; `hindcast whatif "
            f"{path}` reads it"
        )
    return table


def _error_for_log(path: Path) -> RecipeError | None:
    """Return the error for a log or a table of jobs, or None for a file that is neither."""
    from hindcast.pipeline.recipes.recognition import recognise

    log_names = {"swf": "SWF", "slurm": "sacct", "pbs": "PBS"}
    try:
        kind = log_names[recognise(path)]
    except (TraceError, KeyError):
        if {".csv", ".tsv", ".parquet"} & {*path.suffixes}:
            return RecipeError(
                f"{path}: this is a table, expected a recipe; `hindcast init {path}` proposes a "
                "mapping, which `hindcast whatif` reads if the table is of jobs, and `hindcast "
                "ingest decisions` if it is of decisions"
            )
        return None
    return RecipeError(
        f"{path}: this is a log ({kind}), expected a recipe; `hindcast whatif {path}` reads it"
    )


def as_recipe(recipe: Recipe | str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Return a recipe that was given itself, by path or by id.

    Raises InputError for overrides of a recipe that is loaded already.
    """
    if not isinstance(recipe, Recipe):
        return load_recipe(recipe, overrides)
    if overrides:
        raise InputError(
            f"recipe {recipe.id} is loaded already; pass the overrides to load_recipe() instead"
        )
    return recipe


def _resolved(table: dict[str, Any], base: Path, where: str, overrides: Sequence[str]) -> Recipe:
    """Return the recipe of a table with its overrides, its checkpoints found."""
    before = copy.deepcopy(table)
    for override in overrides:
        apply_override(table, override)
    check_table(table, where)
    table_with_code, code = pin_code(table, base, where)
    pinned, places = pin_checkpoints(table_with_code, base, where)
    recipe = parse_recipe(pinned, where)
    _check_path(recipe, where)
    if overrides:
        recipe = _with_mark(recipe, lambda: _parsed(before, base, where), overrides)
    return dataclasses.replace(recipe, places=places, code=code, base=base)


def _parsed(table: dict[str, Any], base: Path, where: str) -> Recipe:
    check_table(table, where)
    table_with_code, _ = pin_code(table, base, where)
    return parse_recipe(pin_checkpoints(table_with_code, base, where)[0], where)


def _with_mark(recipe: Recipe, before: Callable[[], Recipe], overrides: Sequence[str]) -> Recipe:
    """Return a recipe after overrides with its mark, if they changed it and gave no id."""
    if "id" in _keys(overrides):
        return recipe
    try:
        old = before()
    except InputError:  # the recipe was invalid before the overrides
        return recipe.marked()
    new = dataclasses.replace(recipe, id=old.to_dict()["id"])
    return dataclasses.replace(new, id=old.id) if new.digest == old.digest else new.marked()


def _keys(overrides: Sequence[str]) -> set[str]:
    return {override.partition("=")[0].strip() for override in overrides}


def _of_dataset(manifest: Mapping[str, Any], folder: Path, overrides: Sequence[str]) -> Recipe:
    """Return the recipe of a dataset's manifest with overrides; the manifest may be foreign.

    Raises DatasetError if its digest is not that of its recipe, or a checkpoint in the dataset is
    missing or changed.
    """
    where, table = str(folder / "manifest.json"), copy.deepcopy(manifest["recipe"])
    recorded = parse_recipe(table, where).under(manifest.get("id"))
    lineage = [manifest["lineage"]] if "lineage" in manifest else []
    digest = digest_of_dataset([recorded], *lineage)
    if manifest.get("digest") != digest:
        raise DatasetError(
            f"{where}: the digest is {str(manifest.get('digest'))[:12]}, but the recipe has "
            f"{digest[:12]}; one of them was changed, see `hindcast verify`"
        )
    origin = Origin(
        folder, str(manifest.get("workload_sha256")), recorded.trace, recorded.evaluate,
        made_of_others=bool(lineage),
    )  # fmt: skip
    for override in overrides:
        apply_override(table, override)
    code: Mapping[str, str] = {}
    if "behaviours_from" in table or table.get("behaviours") != manifest["recipe"].get(
        "behaviours"
    ):  # the overrides name other behaviours, which the user trusts
        table_with_code, code = pin_code(table, None, where)  # never a file of the dataset
        pinned, places = pin_checkpoints(table_with_code, folder, where)
        recipe = parse_recipe(pinned, where)
    else:
        recipe = parse_recipe(table, where)
        places = inside_places(recipe, folder)
    recipe = _with_mark(recipe, lambda: recorded, overrides)
    changed = _keys(overrides)
    if recipe.trace.path and recipe.trace != origin.trace and not changed & {"trace", "trace.path"}:
        raise RecipeError(
            f"{where}: an override changes [trace], but trace.path is the manifest's, which is not "
            "opened; give trace.path too"
        )
    if changed & {"trace", "trace.path"}:  # a path that an older dataset recorded stays readable
        _check_path(recipe, where)
    return dataclasses.replace(recipe, places=places, code=code, origin=origin)


def _check_path(recipe: Recipe, where: str) -> None:
    """Raise RecipeError for a trace.path in a recipe whose format reads no file."""
    trace = recipe.trace
    if trace.path and trace.format != "history":  # its path names the imported file
        refuse_file(trace, f"trace.path (--trace) is {trace.path!r}", where)


def settings_from(kind: type[Any], overrides: Sequence[str]) -> Any:
    """Return settings of a class from overrides `key=value`. Raises RecipeError."""
    table: dict[str, Any] = {}
    for override in overrides:
        apply_override(table, override)
    return read_settings(kind, table, "--set")


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one `section.key=value`; a value that is not TOML is taken as a string."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise RecipeError(
            f"--set {override!r}: this has no key or no '=', expected section.key=value"
        )
    try:
        value = parse_toml(f"value = {text}", f"--set {key.strip()[:80]}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, last = key.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise RecipeError(
                f"--set {override!r}: {section!r} is a value, not a table, so it has no keys"
            )
    table[last] = value


def parse_recipe(table: Mapping[str, Any], where: str) -> Recipe:
    """Return a recipe from parsed TOML; `where` is the file named in errors."""
    table = dict(table)
    for key in OF_THIS_MACHINE:
        if key in table:
            raise RecipeError(f"{where}: unknown key {key!r}")
    for key in ("id", "scenario", "trace", "split"):
        if key not in table:
            raise RecipeError(f"{where}: the key {key!r} is missing")
    if not isinstance(table["scenario"], str):
        raise RecipeError(f"{where}: scenario is {shown(table['scenario'])}, expected a string")
    scenario = load_scenario(table["scenario"])
    table.setdefault("objective", scenario.objectives[0])
    table.setdefault("seed", 0)
    if table["objective"] not in scenario.objectives:
        raise RecipeError(
            f"{where}: objective is {shown(table['objective'])}; "
            f"{did_you_mean(shown(table['objective']), scenario.objectives)}"
        )
    table["config"] = read_settings(scenario.config, table.get("config", {}), f"{where}: config")
    table["split"] = read_split(table["split"], where)
    recorded = [name for name in ("train", "validation") if name in table["split"]]
    table.setdefault("dataset_splits", recorded)
    recipe = read_settings(Recipe, table, where)
    assert isinstance(recipe, Recipe)
    if unknown := set(recipe.dataset_splits) - set(recipe.split):
        raise RecipeError(
            f"{where}: dataset_splits names {sorted(unknown)}, expected names of [split]: "
            f"{', '.join(recipe.split)}"
        )
    if len(set(recipe.dataset_splits)) < len(recipe.dataset_splits):
        raise RecipeError(
            f"{where}: dataset_splits is {list(recipe.dataset_splits)}, expected every split once"
        )
    for behaviour in recipe.behaviours:
        check_behaviour(behaviour.policy, behaviour.sha256, where)
    names = [b.name for b in recipe.behaviours]
    if len(set(names)) < len(names):
        raise RecipeError(f"{where}: two behaviours have the same name: {names}")
    for agent in recipe.train.settings:
        recipe.train.steps_of(agent)  # raises for an invalid number
    _check_episodes(recipe, where)
    return recipe


def _check_episodes(recipe: Recipe, where: str) -> None:
    """Raise RecipeError if a dataset or a policy would have more than _MOST_EPISODES episodes."""
    if recipe.trace.format == DECISIONS:
        return  # they were recorded elsewhere, and nothing is played
    windows = sum(len(recipe.split[name]) for name in recipe.dataset_splits)
    episodes = sum(b.episodes for b in recipe.behaviours)
    if episodes * windows > _MOST_EPISODES:
        raise RecipeError(
            f"{where}: behaviours: {episodes:,} episodes on each of {windows:,} windows are "
            f"{episodes * windows:,} episodes, expected at most {_MOST_EPISODES:,}"
        )
    windows = max(len(r) for r in recipe.split.values())
    if recipe.evaluate.seeds * windows > _MOST_EPISODES:
        raise RecipeError(
            f"{where}: evaluate.seeds is {recipe.evaluate.seeds:,}: on {windows:,} windows these "
            f"are {recipe.evaluate.seeds * windows:,} episodes of a policy, expected at most "
            f"{_MOST_EPISODES:,}"
        )
