"""Released agents give the published rows without a training."""

import json
from pathlib import Path

import pytest

from docs.generate.delivered import DELIVERIES, row_of
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.policies.entrants import entrants
from tests.conftest import require_traces

RELEASED = [one for one in DELIVERIES if one.released]
WINDOWS = 10
MEANS = json.loads(Path(__file__).with_name("released.json").read_text(encoding="utf-8"))


def agents_of(one):
    return sorted(p.parent for p in (recipe_folder() / one.released).glob("agents/*/weights.*"))


def test_every_folder_of_agents_is_published():
    folders = {p.parent.parent.name for p in recipe_folder().glob("*/agents/README.md")}
    assert folders == {one.released for one in RELEASED}
    assert len(RELEASED) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("one", RELEASED, ids=lambda one: one.recipe)
def test_a_released_agent_plays_as_it_did(one, tmp_path):
    """The means of released.json are those of the first agent and the rule on a few windows."""
    start = load_recipe(one.released).split["test"].start
    split = f'split.test="{start}..{start + WINDOWS - 1}"'
    recipe, agent = load_recipe(one.released, (*one.settings, split)), agents_of(one)[0]
    if recipe.trace.path:
        require_traces()
    names = [row_of(one)["baseline"], str(agent)]
    found = evaluate(recipe, entrants(recipe, names), split="test", out=tmp_path, seeds=1)
    assert list(found.means.values()) == pytest.approx(MEANS[one.recipe], rel=1e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("one", RELEASED, ids=lambda one: one.recipe)
def test_released_agents_give_the_published_row(one, tmp_path):
    """Another processor may round differently, which moves a difference by less than a tenth."""
    recipe, published = load_recipe(one.released, one.settings), row_of(one)
    if recipe.trace.path:
        require_traces()
    agents = agents_of(one)
    assert len(agents) == int(published["seeds"])
    names = [published["baseline"], *map(str, agents)]
    found = evaluate(recipe, entrants(recipe, names), split="test", out=tmp_path, workers=2)
    means = dict(found.means)
    rule = means.pop(published["baseline"])
    mean = sum(means.values()) / len(means)
    difference = float(published["paired_difference"])
    assert mean - rule == pytest.approx(difference, abs=0.1 * abs(difference))
    assert mean == pytest.approx(float(published["mean"]), rel=0.005)
