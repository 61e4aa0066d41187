"""Tests that Minari loads its export: every episode, value for value, from its HDF5 storage."""

import json
import warnings

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.exports import export
from hindcast.pipeline.exports.minari import dataset_id
from tests.pipeline.exports.padded import expected_rows
from tests.sample_datasets import LONG_STEPS


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the only dataset below tmp_path/x with Minari's loader."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "x"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari = pytest.importorskip("minari")

    def loader():
        [name] = minari.list_local_datasets()
        return minari.load_dataset(name)

    return loader


@pytest.mark.slow
def test_every_episode_is_equal(source, tmp_path, load):
    export(source.folder, "minari", tmp_path / "x", split="all")
    dataset, spec = load(), source.dataset.spec
    assert dataset.id == dataset_id(source.dataset.recipe.id)
    assert dataset.total_episodes == source.episodes.height
    assert dataset.total_steps == source.decisions.height
    rows = expected_rows(source.dataset, dataset.action_space.n)
    for number, episode in enumerate(dataset):
        own = {name: values[rows["episode"] == number] for name, values in rows.items()}
        decided = own["choice"] >= 0
        assert len(episode) == decided.sum()
        for name in ("context", "candidates", "mask"):
            np.testing.assert_array_equal(episode.observations[name], own[name])
        np.testing.assert_array_equal(episode.actions, own["choice"][decided])
        np.testing.assert_array_equal(episode.rewards, own["reward"][decided])
        np.testing.assert_array_equal(episode.terminations, own["terminated"][decided])
        np.testing.assert_array_equal(episode.truncations, own["truncated"][decided])
        infos = episode.infos
        for theirs, ours in (("propensity", "propensity"), ("elapsed_s", "elapsed_s"),
                             ("behaviour_probabilities", "probabilities"),
                             ("discount", "discount")):  # fmt: skip
            np.testing.assert_array_equal(infos[theirs][:-1], own[ours][decided])
            assert np.isnan(infos[theirs][-1]).all()
        for name in ("time_s", "window"):
            np.testing.assert_array_equal(infos[name], own[name])
        for name in ("split", "behaviour"):
            names = np.array(dataset.storage.metadata[f"{name}s"])
            np.testing.assert_array_equal(names[infos[name]], own[name])
        for column, term in enumerate(spec.reward_terms):
            found = infos["reward_terms"][term]
            np.testing.assert_array_equal(found[:-1], own["terms"][decided, column])
        if spec.valued:
            np.testing.assert_array_equal(infos["monte_carlo_value"][:-1], own["value"][decided])
        if spec.image_shape:
            np.testing.assert_array_equal(episode.observations["image"], own["image"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "valued", "thermal"])
def test_observations_lie_in_the_spaces(kind, sources, tmp_path, load):
    """Ranges are those of the spec, widened to the zeros of padding."""
    export(sources(kind).folder, "minari", tmp_path / "x", split="all")
    dataset = load()
    episode = dataset[dataset.total_episodes - 1]
    mask = dataset.observation_space["mask"]  # TorchRL's loader refuses MultiBinary
    assert (type(mask).__name__, mask.dtype, mask.high.max()) == ("Box", np.uint8, 1)
    for step in range(len(episode) + 1):
        seen = {name: values[step] for name, values in episode.observations.items()}
        assert dataset.observation_space.contains(seen)
    assert all(dataset.action_space.contains(action) for action in episode.actions)


@pytest.mark.slow
def test_a_long_episode_is_one_episode(long, tmp_path, load):
    export(long.folder, "minari", tmp_path / "x", split="all")
    [first, *_rest] = load().sample_episodes(3)
    assert first is not None
    assert len(load()[0]) == LONG_STEPS
    assert load()[0].observations["context"].shape[0] == LONG_STEPS + 1


def test_episodes_are_labelled(images, tmp_path, load):
    export(images.folder, "minari", tmp_path / "x", split="all")
    labels = list(load().storage.get_episode_metadata(range(images.episodes.height)))
    names = ("split", "behaviour", "window", "return", "elapsed_s", "seed")
    for label, row in zip(labels, images.episodes.iter_rows(named=True), strict=True):
        assert {n: label[n] for n in names} == {n: row[n] for n in names}
        assert label["total_steps"] == row["steps"]


