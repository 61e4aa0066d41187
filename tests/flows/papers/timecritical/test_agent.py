"""Tests of Liu et al.'s agent: its values, its exploration, its replay, and repeatable runs."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.timecritical.agent import Config, Target, explore_at
from hindcast.flows.papers.timecritical.network import (
    ClustersPolicy,
    ClustersSettings,
    clusters_network,
)
from hindcast.flows.papers.timecritical.replay import EpisodeReplay
from hindcast.flows.papers.timecritical.rollouts import (
    GREEDY,
    GUIDED,
    RANDOM,
    Exploring,
    play_valued,
)
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import RecipeError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.features import spec as spec_of
from hindcast.pipeline.scenarios.multicluster.initial_state import lay_out
from hindcast.pipeline.scenarios.multicluster.instances import Applications
from hindcast.policies.heuristics.multicluster import HEURISTICS
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.online import read_online_config
from hindcast.policies.online.imitation import Imitation
from hindcast.policies.registry import behaviours
from tests.folders import content
from tests.policies.trainings import train_online

SCENARIO = load_scenario("multicluster")
SMALL = [
    "config.applications=25", 'split.train="0..3"', 'split.validation="4..5"',
    'split.test="6..7"',
]  # fmt: skip
SETTINGS = {
    "network": {"hidden": [16, 8]}, "batch": 40, "replay": 60, "explore_episodes": 6,
    "targets": "logarithm",
}  # fmt: skip


def small(**settings):
    """Return the uniform recipe with 25 applications and an agent that trains quickly."""
    online = OnlineRecipe("monte_carlo_value", 8, {**SETTINGS, **settings})
    return dataclasses.replace(load_recipe("multicluster-uniform-v1", SMALL), online=online)


def untrained(spec, hidden=(16, 8), seed=0):
    network = clusters_network(ClustersSettings(len(spec.context) // 103, hidden), spec.context,
                               spec.candidates)  # fmt: skip
    rng = np.random.default_rng(seed)
    weights = {k: rng.normal(0, 0.3, s).astype(np.float32) for k, s in network.shapes.items()}
    return ClustersPolicy("values", network, weights, spec.context, spec.candidates)


@pytest.fixture(scope="module")
def played():
    """Return a function that plays a window of 60 applications."""
    recipe = load_recipe("multicluster-uniform-v1", ["config.applications=60"])
    workload = load_source(recipe)
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    policy = untrained(spec)

    def play(window, exploring, seed=0, **more):
        instance = make_instance(recipe, SCENARIO, workload, window)
        rng = np.random.default_rng(seed)
        return play_valued(SCENARIO, spec, instance, policy, exploring, rng, 60, **more)

    return play


def test_values_of_an_episode_reckoned_by_hand():
    """Three applications of 10 tasks of 10 steps in one cluster of 10 executors, at 0, 0 and 1.

        step          0         10        20        30
        first         ==========                            AR 10, OR 10: in time
        second                  ==========                  AR 20 > 12: missed at 20
        third                             ==========        AR 29 > 12: missed at 30

    Deployed at 0, 1 and 2. The first sees no miss before its end, the second only its own, the
    third the second's. -1 * MDL - .02 * MDL_after - .1 * Delay.
    """
    config = MulticlusterConfig(applications=3, clusters=(10,))
    three = np.array([10, 10, 10])
    applications = Applications(
        arrival=np.array([0, 0, 1]), category=np.ones(3, np.int64), execution=three, tasks=three,
        deadline=np.full(3, 12.0), runs=np.ones(3, np.int64), period=np.zeros(3, np.int64),
        profile=np.zeros((3, 10)), needs=three,
    )  # fmt: skip
    spec = spec_of(config, "misses_and_delay")
    always_first = Exploring(1.0, 0.0, HEURISTICS["sf_e"])
    valued = play_valued(
        SCENARIO, spec, lay_out(config, 0, applications), untrained(spec), always_first,
        np.random.default_rng(0), 3,
    )  # fmt: skip
    assert valued.choices.tolist() == [0, 0, 0]
    by_hand = [-0.1 * 1.0, -1 - 0.1 * 2.0, -1 - 0.02 * 1 - 0.1 * 2.9]
    np.testing.assert_allclose(valued.values, by_hand, rtol=1e-12)


def test_values_add_up_to_the_return(played):
    valued = played(0, Exploring(0.7, 0.5, HEURISTICS["sf_e"]))
    assert valued.values.sum() == pytest.approx(valued.episode.total)
    assert len(valued.values) == 60


@pytest.mark.parametrize(
    ("random_share", "expected"), [(0.5, 0.5), (1.0, 1.0)], ids=["improved", "plain"]
)
def test_exploration_is_half_random_and_half_guided_or_all_random(played, random_share, expected):
    """Of 3000 decisions, .6 explore, a given share of these at random, within four deviations."""
    exploring = Exploring(0.6, random_share, HEURISTICS["sf_e"])
    source = np.concatenate([played(w, exploring, seed=w).source for w in range(50)])
    explored = int(np.sum(source != GREEDY))
    assert abs(explored / len(source) - 0.6) < 4 * np.sqrt(0.24 / len(source))
    share = float(np.sum(source == RANDOM)) / explored
    deviation = np.sqrt(expected * (1 - expected) / explored)
    assert abs(share - expected) <= 4 * deviation
    assert np.sum(source == GUIDED) == explored - np.sum(source == RANDOM)


def test_a_guided_episode_is_the_rule_s(played):
    """With guided exploration only, outcomes are those of SF-E on the same window."""
    from hindcast.pipeline.simulation.policy import Behaviour
    from hindcast.pipeline.simulation.rollout import run_episode

    recipe = load_recipe("multicluster-uniform-v1", ["config.applications=60"])
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    instance = make_instance(recipe, SCENARIO, load_source(recipe), 3)
    rule = run_episode(SCENARIO, spec, instance, Behaviour("sf_e", HEURISTICS["sf_e"]),
                       np.random.default_rng(0))  # fmt: skip
    guided = played(3, Exploring(1.0, 0.0, HEURISTICS["sf_e"]))
    assert (guided.source == GUIDED).all()
    assert guided.episode.outcomes.tobytes() == rule.outcomes.tobytes()


def test_greedy_choices_are_those_of_the_policy_that_acts(played):
    """The compiled episode and the checkpoint's policy in a batch play the same episode."""
    from hindcast.pipeline.simulation.batched import run_batched
    from hindcast.pipeline.simulation.policy import Behaviour

    recipe = load_recipe("multicluster-uniform-v1", ["config.applications=60"])
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    instance = make_instance(recipe, SCENARIO, load_source(recipe), 1)
    behaviour = Behaviour("values", untrained(spec))
    [stepped] = run_batched(SCENARIO, spec, [instance], behaviour, [np.random.default_rng(0)])
    greedy = played(1, Exploring(0.0, 0.5, HEURISTICS["sf_e"]), inputs=False)
    assert (greedy.source == GREEDY).all()
    assert greedy.inputs.shape == (0, 529)
    assert greedy.episode.outcomes.tobytes() == stepped.outcomes.tobytes()


