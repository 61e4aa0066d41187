"""Tests of imitation by learned prices: its count of agreement, a learned rule, later play."""

import dataclasses
import re

import numpy as np
import pytest

from hindcast.flows.papers.prices import imitation as module
from hindcast.flows.papers.prices.imitation import agreement_of, imitator, shared
from hindcast.flows.papers.prices.network import PricesPolicy
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.policies.networks.checkpoint import Trained, load_policy, read_description
from hindcast.policies.online.evolution import as_weights
from hindcast.policies.online.imitation import Imitation, distributions
from hindcast.policies.registry import behaviours
from hindcast.policies.training.learner import Task
from hindcast.policies.training.monitoring import make_probe_set, measure
from tests.folders import content
from tests.policies.trainings import train_online

# More jobs than capacity, most of which can wait, so that their value decides.
CROWDED = ("config.horizon=24", "config.duration_case=1", "config.core_case=2",
           "config.scale_capacity=false", "config.fixed_share=0.3")  # fmt: skip
SPLITS = ('split.train="0..11"', 'split.validation="80..83"', 'split.test="100..100"')
FREE = np.array([-40.0, 0, 0, 0, 0, 0])  # a sigmoid of 0


@pytest.fixture(scope="module")
def knapsack(tmp_path_factory):
    """Return a dataset of the rule alone."""
    folder = tmp_path_factory.mktemp("log") / "knapsack"
    recipe = load_recipe("deferrable-base-v1", (*CROWDED, *SPLITS))
    own = [b for b in recipe.behaviours if b.policy == "knapsack"]
    recipe = dataclasses.replace(recipe, behaviours=(dataclasses.replace(own[0], episodes=1),))
    build(recipe, behaviours(recipe), folder)
    return folder


def recipe_of():
    splits = ('split.train="200..203"', 'split.validation="80..80"')
    settings = {"sampling": {"trajectories": 4, "windows": 1}, "step": 1e-12}
    online = OnlineRecipe("price_evolution", 1, settings)
    return dataclasses.replace(load_recipe("deferrable-online", (*CROWDED, *splits)), online=online)


@pytest.fixture(scope="module")
def imitated(knapsack, tmp_path_factory):
    """Return the result of imitating the rule, with a generation of play without steps."""
    out = tmp_path_factory.mktemp("imitated") / "a"
    return train_online(recipe_of(), out=out, imitation=Imitation(knapsack, 12))


def whole_decisions(folder, split):
    found = sample_decisions(
        ds.open(folder),
        split,
        np.random.default_rng(0),
        Columns(200, more=("probabilities",)),
        per_episode=100,
    )
    return found.take(np.flatnonzero(found.mask.sum(axis=1) > 1))


def chosen(policy, decisions, spec):
    """Return the share of decisions in which the policy chooses the logged candidate."""
    trained = Trained("x", spec, policy.network, policy.weights, {}, 0, 0)
    return measure(trained, make_probe_set(decisions))["log_agreement"]


@pytest.mark.slow
def test_it_agrees_with_the_rule_that_it_imitates(imitated, knapsack):
    """On other windows, half of the errors of the initial weights are gone."""
    policy, decisions = load_policy(imitated / "imitation"), whole_decisions(knapsack, "validation")
    agreement = agreement_of(decisions, distributions(decisions), policy.network)
    at = agreement(np.arange(len(decisions)))
    before, after = at(np.zeros(12)), at(policy.parameters[1:])
    assert before < 0.87
    assert after > before + 0.05
    spec = ds.open(knapsack).spec
    plain = PricesPolicy("z", policy.network, as_weights(policy.network, np.zeros(12)),
                         spec.context, spec.candidates)  # fmt: skip
    assert chosen(policy, decisions, spec) > chosen(plain, decisions, spec) + 0.03


@pytest.mark.slow
def test_play_begins_at_its_weights(imitated, knapsack):
    begun, taught = load_policy(imitated), load_policy(imitated / "imitation")
    np.testing.assert_allclose(begun.parameters, taught.parameters, atol=1e-6)
    assert np.abs(taught.parameters[1:]).max() > 0.1
    told = read_description(imitated)["training"]["online"]["imitated"]
    assert told["digest"] == ds.open(knapsack).manifest.digest


