"""Tests of rule columns: a rank plays its rule, in every scenario, on logs, and in training."""

import dataclasses
import json
import re
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, HindcastError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks import rules
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.checkpoint import Trained, load_policy, save
from hindcast.policies.networks.limits import limits_of
from hindcast.policies.networks.player import Decider
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import find_rules, rankable, rule_columns
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.offline import read_config
from hindcast.policies.offline.tasks import columns_of_rules
from hindcast.policies.registry import behaviours
from hindcast.policies.rollouts.trajectories import network_inputs, sample_trajectory
from tests.conftest import require_traces
from tests.policies.trainings import train, train_agent
from tests.readable_recipes import READABLE

PROBLEMS = {
    "binpack": ("binpack-synthetic-v1", ("config.machines=3",)),
    "slots": ("slots-deeprm-v1", ("config.steps=20",)),
    "multicluster": ("multicluster-uniform-v1", ("config.applications=30",)),
    "deferrable": ("deferrable-base-v1", ()),
    "thermal": ("thermal-default-v1", ("config.jobs=30",)),
    "queue": ("queue-lublin1-v1", ("config.jobs=60", "config.follow=30")),
}
WIDTH = 3


def problem(name):
    """Return scenario, spec and an instance of a small problem."""
    recipe = load_recipe(*PROBLEMS[name])
    if recipe.trace.path:
        require_traces()
    scenario = load_scenario(name)
    spec = scenario.spec(recipe.config, recipe.objective)
    return scenario, spec, make_instance(recipe, scenario, load_source(recipe), 0)


def rules_over(spec):
    """Return the rules that the features of a spec allow, by name."""
    features = {feature.name for feature in spec.candidates}
    return {name: r for name, r in rankable(spec.scenario).items() if features.issuperset(r.needs)}


def follower(spec, names, followed):
    """Return a network over these rules that has weight 1 on the rank of one and 0 elsewhere."""
    settings = NetworkSettings(quadratic=False, rules=tuple(names))
    network = make_network(spec.context, spec.candidates, settings, scenario=spec.scenario)
    weight = np.zeros((1, network.inputs), np.float32)
    first = len(network.candidates.columns) - 2 * len(names)
    weight[0, first + 2 * list(names).index(followed) + 1] = 1.0
    weights = {"layer0.weight": weight, "layer0.bias": np.zeros(1, np.float32)}
    return LearnedPolicy(followed, network, weights, spec.context, spec.candidates)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_weight_on_a_rank_plays_the_rule(name):
    """Outcomes and choices are those of the rule, in every way to play an episode."""
    scenario, spec, instance = problem(name)
    known = rules_over(spec)
    assert len(known) >= 5
    several = list(known)[:6]
    for rule in several:
        policy, rng = follower(spec, several, rule), np.random.default_rng
        expected = run_episode(scenario, spec, instance, Behaviour(rule, known[rule]), rng(0))
        sampled = sample_trajectory(scenario, spec, instance, policy, rng(0), temperature=0.0)
        behaviour = Behaviour(rule, policy)
        (locked,) = run_batched(scenario, spec, [instance], behaviour, [rng(0)])
        evaluated = run_episode(scenario, spec, instance, behaviour, rng(0))
        runner = policy.episode_runner(scenario, spec, instance, 0.0, 0.0)
        trace = runner.play(rng(0))
        for played in (sampled.episode, locked, evaluated):
            assert played.outcomes.tobytes() == expected.outcomes.tobytes()
            assert (played.steps, played.total) == (expected.steps, expected.total)
        assert trace.choices.tolist() == sampled.choices.tolist()


def plain_columns(score, feasible):
    """Return choice and rank of every candidate, from the definitions."""
    choice, rank = np.zeros(len(score)), np.zeros(len(score))
    able = np.flatnonzero(feasible)
    for i in able:
        others = [j for j in able if j != i]
        rank[i] = np.mean([score[j] < score[i] for j in others]) if others else 1.0
    best = max(able, key=lambda i: (score[i], -i))
    choice[best] = 1.0
    return choice, rank


