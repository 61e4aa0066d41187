"""Tests that h5py reads the D4RL file: the dataset's transitions under D4RL's names."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.exports import export
from tests.pipeline.exports.padded import expected_rows
from tests.sample_datasets import KINDS, LONG_STEPS

h5py = pytest.importorskip("h5py")


def vectors(rows) -> np.ndarray:
    """Return context and candidates concatenated."""
    return np.concatenate([rows["context"], rows["candidates"].reshape(len(rows["step"]), -1)], 1)


@pytest.mark.slow
def test_every_transition_is_equal(source, tmp_path):
    export(source.folder, "d4rl", tmp_path / "x.hdf5", split="all")
    spec = source.dataset.spec
    with h5py.File(tmp_path / "x.hdf5") as file:
        k = file.attrs["candidates"]
        rows = expected_rows(source.dataset, k)
        here = np.flatnonzero(rows["choice"] >= 0)
        observations = vectors(rows)
        expected = {
            "observations": observations[here],
            "next_observations": observations[here + 1],
            "actions": rows["choice"][here],
            "rewards": rows["reward"][here],
            "terminals": rows["terminated"][here],
            "timeouts": rows["truncated"][here],
            "infos/action_mask": rows["mask"][here],
            "infos/next_action_mask": rows["mask"][here + 1] & ~rows["terminated"][here, None],
            "infos/behaviour_prob": rows["probabilities"][here],
            "infos/propensity": rows["propensity"][here],
            "infos/episode": rows["episode"][here],
            "infos/step": rows["step"][here],
            "infos/time_s": rows["time_s"][here],
            "infos/elapsed_s": rows["elapsed_s"][here],
            "infos/window": rows["window"][here],
            "infos/discount": rows["discount"][here],
            "infos/split": rows["split"][here].astype("S"),
            "infos/behaviour": rows["behaviour"][here].astype("S"),
            **{f"infos/reward_terms/{term}": rows["terms"][here, column]
               for column, term in enumerate(spec.reward_terms)},
        }  # fmt: skip
        if spec.valued:
            expected["infos/monte_carlo_value"] = rows["value"][here]
        if spec.image_shape:
            expected |= {"images": rows["image"][here], "next_images": rows["image"][here + 1]}
        items: dict = {}
        file.visititems(items.__setitem__)
        found = {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}
        assert {n for n in found if not n.startswith(("episodes/", "metadata/"))} == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name][()], values, err_msg=name)
            assert len(found[name]) == source.decisions.height
        for name in ("episode", "split", "behaviour", "seed", "window", "steps", "return"):
            values = found[f"episodes/{name}"]
            values = values.asstr()[()] if h5py.check_string_dtype(values.dtype) else values[()]
            assert values.tolist() == source.episodes[name].to_list()


@pytest.mark.slow
def test_ends_are_marked_as_d4rl_marks_them(sources, tmp_path):
    """Ended episodes have one terminal, and episodes that were cut off have one timeout."""
    for kind in KINDS.keys() - {"long", "valued"}:
        source = sources(kind)
        export(source.folder, "d4rl", tmp_path / kind, split="all")
        with h5py.File(tmp_path / kind) as file:
            terminals, timeouts = file["terminals"][()], file["timeouts"][()]
        ends = np.flatnonzero(terminals | timeouts)
        assert (terminals[ends] != timeouts[ends]).all()
        assert timeouts[ends].tolist() == source.episodes["truncated"].to_list()
        lengths = np.diff(ends, prepend=-1)
        assert lengths.tolist() == source.episodes["steps"].to_list()
    assert set(sources("images").episodes["truncated"]) == {True, False}


@pytest.mark.slow
def test_a_long_episode_is_whole(long, tmp_path):
    export(long.folder, "d4rl", tmp_path / "x.hdf5", split="all")
    with h5py.File(tmp_path / "x.hdf5") as file:
        assert np.flatnonzero(file["terminals"][()])[0] == LONG_STEPS - 1
        observations, after = file["observations"][()], file["next_observations"][()]
    np.testing.assert_array_equal(observations[1:LONG_STEPS], after[: LONG_STEPS - 1])


@pytest.mark.slow
def test_the_file_says_what_it_is(images, tmp_path):
    export(images.folder, "d4rl", tmp_path / "x.hdf5", split="all")
    with h5py.File(tmp_path / "x.hdf5") as file:
        attributes = dict(file.attrs)
        columns = json.loads(file["metadata/observation"].asstr()[()])
    spec, manifest = images.dataset.spec, images.dataset.manifest
    assert [c["name"] for c in columns["context"]] == [f.name for f in spec.context]
    assert [c["unit"] for c in columns["candidates"]] == [f.unit for f in spec.candidates]
    assert attributes["digest"] == manifest.digest
    assert attributes["cut_decisions"] == 0
    assert attributes["licence"] == "https://www.apache.org/licenses/LICENSE-2.0"
    assert manifest.digest in attributes["citation"]
    assert "nothing was cut" in attributes["notes"][1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "k"), [("images", 3), ("images", 7), ("long", 1), ("long", 2)])
def test_cut_candidates_are_true_ones(kind, k, sources, tmp_path):
    """Kept candidates include the chosen one, are feasible and distinct, and keep their order."""
    source = sources(kind)
    result = export(source.folder, "d4rl", tmp_path / "x.hdf5", candidates=k, split="all")
    spec = source.dataset.spec
    c, f = len(spec.context), len(spec.candidates)
    with h5py.File(tmp_path / "x.hdf5") as file:
        shown = file["observations"][:, c:].reshape(-1, k, f)
        mask, actions = file["infos/action_mask"][()], file["actions"][()]
        probabilities = file["infos/behaviour_prob"][()]
        propensity = file["infos/propensity"][()]
        cut = file.attrs["cut_decisions"]
    decisions = source.decisions
    assert cut == (decisions["feasible"].list.len() > k).sum()
    assert f"{cut:,} of {decisions.height:,} decisions" in result.notes[1]
    for i, row in enumerate(decisions[:300].iter_rows(named=True)):
        full = np.array([list(x.values()) for x in row["candidates"]], np.float32)
        feasible = np.flatnonzero(row["feasible"])
        kept = mask[i].sum()
        assert kept == min(k, len(feasible))
        assert mask[i, :kept].all()
        assert not shown[i, kept:].any()
        np.testing.assert_array_equal(shown[i, actions[i]], full[row["choice"]])
        at = 0  # candidates can be equal, so the kept ones are searched in order
        for j in range(kept):
            same = [n for n in feasible if n >= at and (full[n] == shown[i, j]).all()]
            at = same[0] + 1
    np.testing.assert_array_equal(probabilities[np.arange(len(actions)), actions], propensity)


def test_the_share_that_is_left_out_is_right(images, tmp_path):
    result = export(images.folder, "d4rl", tmp_path / "x.hdf5", candidates=3, split="all")
    lists = images.decisions.select(
        pl.col("feasible").list.len().alias("all"), pl.col("feasible").list.sum().alias("feasible")
    )
    kept = lists.select(
        pl.when(pl.col("all") > 3).then(pl.min_horizontal("feasible", 3)).otherwise("all")
    ).to_series()
    share = 1 - kept.sum() / lists["all"].sum()
    assert f"{share:.2%} of all candidates are left out" in result.notes[1]
