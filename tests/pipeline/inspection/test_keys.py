"""Tests of the keys of recipes: all of them, as `--set` takes them, with their descriptions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from hindcast.pipeline.inspection.keys import recipe_keys, type_name
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.settings.ranges import number
from tests.readable_recipes import LOADED


@dataclass(frozen=True)
class Inner:
    """Settings inside settings.

    Attributes:
        width: Width.
    """

    width: int = number(8, "at least 1", "units")


@dataclass(frozen=True)
class Outer:
    """Settings of an agent.

    Attributes:
        rate: Step size.
    """

    inner: Inner = Inner()
    rate: float = 0.5


@pytest.mark.parametrize(("name", "recipe"), LOADED.items(), ids=LOADED)
def test_each_key_can_be_given_with_set(name, recipe):
    """The values of a recipe, given as overrides, make the same recipe.

    [train.settings] is left out: files may write "network.kind" as one key, which --set nests.
    """
    keys = [k for k in recipe_keys(recipe) if "[]" not in k.key and k.value is not None]
    keys = [k for k in keys if not k.key.startswith("train.settings.")]
    assert len({k.key for k in keys}) == len(keys)
    splits = {f"split.{split}" for split in recipe.split}
    assert {k.key for k in keys} >= {"id", "seed", "train.steps", "online.agent", *splits}
    assert not any(k.key.startswith("places") for k in keys)
    again = load_recipe(name, [f"{k.key}={json.dumps(k.value)}" for k in keys])
    assert again == recipe
    assert again.digest == recipe.digest


def test_behaviours_have_a_value_for_each_table():
    recipe = load_recipe("binpack-synthetic-v1")
    keys = {k.key: k for k in recipe_keys(recipe)}
    assert keys["behaviours[].policy"].value == [b.policy for b in recipe.behaviours]
    assert keys["behaviours[].episodes"].type == "integer"
    assert keys["split.train"].value == "0..79"


def test_settings_of_agents_are_listed_with_their_meanings():
    recipe = load_recipe("binpack-synthetic-v1", ["train.settings.cql.steps=7"])
    found = recipe_keys(recipe, {"online.settings": Outer(), "train.settings.cql": Outer()})
    keys = {k.key: (k.value, k.type, k.range, k.meaning) for k in found}
    assert keys["online.settings.inner.width"] == (8, "integer", "at least 1 (units)", "Width.")
    assert keys["train.settings.cql.rate"] == (0.5, "number", "", "Step size.")
    assert keys["train.settings.cql.steps"][:2] == (7, "integer")
    assert keys["train.settings.cql.steps"][2] == "from 1 to 1,000,000,000"
    assert keys["config.machines"][2] == "from 1 to 100,000"


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "integer"),
        (bool, "boolean"),
        (tuple[float, ...], "list of numbers"),
        (int | None, "integer"),
        (Literal["a", "b"], '"a" | "b"'),
        (Mapping[str, Any], "table"),
    ],
)
def test_types_in_words(hint, name):
    assert type_name(hint) == name