@k.compiled(k.SCORE)
def _first_column(context, candidates, feasible, parameters, scores):
    for i in range(len(scores)):
        scores[i] = candidates[i, 0]


@k.compiled(k.SCORE)
def _less_infeasible(context, candidates, feasible, parameters, scores):
    """A rule that reads infeasible candidates and the context."""
    refused = 0.0
    for i in range(len(scores)):
        if not feasible[i]:
            refused += candidates[i, 1]
    for i in range(len(scores)):
        scores[i] = -abs(candidates[i, 1] - refused - context[0])


@pytest.fixture
def made(monkeypatch):
    """Put two rules into the scenario `binpack`."""
    both = {"one": Heuristic("one", _first_column), "two": Heuristic("two", _less_infeasible)}
    monkeypatch.setattr("hindcast.policies.heuristics.heuristics", lambda _scenario: both)
    return find_rules("binpack", ("two", "one"), ())


@pytest.mark.parametrize("most", [1, 3, 12, 90])  # above 32 candidates, columns are sorted
def test_columns_are_choice_and_rank_of_feasible_candidates(made, most):
    rng = np.random.default_rng(most)
    counts = rng.integers(1, most + 1, 40)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    candidates = rng.integers(0, 5, (offsets[-1], WIDTH)).astype(np.float32)  # with ties
    feasible = rng.random(offsets[-1]) < 0.6
    feasible[offsets[:-1]] = True
    context = rng.integers(0, 3, (40, 2)).astype(np.float32)
    wide = rule_columns(made, context, candidates, offsets, feasible)
    assert wide.shape == (offsets[-1], WIDTH + 4)
    assert (wide[:, :WIDTH] == candidates).all()
    for b, (start, stop) in enumerate(pairwise(offsets)):
        rows, able = candidates[start:stop], feasible[start:stop]
        near = -abs(rows[:, 1] - rows[~able, 1].sum() - context[b, 0])
        expected = [*plain_columns(near, able), *plain_columns(rows[:, 0], able)]
        np.testing.assert_array_equal(wide[start:stop, WIDTH:], np.transpose(expected))


def test_an_observation_without_a_feasible_candidate_has_columns_of_zeros(made):
    wide = rule_columns(made, np.zeros((1, 2)), np.ones((2, WIDTH)), np.array([0, 2]), np.zeros(2))
    assert (wide[:, WIDTH:] == 0.0).all()


def test_arrays_that_do_not_fit_are_refused(made):
    with pytest.raises(IndexError, match="2 candidates, 2 masks and 2 offsets"):
        rule_columns(made, np.zeros((1, 2)), np.ones((2, WIDTH)), np.array([0, 3]), np.ones(2))


@pytest.fixture(scope="module")
def small_log(tmp_path_factory):
    """Return a dataset of `slots` with episodes of two rules."""
    folder = tmp_path_factory.mktemp("log") / "dataset"
    splits = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')
    recipe = load_recipe("slots-deeprm-v1", (*splits, "config.steps=25"))
    kept = [
        b for b in recipe.behaviours if b.policy in {"sjf_now", "packer_now", "hold_5", "random"}
    ]
    some = tuple(dataclasses.replace(b, episodes=2) for b in kept)
    build(dataclasses.replace(recipe, behaviours=some), behaviours(recipe), folder)
    return folder


def logged(dataset):
    """Return the deterministic rules of a dataset's log."""
    return tuple(b.policy for b in dataset.recipe.behaviours if b.policy in rankable("slots"))


