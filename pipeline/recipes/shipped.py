"""Recipes that come with Hindcast or with a plug-in, found without loading one."""

import sys
from pathlib import Path
from typing import Final

from hindcast.pipeline.plugins import Registry

RECIPES: Final = Registry[Path]("recipes", {}, Path)  # of plug-ins: files by id


def recipe_folder() -> Path:
    """Return the folder of recipes: beside the packages in a checkout, else in share/."""
    beside = Path(__file__).resolve().parents[2] / "datasets"
    # In site-packages, `datasets` is the library of Hugging Face.
    is_checkout = next(beside.glob("*/recipe.toml"), None) is not None
    return beside if is_checkout else Path(sys.prefix) / "share" / "hindcast" / "datasets"


def recipe_file(name: str) -> Path | None:
    """Return the file of the recipe with an id, or None if there is no such recipe."""
    own = recipe_folder() / name / "recipe.toml"
    return own if own.is_file() else RECIPES.get(name)


def known_recipes() -> list[str]:
    """Return the ids of the recipes that come with Hindcast or with a plug-in."""
    own = (p.parent.name for p in recipe_folder().glob("*/recipe.toml"))
    return sorted({*own, *RECIPES})
