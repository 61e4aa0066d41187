"""Tests of evaluation: the same windows for all, resumption, and the report's input files."""

import dataclasses
import json
import shutil
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError, RecipeError, StorageError, UnknownName
from hindcast.pipeline.evaluation import evaluate as evaluation
from hindcast.pipeline.evaluation import looks
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.entrants import entrants


class LongestFirst:
    """The rule as a Python policy that scores batches, as a network does."""

    name = "python_longest"

    def scores(self, observation):
        return observation.candidates[:, 4]

    def batch_scores(self, context, candidates, offsets):
        assert len(context) == len(offsets) - 1
        return candidates[:, 4].copy()


def test_all_policies_meet_the_same_windows(tiny_recipe, tmp_path):
    names = ["random", "first_fit", "longest_first", "longest_spread"]
    policies = entrants(tiny_recipe, names)
    policies.append(Entrant(Behaviour("python", LongestFirst()), "learned", "python"))
    result = evaluate(tiny_recipe, policies, split="test", out=tmp_path / "e", workers=2)
    scores = pl.read_parquet(tmp_path / "e" / "scores.parquet")
    assert scores.columns == ["policy", "scenario", "window", "seed", "metric", "value"]
    assert result.rows == scores.height
    for name, seeds in (*((n, 1) for n in names[1:]), ("random", 2), ("python", 1)):
        own = scores.filter(pl.col("policy") == name, pl.col("metric") == "makespan_s")
        assert sorted(own["window"].unique()) == [8, 9, 10, 11]
        assert own.height == 4 * seeds
    # a compiled rule and its twin in Python, stepped in a batch, have equal scores
    for metric in scores["metric"].unique():
        own = scores.filter(pl.col("metric") == metric).sort("window")
        twin = own.filter(pl.col("policy") == "python")["value"]
        rule = own.filter(pl.col("policy") == "longest_first")["value"]
        np.testing.assert_array_equal(twin, rule)
    described = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    assert described["headline"] == "makespan_s"
    assert described["bound"] == "lower_bound_s"
    assert described["references"] == ["random", "longest_first", "longest_spread"]
    texts = {p["name"]: p.get("description", "") for p in described["policies"]}
    assert "duration" in texts["longest_first"]
    assert not texts["python"]
    assert not (tmp_path / "e" / ".evaluating").exists()


@pytest.mark.parametrize("policy", ["sjf_reserve", "python"])
def test_what_is_evaluated_is_played_on_its_own_window(policy, tmp_path):
    """Scores are those of episodes on the instances that the recipe's seed draws, by window."""
    recipe = load_recipe("slots-deeprm-v1", (
        "config.steps=5", 'split.train="0..1"', 'split.validation="2..2"', 'split.test="3..4"',
    ))  # fmt: skip
    scenario = load_scenario(recipe.scenario)
    spec = scenario.spec(recipe.config, recipe.objective)
    [rule] = entrants(recipe, ["sjf_reserve"])
    entrant = rule
    if policy == "python":  # plays in a batch
        known = rule.behaviour.policy
        python = types.SimpleNamespace(name="python", scores=known.scores)
        entrant = Entrant(Behaviour("python", python), "learned", "python")
    evaluate(recipe, [entrant], split="test", out=tmp_path / "e")
    scores = pl.read_parquet(tmp_path / "e" / "scores.parquet")
    found = []
    for window in (3, 4):
        rng = generator(recipe.seed, "instance", window)
        nothing = load_source(recipe)
        instance = scenario.instance(recipe.config, recipe.objective, nothing, window, rng)
        played = run_episode(scenario, spec, instance, rule.behaviour, np.random.default_rng(0))
        found.append(played.outcomes.tolist())
        for outcome, value in zip(spec.outcomes, played.outcomes, strict=True):
            row = scores.filter(pl.col("window") == window, pl.col("metric") == outcome.name)
            assert row["value"].to_list() == [value], outcome.name
    assert found[0] != found[1]


def test_workers_and_order_do_not_change_scores(tiny_recipe, tmp_path):
    names = ["random", "tetris", "random_reference"]
    one = entrants(tiny_recipe, names)
    evaluate(tiny_recipe, one, split="test", out=tmp_path / "a")
    evaluate(tiny_recipe, one[::-1], split="test", out=tmp_path / "b", workers=2)
    key = ["policy", "window", "seed", "metric"]
    a, b = (pl.read_parquet(tmp_path / n / "scores.parquet").sort(key) for n in "ab")
    assert a.equals(b)