@pytest.mark.slow
def test_cut_candidates_keep_the_chosen_one_and_are_told(images, tmp_path, load):
    result = export(images.folder, "minari", tmp_path / "x", candidates=4, split="all")
    dataset = load()
    assert dataset.action_space.n == 4
    features = [f.name for f in images.dataset.spec.candidates]
    decisions = images.decisions.with_columns(
        pl.col("candidates").list.get(pl.col("choice")).alias("chosen")
    )
    for number, episode in enumerate(dataset):
        own = decisions.filter(episode=number)
        steps = np.arange(len(episode))
        chosen = episode.observations["candidates"][steps, episode.actions]
        np.testing.assert_array_equal(chosen, own["chosen"].struct.unnest()[features].to_numpy())
        assert episode.observations["mask"][steps, episode.actions].all()
        probability = episode.infos["behaviour_probabilities"][steps, episode.actions]
        np.testing.assert_array_equal(probability, own["propensity"])
        np.testing.assert_array_equal(episode.infos["propensity"][:-1], own["propensity"])
    [path] = tmp_path.rglob("metadata.json")
    metadata = json.loads(path.read_text())
    assert metadata["cut_decisions"] == images.decisions.height
    assert any("(100.00%) had more than K candidates" in note for note in result.notes)
    assert "had more than K candidates" in metadata["description"]


@pytest.mark.slow
def test_the_environment_of_a_recipe_with_changed_settings_is_recovered(
    tiny_dataset, tiny_recipe, tmp_path, load
):
    """The environment has the config, the windows and the seed of the dataset's recipe."""
    recipe = tiny_recipe
    assert "+" in recipe.id
    export(tiny_dataset, "minari", tmp_path / "x")
    dataset = load()
    env = dataset.recover_environment()
    played = env.unwrapped._problem.recipe
    assert (played.config, played.split, played.trace, played.seed, played.objective) == (
        recipe.config, recipe.split, recipe.trace, recipe.seed, recipe.objective
    )  # fmt: skip
    assert env.spec.id == "hindcast/Recipe-v0"
    assert env.action_space == dataset.action_space
    mine, theirs = env.observation_space, dataset.observation_space
    assert {n: s.shape for n, s in mine.items()} == {n: s.shape for n, s in theirs.items()}
    env.reset(seed=0)
    env.close()


def test_the_environment_of_another_trace_is_left_out(long, tmp_path):
    """The folder of a workload of one's own may not be at hand where the export is read."""
    export(long.folder, "minari", tmp_path / "x", split="all")
    [path] = tmp_path.rglob("metadata.json")
    assert "env_spec" not in path.read_text()


@pytest.mark.slow
def test_filter_episodes_sees_the_split(images, tmp_path, load):
    export(images.folder, "minari", tmp_path / "x", split="all")
    dataset = load()
    splits = dataset.storage.metadata["splits"]
    for code, split in enumerate(splits):
        chosen = dataset.filter_episodes(lambda e, code=code: e.infos["split"][0] == code)
        expected = images.episodes.filter(split=split)["episode"].to_list()
        assert [int(i) for i in chosen.episode_indices] == expected
    assert splits[:3] == ["train", "validation", "test"]


@pytest.mark.slow
def test_arrays_are_compressed(images, tmp_path):
    h5py = pytest.importorskip("h5py")
    export(images.folder, "minari", tmp_path / "x", split="all")
    [path] = tmp_path.rglob("*.hdf5")
    with h5py.File(path) as file:
        arrays: list[str | None] = []
        file.visititems(lambda _, item: arrays.append(getattr(item, "compression", "group")))
    assert set(arrays) == {"gzip", "group"}


def test_scores_are_normalized_between_random_and_the_best_behaviour(images, tmp_path, load):
    import minari

    export(images.folder, "minari", tmp_path / "x", split="all")
    means = dict(images.episodes.group_by("behaviour").agg(pl.col("return").mean()).iter_rows())
    low, high = means["random"], max(means.values())
    assert low < high
    scores = minari.get_normalized_score(load(), np.array([low, high]))
    np.testing.assert_allclose(scores, [0, 1])


def test_there_are_no_reference_scores_of_one_behaviour(long, tmp_path):
    assert set(long.episodes["behaviour"]) == {"random"}
    export(long.folder, "minari", tmp_path / "x", split="all")
    [path] = tmp_path.rglob("metadata.json")
    assert "ref_m" not in path.read_text()


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("a-v2", "a-v2"),
        ("binpack-cloudsimpy", "binpack-cloudsimpy-v1"),
        ("a b.c", "a-b-c-v1"),
        ("a-v2+3f9a1c", "a-3f9a1c-v2"),
        ("a+3f9a1c", "a-3f9a1c-v1"),
    ],
)
def test_ids_have_a_version(recipe, expected):
    assert dataset_id(recipe) == expected
