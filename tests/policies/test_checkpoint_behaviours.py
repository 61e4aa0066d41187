"""Tests of datasets of checkpoints, `medium` and `replay`: named by content, verified, rebuilt."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, RecipeError, VerificationFailed
from hindcast.pipeline.recipes.checkpoints import DESCRIPTION, WEIGHTS
from hindcast.pipeline.recipes.loading import load_recipe, parse_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.players import PolicyRunner, episode_runner
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.registry import behaviours
from tests.conftest import TINY
from tests.folders import content
from tests.policies.trainings import train_online

SETTINGS = {
    "sampling": {"trajectories": 2, "windows": 1, "stay": 2},
    "network": {"hidden": [4], "quadratic": False},
}


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory) -> Path:
    """Return a training with three intermediate checkpoints."""
    recipe = dataclasses.replace(tiny_recipe, online=OnlineRecipe("reinforce", 6, SETTINGS))
    folder = tmp_path_factory.mktemp("run") / "a"
    return train_online(recipe, out=folder, checkpoint_every=2)


def replayed(run, *more):
    return load_recipe(
        "binpack-synthetic-v1",
        [*TINY, f'behaviours_from="{run}/checkpoints"', 'level="replay"', *more],
    )


@pytest.fixture(scope="module")
def dataset(run, tmp_path_factory) -> Path:
    """Return the replay dataset. Tests that change the dataset copy it first."""
    recipe = replayed(run)
    folder = tmp_path_factory.mktemp("replay") / "d"
    build(recipe, behaviours(recipe), folder, workers=2)
    return folder


def told(folder: Path):
    return {n: b for r in read_manifest(folder).recipes for n, b in behaviours(r).items()}


def test_the_checkpoints_of_a_training_follow_one_another(run, dataset):
    """Each checkpoint is a behaviour, in the order of steps, and draws as the agent draws."""
    recipe = replayed(run)
    assert [b.name.split("-step")[1][:1] for b in recipe.behaviours] == ["2", "4", "6"]
    assert {(b.temperature, b.epsilon, b.episodes) for b in recipe.behaviours} == {(1.0, 0.0, 1)}
    manifest = read_manifest(dataset)
    assert (manifest.recipe.level, manifest.recipe.digest) == ("replay", recipe.digest)
    assert str(run) not in (dataset / "manifest.json").read_text()
    rows = pl.read_parquet(dataset / "data" / "part-00000.parquet")["behaviour_probabilities"]
    sums = rows.list.sum().drop_nulls().to_numpy()
    assert sums == pytest.approx(1.0, abs=1e-5)
    assert (rows.list.max().drop_nulls() < 1.0).any()


@pytest.mark.slow
def test_a_dataset_is_verified_and_built_again_from_itself_alone(dataset, tmp_path):
    """The training may be deleted: the dataset has the checkpoints, and the bytes are the same."""
    copy = tmp_path / "d"
    shutil.copytree(dataset, copy)
    checks = dict(verify(copy, told(copy)).checks)
    assert checks["files"].endswith("3 policies")
    assert checks["behaviours"].split()[2] == checks["decisions"].split()[0]
    recipe = load_recipe(copy)
    build(recipe, behaviours(recipe), tmp_path / "again")
    assert content(tmp_path / "again") == content(copy)
    written = (copy / "README.md").read_text().split("```toml\n")[1].split("```")[0]
    (copy / "recipe.toml").write_text(written)  # the card's own recipe finds them as well
    assert load_recipe(copy / "recipe.toml").digest == recipe.digest
    with pytest.raises(DatasetError, match=r"also holds a recipe\.toml"):
        load_recipe(copy)


def test_a_checkpoint_is_what_it_holds_and_not_where_it_lies(run, tmp_path):
    """A copy of a checkpoint elsewhere has the same digest, and another checkpoint has another."""
    one, other = run / "checkpoints" / "step-000002", run / "checkpoints" / "step-000004"
    shutil.copytree(one, tmp_path / "moved")
    digests = [
        load_recipe(
            "binpack-synthetic-v1",
            [*TINY, f'behaviours=[{{policy="{path}", temperature=1.0, epsilon=0.1}}]'],
        ).digest
        for path in (one, tmp_path / "moved", other)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_recipe_file_names_checkpoints_beside_it(run, tmp_path):
    """The recipe's folder is searched before the working folder."""
    shutil.copytree(run / "best", tmp_path / "mine" / "best")
    text = (Path(__file__).parents[2] / "datasets/binpack-synthetic-v1/recipe.toml").read_text()
    head = text.split("[[behaviours]]")[0]
    (tmp_path / "recipe.toml").write_text(head + '[[behaviours]]\npolicy = "mine/best"\n')
    (behaviour,) = load_recipe(tmp_path / "recipe.toml").behaviours
    assert behaviour.policy.startswith("policies/reinforce-seed0-step")