def test_the_choice_column_is_the_choice_in_the_log(small_log):
    """Rows of a log are float32, and candidates are cut to 4: neither changes a choice."""
    opened = ds.open(small_log)
    names = logged(opened)
    assert len(names) >= 2
    further = find_rules(opened.spec.scenario, names, opened.spec.candidates).further()
    for size in (4, 64):
        rng = np.random.default_rng(0)
        found = sample_decisions(
            opened,
            "train",
            rng,
            Columns(size, transitions=True, more=("probabilities",), further=further),
        )
        plain = sample_decisions(
            opened,
            "train",
            np.random.default_rng(0),
            Columns(size, transitions=True, more=("probabilities",)),
        )
        width = len(opened.spec.candidates)
        np.testing.assert_array_equal(found.candidates[:, :, :width], plain.candidates)
        np.testing.assert_array_equal(found.next_candidates[:, :, :width], plain.next_candidates)
        np.testing.assert_array_equal(found.probabilities, plain.probabilities)
        for place, name in enumerate(names):
            of_rule = found.episodes["behaviour"].str.starts_with(name).to_numpy()
            own = of_rule[found.episode]
            greedy = own & (found.propensity > 0.5)
            assert greedy.sum() > 20
            rows = np.flatnonzero(greedy)
            assert (found.candidates[rows, found.choice[rows], width + 2 * place] == 1.0).all()
            assert (found.candidates[:, :, width + 2 * place].sum(axis=1) <= 1.0).all()
        assert (found.candidates[:, :, width:][~found.mask] == 0.0).all()


def damaged(dataset, folder, **values):
    """Return a copy of a dataset in which columns of all jobs have other values."""
    shutil.copytree(dataset, folder)
    for path in folder.glob("data/*.parquet"):
        file = pq.ParquetFile(path)
        groups = [file.read_row_group(i) for i in range(file.num_row_groups)]
        with pq.ParquetWriter(path, groups[0].schema) as writer:
            for group in groups:
                lists = group["candidates"].combine_chunks()
                columns = {f.name: lists.values.field(f.name) for f in lists.type.value_type}
                job = pc.greater(columns["length"], 0)
                columns |= {
                    name: pc.if_else(job, pa.scalar(value, pa.float32()), columns[name])
                    for name, value in values.items()
                }
                rows = pa.StructArray.from_arrays(
                    list(columns.values()), fields=list(lists.type.value_type)
                )
                found = pa.ListArray.from_arrays(lists.offsets, rows, type=lists.type)
                at = group.schema.get_field_index("candidates")
                writer.write_table(group.set_column(at, group.schema.field(at), found))
    return folder


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"offset": 1e9}, "offset is 1e+09, expected 0 to 20"),
        ({"length": -3}, "length is -3, expected 0 to 20"),
        ({"tie": np.nan}, "tie is nan, expected 0 to 20"),
        ({"waited": np.inf}, "waited is inf, expected 0 to 1e+15"),
    ],
)
def test_a_log_that_would_lead_a_rule_out_of_bounds_is_refused(small_log, tmp_path, values, said):
    """Compiled rules use some values as indices and lengths."""
    folder = damaged(small_log, tmp_path / "log", **values)
    with pytest.raises(DatasetError, match=re.escape(f"{folder}: {said}")):
        train(folder, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "out", gate="log",
              settings={"network.rules": ["backfill"]})  # fmt: skip


def test_ranges_are_those_of_the_scenario_whatever_a_manifest_states(small_log):
    opened = ds.open(small_log)
    config = read_config("behaviour_cloning", {"network.rules": ["backfill"]})
    wide = [dataclasses.replace(f, high=np.inf) for f in opened.spec.candidates]
    for candidates, refused in ((wide, "1e+09"), (wide[:-1], "states other features")):
        spec = dataclasses.replace(opened.spec, candidates=tuple(candidates))
        manifest = dataclasses.replace(opened.manifest, spec=spec)
        changed = dataclasses.replace(opened, manifest=manifest)
        with pytest.raises(DatasetError, match=re.escape(refused)):
            columns_of_rules(changed, config).widen(
                np.zeros((1, len(spec.context))), np.full((1, len(candidates)), 1e9),
                np.array([0, 1]), np.ones(1, np.bool_),
            )  # fmt: skip


