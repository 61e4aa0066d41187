"""Tests of ids: a recipe that was changed says so wherever its name is shown."""

import dataclasses
import json
import re
import shutil

import pytest

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.croissant import croissant
from hindcast.pipeline.dataset.documents.terms import terms
from hindcast.pipeline.exports.minari import dataset_id
from hindcast.pipeline.inspection.list import entry_of
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.recipes.toml import recipe_toml

SHIPPED = "thermal-default-v1"


def test_an_override_of_the_digest_marks_the_id_with_its_first_digits():
    plain, seven, eight = (load_recipe(SHIPPED, s) for s in ((), ("seed=7",), ("seed=8",)))
    assert plain.id == SHIPPED
    assert seven.id == f"{SHIPPED}+{seven.digest[:6]}"
    assert eight.id == f"{SHIPPED}+{eight.digest[:6]}"
    assert len({plain.digest, seven.digest, eight.digest}) == 3


def test_the_mark_is_not_in_the_digest():
    """Datasets of 0.1.0 have the same digest and the id without a mark."""
    seven = load_recipe(SHIPPED, ["seed=7"])
    assert seven.to_dict()["id"] == SHIPPED
    assert dataclasses.replace(seven, id=SHIPPED).digest == seven.digest
    odd = "000000" if seven.digest[:6] != "000000" else "111111"
    other = dataclasses.replace(seven, id=f"{SHIPPED}+{odd}")  # a person's id, which is a value
    assert other.to_dict()["id"] == f"{SHIPPED}+{odd}"
    assert other.digest != seven.digest


@pytest.mark.parametrize("value", ['objective="level"', "seed=20180121", 'split.train="0..39"'])
def test_an_override_that_changes_nothing_leaves_the_id(value):
    plain = load_recipe("thermal-online")
    assert load_recipe("thermal-online", [value]) == plain


def test_an_id_that_a_person_gives_is_kept(tmp_path):
    assert load_recipe(SHIPPED, ["seed=7", 'id="mine"']).id == "mine"
    text = (recipe_folder() / SHIPPED / "recipe.toml").read_text()
    own = tmp_path / "recipe.toml"
    own.write_text(text.replace(f'id = "{SHIPPED}"', 'id = "mine"', 1))
    assert load_recipe(own).id == "mine"
    changed = load_recipe(own, ["seed=7"])
    assert changed.id == f"mine+{changed.digest[:6]}"


def test_a_recipe_that_was_not_valid_before_it_was_changed_is_marked(tmp_path):
    text = (recipe_folder() / SHIPPED / "recipe.toml").read_text()
    own = tmp_path / "recipe.toml"
    own.write_text(re.sub(r"^seed = \d+", "seed = -1", text, flags=re.MULTILINE))
    found = load_recipe(own, ["seed=7"])
    assert found.id == f"{SHIPPED}+{found.digest[:6]}"


def test_the_recipe_of_a_card_has_the_id_and_is_marked_once(tmp_path):
    seven = load_recipe(SHIPPED, ["seed=7"])
    own = tmp_path / "recipe.toml"
    own.write_text(recipe_toml(seven))
    again = load_recipe(own)
    assert (again.id, again.digest) == (seven.id, seven.digest)
    eight = load_recipe(own, ["seed=8"])
    assert eight.id == f"{SHIPPED}+{eight.digest[:6]}"


def test_everything_that_names_a_dataset_has_the_mark(tiny_dataset, tiny_recipe):
    name, mark = tiny_recipe.id, tiny_recipe.digest[:6]
    assert name == f"binpack-synthetic-v1+{mark}"
    manifest = mf.read_manifest(tiny_dataset)
    written = json.loads((tiny_dataset / "manifest.json").read_text())
    assert (written["id"], manifest.recipe.id) == (name, name)
    assert written["recipe"]["id"] == "binpack-synthetic-v1"
    assert mf.is_sealed(tiny_dataset, manifest)
    card = (tiny_dataset / "README.md").read_text()
    assert f'pretty_name: "{name}"' in card
    assert f"\n# {name}\n" in card
    assert f'\nid = "{name}"\n' in card
    metadata = croissant(manifest)
    assert metadata["name"] == name
    assert metadata["version"] == f"1.0.0+{manifest.digest[:12]}"
    assert name in terms(manifest).citation
    assert dataset_id(name) == f"binpack-synthetic-{mark}-v1"
    assert (entry_of(tiny_dataset).name, entry_of(tiny_dataset).digest) == (name, manifest.digest)
    assert load_recipe(tiny_dataset).id == name  # which builds it again


def test_a_dataset_without_marks_of_an_older_version_opens_under_its_id(tiny_dataset, tmp_path):
    folder = tmp_path / "old"
    shutil.copytree(tiny_dataset, folder)
    value = json.loads((folder / "manifest.json").read_text())
    value["id"] = value["recipe"]["id"]
    (folder / "manifest.json").write_text(json.dumps(value))
    manifest = mf.read_manifest(folder)
    assert manifest.recipe.id == "binpack-synthetic-v1"
    assert load_recipe(folder).id == "binpack-synthetic-v1"
    assert load_recipe(folder, ["seed=7"]).id == load_recipe(tiny_dataset, ["seed=7"]).id


def test_a_dataset_that_was_appended_to_has_another_name(tiny_dataset):
    manifest = mf.read_manifest(tiny_dataset)
    segment = mf.Segment(manifest.recipe, manifest.digest, {}, 1, 1)
    digest = mf.digest_of([manifest.recipe, manifest.recipe])
    longer = dataclasses.replace(manifest, digest=digest, appended=(segment,))
    assert longer.name == f"binpack-synthetic-v1+{digest[:6]}"
    assert longer.name != manifest.name
