"""Tests of every recipe in datasets/: it loads, simulates, and records a dataset that verifies."""

import dataclasses
import json

import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env

from hindcast.flows.commands import run
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.documents.card import card_text
from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.recipes import shipped
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.scenarios import SCENARIOS
from hindcast.policies.entrants import entrants
from hindcast.policies.registry import behaviours
from tests.conftest import require_traces
from tests.readable_recipes import LOADED, READABLE
from tests.representatives import nightly_but

RECORDING = [name for name, recipe in LOADED.items() if recipe.behaviours]  # others evaluate
# Recipes that record datasets for others, not only for their own agent to imitate before play.
LOGS = [name for name in RECORDING if not LOADED[name].online.agent]
# Recipes of another level, each with the recipe whose setting it shares.
DERIVED = {
    name: name.replace(f"-{level}-", "-")
    for name in LOGS
    if (level := LOADED[name].level) in {"random", "heuristic"}
}
SETTINGS = [name for name in READABLE if name not in DERIVED]


def one_each(names: list[str]) -> list[object]:
    """Return the names as parameters, of which one per scenario and reader is not only nightly."""
    last = {(LOADED[n].scenario, LOADED[n].trace.format): n for n in names}
    return nightly_but(set(last.values()), names)


# One recipe per scenario, with the settings that make its run small.
SMALL_RUNS = {
    "binpack-synthetic-v1": ["trace.settings.instances_scale=0.05", "config.machines=1"],
    "slots-deeprm-v1": [],
    "thermal-default-v1": ["config.jobs=60", "config.steps=80"],
    "deferrable-base-v1": [],
    "multicluster-uniform-v1": ["config.applications=40"],
}


def load(name: str, *more: str) -> Recipe:
    """Return the recipe with one window per split, and one episode per behaviour of levels."""
    full = load_recipe(name)
    split = [f'split.{s}="{full.split[s].start}..{full.split[s].start}"' for s in full.split]
    recipe = load_recipe(name, [*split, *more])
    if name not in DERIVED:
        return recipe
    once = (dataclasses.replace(behaviour, episodes=1) for behaviour in recipe.behaviours)
    return dataclasses.replace(recipe, behaviours=tuple(once))


@pytest.fixture(params=READABLE)
def recipe(request) -> Recipe:
    """Return each recipe in turn. Skip recipes that need a real trace where it is absent."""
    if LOADED[request.param].trace.path:
        require_traces()
    return load(request.param)


def test_the_id_is_the_folder_and_the_description_a_sentence():
    for name, recipe in LOADED.items():
        assert recipe.id == name
        assert (recipe_folder() / name / "recipe.toml").is_file()
        assert len(recipe.description) > 20, name


def test_the_id_of_a_changed_recipe_is_marked():
    for name in {recipe.scenario: name for name, recipe in LOADED.items()}.values():
        small = load(name)
        found, mark, _digits = small.id.partition("+")
        assert found == name
        assert bool(mark) == (small.digest != LOADED[name].digest)