def test_a_missing_or_changed_checkpoint_is_named(run, tmp_path):
    copy = tmp_path / "c"
    shutil.copytree(run / "checkpoints" / "step-000002", copy)
    override = f'behaviours=[{{policy="{copy}"}}]'
    recipe = load_recipe("binpack-synthetic-v1", [*TINY, override])
    known = behaviours(recipe)
    weights = bytearray((copy / WEIGHTS).read_bytes())
    weights[-1] ^= 1
    (copy / WEIGHTS).write_bytes(weights)
    with pytest.raises(DatasetError, match=rf"{copy}/{WEIGHTS}: this file was changed"):
        behaviours(recipe)
    with pytest.raises(DatasetError, match=rf"{copy}: this checkpoint of a behaviour is missing"):
        build(recipe, known, tmp_path / "d")
    assert not (tmp_path / "d" / "manifest.json").exists()
    claimed = override.replace("}]", f', sha256="{"0" * 64}"}}]')
    with pytest.raises(RecipeError, match=f"changed: the SHA-256 of {copy}"):
        load_recipe("binpack-synthetic-v1", [*TINY, claimed])
    (copy / DESCRIPTION).unlink()
    with pytest.raises(RecipeError, match=f"is no checkpoint: {copy}"):
        load_recipe("binpack-synthetic-v1", [*TINY, override])
    with pytest.raises(RecipeError, match="which holds no checkpoints"):
        load_recipe("binpack-synthetic-v1", [*TINY, f'behaviours_from="{tmp_path}"'])
    with pytest.raises(RecipeError, match="did you mean 'temperature'"):
        load_recipe("binpack-synthetic-v1", [*TINY, 'behaviours_from={temperatur=1.0, path="x"}'])