def test_epsilon_falls_in_a_line_from_8_tenths_to_a_hundred_thousandth():
    config = Config()
    assert explore_at(config, 1) == 0.8
    assert explore_at(config, 1900) == explore_at(config, 2000) == 1e-5
    middle = explore_at(config, 951) - explore_at(config, 950)
    assert middle == pytest.approx((1e-5 - 0.8) / 1899)
    assert explore_at(dataclasses.replace(config, explore_episodes=1), 1) == 1e-5


def test_logarithmic_targets_keep_the_order_of_values():
    values = np.array([-300.0, -12.0, -1.1, -0.2, -0.1, 0.0])
    target = Target(logarithm=True, mean=-3.0, deviation=2.0).of(values)
    assert (np.diff(target) > 0).all()
    assert target[-1] == pytest.approx(1.5)


def test_a_replay_holds_the_last_episodes_and_makes_them_again(played):
    """The first of four episodes is gone, and a replay made from the saved state is equal."""
    exploring = Exploring(1.0, 0.5, HEURISTICS["sf_e"])
    episodes = {window: played(window, exploring, seed=window) for window in range(4)}

    def again(window, choices):
        return played(window, Exploring(0.0, 0.0, HEURISTICS["sf_e"]), given=choices)

    first, second = (EpisodeReplay(190, 60, 529, again) for _ in range(2))
    for window, episode in episodes.items():
        first.add(window, episode)
    assert len(first) == 180  # three whole episodes of at most 190 rows
    second.load_state_dict(first.state_dict())
    for one, other in zip(
        first.draw(180, np.random.default_rng(0)), second.draw(180, np.random.default_rng(0)),
        strict=True,
    ):  # fmt: skip
        assert one.tobytes() == other.tobytes()
    values = np.sort(first.draw(180, np.random.default_rng(1))[2])
    kept = np.sort(np.concatenate([episodes[w].values for w in (1, 2, 3)]).astype(np.float32))
    assert values.tobytes() == kept.tobytes()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_online(small(windows=2), out=tmp_path_factory.mktemp("liu") / "a")


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_an_interrupted_training_ends_in_the_same_bytes_on_more_threads(trained, tmp_path):
    """After the kill, the replay is made again from its choices."""
    recipe = small(windows=2)

    def stop(done, _all):
        if done == 5:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_online(recipe, out=tmp_path / "b", progress=stop, resume_s=0.0)
    assert (tmp_path / "b" / "training.safetensors").stat().st_size < 200_000
    seen = []
    train_online(
        recipe, out=tmp_path / "b", workers=3, progress=lambda done, _all: seen.append(done)
    )
    assert seen[0] == 5
    assert content(tmp_path / "b") == content(trained)


