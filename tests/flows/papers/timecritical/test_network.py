"""Tests of the value network of Liu et al.: its size, decomposed forward pass and checkpoint."""

import json

import numpy as np
import pytest

from hindcast.flows.papers.timecritical.network import (
    ClustersPolicy,
    ClustersSettings,
    clusters_network,
)
from hindcast.pipeline.errors import DatasetError, HindcastError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.policies.heuristics.multicluster import HEURISTICS
from hindcast.policies.networks.checkpoint import Trained, load_policy, save
from hindcast.policies.registry import resolve


@pytest.fixture(scope="module")
def moments():
    """Return the spec, and observations of an episode of 30 applications under random choices."""
    recipe = load_recipe("multicluster-uniform-v1", ["config.applications=30"])
    scenario = load_scenario("multicluster")
    environment = CompiledEnvironment(
        scenario, recipe.config, recipe.objective, load_source(recipe), 0
    )
    rng = np.random.default_rng(4)
    seen = [environment.reset(rng)]
    for _ in range(29):
        seen.append(environment.step(int(rng.integers(len(seen[-1].candidates)))).observation)
    return environment.spec, seen[:-1]


def policy_of(spec, seen, hidden=(24, 9), seed=0):
    """Return a network with standardised inputs and random weights."""
    rows = np.concatenate([o.candidates for o in seen])
    contexts = np.array([o.context for o in seen])
    network = clusters_network(
        ClustersSettings(hidden=hidden), spec.context, spec.candidates, (contexts, rows)
    )
    rng = np.random.default_rng(seed)
    weights = {k: rng.normal(0, 0.2, s).astype(np.float32) for k, s in network.shapes.items()}
    return ClustersPolicy("values", network, weights, spec.context, spec.candidates)


def batch(seen):
    """Return observations as a ragged batch."""
    offsets = np.cumsum([0, *(len(o.candidates) for o in seen)])
    return (
        np.array([o.context for o in seen]),
        np.concatenate([o.candidates for o in seen]),
        offsets,
    )


def test_the_published_network_has_2063005_weights(moments):
    spec, _seen = moments
    network = clusters_network(ClustersSettings(), spec.context, spec.candidates)
    assert network.widths == (529, 2000, 500, 5)
    assert sum(int(np.prod(shape)) for shape in network.shapes.values()) == 2_063_005


def test_the_decomposed_forward_pass_is_the_plain_one(moments):
    """The context and each application are encoded once; float64 layers per row agree."""
    spec, seen = moments
    policy = policy_of(spec, seen)
    context, candidates, offsets = batch(seen)
    network, w = policy.network, policy.weights
    moment = np.repeat(network.context.expand(context), np.diff(offsets), axis=0)
    x = np.concatenate([network.candidates.expand(candidates), moment], axis=1).astype(np.float64)
    for i in range(3):
        x = x @ w[f"layer{i}.weight"].T.astype(np.float64) + w[f"layer{i}.bias"]
        x = np.maximum(x, 0) if i < 2 else x
    cluster = candidates[:, [f.name for f in spec.candidates].index("cluster")].astype(int)
    plain = x[np.arange(len(x)), cluster]
    assert (np.diff(offsets) > 5).any()  # more than one application in the pool
    np.testing.assert_allclose(policy.batch_scores(context, candidates, offsets), plain, rtol=1e-4,
                               atol=1e-5)  # fmt: skip


def test_a_score_depends_on_no_other_observation_and_on_no_order(moments):
    """Scores agree bit for bit alone, in a batch, and with the rows of an observation shuffled."""
    spec, seen = moments
    policy = policy_of(spec, seen)
    together = policy.batch_scores(*batch(seen))
    alone = np.concatenate([policy.scores(o) for o in seen])
    assert together.tobytes() == alone.tobytes()
    crowded = max(seen, key=lambda o: len(o.candidates))
    order = np.random.default_rng(1).permutation(len(crowded.candidates))
    span = np.array([0, len(order)])
    shuffled = policy.batch_scores(crowded.context[None], crowded.candidates[order], span)
    assert shuffled.tobytes() == policy.scores(crowded)[order].tobytes()


