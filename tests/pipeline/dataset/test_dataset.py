"""The Python API of a dataset, but for its minibatches: lazy transitions, whole episodes."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.storage.location import location

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "v0.1.0"


@pytest.fixture(scope="module")
def dataset(cut_dataset):
    """Row groups of 97 rows: episodes go over their ends."""
    return ds.open(cut_dataset)


@pytest.fixture(scope="module")
def rows(cut_dataset):
    """All rows of the files, closing rows included, in order."""
    return pl.read_parquet(cut_dataset / "data" / "*.parquet").sort("episode", "step")


def test_a_dataset_is_shown_in_a_line(tiny_dataset):
    opened = ds.open(tiny_dataset)
    assert repr(opened).startswith(f"Dataset('{tiny_dataset}': {opened.recipe.id}, ")
    assert repr(opened).endswith(f"{opened.manifest.counts['decisions']:,} decisions)")


def test_a_path_opens_as_text_too(tiny_dataset):
    assert ds.open(str(tiny_dataset)).manifest == ds.open(tiny_dataset).manifest
    assert ds.open(f"file://{tiny_dataset}").folder == tiny_dataset
    with pytest.raises(InputError, match="unknown scheme 's4'; did you mean 's3'"):
        ds.open("s4://bucket/dataset")
    with pytest.raises(DatasetError, match="no such folder"):
        ds.open("nowhere/at/all")


def test_episodes_are_those_of_a_split_or_all(dataset):
    splits = dataset.recipe.dataset_splits
    assert pl.concat([dataset.episodes(split) for split in splits]).equals(dataset.episodes())
    with pytest.raises(DatasetError, match="split 'tets' has no episodes"):
        dataset.episodes("tets")


@pytest.mark.slow
def test_transitions_are_decisions_with_the_next_row(dataset, rows):
    """Transitions equal `shift` within an episode without the closing rows."""
    observed = ["time_s", "context", "candidates", "feasible"]
    expected = (
        rows.with_columns(pl.col(name).shift(-1).over("episode").alias(f"next_{name}")
                          for name in observed)
        .filter(pl.col("choice").is_not_null())
    )  # fmt: skip
    for engine in ("in-memory", "streaming"):
        found = dataset.transitions().collect(engine=engine)
        assert found.columns == expected.columns
        assert found.equals(expected)


@pytest.mark.slow
def test_a_lazy_query_gives_what_an_eager_one_gives(dataset):
    """Projection, filter and head, which are pushed into the reader, change no value."""
    lazy, whole = dataset.transitions("train"), dataset.transitions("train").collect()
    assert whole["episode"].unique().sort().equals(dataset.episodes("train")["episode"])

    def query(frame):
        return (
            frame.filter(pl.col("reward") < pl.col("reward").mean())
            .select("episode", "step", fewer=pl.col("next_feasible").list.len())
            .filter(pl.col("fewer") > 2)
            .head(50)
        )

    assert query(lazy).collect().equals(query(whole.lazy()).collect())
    assert lazy.head(5).collect().equals(whole.head(5))
    assert (
        lazy.filter(pl.col("step") == 3)
        .head(5)
        .collect()
        .equals(whole.filter(pl.col("step") == 3).head(5))
    )
    assert lazy.select(pl.len()).collect().item() == whole.height
    assert lazy.select("next_time_s").collect().equals(whole.select("next_time_s"))


@pytest.mark.slow
def test_the_schema_is_known_before_anything_is_read(dataset):
    lazy = dataset.transitions()
    assert lazy.collect_schema() == lazy.collect().schema


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["tiny_dataset", "cut_dataset"])
def test_an_episode_is_its_rows(request, folder, rows):
    """Whole ones, also where they go over the ends of row groups."""
    opened = ds.open(request.getfixturevalue(folder))
    seen = []
    for episode in opened.iter_episodes():
        own = rows.filter(pl.col("episode") == episode.about["episode"])
        decided = own.head(-1)
        seen.append(episode.about["episode"])
        assert len(episode) == episode.about["steps"] == decided.height
        assert episode.reward.sum() == episode.about["return"]
        for name in ("choice", "propensity", "reward", "elapsed_s", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(episode, name), decided[name].to_numpy())
        np.testing.assert_array_equal(episode.time_s, own["time_s"].to_numpy())
        np.testing.assert_array_equal(
            np.diff(episode.offsets), own["candidates"].list.len().to_numpy()
        )
        np.testing.assert_array_equal(
            episode.candidates, own["candidates"].explode().struct.unnest().to_numpy()
        )
        np.testing.assert_array_equal(episode.context, own["context"].struct.unnest().to_numpy())
        np.testing.assert_array_equal(
            episode.terms, decided["reward_terms"].struct.unnest().to_numpy()
        )
        last = len(episode)
        assert episode.candidates_of(last).shape == (len(own["candidates"][last]), 7)
        assert episode.feasible_of(0).tolist() == own["feasible"][0].to_list()
        assert episode.probabilities[: episode.offsets[1]].tolist() == (
            own["behaviour_probabilities"][0].to_list()
        )
    assert seen == opened.episodes()["episode"].to_list()


def test_episodes_of_one_split_alone(dataset):
    found = [episode.about["episode"] for episode in dataset.iter_episodes("validation")]
    assert found == dataset.episodes("validation")["episode"].to_list()
    with pytest.raises(DatasetError, match="has no episodes"):
        dataset.iter_episodes("test")


@pytest.mark.slow
def test_a_store_gives_what_a_folder_gives(cut_dataset, dataset):
    """Lazily, in minibatches and as episodes; here the store is memory."""
    remote = location("memory://api/dataset")
    for path in sorted(cut_dataset.rglob("*")):
        if path.is_file():
            (remote / str(path.relative_to(cut_dataset))).write_bytes(path.read_bytes())
    opened = ds.open("memory://api/dataset")
    assert opened.transitions().collect(engine="streaming").equals(dataset.transitions().collect())
    pairs = zip(opened.iter_episodes(), dataset.iter_episodes(), strict=True)
    assert all((a.candidates == b.candidates).all() for a, b in pairs)
    batches = [d.batches(99, np.random.default_rng(0), k=4) for d in (opened, dataset)]
    for one, other in zip(*batches, strict=True):
        np.testing.assert_array_equal(one.next_candidates, other.next_candidates)


@pytest.fixture
def damaged(cut_dataset, tmp_path):
    """The first part has lost its footer."""
    shutil.copytree(cut_dataset, tmp_path / "copy")
    path = tmp_path / "copy" / "data" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    return ds.open(tmp_path / "copy")


def test_a_damaged_part_is_named(damaged):
    with pytest.raises(DatasetError, match=r"part-00000\.parquet"):
        list(damaged.iter_episodes())
    for engine in ("in-memory", "streaming"):
        with pytest.raises(DatasetError, match=r"part-00000\.parquet"):
            damaged.transitions().collect(engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["fewer", "more"])
def test_a_sample_of_parts_with_other_decisions_is_refused(cut_dataset, tmp_path, what):
    shutil.copytree(cut_dataset, tmp_path / "copy")
    opened = ds.open(tmp_path / "copy")
    path = opened.part(1)
    rows = pq.read_table(path)
    pq.write_table(rows.slice(9) if what == "fewer" else pa.concat_tables([rows, rows]), path)
    with pytest.raises(DatasetError, match=r"part-00001\.parquet: this part holds other decisions"):
        sample_decisions(opened, "train", np.random.default_rng(0), Columns(2))


@pytest.mark.slow
def test_an_episode_without_its_end_is_told(cut_dataset, tmp_path):
    """By whoever reads up to there."""
    shutil.copytree(cut_dataset, tmp_path / "copy")
    opened = ds.open(tmp_path / "copy")
    path = opened.part(len(opened.manifest.parts) - 1)
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path)
    with pytest.raises(DatasetError, match=r"rows of episode \d+ are missing from its parts"):
        list(opened.iter_episodes())
    with pytest.raises(DatasetError, match="ends in the middle of an episode"):
        opened.transitions().collect()


def test_nothing_can_be_chosen_after_a_terminal_decision():
    """The closing rows of `slots` have feasible candidates, which no value may follow."""
    dataset = ds.open(FIXTURES / "datasets" / "slots-rows")
    [block] = dataset.blocks(0)
    last = [block.feasible[slice(*block.offsets[row : row + 2])].any()
            for row in np.flatnonzero(block.choice == NO_CHOICE)]  # fmt: skip
    assert any(last)
    found = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(8, transitions=True)
    )
    assert found.terminated.any()
    assert not found.next_mask[found.terminated].any()
    assert found.next_mask[~found.terminated].any(axis=1).all()
