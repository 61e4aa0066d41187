"""Tests that checkpoints hold every kind of network, and load without a kind, too."""

import json

import numpy as np
import pytest

from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.checkpoint import Trained, load_policy, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import (
    AttentionSettings,
    Network,
    NetworkSettings,
    candidate_map,
)

SPEC = Spec(
    scenario="toy",
    objective="gain",
    context=(Feature("load", "jobs", 0, np.inf, "", heavy_tailed=True),),
    candidates=(
        Feature("cores", "cores", 0, 64, ""),
        Feature("size", "s", 0, np.inf, ""),
        Feature("place", "1", 0, 4, "", identifier=True),
    ),
    reward_terms=(),
    outcomes=(Outcome("cost", "units", ""),),
    image_shape=(2, 2),
)
KINDS = {
    "mlp": NetworkSettings(hidden=(5,), context=True),
    "deepsets": NetworkSettings(hidden=(5, 4), kind="deepsets"),
    "attention": AttentionSettings(hidden=(4,), norm=True, context=True),
    "image": NetworkSettings(hidden=(4,), image=3, context=True),
    "places": NetworkSettings(image=3, places=5),
}


def _saved(settings, folder, **more):
    rng = np.random.default_rng(0)
    network = Network(
        settings,
        candidate_map(SPEC.candidates, settings),
        unscaled_map(SPEC.context, (0,) if settings.context else (), quadratic=False),
        pixels=4 if settings.image else 0,
        **more,
    )
    weights = {k: rng.normal(size=s).astype(np.float32) for k, s in network.shapes.items()}
    trained = Trained("some_agent", SPEC, network, weights, {}, 2, 7)
    return trained, save(trained, folder)


def _scores(policy):
    rng = np.random.default_rng(1)
    return policy.batch_scores(
        rng.random((2, 1)), np.column_stack([rng.random((5, 2)), range(5)]), np.array([0, 2, 5]),
        feasible=np.array([True, True, True, False, True]),
        image=rng.integers(0, 256, (2, 4)).astype(np.uint8),
    )  # fmt: skip


def _rewrite(folder, change):
    path = folder / "checkpoint.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_equal_bit_for_bit(kind, tmp_path):
    trained, folder = _saved(KINDS[kind], tmp_path / "c")
    loaded = load_policy(folder)
    assert np.array_equal(_scores(loaded), _scores(trained.policy()))
    assert loaded.network.settings == KINDS[kind]
    loaded.check(SPEC)


def test_a_threshold_travels_with_the_checkpoint(tmp_path):
    trained, folder = _saved(KINDS["mlp"], tmp_path / "c", outputs=2, threshold=0.25)
    loaded = load_policy(folder)
    assert (loaded.network.threshold, loaded.network.outputs) == (0.25, 2)
    assert np.array_equal(_scores(loaded), _scores(trained.policy()))


def test_a_network_with_attention_is_not_trained_any_more():
    network = Network(
        KINDS["attention"], candidate_map(SPEC.candidates, KINDS["attention"]),
        unscaled_map(SPEC.context, (0,), quadratic=False),
    )  # fmt: skip
    with pytest.raises(RecipeError, match=r"'attention', which is not trained .* 'deepsets'"):
        CandidateScorer(network, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"kind": "attention"}, "known: deepsets, mlp"), ({"heads": 2}, "unknown key 'heads'")],
)
def test_settings_of_attention_are_refused_with_what_there_is(settings, match):
    with pytest.raises(RecipeError, match=match):
        read_settings(NetworkSettings, settings, "network")


def test_a_checkpoint_that_names_heads_for_every_kind_still_acts(tmp_path):
    """Versions 0.1 and 0.2.0 wrote the settings of attention for all kinds."""
    trained, folder = _saved(KINDS["mlp"], tmp_path / "c")

    def older(described):
        described.pop("acting")
        described.pop("sealed")
        described["network"] |= {"heads": 2, "norm": False}

    _rewrite(folder, older)
    assert np.array_equal(_scores(load_policy(folder)), _scores(trained.policy()))


def test_a_checkpoint_from_before_there_were_kinds_still_acts(tmp_path):
    trained, folder = _saved(KINDS["mlp"], tmp_path / "c")

    def forget(described):
        described.pop("acting")
        described.pop("sealed")
        old = ("hidden", "activation", "quadratic", "context")
        described["network"] = {k: described["network"][k] for k in old}

    _rewrite(folder, forget)
    loaded = load_policy(folder)
    assert np.array_equal(_scores(loaded), _scores(trained.policy()))
    assert loaded.reads == ()


@pytest.mark.parametrize(
    ("kind", "key", "value", "match"),
    [
        ("mlp", "acting", [], "acting is list"),
        ("image", "acting", {"pixels": -1}, "pixels is -1"),
        ("image", "acting", {"pixels": 10**9}, "pixels is 1000000000"),
        ("image", "acting", {}, "pixels is 0, network.image 3"),
        ("mlp", "acting", {"threshold": 2.0}, "threshold is 2"),
        ("mlp", "acting", {"threshold": True}, "threshold is True"),
        ("mlp", "acting", {"threshold": 0.5}, "layer1.weight is float32"),
        ("attention", "heads", 3, "does not divide"),
        ("attention", "heads", 0, "heads is 0, expected from 1"),
        ("attention", "kind", "tranformer", "known: deepsets, mlp"),
        ("attention", "norm", False, "norm.bias"),
        ("image", "image", 5000, "at most 4096"),
        ("places", "places", 5000, "at most 4096"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_what_is_no_network_is_refused(kind, key, value, match, tmp_path):
    """Invalid networks are refused before memory of their size is allocated."""
    _, folder = _saved(KINDS[kind], tmp_path / "c")

    def change(described):
        (described if key == "acting" else described["network"])[key] = value

    _rewrite(folder, change)
    with pytest.raises(DatasetError, match=match):
        load_policy(folder)
