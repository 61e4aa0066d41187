"""Tests of training by playing: it repeats, can be resumed, learns, and reports errors."""

import dataclasses
import json
from pathlib import Path

import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.workloads.folder import save_workload
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.online import ONLINE_AGENTS, read_online_config
from hindcast.policies.online.problem import Sampling
from hindcast.policies.online.training import problem_of, settings_of
from tests.folders import content
from tests.policies.test_queue import write_log
from tests.policies.trainings import train, train_online
from tests.readable_recipes import LOADED
from tests.representatives import nightly_but

SMALL = {"trajectories": 4, "windows": 2, "stay": 2}
ANYWHERE = [name for name, agent in ONLINE_AGENTS.items() if not agent.scenarios]


def small(recipe, agent="reinforce", **settings):
    """Return the recipe with an agent that trains quickly."""
    online = OnlineRecipe(agent, 6, {"sampling": SMALL, **settings})
    return dataclasses.replace(recipe, online=online)


@pytest.fixture(scope="module", params=ANYWHERE)
def trained(request, tiny_recipe, tmp_path_factory):
    """Return a recipe with each agent, and the files that its training wrote."""
    quick = {"gradient_steps": 10} if request.param in ("dqn_online", "counterfactual") else {}
    recipe = small(tiny_recipe, request.param, **quick)
    return recipe, train_online(recipe, out=tmp_path_factory.mktemp("online") / "a")


@pytest.mark.slow
def test_the_same_bytes_for_any_number_of_threads(trained, tmp_path):
    recipe, folder = trained
    again = train_online(recipe, out=tmp_path / "b", workers=3)
    assert content(again) == content(folder)
    assert {"checkpoint.json", "weights.safetensors", "metrics.parquet"} <= set(content(again))


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_an_interrupted_training_ends_in_the_same_bytes(trained, tmp_path):
    recipe, folder = trained

    def stop(done, _all):
        if done == 4:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_online(recipe, out=tmp_path / "c", progress=stop, resume_s=0.0)
    assert (tmp_path / "c" / "training.safetensors").is_file()
    assert not (tmp_path / "c" / "checkpoint.json").exists()
    seen = []
    train_online(recipe, out=tmp_path / "c", progress=lambda done, _all: seen.append(done))
    assert seen == [4, 5, 6]  # step 4 was not saved before the kill
    assert content(tmp_path / "c") == content(folder)


@pytest.mark.slow
def test_a_finished_training_is_left_as_it_is(trained):
    recipe, folder = trained
    seen = []
    train_online(recipe, out=folder, progress=lambda done, _all: seen.append(done))
    assert not seen


@pytest.fixture(scope="module")
def of_a_log(tmp_path_factory):
    """Return a recipe of a log, with windows of eight jobs."""
    log = write_log(tmp_path_factory.mktemp("log") / "log.swf.gz")
    splits = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')
    return load_recipe(
        "queue-swf", [f"trace.path={log}", "config.jobs=8", "config.follow=8", *splits]
    )


@pytest.mark.slow
def test_a_changed_log_is_trained_on_again(of_a_log, tmp_path):
    """The recipe names only the place of the log."""
    recipe, seen = small(of_a_log, network={"hidden": [4], "quadratic": False}), []

    def run(out):
        train_online(recipe, out=out, iterations=1, progress=lambda done, _all: seen.append(done))
        return content(out)["weights.safetensors"]

    before = run(tmp_path / "a")
    assert run(tmp_path / "a") == before
    assert seen == [1]
    write_log(Path(recipe.trace.path), seed=1)
    after = run(tmp_path / "a")
    assert seen == [1, 1]
    assert after == run(tmp_path / "b") != before


@pytest.mark.slow
def test_a_workload_that_was_ingested_otherwise_is_trained_on_again(of_a_log, tmp_path):
    """The same log gives other tables if it is read with other settings."""
    workload, folder = load_source(of_a_log), tmp_path / "workload"
    trace = dataclasses.replace(of_a_log.trace, format="workload", path=str(folder))
    recipe, seen = small(dataclasses.replace(of_a_log, trace=trace)), []
    for tasks in (workload.tasks, workload.tasks.head(60)):
        save_workload(dataclasses.replace(workload, tasks=tasks), folder)
        train_online(recipe, out=tmp_path / "a", iterations=1,
                     progress=lambda done, _all: seen.append(done))  # fmt: skip
    assert seen == [1, 1]


def test_workloads_that_are_drawn_leave_the_key_as_it_was(tiny_recipe):
    assert problem_of(tiny_recipe, 0, 1).sources == []


