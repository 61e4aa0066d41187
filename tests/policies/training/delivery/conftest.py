"""A small log of three rules and random play."""

import dataclasses

import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.registry import behaviours

RULES = {"sjf_now", "packer_now", "hold_5", "random"}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a dataset of `slots`: three rules and random play, two episodes each per window."""
    splits = ('split.train="0..3"', 'split.validation="4..9"', 'split.test="10..10"')
    recipe = load_recipe("slots-deeprm-v1", (*splits, "config.steps=25"))
    kept = [b for b in recipe.behaviours if b.policy in RULES]
    some = tuple(dataclasses.replace(b, episodes=2) for b in kept)
    folder = tmp_path_factory.mktemp("log") / "dataset"
    build(dataclasses.replace(recipe, behaviours=some), behaviours(recipe), folder)
    return folder