@pytest.mark.slow
def test_rules_are_given_the_context_that_they_read():
    """A network may leave the context out, but the rules whose columns it reads do not."""
    _scenario, spec, _instance = problem("queue")
    policy = follower(spec, ["fcfs_easy"], "fcfs_easy")
    rows, offsets = np.zeros((4, len(spec.candidates))), np.array([0, 4])
    with pytest.raises(HindcastError, match=r"context \(1, 1\)"):
        policy.batch_scores(np.zeros((1, 1)), rows, offsets)
    assert len(policy.batch_scores(np.zeros((1, len(spec.context))), rows, offsets)) == 4
    known = np.zeros((4, len(spec.candidates) + 2))  # the rules have read the context before
    assert len(policy.batch_scores(np.zeros((1, 0)), known, offsets)) == 4


@pytest.mark.slow
def test_contexts_have_one_size_but_where_settings_decide_it():
    sizes: dict[tuple[str, bool], set[int]] = {}
    for name in READABLE:
        recipe = load_recipe(name)
        spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
        on_grid = recipe.objective in {"carbon", "price", "both"}  # which decides it too
        sizes.setdefault((recipe.scenario, on_grid), set()).add(len(spec.context))
    assert {name for (name, _), found in sizes.items() if len(found) > 1} <= rules.SIZED


@pytest.mark.parametrize("name", PROBLEMS)
def test_honest_observations_are_within_the_limits(name):
    """This is tested as logs store them, in float32."""
    scenario, spec, instance = problem(name)
    policy = follower(spec, list(rules_over(spec))[:1], next(iter(rules_over(spec))))
    played = sample_trajectory(scenario, spec, instance, policy, np.random.default_rng(0))
    for part in network_inputs(scenario, spec, played, policy.network):
        rows = part.rows[:, : len(spec.candidates)]
        limits_of(spec.candidates).require(rows, "candidates")
        limits_of(spec.candidates).require(rows.astype(np.float32), "candidates")


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("trajectory_preference", marks=pytest.mark.slow),
        "behaviour_cloning", "dqn", "iql",
    ],
)  # fmt: skip
def test_agents_learn_from_columns_of_rules(small_log, tmp_path, agent):
    """A checkpoint acts on raw observations as it does on the columns that it learned from."""
    opened = ds.open(small_log)
    names = logged(opened)
    further = find_rules(opened.spec.scenario, names, opened.spec.candidates).further()
    decisions = sample_decisions(
        opened, "train", np.random.default_rng(0), Columns(64, transitions=True, further=further)
    )
    settings = {"network": {"rules": list(names), "quadratic": False}}
    trained = train_agent(agent, decisions, opened.spec, settings=settings, steps=3, seed=0)
    policy = load_policy(save(trained, tmp_path / agent))
    mask, width = decisions.mask.ravel(), decisions.candidates.shape[2]
    offsets = 64 * np.arange(len(decisions) + 1)
    wide = decisions.candidates.reshape(-1, width).astype(float)
    known = policy.batch_scores(decisions.context.astype(float), wide, offsets, feasible=mask)[mask]
    raw = []
    for t in opened.iter_episodes("train"):
        context, rows = t.context[: len(t)].astype(float), t.candidates[: t.offsets[len(t)]]
        able, places = t.feasible[: len(rows)], t.offsets[: len(t) + 1]
        raw.append(policy.batch_scores(context, rows.astype(float), places, feasible=able)[able])
    np.testing.assert_allclose(np.concatenate(raw), known, rtol=1e-5, atol=1e-6)


def test_decisions_without_the_columns_are_refused(small_log):
    opened = ds.open(small_log)
    decisions = sample_decisions(opened, "train", np.random.default_rng(0), Columns(8))
    settings = {"network": {"rules": logged(opened)[:1]}}
    with pytest.raises(DatasetError, match="1 rules have 2 columns each"):
        train_agent("behaviour_cloning", decisions, opened.spec, settings=settings, steps=1, seed=0)
    network = NetworkSettings(rules=logged(opened)[:1])
    with pytest.raises(DatasetError, match="columns, this network reads"):
        fit_network(decisions, opened.spec, network)


