"""Recipes that come with Hindcast, found without loading one."""

import sys
from pathlib import Path


def recipe_folder() -> Path:
    """Return the folder of recipes: beside the packages in a checkout, else in share/."""
    beside = Path(__file__).resolve().parents[2] / "datasets"
    # In site-packages, `datasets` is the library of Hugging Face.
    is_checkout = next(beside.glob("*/recipe.toml"), None) is not None
    return beside if is_checkout else Path(sys.prefix) / "share" / "hindcast" / "datasets"


def known_recipes() -> list[str]:
    """Return the ids of the recipes that come with Hindcast."""
    return sorted(p.parent.name for p in recipe_folder().glob("*/recipe.toml"))