def test_recipes_are_found_beside_a_library_that_is_called_datasets(tmp_path, monkeypatch):
    """Hugging Face's library is installed as a folder `datasets` beside installed packages."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "share" / "hindcast" / "datasets" / "a-v1").mkdir(parents=True)
    (tmp_path / "share" / "hindcast" / "datasets" / "a-v1" / "recipe.toml").touch()
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "pipeline" / "recipes" / "shipped.py"))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert shipped.known_recipes() == ["a-v1"]


@pytest.mark.parametrize(("name", "main"), DERIVED.items())
def test_a_level_is_recorded_in_the_setting_of_its_main_recipe(name, main):
    """Only behaviours differ, so agents trained on either are evaluated on the same windows."""
    own, other = LOADED[name], LOADED[main]
    same = ("scenario", "config", "objective", "trace", "split", "seed", "evaluate", "train")
    assert all(getattr(own, key) == getattr(other, key) for key in same)
    assert other.level == "mixed"
    rules = {b.policy for b in own.behaviours}
    assert rules <= {b.policy for b in other.behaviours}
    if own.level == "random":
        assert rules == {"random"}
    else:
        assert not rules & {"random", "random_linear"}
        assert len(rules) >= 2
        assert all(0 < b.epsilon < 0.5 for b in own.behaviours)
    assert all(b.episodes > 1 for b in own.behaviours)


OF_SCHEDULERS = [name for name in LOGS if LOADED[name].level == "recorded"]


@pytest.mark.parametrize("name", OF_SCHEDULERS)
def test_a_recipe_of_recorded_decisions_has_the_split_of_the_main_recipe(name):
    recipe, main = LOADED[name], LOADED[name.replace("-recorded-", "-")]
    assert {b.policy for b in recipe.behaviours} == {"recorded"}
    assert (recipe.split, recipe.trace) == (main.split, main.trace)
    assert recipe.config.starts == main.config.starts


def test_a_main_recipe_mixes_random_linear_rules_and_rules():
    for name in set(LOGS) - {*DERIVED, *OF_SCHEDULERS}:
        recipe = LOADED[name]
        policies = {b.policy for b in recipe.behaviours}
        assert recipe.level == "mixed", name
        assert {"random", "random_linear"} <= policies, name
        assert len(policies) >= 5, name


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_has_all_levels_that_need_no_agent(scenario):
    found = {r.level for r in LOADED.values() if r.scenario == scenario}
    assert {"random", "heuristic", "mixed"} <= found


@pytest.mark.parametrize("level", ["medium", "replay"])
def test_levels_of_online_agents_are_understood(level):
    assert load_recipe("slots-deeprm-v1", [f'level="{level}"']).level == level


def test_an_unknown_level_is_refused_with_the_nearest():
    with pytest.raises(RecipeError, match="did you mean 'medium'"):
        load_recipe("slots-deeprm-v1", ['level="mediun"'])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", one_each(RECORDING), indirect=True)
def test_it_records_what_verification_confirms(recipe, tmp_path):
    known = behaviours(recipe)
    result = build(recipe, known, tmp_path / "d", workers=2)
    assert result.decisions > 0
    verify(tmp_path / "d", known)
    dataset = ds.open(tmp_path / "d")
    shown = card_text(tmp_path / "d", dataset.manifest, dataset.episodes())
    assert (tmp_path / "d" / "README.md").read_text() == shown
    assert "Degenerate" not in shown
    assert read_manifest(tmp_path / "d") == dataset.manifest


@pytest.mark.slow
@pytest.mark.parametrize("recipe", one_each(SETTINGS), indirect=True)
def test_every_policy_it_names_can_be_evaluated(recipe, tmp_path):
    scored = entrants(recipe, recipe.evaluate.policies)
    result = evaluate(recipe, scored, split="test", out=tmp_path / "e", seeds=1)
    assert set(result.means) == {c.behaviour.name for c in scored}
    assert set(recipe.evaluate.references) <= set(result.means)
    described = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    assert "random" in described["references"] or not recipe.behaviours


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*infinity. This is probably too"
)  # some features are unbounded
@pytest.mark.parametrize("recipe", one_each(SETTINGS), indirect=True)
def test_gymnasium_accepts_it(recipe):
    window = recipe.windows("all")[0]
    check_env(SchedulingEnv(recipe, windows=[window]), skip_render_check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but({"binpack-synthetic-v1"}, SMALL_RUNS))
def test_a_whole_run_with_all_agents(name, tmp_path):
    """Build, verify, train the four agents, evaluate and report work for every scenario."""
    agents = ["behaviour_cloning", "cql", "double_dqn", "trajectory_preference"]
    full = load_recipe(name)
    sizes = {"train": 3, "validation": 1, "test": 2}
    split = [
        f'split.{s}="{full.split[s].start}..{full.split[s].start + n - 1}"'
        for s, n in sizes.items()
        if s in full.split
    ]
    settings = ["train.steps=20", "train.seeds=[0]", f"train.agents={agents}", "evaluate.seeds=1"]
    result = run.run(run.Request(name, str(tmp_path), (*SMALL_RUNS[name], *split, *settings)))
    page = (tmp_path / "report.html").read_text()
    assert result["report"] == str(tmp_path / "report.html")
    summary = pl.read_parquet(tmp_path / "summary.parquet")
    for agent in agents:
        assert agent in page
        assert agent in set(summary["policy"])