def test_an_interrupted_evaluation_keeps_what_was_finished(tiny_recipe, tmp_path):
    class Broken(LongestFirst):
        def batch_scores(self, context, candidates, offsets):
            raise KeyboardInterrupt

    [first] = entrants(tiny_recipe, ["tetris"])
    broken = Entrant(Behaviour("broken", Broken()), "learned", "broken")
    with pytest.raises(KeyboardInterrupt):
        evaluate(tiny_recipe, [first, broken], split="test", out=tmp_path / "e")
    kept = list((tmp_path / "e" / ".evaluating").glob("*.parquet"))
    assert len(kept) == 1
    before = kept[0].stat().st_mtime_ns
    assert not (tmp_path / "e" / "scores.parquet").exists()
    with pytest.raises(KeyboardInterrupt):
        evaluate(tiny_recipe, [first, broken], split="test", out=tmp_path / "e")
    assert kept[0].stat().st_mtime_ns == before
    with pytest.raises(DatasetError, match="another recipe, split or number of seeds"):
        evaluate(tiny_recipe, [first], split="train", out=tmp_path / "e")


def test_a_delivered_rule_is_no_look(tiny_recipe, tmp_path):
    [rule] = entrants(tiny_recipe, ["tetris"])
    for delivered, count in (("rule", 0), ("agent", 1)):
        agent = Entrant(rule.behaviour, "learned", "a", digest="0" * 64, delivered=delivered)
        evaluate(tiny_recipe, [agent], split="test", out=tmp_path / delivered)
        assert looks.others(tiny_recipe, "test", []) == count


def test_bad_requests_are_named(tiny_recipe, tmp_path):
    [tetris] = entrants(tiny_recipe, ["tetris"])
    with pytest.raises(RecipeError, match="did you mean 'test'"):
        evaluate(tiny_recipe, [tetris], split="tset", out=tmp_path / "e")
    with pytest.raises(RecipeError, match="no policies"):
        evaluate(tiny_recipe, [], split="test", out=tmp_path / "e")
    with pytest.raises(UnknownName, match="did you mean 'tetris'"):
        entrants(tiny_recipe, ["tetriss"])
    with pytest.raises(DatasetError, match="no such checkpoint folder"):
        entrants(tiny_recipe, ["agents/nowhere"])
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"notes\.txt"):
        evaluate(tiny_recipe, [tetris], split="test", out=tmp_path / "f")
    assert not (tmp_path / "e").exists()
    shutil.rmtree(tmp_path / "f")


def test_an_interruption_does_not_wait_for_the_episodes_that_are_left(
    tiny_recipe, tmp_path, monkeypatch
):
    """It comes while 2,000 episodes are given to threads, which play one each and no other."""
    play, played, given = evaluation.run_episode, [], []

    def counted(*arguments):
        played.append(arguments)
        time.sleep(0.01)
        return play(*arguments)

    class Pool(ThreadPoolExecutor):
        def submit(self, *arguments):
            given.append(arguments)
            if len(given) == 50:
                raise KeyboardInterrupt
            return super().submit(*arguments)

    monkeypatch.setattr(evaluation, "run_episode", counted)
    monkeypatch.setattr(evaluation, "ThreadPoolExecutor", Pool)
    policies = entrants(tiny_recipe, ["random"])
    with pytest.raises(KeyboardInterrupt):
        evaluate(tiny_recipe, policies, split="test", out=tmp_path / "e", seeds=500)
    assert len(played) < 49


@pytest.mark.parametrize("windows", [1, 2])
def test_a_single_long_window_is_scored_by_its_blocks(tiny_recipe, tmp_path, monkeypatch, windows):
    """Blocks of 1 s and 3 s stand for weeks of a long episode."""
    scenario = dataclasses.replace(
        load_scenario(tiny_recipe.scenario), blocks=lambda _ints: {"makespan_s": np.array([1, 3])}
    )
    monkeypatch.setattr(evaluation, "load_scenario", lambda _name: scenario)
    recipe = dataclasses.replace(tiny_recipe, split={"test": range(8, 8 + windows)})
    names = ["first_fit", "longest_first", "longest_spread"]
    result = evaluate(recipe, entrants(recipe, names), split="test", out=tmp_path / "e")
    scores = pl.read_parquet(tmp_path / "e" / "scores.parquet")
    described = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    summary = summarise([tmp_path / "e"])
    rows = scores.filter(policy="first_fit", metric="makespan_s").select("window", "value").rows()
    if windows == 1:
        assert rows == [(0, 1.0), (1, 3.0)]
        assert result.means == dict.fromkeys(names, 2.0)
        assert described["bound"] is None
        assert "blocks of that episode" in described["notes"][-1]
        assert summary.settings[0].setting.headline.windows == (0, 1)
        other = scores.filter(policy="first_fit", metric="return")
        assert other["window"].to_list() == [8]
    else:
        assert [window for window, _ in rows] == [8, 9]
        assert described["bound"] == "lower_bound_s"
