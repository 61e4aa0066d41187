"""Tests of recipes as TOML: a recipe that is written and read again is the same."""

import dataclasses
import tomllib

import pytest

from hindcast.pipeline.recipes.loading import load_recipe, parse_recipe
from hindcast.pipeline.recipes.toml import recipe_toml
from tests.readable_recipes import LOADED


@pytest.mark.slow
def test_a_recipe_written_and_read_has_the_same_digest():
    for name, recipe in LOADED.items():
        again = parse_recipe(tomllib.loads(recipe_toml(recipe)), "again")
        assert again == recipe, name
        assert again.digest == recipe.digest, name


@pytest.mark.parametrize("text", ['a "b" \\ c', "line\nbreak\ttab", "\x7f\x00", "naïve 雪", ""])
def test_any_text_survives(text):
    recipe = dataclasses.replace(load_recipe("thermal-default-v1"), description=text)
    assert tomllib.loads(recipe_toml(recipe))["description"] == text
    settings = dataclasses.replace(recipe.trace, settings={text or "key": [1, 0.5, True, text]})
    read = tomllib.loads(recipe_toml(dataclasses.replace(recipe, trace=settings)))
    assert read["trace"]["settings"] == settings.settings