@pytest.mark.slow
def test_another_seed_gives_other_weights(trained, tmp_path):
    recipe, folder = trained
    other = train_online(recipe, out=tmp_path / "d", seed=1)
    assert content(other)["weights.safetensors"] != content(folder)["weights.safetensors"]


@pytest.mark.slow
def test_curves_and_the_best_checkpoint_on_validation(trained):
    """The best checkpoint has the highest greedy return on the validation windows."""
    recipe, folder = trained
    curves = pl.read_parquet(folder / "metrics.parquet")
    names = {"return", "makespan_s", "decisions", "validation_makespan_s"}
    if recipe.online.agent in ("reinforce", "natural_gradient"):
        names |= {"surprise", "gradient_norm"}
    assert names <= set(curves["metric"])
    validation = curves.filter(pl.col("metric") == "validation_return")
    best = read_description(folder / "best")["training"]["best"]
    assert best["score"] == validation["value"].max()
    assert best["step"] == validation.sort("value", descending=True, maintain_order=True)["step"][0]
    load_policy(folder)
    load_policy(folder / "best")


@pytest.mark.slow
def test_checkpoints_on_the_way(tiny_recipe, tmp_path):
    train_online(small(tiny_recipe), out=tmp_path, iterations=5, checkpoint_every=2)
    found = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert found == ["step-000002", "step-000004", "step-000005"]


ELSEWHERE = {"dqn_online", "evolution", "counterfactual"}  # this is tested on slots in other files


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", nightly_but({"natural_gradient"}, [name for name in ANYWHERE if name not in ELSEWHERE])
)
def test_an_agent_learns_slots(agent, tmp_path):
    """The agent starts above shortest-job-first (4.8) and gets far below it quickly."""
    sampling = {"trajectories": 10, "windows": 4, "stay": 1, "baseline": "time"}
    settings = {"sampling": sampling, "network": {"hidden": [16], "quadratic": False}}
    if agent == "reinforce":
        settings["learning_rate"] = 0.005
    recipe = load_recipe("slots-deeprm-online", ['split.validation="200..209"'])
    recipe = dataclasses.replace(recipe, online=OnlineRecipe(agent, 40, settings))
    curves = pl.read_parquet(train_online(recipe, out=tmp_path) / "metrics.parquet")
    sampled = curves.filter(pl.col("metric") == "mean_slowdown")["value"]
    assert sampled[:3].mean() > 5.0
    assert sampled[-5:].mean() < 4.0


@pytest.mark.slow
def test_evolution_learns_slots(tmp_path):
    """The mean of the search, not its individuals, falls below shortest-job-first (4.8)."""
    settings = {"sampling": {"trajectories": 16, "windows": 6, "stay": 1, "baseline": "none"}}
    recipe = load_recipe("slots-deeprm-online", ['split.validation="200..219"'])
    recipe = dataclasses.replace(recipe, online=OnlineRecipe("evolution", 25, settings))
    curves = pl.read_parquet(train_online(recipe, out=tmp_path) / "metrics.parquet")
    greedy = curves.filter(pl.col("metric") == "validation_mean_slowdown")["value"]
    assert greedy.min() < 4.2


@pytest.mark.slow
def test_a_warm_start_begins_where_the_imitator_is(tiny_recipe, tiny_dataset, tmp_path):
    """Before the first step, network, constants, weights and play are the imitator's."""
    train(tiny_dataset, "behaviour_cloning", steps=40, seed=0, out=tmp_path / "bc",
          settings={"network.hidden": [8]})  # fmt: skip
    imitator = load_policy(tmp_path / "bc")
    recipe = small(tiny_recipe, learning_rate=1e-12)
    train_online(recipe, out=tmp_path / "o", start=[tmp_path / "bc"], iterations=1)
    begun = load_policy(tmp_path / "o")
    assert begun.network.settings == imitator.network.settings
    assert (begun.network.candidates.mean == imitator.network.candidates.mean).all()
    for name, value in imitator.weights.items():
        assert begun.weights[name] == pytest.approx(value, abs=1e-6)
    described = read_description(tmp_path / "o")["training"]
    assert described["config"]["network"]["hidden"] == [8]
    digest = json.loads((tmp_path / "bc" / "checkpoint.json").read_text())["weights"]["sha256"]
    assert described["online"]["start"] == digest
    train_online(small(tiny_recipe), out=tmp_path / "p", start=[tmp_path / "bc"], iterations=2)
    moved = load_policy(tmp_path / "p").weights
    assert {n: w.shape for n, w in moved.items()} == imitator.network.shapes
    assert not (moved["layer0.weight"] == imitator.weights["layer0.weight"]).all()