def test_inputs_of_a_trajectory_have_the_columns():
    scenario, spec, instance = problem("slots")
    names = list(rules_over(spec))[:3]
    policy = follower(spec, names, names[0])
    played = sample_trajectory(scenario, spec, instance, policy, np.random.default_rng(0))
    (part,) = network_inputs(scenario, spec, played, policy.network)
    width = len(spec.candidates)
    assert part.rows.shape[1] == width + 6
    shown = part.rows[part.index]
    assert (np.add.reduceat(shown[:, width], part.starts[:-1]) == 1.0).all()


def test_a_guiding_rule_leaves_the_columns_to_the_network():
    """A rule that plays in place of the network needs no columns; its inputs have them."""
    _scenario, spec, _instance = problem("slots")
    known = rules_over(spec)
    policy = follower(spec, list(known)[:2], next(iter(known)))
    rule = Heuristic("first", next(iter(known.values())).score)
    _rule, arrays, columns = Decider(policy, rule).arrays(spec, np.random.default_rng(0))
    assert arrays.guided
    assert len(columns) == 2


def checkpoint(folder, names=("sjf_now", "backfill")):
    _scenario, spec, _instance = problem("slots")
    policy = follower(spec, names, names[0])
    return save(Trained("own", spec, policy.network, policy.weights, {}, 1, 0), folder)


def test_a_checkpoint_names_its_rules_and_their_digests(tmp_path):
    folder = checkpoint(tmp_path / "own")
    description = json.loads((folder / "checkpoint.json").read_text())
    assert description["network"]["rules"] == ["sjf_now", "backfill"]
    assert list(description["rules"]) == ["sjf_now", "backfill"]
    policy = load_policy(folder)
    assert policy.network.rules.names == ("sjf_now", "backfill")
    assert policy.reads == ("feasible",)


def test_a_checkpoint_without_rules_has_neither_key(tmp_path):
    _scenario, spec, _instance = problem("slots")
    network = make_network(spec.context, spec.candidates, NetworkSettings())
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    folder = save(Trained("own", spec, network, weights, {}, 1, 0), tmp_path / "own")
    description = json.loads((folder / "checkpoint.json").read_text())
    assert "rules" not in description
    assert "rules" not in description["network"]
    assert load_policy(folder).reads == ()


def test_a_changed_rule_is_refused(tmp_path, monkeypatch):
    folder = checkpoint(tmp_path / "own")
    known = heuristics("slots")
    changed = dataclasses.replace(known["backfill"], score=_first_column)
    both = {**known, "backfill": changed}
    monkeypatch.setattr("hindcast.policies.heuristics.heuristics", lambda _scenario: both)
    with pytest.raises(DatasetError, match="rule 'backfill', whose columns this network"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("sjf_nov",), "rules has 'sjf_nov', expected deterministic rules of scenario slots"),
        (("random",), "rules has 'random', expected deterministic rules"),
        (("random_linear",), "rules has 'random_linear', expected deterministic rules"),
        (("sjf_now", "sjf_now"), "rules has 'sjf_now' twice"),
    ],
)
def test_a_wrong_rule_is_refused(names, message):
    _scenario, spec, _instance = problem("slots")
    with pytest.raises(RecipeError, match=message):
        find_rules("slots", names, spec.candidates)


def test_a_rule_needs_its_columns():
    recipe = load_recipe("queue-lublin1-v1")
    spec = load_scenario("queue").spec(recipe.config, recipe.objective)
    strict = next(name for name, rule in rankable("queue").items() if rule.needs)
    with pytest.raises(
        RecipeError, match=f"rules has '{strict}', which needs the column 'is_wait'"
    ):
        find_rules("queue", (strict,), spec.candidates)