@pytest.mark.slow
def test_the_choices_of_other_weights_are_found(knapsack, imitated):
    """The logging agent starts no job in some slots. Only its choices must be matched."""
    spec, network = ds.open(knapsack).spec, load_policy(imitated).network
    dear = np.array([4.0, 0, 0, 0, 0, 0, -3.0, 0, 0, 0, 0, 0])
    agent = PricesPolicy("d", network, as_weights(network, dear), spec.context, spec.candidates)
    decisions = whole_decisions(knapsack, "train")
    w = make_probe_set(decisions, len(decisions))
    scores = agent.batch_scores(w.context, w.candidates, w.offsets, feasible=w.feasible)
    shown = np.zeros(decisions.mask.shape, np.float32)
    for b, (first, last) in enumerate(zip(w.offsets[:-1], w.offsets[1:], strict=True)):
        shown[b, np.where(w.feasible[first:last], scores[first:last], -9.0).argmax()] = 1.0
    learner = imitator(Task(decisions, spec, 20, 0), None, network, shown, None)
    for number in range(1, 21):
        learner.step(number)
    at = agreement_of(decisions, shown, network)(np.arange(len(decisions)))
    before, after = at(np.zeros(12)), at(network.parameters(learner.weights())[1:])
    assert before < 0.75
    assert after > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cores", -5.0, "cores is -5, expected 0 to"),
        ("duration", np.nan, "duration is nan, expected 0 to"),
        ("until_earliest", -1e6, "until_earliest of a future job is -1e+06, expected at least 0"),
    ],
)
def test_a_log_that_would_lead_the_knapsack_out_of_bounds_is_refused(
    knapsack, imitated, name, value, said
):
    policy, decisions = load_policy(imitated), whole_decisions(knapsack, "validation").take([0])
    changed = decisions.candidates.copy()
    changed[0, 0, [ROW.is_future, ROW[ROW._fields.index(name)]]] = 1.0, value
    with pytest.raises(DatasetError, match=re.escape(said)):
        agreement_of(dataclasses.replace(decisions, candidates=changed), None, policy.network)
    rows, offsets = changed[0].astype(float), np.array([0, changed.shape[1]])
    with pytest.raises(DatasetError, match=re.escape(f"price_evolution: {said}")):
        policy.batch_scores(
            decisions.context.astype(float), rows, offsets, feasible=decisions.mask[0]
        )


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_interrupted_while_imitating_it_ends_in_the_same_bytes(
    imitated, knapsack, tmp_path, monkeypatch
):
    draw, asked = module.draw_rows, []

    def stop_at_7(*arguments):
        asked.append(1)
        if len(asked) == 7:
            raise Interrupted
        return draw(*arguments)

    def again():
        return train_online(recipe_of(), out=tmp_path / "b", imitation=Imitation(knapsack, 12),
                            resume_s=0.0)  # fmt: skip

    with monkeypatch.context() as patched:
        patched.setattr(module, "draw_rows", stop_at_7)
        with pytest.raises(Interrupted):
            again()
    assert (tmp_path / "b" / "imitation" / "training.safetensors").is_file()
    assert content(again()) == content(imitated)


@pytest.mark.slow
def test_no_more_generations_than_it_needs(knapsack, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GENERATIONS", 3)
    folder = train_online(recipe_of(), out=tmp_path / "a", imitation=Imitation(knapsack, 2000))
    assert read_description(folder / "imitation")["training"]["steps"] == 3


def row(kind, cores):
    flags = [float(kind == k) for k in ("running", "startable", "future", "close")]
    return [cores, 2.0, 0.0, 0.0, 0.0, 2.0, *flags, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("free", "expected"), [(5.0, 0.5 + 0.2), (3.0, 0.5), (1.0, 0.3)], ids=["both", "one", "none"]
)
def test_agreement_by_hand(free, expected, imitated):
    """Probabilities of the set's jobs go to its first job, or to the close if it is empty."""
    policy = load_policy(imitated)
    context = np.zeros((1, len(policy.features_context)))
    names = [f.name for f in policy.features_context]
    context[0, names.index("free_cores")] = free
    context[0, names.index("slots_left")] = 9.0
    candidates = np.zeros((1, 6, 11))
    candidates[0, :4] = [row("running", 7.0), row("startable", 3.0), row("startable", 2.0),
                         row("close", 0.0)]  # fmt: skip
    feasible = np.zeros((1, 6), np.bool_)
    feasible[0, 1], feasible[0, 2], feasible[0, 3] = free >= 3.0, free >= 2.0, True
    shown = np.array([[0.0, 0.5, 0.2, 0.3, 0.0, 0.0]])
    weights = as_weights(policy.network, np.concatenate([FREE, FREE]))
    parameters = policy.network.parameters(weights)
    found = shared(context, candidates, np.array([4]), feasible, shown, parameters)
    assert found == pytest.approx(expected)
