"""Every recipe in datasets/: it loads, simulates, records, and what it records is verified."""

import json

import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env

from flows.stages import run_stages
from pipeline.build import build
from pipeline.card import card, choice_counts
from pipeline.dataset import open_dataset
from pipeline.evaluate import evaluate
from pipeline.gymnasium_adaptor import SchedulingEnv
from pipeline.manifest import read_manifest
from pipeline.recipe import Recipe, known_recipes, load_recipe, recipe_folder
from pipeline.verify import verify
from policies.candidates import candidates
from policies.registry import behaviours

RECIPES = known_recipes()
RECORDING = [name for name in RECIPES if load_recipe(name).behaviours]  # others only evaluate
# One recipe a scenario, with what makes a run of it small.
SMALL_RUNS = {
    "binpack-synthetic-v1": ["trace.settings.instances_scale=0.05", "config.machines=1"],
    "slots-deeprm-v1": [],
    "thermal-default-v1": ["config.jobs=60", "config.steps=80"],
    "deferrable-base-v1": [],
    "multicluster-uniform-v1": ["config.applications=40"],
}


def load(name: str, *more: str) -> Recipe:
    """The recipe, one window a split."""
    full = load_recipe(name)
    split = [f'split.{s}="{full.split[s].start}..{full.split[s].start}"' for s in full.split]
    return load_recipe(name, [*split, *more])


@pytest.fixture(params=RECIPES)
def recipe(request, traces) -> Recipe:
    """Each recipe in turn; those that need a real trace skip where there is none."""
    return load(request.param)


def test_the_id_is_the_folder_and_the_description_a_sentence(recipe):
    assert (recipe_folder() / recipe.id / "recipe.toml").is_file()
    assert len(recipe.description) > 20


@pytest.mark.parametrize("recipe", RECORDING, indirect=True)
def test_it_records_what_verification_confirms(recipe, tmp_path):
    known = behaviours(recipe)
    result = build(recipe, known, tmp_path / "d", workers=2)
    assert result.decisions > 0
    verify(tmp_path / "d", known)
    dataset = open_dataset(tmp_path / "d")
    shown = card(
        dataset.manifest,
        dataset.episodes,
        choice_counts([tmp_path / "d" / p.path for p in dataset.manifest.parts]),
    )
    assert (tmp_path / "d" / "README.md").read_text() == shown
    assert "Degenerate" not in shown
    assert read_manifest(tmp_path / "d") == dataset.manifest


def test_every_policy_it_names_can_be_evaluated(recipe, tmp_path):
    scored = candidates(recipe, recipe.evaluate.policies)
    result = evaluate(recipe, scored, split="test", out=tmp_path / "e", seeds=1)
    assert set(result.means) == {c.behaviour.name for c in scored}
    assert set(recipe.evaluate.references) <= set(result.means)
    described = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    assert "random" in described["references"] or not recipe.behaviours


def test_gymnasium_accepts_it(recipe):
    window = recipe.windows("all")[0]
    check_env(SchedulingEnv(recipe, windows=[window]), skip_render_check=True)


@pytest.mark.parametrize("name", SMALL_RUNS)
def test_a_whole_run_with_all_agents(name, tmp_path):
    """Build, verify, train the four agents, evaluate, report: nothing is scenario-specific."""
    agents = ["behaviour_cloning", "cql", "double_dqn", "trajectory_preference"]
    full = load_recipe(name)
    sizes = {"train": 3, "validation": 1, "test": 2}
    split = [
        f'split.{s}="{full.split[s].start}..{full.split[s].start + n - 1}"'
        for s, n in sizes.items()
        if s in full.split
    ]
    settings = ["train.steps=20", "train.seeds=[0]", f"train.agents={agents}", "evaluate.seeds=1"]
    result = run_stages(name, tmp_path, [*SMALL_RUNS[name], *split, *settings])
    page = (tmp_path / "report.html").read_text()
    assert result["report"] == str(tmp_path / "report.html")
    summary = pl.read_parquet(tmp_path / "summary.parquet")
    for agent in agents:
        assert agent in page
        assert agent in set(summary["policy"])
