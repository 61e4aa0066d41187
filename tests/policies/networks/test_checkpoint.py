"""Tests that a checkpoint acts as the trained network and that invalid files are refused."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import safetensors.numpy

from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.policy import BatchPolicy
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.pipeline.storage.files import sha256_file
from hindcast.policies.networks.checkpoint import (
    Metric,
    Trained,
    load_policy,
    read_description,
    save,
)
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.settings import Network, NetworkSettings

SPEC = Spec(
    scenario="toy",
    objective="gain",
    context=(Feature("load", "jobs", 0, np.inf, "", heavy_tailed=True),),
    candidates=(
        Feature("cores", "cores", 0, 64, ""),
        Feature("duration_s", "s", 0, np.inf, "", heavy_tailed=True),
        Feature("machine", "index", 0, 9, "", identifier=True),
    ),
    reward_terms=(),
    outcomes=(Outcome("cost", "units", ""),),
)


@pytest.fixture(params=[(), (5, 4)], ids=["linear", "deep"])
def trained(request):
    rng = np.random.default_rng(0)
    settings = NetworkSettings(hidden=request.param, context=bool(request.param))
    network = Network(
        settings,
        fit_map(SPEC.candidates, (0, 1), quadratic=True, rows=rng.lognormal(size=(99, 3))),
        fit_map(
            SPEC.context, (0,) if settings.context else (), quadratic=False,
            rows=rng.lognormal(size=(99, 1)),
        ),
    )  # fmt: skip
    weights = {k: rng.normal(size=s).astype(np.float32) for k, s in network.shapes.items()}
    config = {"network": dataclasses.asdict(settings), "beta": 4.0}
    metrics = (Metric(1, "loss", 0.5), Metric(2, "loss", float("nan")))
    return Trained("some_agent", SPEC, network, weights, config, 2, 7, metrics)


@pytest.fixture
def folder(trained, tmp_path):
    return save(trained, tmp_path / "agent", {"recipe": "toy-v1", "dataset": "abc"})


def test_round_trip_scores_are_equal_bit_for_bit(trained, folder):
    rng = np.random.default_rng(1)
    context, rows = rng.lognormal(size=(3, 1)), rng.lognormal(size=(9, 3))
    offsets = np.array([0, 2, 2, 9])
    loaded = load_policy(folder)
    assert isinstance(loaded, BatchPolicy)
    assert loaded.name == "some_agent"
    before = trained.policy().batch_scores(context, rows, offsets)
    assert np.array_equal(loaded.batch_scores(context, rows, offsets), before)
    single = loaded.scores(Observation(0.0, context[2], rows[2:], np.ones(7, bool)))
    np.testing.assert_allclose(single, before[2:], rtol=1e-5)
    loaded.check(SPEC)


def test_it_travels_to_a_worker(folder):
    """Checkpoints can be sent to other processes, as evaluation does with policies."""
    loaded = load_policy(folder)
    sent = pickle.loads(pickle.dumps(loaded))
    rows = np.ones((2, 3))
    given = (np.ones((1, 1)), rows, np.array([0, 2]))
    assert np.array_equal(sent.batch_scores(*given), loaded.batch_scores(*given))


def test_it_says_how_it_was_made(folder):
    training = read_description(folder)["training"]
    assert training["recipe"] == "toy-v1"
    assert training["seed"] == 7
    assert training["config"]["beta"] == 4.0
    assert "torch" in training["packages"]
    assert training["metrics"] == [{"step": 1, "metric": "loss", "value": 0.5}]


def test_saving_again_replaces_it(trained, folder):
    again = dataclasses.replace(trained, agent="another")
    save(again, folder)
    assert load_policy(folder).name == "another"
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint.json", "weights.safetensors"]


def test_diverged_weights_are_not_saved(trained, tmp_path):
    weights = {k: v * np.float32(np.nan) for k, v in trained.weights.items()}
    with pytest.raises(DatasetError, match="diverged"):
        save(dataclasses.replace(trained, weights=weights), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "memory"}, "feature 0 was 'cores' with name 'cores'"),
        ({"unit": "milli-cores"}, "unit 'cores' in training.* 'milli-cores'"),
        ({"heavy_tailed": True}, "heavy_tailed False"),
        ({"identifier": True}, "identifier False"),
    ],
)
def test_another_feature_is_refused_by_name(folder, change, message):
    changed = dataclasses.replace(SPEC.candidates[0], **change)
    other = dataclasses.replace(SPEC, candidates=(changed, *SPEC.candidates[1:]))
    with pytest.raises(DatasetError, match=message):
        load_policy(folder).check(other)


def test_more_features_are_refused_and_ranges_do_not_matter(folder):
    more = (*SPEC.candidates, Feature("total", "instances", 0, 9, ""))
    with pytest.raises(DatasetError, match=r"trained on 3 candidate features .* has 4"):
        load_policy(folder).check(dataclasses.replace(SPEC, candidates=more))
    wider = dataclasses.replace(SPEC.candidates[0], high=128.0, description="larger machines")
    load_policy(folder).check(
        dataclasses.replace(SPEC, candidates=(wider, *SPEC.candidates[1:]), objective="other")
    )


def test_context_matters_only_where_it_is_read(trained, folder):
    other = dataclasses.replace(SPEC, context=())
    if trained.network.settings.context:
        with pytest.raises(DatasetError, match="1 context features"):
            load_policy(folder).check(other)
    else:
        load_policy(folder).check(other)


class _Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was loaded')",))


def test_a_pickle_in_place_of_weights_is_not_loaded(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(DatasetError, match="bytes"):
        load_policy(folder)
    _describe_weights(folder)
    with pytest.raises(DatasetError, match=r"not safetensors.*never loaded"):
        load_policy(folder)


def test_a_folder_with_only_a_pickle_is_no_checkpoint(tmp_path):
    (tmp_path / "model.d3").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(DatasetError, match=r"model\.d3 may be a pickle"):
        load_policy(tmp_path)


def test_missing_and_changed_files_are_named(folder):
    path = folder / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="sha256 differs"):
        load_policy(folder)
    path.unlink()
    with pytest.raises(DatasetError, match=r"weights\.safetensors: the file is missing"):
        load_policy(folder)
    with pytest.raises(DatasetError, match=r"checkpoint\.json is missing"):
        load_policy(folder / "nowhere")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda w: w | {"layer0.bias": np.zeros(77, np.float32)},
        lambda w: w | {"extra": np.zeros(1, np.float32)},
        lambda w: {k: v for k, v in w.items() if k != "layer0.bias"},
        lambda w: {k: v.astype(np.float64) for k, v in w.items()},
        lambda w: {k: v * np.float32(np.inf) for k, v in w.items()},
    ],
    ids=["shape", "extra", "missing", "dtype", "infinite"],
)
def test_weights_that_do_not_fit_are_refused(trained, folder, spoil):
    path = folder / "weights.safetensors"
    safetensors.numpy.save_file(spoil(dict(trained.weights)), path)
    _describe_weights(folder)
    with pytest.raises(DatasetError, match=r"weights\.safetensors"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("format",), "torch"),
        (("version",), 2),
        (("agent",), 5),
        (("features",), []),
        (("features", "candidates"), {"cores": 1}),
        (("features", "candidates"), [1, 2]),
        (("features", "candidates"), [{"name": "cores"}]),
        (("features", "candidates", 0, "name"), ["cores"]),
        (("features", "candidates", 0, "identifier"), "no"),
        (("network",), 5),
        (("network", "hidden"), [10**9]),
        (("network", "hidden"), [4] * 100),
        (("network", "hidden"), ["4"]),
        (("network", "hidden"), [-1]),
        (("network", "activation"), "exec"),
        (("network", "depth"), 3),
        (("normalisation",), None),
        (("normalisation", "candidates"), []),
        (("normalisation", "candidates", "mean"), [0.0]),
        (("normalisation", "candidates", "mean", 0), 10**400),
        (("normalisation", "candidates", "mean", 0), float("nan")),
        (("normalisation", "candidates", "inverse", 0), "1"),
        (("weights",), None),
        (("weights", "bytes"), "many"),
        (("weights", "sha256"), None),
        (("training",), []),
        (("training", "seed"), "7"),
    ],
)
def test_a_description_of_the_wrong_shape_is_refused(folder, keys, value):
    """Every wrong value is a DatasetError that names the file, never a traceback."""
    path = folder / "checkpoint.json"
    description = json.loads(path.read_text())
    at = description
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path.write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"checkpoint\.json|weights\.safetensors"):
        load_policy(folder)


@pytest.mark.parametrize(
    "key", ["agent", "features", "network", "normalisation", "weights", "training"]
)
def test_a_missing_key_is_named(folder, key):
    path = folder / "checkpoint.json"
    description = json.loads(path.read_text())
    del description[key]
    path.write_text(json.dumps(description))
    with pytest.raises(DatasetError, match=f"key '{key}' is missing"):
        load_policy(folder)


@pytest.mark.parametrize("text", ["", "[]", "5", "{", "\xff", "[" * 100_000, "9" * 5000, "null"])
def test_json_that_is_none_is_refused(folder, text):
    (folder / "checkpoint.json").write_text(text, encoding="latin-1")
    with pytest.raises(DatasetError, match=r"checkpoint\.json"):
        load_policy(folder)


def _describe_weights(folder):
    """Make the description agree with the weights file, as an attacker would."""
    path = folder / "checkpoint.json"
    description = json.loads(path.read_text())
    weights = folder / "weights.safetensors"
    description["weights"] = {"bytes": weights.stat().st_size, "sha256": sha256_file(weights)}
    path.write_text(json.dumps(description))