def _changed(policies: Path) -> Path:
    path = min(policies.glob(f"*/{WEIGHTS}"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0\0")
    return path


def _gone(policies: Path) -> Path:
    path = min(policies.glob(f"*/{DESCRIPTION}"))
    path.unlink()
    return path


def _added(policies: Path) -> Path:
    path = min(policies.iterdir()) / "more.pkl"
    path.write_bytes(b"x")
    return path


def _linked(policies: Path) -> Path:
    path = min(policies.glob(f"*/{WEIGHTS}"))
    aside = policies.parent.parent / "aside"
    path.rename(aside)
    path.symlink_to(aside)
    return path


@pytest.mark.parametrize("damage", [_changed, _gone, _added, _linked])
def test_damage_to_the_copied_checkpoints_is_found(damage, dataset, tmp_path):
    copy = tmp_path / "d"
    shutil.copytree(dataset, copy)
    path = damage(copy / "policies")
    with pytest.raises((VerificationFailed, DatasetError)) as error:
        verify(copy, {})
    assert str(path) in str(error.value)


def test_probabilities_of_another_network_are_not_believed(dataset):
    """Each decision's distribution is computed again by the named network."""
    known = told(dataset)
    names = list(known)
    wrong = {**known, names[0]: dataclasses.replace(known[names[-1]], name=names[0])}
    with pytest.raises(VerificationFailed, match="not those of the behaviour policy"):
        verify(dataset, wrong)


@pytest.mark.parametrize(
    "policy", ["../../etc", "policies/../../x", "/etc/x", "policies/a/b", "policies\\x", "x/y"]
)
def test_a_manifest_cannot_name_a_checkpoint_elsewhere(policy, dataset, tmp_path):
    """No file outside the dataset is opened, for any manifest."""
    table = json.loads((dataset / "manifest.json").read_text())["recipe"]
    table["behaviours"][0]["policy"] = policy
    with pytest.raises(RecipeError, match="expected a"):
        parse_recipe(table, "manifest.json")
    table["behaviours"][0] |= {"policy": "tetris"}
    with pytest.raises(RecipeError, match="expected a rule without"):
        parse_recipe(table, "manifest.json")
    with pytest.raises(RecipeError, match="unknown key 'places'"):
        parse_recipe({**table, "places": {}}, "manifest.json")


@pytest.mark.slow
def test_checkpoints_can_be_appended_to_rules(run, tiny_dataset, tmp_path):
    copy = tmp_path / "d"
    shutil.copytree(tiny_dataset, copy)
    recipe = replayed(run)
    append(recipe, behaviours(recipe), copy)
    assert dict(verify(copy, told(copy)).checks)["files"].endswith("3 policies")
    with pytest.raises(DatasetError, match="was appended to"):
        load_recipe(copy)


@pytest.mark.parametrize("kind", ["mlp", "deepsets"])
@pytest.mark.parametrize(("temperature", "epsilon"), [(1.0, 0.0), (0.5, 0.2), (0.0, 0.3)])
def test_compiled_episodes_are_those_of_asking_decision_by_decision(
    kind, temperature, epsilon, tiny_recipe, play_policy
):
    """Choices, probabilities and replayed choices agree, in two stretches."""
    scenario = load_scenario(tiny_recipe.scenario)
    spec = scenario.spec(tiny_recipe.config, tiny_recipe.objective)
    instance = make_instance(tiny_recipe, scenario, load_source(tiny_recipe), 0)
    behaviour = Behaviour("b", play_policy(spec, kind), epsilon, temperature)
    made = episode_runner(scenario, spec, instance, behaviour)
    assert not isinstance(made, PolicyRunner)
    fast = made.play(np.random.default_rng(3))
    slow = PolicyRunner(scenario, spec, instance, behaviour).play(np.random.default_rng(3))
    assert np.array_equal(fast.choices, slow.choices)
    assert fast.probabilities == pytest.approx(slow.probabilities, abs=1e-6)
    for again in (
        episode_runner(scenario, spec, instance, behaviour), PolicyRunner(scenario, spec, instance,
        behaviour)
    ):  # fmt: skip
        parts = [again.follow(fast.choices[:7]), again.follow(fast.choices[7:])]
        assert np.concatenate(parts) == pytest.approx(fast.probabilities, abs=1e-6)


@pytest.fixture(scope="module")
def play_policy():
    """Return a function from (spec, kind) to a scorer with small random weights."""
    from hindcast.policies.networks.features import unscaled_map
    from hindcast.policies.networks.policy import LearnedPolicy
    from hindcast.policies.networks.settings import Network

    def make(spec, kind):
        network = Network(
            NetworkSettings(hidden=(4, 4), kind=kind, quadratic=False),
            unscaled_map(spec.candidates, spec.learned_candidates, quadratic=False),
            unscaled_map(spec.context, (), quadratic=False),
        )
        rng = np.random.default_rng(1)
        weights = {
            name: (0.05 * rng.normal(size=shape)).astype(np.float32)
            for name, shape in network.shapes.items()
        }
        return LearnedPolicy("drawn", network, weights, spec.context, spec.candidates)

    return make


def test_the_copied_policy_is_the_one_that_was_trained(run, dataset):
    """Only its folder differs."""
    recipe = read_manifest(dataset).recipe
    last = load_policy(dataset / recipe.behaviours[-1].policy)
    trained = load_policy(run)
    assert all((last.weights[n] == w).all() for n, w in trained.weights.items())
