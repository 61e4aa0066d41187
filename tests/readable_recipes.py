"""The recipes of datasets/ whose scenario is known: those of papers come with their folder."""

import tomllib

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes, recipe_folder
from hindcast.pipeline.scenarios import SCENARIOS


def _scenario(name: str) -> str:
    return tomllib.loads((recipe_folder() / name / "recipe.toml").read_text("utf-8"))["scenario"]


READABLE = [name for name in known_recipes() if _scenario(name) in SCENARIOS]
LOADED = {name: load_recipe(name) for name in READABLE}