@pytest.mark.slow
def test_a_start_of_other_features_or_of_another_kind_is_refused(tiny_recipe, tmp_path):
    slots = load_recipe("slots-deeprm-online", ["config.steps=5"])
    other = dataclasses.replace(slots, online=OnlineRecipe("reinforce", 1, {"sampling": SMALL}))
    train_online(other, out=tmp_path / "slots")
    with pytest.raises(DatasetError, match="was trained on"):
        train_online(small(tiny_recipe), out=tmp_path / "o", start=[tmp_path / "slots"])
    with pytest.raises(DatasetError, match="not a checkpoint"):
        train_online(small(tiny_recipe), out=tmp_path / "o", start=[tmp_path])
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"learning_rat": 0.1}, "did you mean 'learning_rate'"),
        ({"sampling": {"trajectory": 3}}, "did you mean 'trajectories'"),
        ({"sampling": {"trajectories": 0}}, "expected from 1"),
        ({"sampling": {"baseline": "times"}}, "did you mean 'time'"),
        ({"learning_rate": 0.0}, "expected above 0"),
        ({"network": {"image": 20}}, "has no image"),
    ],
    ids=["key", "inner key", "number", "baseline", "rate", "image"],
)
def test_settings_that_make_no_agent_are_refused(settings, said, tiny_recipe, tmp_path):
    """The error gives the nearest valid name, and no file is written."""
    online = OnlineRecipe("reinforce", 1, settings)
    with pytest.raises(RecipeError, match=said):
        train_online(dataclasses.replace(tiny_recipe, online=online), out=tmp_path / "x")
    assert not (tmp_path / "x" / "checkpoint.json").exists()


def test_a_recipe_without_an_agent_asks_for_one(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="give --agent"):
        train_online(tiny_recipe, out=tmp_path)
    with pytest.raises(RecipeError, match="unknown key 'updates'"):
        train_online(small(tiny_recipe, updates="iteration"), out=tmp_path,
                     agent="natural_gradient")  # fmt: skip
    with pytest.raises(UnknownName, match="did you mean 'reinforce'"):
        train_online(tiny_recipe, out=tmp_path, agent="reinforc")
    with pytest.raises(InputError, match="at least 1"):
        train_online(tiny_recipe, out=tmp_path, agent="reinforce", iterations=0)


def test_the_settings_of_a_recipe_make_an_agent():
    """Every [online] section in datasets/ is read as strictly as in a training."""
    recipes = [each for each in LOADED.values() if each.online.agent in ONLINE_AGENTS]
    assert len(recipes) > 20
    for recipe in recipes:
        agent, config = settings_of(recipe)
        assert agent in ONLINE_AGENTS
        drawn = getattr(config, "sampling", config)  # monte_carlo_value compares no trajectories
        assert drawn.windows <= len(recipe.windows("train")), recipe.id


def test_settings_within_a_table_keep_the_others_of_the_agent():
    """A table that names one key changes that key only."""
    config = read_online_config("natural_gradient", {"sampling": {"windows": 3}}, "x")
    assert config.sampling == Sampling(trajectories=20, windows=3, stay=1, baseline="time")


def test_a_table_is_valid_or_not_with_the_rest_of_the_agents_own():
    """The kind needs hidden layers: natural_gradient has two, and evolution has none."""
    settings = {"network": {"kind": "deepsets"}}
    network = read_online_config("natural_gradient", settings, "x").network
    assert (network.kind, network.hidden, network.quadratic) == ("deepsets", (32, 32), False)
    with pytest.raises(RecipeError, match=r"hidden"):
        read_online_config("evolution", settings, "x")


@pytest.mark.parametrize("agent", ONLINE_AGENTS)
def test_empty_tables_leave_the_settings_of_an_agent(agent):
    plain = read_online_config(agent, {}, "x")
    tables = {f.name: {} for f in dataclasses.fields(plain)
              if dataclasses.is_dataclass(getattr(plain, f.name))}  # fmt: skip
    assert "network" in tables
    assert read_online_config(agent, tables, "x") == plain


def test_a_recipe_without_online_settings_keeps_its_digest(tiny_recipe):
    """Datasets that were built before online agents existed stay valid."""
    assert "online" not in tiny_recipe.to_dict()
    assert small(tiny_recipe).digest != tiny_recipe.digest
    assert load_recipe("binpack-deepjs").to_dict()["online"]["agent"] == "reinforce"