@pytest.mark.slow
def test_it_learns_to_tell_clusters_apart(tmp_path):
    """After exploration alone, greedy episodes cost a third of their cost before training."""
    recipe = load_recipe(
        "multicluster-uniform-v1",
        ["config.applications=40", 'split.train="200..299"', 'split.validation="300..301"'],
    )
    settings = {
        **SETTINGS, "batch": 200, "replay": 2000, "explore_episodes": 38, "batches": 6,
        "network": {"hidden": [24, 12]}, "learning_rate": 0.02, "momentum": 0.9,
    }  # fmt: skip
    online = OnlineRecipe("monte_carlo_value", 40, settings)
    folder = train_online(dataclasses.replace(recipe, online=online), out=tmp_path)
    curves = pl.read_parquet(folder / "metrics.parquet")
    cost = curves.filter(pl.col("metric") == "validation_eval_cost").sort("step")["value"]
    assert cost[-5:].mean() < cost[:5].mean() / 3
    assert {"tmdl", "ajdr_percent", "greedy", "random", "guided", "loss", "value"} <= set(
        curves["metric"]
    )
    assert isinstance(load_policy(folder / "best"), ClustersPolicy)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"guide": "sf_ee"}, UnknownName, "did you mean 'sf_e'"),
        ({"momentum": 1.0}, RecipeError, "momentum is 1.0, expected from 0 to below 1"),
        ({"random_share": 1.5}, RecipeError, "random_share is 1.5, expected from 0 to 1"),
        ({"batch": 0}, RecipeError, "batch is 0, expected from 1"),
        (
            {"batch": 60, "replay": 60},  # two episodes of 25 rows
            RecipeError,
            "batch is 60, but with replay = 60 the replay holds .* at most 50 rows",
        ),
        (
            {"network": {"clusters": 4}},
            RecipeError,
            "network.clusters is 4, but the scenario has 5",
        ),
    ],
    ids=["guide", "momentum", "share", "batch", "replay", "clusters"],
)
def test_settings_that_cannot_be_are_named(settings, error, match, tmp_path):
    with pytest.raises(error, match=match):
        train_online(small(**settings), out=tmp_path / "x")


def test_settings_of_a_recipe_replace_the_paper_s():
    config = read_online_config("monte_carlo_value", {"network": {"hidden": [7]}}, "x")
    assert config.network == ClustersSettings(5, (7,))
    assert config.replay == 50_000
    assert config.batch == 1000


@pytest.mark.slow
def test_it_begins_as_a_rule_that_it_imitates(tmp_path):
    """After imitating most_free_now, choices agree with the log far more often than before."""
    recipe = load_recipe("multicluster-uniform-v1", SMALL)
    rule = [b for b in recipe.behaviours if b.policy == "most_free_now"]
    recipe = dataclasses.replace(recipe, behaviours=tuple(rule))
    build(recipe, behaviours(recipe), tmp_path / "data")
    imitation = Imitation(tmp_path / "data", steps=80)
    folder = train_online(small(), out=tmp_path / "a", iterations=1, imitation=imitation)
    curves = pl.read_parquet(folder / "metrics.parquet")
    assert curves.height > 0
    imitated = read_description(folder / "imitation")["training"]["metrics"]
    agreement = [m["value"] for m in imitated if m["metric"] == "agreement"]
    assert agreement[0] < 0.25
    assert agreement[-1] > 0.45
