"""Tests that d3rlpy trains on its exports: vectors by d3rlpy's buffer, tuples with masks."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import hindcast.pipeline.dataset as ds
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.exports import export
from hindcast.policies.offline.d3rlpy_replay_buffer import mini_batches, open_arrays, replay_buffer
from tests import sample_datasets
from tests.pipeline.exports.padded import expected_rows

KINDS = {kind: made for kind, made in sample_datasets.KINDS.items() if kind != "thermal"}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of d3rlpy's imports


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the folder of an export by kind, and the exported dataset."""
    made: dict[str, tuple[Path, ds.Dataset]] = {}

    def folder(kind: str) -> tuple[Path, ds.Dataset]:
        if kind not in made:
            place = tmp_path_factory.mktemp(kind)
            dataset = ds.open(KINDS[kind](place))
            export(dataset.folder, "d3rlpy", place / "x", split="all")
            made[kind] = place / "x", dataset
        return made[kind]

    return folder


def vectors(rows) -> np.ndarray:
    flat = rows["candidates"].reshape(len(rows["step"]), -1)
    return np.concatenate([rows["context"], flat, rows["mask"].astype(np.float32)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_those_of_the_dataset(kind, exported):
    folder, dataset = exported(kind)
    arrays = open_arrays(folder)
    rows = expected_rows(dataset, arrays.candidates)
    here, closing = rows["choice"] >= 0, rows["choice"] < 0
    np.testing.assert_array_equal(arrays.observations, vectors(rows)[here])
    np.testing.assert_array_equal(arrays.last_observations, vectors(rows)[closing])
    np.testing.assert_array_equal(arrays.actions, rows["choice"][here])
    np.testing.assert_array_equal(arrays.rewards, rows["reward"][here].astype(np.float32))
    np.testing.assert_array_equal(arrays.terminals, rows["terminated"][here])
    np.testing.assert_array_equal(arrays.timeouts, rows["truncated"][here])
    np.testing.assert_array_equal(arrays.propensity, rows["propensity"][here])
    np.testing.assert_array_equal(arrays.probabilities, rows["probabilities"][here])
    np.testing.assert_array_equal(arrays.episode, rows["episode"][here])
    for name in ("elapsed_s", "split", "window", "behaviour", "discount"):
        found = np.load(folder / f"{name}.npy", allow_pickle=False)
        np.testing.assert_array_equal(found, rows[name][here])
    assert (arrays.images is None) == (not dataset.spec.image_shape)
    if arrays.images is not None:
        np.testing.assert_array_equal(arrays.images, rows["image"][here])
        np.testing.assert_array_equal(arrays.last_images, rows["image"][closing])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_buffer_has_every_episode_whole(kind, exported):
    folder, dataset = exported(kind)
    arrays, buffer = open_arrays(folder), replay_buffer(folder)
    assert [len(e) for e in buffer.episodes] == dataset.episodes()["steps"].to_list()
    assert [e.terminated for e in buffer.episodes] == (~dataset.episodes()["truncated"]).to_list()
    at = 0
    for episode in buffer.episodes:
        here = slice(at, at + len(episode))
        np.testing.assert_array_equal(episode.observations, arrays.observations[here])
        np.testing.assert_array_equal(episode.actions[:, 0], arrays.actions[here])
        np.testing.assert_array_equal(episode.rewards[:, 0], arrays.rewards[here])
        at += len(episode)
    assert buffer.dataset_info.action_size == arrays.candidates


@pytest.mark.slow
def test_d3rlpy_trains_a_hundred_steps_on_the_buffer(exported):
    """Train a plain DQN on vectors, as a user of d3rlpy would; the long episode is included."""
    buffer = replay_buffer(exported("long")[0])
    from d3rlpy.algos import DQNConfig
    from d3rlpy.logging import NoopAdapterFactory

    with torch.random.fork_rng():
        algorithm = DQNConfig(batch_size=32).create(device="cpu:0")
        history = algorithm.fit(
            buffer, n_steps=100, n_steps_per_epoch=100, show_progress=False,
            logger_adapter=NoopAdapterFactory(),
        )  # fmt: skip
    assert np.isfinite(history[0][1]["loss"])
    assert algorithm.predict(buffer.episodes[1].observations).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_mini_batches_are_transitions_of_the_dataset(kind, exported):
    """The last decision of a cut-off episode is included, which d3rlpy's buffer drops."""
    folder, dataset = exported(kind)
    k = open_arrays(folder).candidates
    rows = expected_rows(dataset, k)
    here = np.flatnonzero(rows["choice"] >= 0)
    drawn = np.random.default_rng(3)
    for batch in itertools.islice(mini_batches(folder, 64, np.random.default_rng(3)), 5):
        now = here[drawn.integers(0, len(here), 64)]
        for found, at in ((batch.observations, now), (batch.next_observations, now + 1)):
            np.testing.assert_array_equal(found[0], rows["context"][at])
            np.testing.assert_array_equal(found[1], rows["candidates"][at])
            if dataset.spec.image_shape:
                np.testing.assert_array_equal(found[3], rows["image"][at])
        np.testing.assert_array_equal(batch.observations[2], rows["mask"][now])
        ended = rows["terminated"][now]
        after = rows["mask"][now + 1] & ~ended[:, None]
        np.testing.assert_array_equal(batch.next_observations[2], after)
        np.testing.assert_array_equal(batch.actions[:, 0], rows["choice"][now])
        np.testing.assert_array_equal(batch.rewards[:, 0], rows["reward"][now].astype(np.float32))
        np.testing.assert_array_equal(batch.terminals[:, 0], ended)


class Scorer(torch.nn.Module):
    """Values (B, K) of tuple observations, and a finite low number where the mask forbids."""

    def __init__(self, context: int, features: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(context + features, 1)

    def forward(self, observation):
        context, candidates, mask = observation
        wide = context[:, None].expand(-1, candidates.shape[1], -1)
        seen = torch.cat([wide, candidates], dim=2).abs().log1p()
        return self.layer(seen)[..., 0].masked_fill(mask == 0, -1e8)


@pytest.mark.slow
def test_masked_q_learning_trains_a_hundred_steps_on_mini_batches(exported):
    """Every maximum uses the tuple observation's mask, so predicted choices are allowed."""
    folder, _dataset = exported("long")
    arrays = open_arrays(folder)
    c, k, f = arrays.context, arrays.candidates, arrays.features
    from hindcast.policies.offline.q_learning.masked_q import (
        MaskedQFunctionFactory,  # first: it imports quietly
    )

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip
    from d3rlpy.models.encoders import EncoderFactory

    class Factory(EncoderFactory):
        def create(self, observation_shape):
            return Scorer(c, f)

        @staticmethod
        def get_type() -> str:
            return "test_scorer"

    with torch.random.fork_rng():
        torch.manual_seed(0)
        algorithm = DoubleDQNConfig(
            encoder_factory=Factory(), q_func_factory=MaskedQFunctionFactory()
        ).create(device="cpu:0")
        algorithm.create_impl([(c,), (k, f), (k,)], k)
        before = [p.detach().clone() for p in algorithm.impl.q_function.parameters()]
        batches = mini_batches(folder, 64, np.random.default_rng(0))
        losses = [algorithm.update(batch)["loss"] for batch in itertools.islice(batches, 100)]
    after = list(algorithm.impl.q_function.parameters())
    assert np.isfinite(losses).all()
    assert any((one != other).any() for one, other in zip(before, after, strict=True))
    seen = next(batches).observations
    chosen = algorithm.predict(seen)
    assert seen[2][np.arange(64), chosen].all()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "actions.npy").unlink(), "actions.npy: cannot be read as an array"),
        (lambda f: (f / "shape.json").write_text("{}"), "shape.json: damaged"),
        (lambda f: np.save(f / "actions.npy", np.zeros(3)), "expected int64"),
        (lambda f: np.save(f / "rewards.npy", np.zeros(3, np.float32)), "expected float32"),
        (
            lambda f: np.save(f / "actions.npy", np.array([{}], object), allow_pickle=True),
            "actions.npy: cannot be read as an array",
        ),
    ],
    ids=["missing", "shape", "type", "length", "pickle"],
)
def test_a_damaged_export_is_named(spoil, said, exported, tmp_path):
    folder, _dataset = exported("valued")
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    spoil(tmp_path)
    with pytest.raises(DatasetError, match=said):
        open_arrays(tmp_path)


def test_a_dataset_is_no_export(exported):
    _folder, dataset = exported("valued")
    with pytest.raises(DatasetError, match=r"shape\.json"):
        replay_buffer(dataset.folder)


@pytest.mark.slow
def test_the_readme_s_lines_run(exported, monkeypatch):
    folder, dataset = exported("images")
    monkeypatch.chdir(folder)
    replay_buffer(folder)  # d3rlpy is loaded quietly
    text = (folder / "README.md").read_text()
    names: dict = {"np": np}
    for code in text.split("```python\n")[1:]:
        exec(code.split("```")[0], names)
    assert names["dataset"].transition_count == names["buffer"].transition_count
    assert len(names["batch"].actions) == 256
    assert f"K = {open_arrays(folder).candidates}" in text
    assert dataset.recipe.id in text