@pytest.mark.parametrize("rule", ["sf_e", "lf_p", "urgent_first"])
def test_a_rule_takes_the_application_and_the_network_its_cluster(moments, rule):
    spec, seen = moments
    policy = policy_of(spec, seen)
    led = policy.led_by(HEURISTICS[rule])
    place = [f.name for f in spec.candidates].index("cluster")
    choices = []
    for moment in seen:
        scores, values = led.scores(moment), policy.scores(moment)
        chosen = scores.argmax()
        taken = HEURISTICS[rule].scores(moment).argmax() // 5
        assert chosen // 5 == taken
        assert chosen == 5 * taken + values[5 * taken : 5 * taken + 5].argmax()
        assert scores[chosen] == values[chosen]
        choices.append((chosen, values.argmax(), moment.candidates[chosen, place]))
    assert any(chosen != best for chosen, best, _ in choices)
    assert len({cluster for *_, cluster in choices}) > 1
    together = led.batch_scores(*batch(seen))
    assert together.tobytes() == np.concatenate([led.scores(o) for o in seen]).tobytes()


def test_a_checkpoint_is_led_by_a_rule_by_its_name(moments, tmp_path):
    spec, seen = moments
    policy = policy_of(spec, seen)
    save(Trained("monte_carlo_value", spec, policy.network, policy.weights, {}, 3, 0), tmp_path)
    found = resolve(f"{tmp_path}@urgent_first", "multicluster", spec)
    expected = policy.led_by(HEURISTICS["urgent_first"]).batch_scores(*batch(seen))
    assert found.policy.batch_scores(*batch(seen)).tobytes() == expected.tobytes()
    with pytest.raises(UnknownName, match="deterministic rule; did you mean 'urgent_first'"):
        resolve(f"{tmp_path}@urgent_frist", "multicluster", spec)
    with pytest.raises(UnknownName, match="neither a temperature nor a deterministic rule"):
        resolve(f"{tmp_path}@random", "multicluster", spec)


def test_an_unknown_cluster_is_refused(moments):
    spec, seen = moments
    policy = policy_of(spec, seen)
    rows = seen[0].candidates.copy()
    rows[0, [f.name for f in spec.candidates].index("cluster")] = 5
    with pytest.raises(HindcastError, match="with clusters 0 to 4"):
        policy.batch_scores(seen[0].context[None], rows, np.array([0, len(rows)]))


def test_observations_that_do_not_fit_are_refused(moments):
    spec, seen = moments
    policy = policy_of(spec, seen)
    with pytest.raises(HindcastError, match="expected"):
        policy.batch_scores(seen[0].context[None], seen[0].candidates, np.array([0, 2]))


def test_a_missing_feature_is_named(moments):
    spec, _seen = moments
    others = tuple(f for f in spec.candidates if f.name != "deadline")
    with pytest.raises(DatasetError, match="needs the feature 'deadline'"):
        clusters_network(ClustersSettings(), spec.context, others)


def test_a_checkpoint_gives_the_same_scores(moments, tmp_path):
    spec, seen = moments
    policy = policy_of(spec, seen)
    save(Trained("monte_carlo_value", spec, policy.network, policy.weights, {}, 3, 0), tmp_path)
    loaded = load_policy(tmp_path)
    assert isinstance(loaded, ClustersPolicy)
    assert loaded.network.settings == policy.network.settings
    assert (
        loaded.batch_scores(*batch(seen)).tobytes() == policy.batch_scores(*batch(seen)).tobytes()
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"hidden": [5000]}, "hidden\\[0\\] is 5000"),
        ({"hidden": "wide"}, "hidden is 'wide', expected a list"),
        ({"clusters": 0}, "clusters is 0"),
        ({"depth": 3}, "unknown key 'depth'"),
    ],
    ids=["too wide", "not widths", "no clusters", "another key"],
)
def test_a_damaged_description_is_refused(moments, tmp_path, change, match):
    spec, seen = moments
    policy = policy_of(spec, seen)
    save(Trained("monte_carlo_value", spec, policy.network, policy.weights, {}, 3, 0), tmp_path)
    path = tmp_path / "checkpoint.json"
    described = json.loads(path.read_text())
    described["network"] |= change
    path.write_text(json.dumps(described))
    with pytest.raises(DatasetError, match=match):
        load_policy(tmp_path)
