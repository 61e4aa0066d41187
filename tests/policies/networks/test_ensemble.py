"""Tests of the mean of the scores of several networks, and of trainings that start from it."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from hindcast.flows import parser
from hindcast.flows.commands import train_online as train_online_command
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.checkpoint import Trained, load_policy, read_description, save
from hindcast.policies.networks.ensemble import mean_of_scores
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.training.delivery.played import headline_value, values_of, windows_of
from tests.policies.trainings import train_online

SMALL = ("config.steps=10", 'split.train="650..653"', 'split.validation="450..456"')
RULES = ("hold_5", "sjf_now")


def spec_of(*overrides):
    """Return the spec of slots with these settings."""
    recipe = load_recipe("slots-online-rate10", overrides)
    return load_scenario("slots").spec(recipe.config, recipe.objective)


def drawn(rng, features, count):
    """Return rows (count, F) within the limits of features."""
    high = np.array([min(feature.high, 10.0) for feature in features])
    return rng.uniform(0.0, 1.0, (count, len(high))) * high


def scorer(seed, spec=None, silent=(), **settings):
    """Return a policy with random weights and constants; inputs `silent` were constant."""
    spec = spec or spec_of()
    rng = np.random.default_rng(seed)
    shape = NetworkSettings(**{"hidden": (5, 4), "quadratic": False, **settings})
    of_rules = rng.uniform(0.0, 4.0, (50, 2 * len(shape.rules)))
    rows = np.hstack([drawn(rng, spec.candidates, 50), of_rules])
    rows[:, list(silent)] = 3.0
    contexts = drawn(rng, spec.context, 50)
    network = make_network(
        spec.context, spec.candidates, shape, rows=rows, contexts=contexts, scenario="slots"
    )
    weights = CandidateScorer(network, rng).weights()
    moved = {name: w + rng.normal(0.0, 0.3, w.shape) for name, w in weights.items()}
    moved = {name: w.astype(np.float32) for name, w in moved.items()}
    return LearnedPolicy("counterfactual", network, moved, spec.context, spec.candidates)


def scores(policy, spec):
    """Return the scores of a policy on drawn moments, (M,)."""
    rng = np.random.default_rng(9)
    context, rows = drawn(rng, spec.context, 6), drawn(rng, spec.candidates, 24)
    rows = rows[:, : len(policy.features_candidates)]
    starts = np.arange(0, 25, 4)
    return policy.batch_scores(context, rows, starts, feasible=np.ones(24, np.bool_), image=None)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hidden": ()},
        {"hidden": (), "quadratic": True},
        {"hidden": (6,), "activation": "tanh", "quadratic": True},
        {"context": True},
        {"rules": RULES},
        {"rules": RULES, "quadratic": True, "hidden": ()},
    ],
)
def test_scores_are_the_means_of_the_members_scores(settings):
    """This holds for any depth, with squares, context, rule columns and three members."""
    spec = spec_of()
    members = [scorer(seed, **settings) for seed in range(3)]
    expected = np.mean([scores(member, spec) for member in members], axis=0)
    assert np.std(expected) > 0.01
    np.testing.assert_allclose(scores(mean_of_scores(members), spec), expected, atol=2e-5)


def test_members_may_differ_in_width():
    """Each hidden layer of the ensemble is as wide as those of the members together."""
    spec = spec_of()
    members = [scorer(0, hidden=(5, 4)), scorer(1, hidden=(3, 7))]
    ensemble = mean_of_scores(members)
    assert ensemble.network.settings.hidden == (8, 11)
    expected = np.mean([scores(member, spec) for member in members], axis=0)
    np.testing.assert_allclose(scores(ensemble, spec), expected, atol=2e-5)


def test_the_widest_member_decides_the_columns():
    """A member without foresight averages with one that has it, in either order."""
    plain, wide = spec_of(), spec_of("config.foresight=true")
    members = [scorer(0, plain), scorer(1, wide)]
    assert wide.candidates[: len(plain.candidates)] == plain.candidates
    expected = np.mean([scores(member, wide) for member in members], axis=0)
    for order in (members, members[::-1]):
        ensemble = mean_of_scores(order)
        assert ensemble.features_candidates == wide.candidates
        np.testing.assert_allclose(scores(ensemble, wide), expected, atol=2e-5)


def test_a_column_that_was_constant_for_one_member_counts_for_the_others_alone():
    """The member for which the column was constant has never learned a weight for it."""
    spec = spec_of()
    members = [scorer(0, silent=(1, 4)), scorer(1, silent=(2,))]
    expected = np.mean([scores(member, spec) for member in members], axis=0)
    for order in (members, members[::-1]):
        np.testing.assert_allclose(scores(mean_of_scores(order), spec), expected, atol=2e-5)


def test_one_member_is_returned_as_it_is():
    """No weight is rounded."""
    member = scorer(0, kind="deepsets")
    assert mean_of_scores([member]) is member


def test_a_loaded_ensemble_plays_the_same_episodes(tmp_path):
    """A checkpoint of an ensemble is an ordinary checkpoint."""
    recipe = load_recipe("slots-online-rate10", SMALL)
    windows = windows_of(recipe, load_source(recipe), 0)
    ensemble = mean_of_scores([scorer(seed, windows.spec) for seed in range(2)])
    trained = Trained(
        "counterfactual", windows.spec, ensemble.network, ensemble.weights, {}, 1, 0, ()
    )
    loaded = load_policy(save(trained, tmp_path / "e"))
    value = partial(headline_value, better="lower")
    played = [values_of(windows, policy, range(650, 654), value) for policy in (ensemble, loaded)]
    assert np.isfinite(played[0]).all()
    np.testing.assert_array_equal(*played)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        ({"hidden": (5,)}, "number of hidden layers is .* in one .* they must agree"),
        ({"activation": "tanh"}, "activation is '(tanh|relu)' in one of .* in another"),
        ({"rules": RULES}, r"rules is .*'hold_5', 'sjf_now'.* they must agree"),
        ({"kind": "deepsets"}, "of kind \"mlp\" .* this one is of kind 'deepsets'"),
        ({"columns": ("length", "waited", "cpu"), "quadratic": True}, "a network reads .* same"),
    ],
)
def test_networks_without_a_mean_are_refused(other, match):
    """The error names the difference, whichever network is given first."""
    members = [scorer(0), scorer(1, **other)]
    for order in (members, members[::-1]):
        with pytest.raises(DatasetError, match=match):
            mean_of_scores(order)


def started(tmp_path, names, iterations, settings):
    """Save checkpoints, and return the folder of a training that starts from their mean."""
    recipe = load_recipe("slots-online-rate10", SMALL)
    spec = load_scenario("slots").spec(recipe.config, recipe.objective)
    for number, name in enumerate(names):
        policy = scorer(number, spec)
        trained = Trained("counterfactual", spec, policy.network, policy.weights, {}, 1, 0, ())
        save(trained, tmp_path / name)
    own = {**recipe.online.settings, **settings}
    recipe = dataclasses.replace(recipe, online=dataclasses.replace(recipe.online, settings=own))
    out = tmp_path / "out"
    return train_online(recipe, out=out, start=[tmp_path / n for n in names], iterations=iterations)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [None, 1])
def test_a_training_starts_from_the_mean_of_several_checkpoints(iterations, tmp_path):
    """By default, or with a step size that moves nothing, it delivers the ensemble."""
    few = {"learning_rate": 1e-12, "gradient_steps": 1, "sampling": {"windows": 2}}
    out = started(tmp_path, ("one", "other"), iterations, few)
    ensemble = mean_of_scores([load_policy(tmp_path / name) for name in ("one", "other")])
    made = load_policy(out)
    assert made.network.settings.hidden == (10, 8)
    for name, value in ensemble.weights.items():
        np.testing.assert_allclose(made.weights[name], value, atol=1e-6 if iterations else 0.0)
    training = read_description(out)["training"]
    assert training["steps"] == (iterations or 0)
    assert training["online"]["start"] == [
        read_description(tmp_path / name)["weights"]["sha256"] for name in ("one", "other")
    ]
    assert (out / "best").is_dir() == (iterations == 1)
    verdict = read_description(out / "delivered")["training"]["delivered"]
    assert verdict["metric"] == "mean_slowdown"
    assert verdict["difference"] is not None


@pytest.mark.parametrize("starts", [0, 1])
def test_no_iterations_are_for_ensembles(starts, tmp_path):
    """A single checkpoint is delivered by its own training."""
    with pytest.raises(InputError, match="iterations is 0, expected at least 1"):
        started(tmp_path, ("one",)[:starts], 0, {})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--from-mean", "a"], "--from-mean needs two checkpoints; --from takes one"),
        (["--from", "a", "--from-mean", "b", "c"], "give --from or --from-mean"),
        (["--imitate", "a", "--from-mean", "b", "c"], "give --from-mean or --imitate"),
    ],
)
def test_one_start_is_given(words, match):
    arguments = parser.parse(["train-online", "slots-online", "--out", "x", *words])
    with pytest.raises(InputError, match=match):
        train_online_command.check(arguments.read(arguments))
