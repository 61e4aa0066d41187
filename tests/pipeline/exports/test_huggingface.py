"""Tests that Hugging Face's `datasets` and other tools read the export, value for value."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import yaml

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.exports import export
from hindcast.pipeline.exports import huggingface as hf
from hindcast.policies.registry import behaviours
from tests.sample_datasets import LONG_STEPS

pytestmark = [  # warnings of `datasets` and its imports, about Python and each other
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def datasets(monkeypatch, tmp_path):
    """Return the library, offline, with its caches in the test's folder."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    datasets.disable_progress_bars()
    return datasets


def frame(loaded) -> pl.DataFrame:
    """Return a whole split as polars sees its Arrow table."""
    return pl.from_arrow(loaded.with_format("arrow")[:])


def streamed(loaded) -> pl.DataFrame:
    return pl.concat(pl.from_arrow(t) for t in loaded.with_format("arrow").iter(batch_size=7000))


def header(folder: Path) -> dict:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Check equal columns, order and values. Lists of fixed size come back as lists."""
    assert found.columns == expected.columns
    arrays = [n for n, kind in expected.schema.items() if isinstance(kind, pl.Array)]
    expected = expected.with_columns(pl.col(name).arr.to_list() for name in arrays)
    found = found.with_columns(
        pl.col(n).arr.to_list() for n, kind in found.schema.items() if isinstance(kind, pl.Array)
    )
    assert found.schema == expected.schema
    assert found.equals(expected)


@pytest.mark.slow
def test_every_split_loads_with_equal_values(source, tmp_path, datasets):
    export(source.folder, "huggingface", tmp_path / "x")
    loaded = datasets.load_dataset(str(tmp_path / "x"))
    assert set(loaded) == set(source.episodes["split"])
    for split in loaded:
        same(frame(loaded[split]), source.of_split(split))
    episodes = datasets.load_dataset(str(tmp_path / "x"), "episodes")
    for split in loaded:
        same(frame(episodes[split]), source.episodes.filter(split=split))


@pytest.mark.slow
def test_streaming_gives_equal_values(source, tmp_path, datasets):
    export(source.folder, "huggingface", tmp_path / "x")
    for split in source.episodes["split"].unique():
        loaded = datasets.load_dataset(str(tmp_path / "x"), split=split, streaming=True)
        same(streamed(loaded), source.of_split(split))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["huggingface", "croissant", None])
def test_folders_of_one_name_load_their_own_rows(form, tiny_recipe, thermal, tmp_path, datasets):
    """One cache, which knows a folder by its name and the configs of its header.

    Two of the datasets are builds of one recipe with different seeds; None is a dataset itself.
    """
    own = {"thermal": thermal.folder}
    for seed in (7, 8):
        recipe = replace(tiny_recipe, seed=seed)
        own[str(seed)] = tmp_path / f"seed{seed}" / "dataset"
        build(recipe, behaviours(recipe), own[str(seed)])
    heads = set()
    for name, folder in own.items():
        out = tmp_path / name / "published"
        out.parent.mkdir(exist_ok=True)
        if form is None:
            shutil.copytree(folder, out)
        else:
            export(folder, form, out)
        loaded = frame(datasets.load_dataset(str(out), split="train"))
        expected = rows_of(folder, "train")
        same(loaded.select(expected.columns), expected)
        episodes = datasets.load_dataset(str(out), "episodes")
        expected = pl.read_parquet(folder / "episodes.parquet")
        assert sum(loaded.num_rows for loaded in episodes.values()) == expected.height
        returns = {value for loaded in episodes.values() for value in loaded["return"]}
        assert returns == set(expected["return"])
        heads.add(str(header(out)["configs"]))
    assert len(heads) == len(own)


def rows_of(folder: Path, split: str) -> pl.DataFrame:
    """The decisions of a split, in the order of the parts."""
    episodes = pl.read_parquet(folder / "episodes.parquet").filter(split=split).select("episode")
    rows = pl.read_parquet(sorted((folder / "data").glob("*.parquet")))
    return rows.join(episodes, on="episode", how="semi", maintain_order="left")


@pytest.mark.slow
def test_rows_are_nested_as_the_standard_says(images, tmp_path, datasets):
    export(images.folder, "huggingface", tmp_path / "x")
    row = datasets.load_dataset(str(tmp_path / "x"), split="train")[0]
    expected = images.of_split("train").row(0, named=True)
    assert row["context"] == expected["context"]
    assert row["candidates"] == expected["candidates"]
    assert row["image"] == list(expected["image"])


@pytest.mark.slow
def test_an_episode_of_more_rows_than_a_group_holds_stays_in_order(long, tmp_path, datasets):
    export(long.folder, "huggingface", tmp_path / "x")
    loaded = frame(datasets.load_dataset(str(tmp_path / "x"), split="train"))
    steps = loaded.filter(episode=0)["step"]
    assert steps.to_list() == list(range(LONG_STEPS + 1))


def test_the_header_names_configs_terms_and_size(images, thermal, tmp_path):
    for name, source in (("a", images), ("b", thermal)):
        export(source.folder, "huggingface", tmp_path / name)
        head = header(tmp_path / name)
        assert head["license"] == "apache-2.0"
        assert head["task_categories"] == ["reinforcement-learning"]
        assert source.dataset.spec.scenario in head["tags"]
        assert head["size_categories"] == ["n<1K"]
        assert [c["config_name"] for c in head["configs"]] == ["decisions", "episodes"]
        assert {f["split"] for f in head["configs"][0]["data_files"]} == {"train", "validation"}
        for config in head["configs"]:
            for files in config["data_files"]:
                assert list((tmp_path / name).glob(files["path"]))


def test_terms_of_a_trace_are_told(thermal, tmp_path):
    manifest = thermal.dataset.manifest
    traced = replace(manifest, provenance={**manifest.provenance, "format": "alibaba2017"})
    dataset = replace(thermal.dataset, manifest=traced)
    hf.export(dataset, tmp_path / "x", None, lambda _done, _total: None, "all")
    head = header(tmp_path / "x")
    assert head["license"] == "other"
    assert head["license_name"] == "alibaba2017-trace-terms"
    assert head["license_link"] == "https://github.com/alibaba/clusterdata"


def test_the_card_stands_below_the_header(thermal, tmp_path):
    export(thermal.folder, "huggingface", tmp_path / "x")
    text = (tmp_path / "x" / "README.md").read_text()
    card = (thermal.folder / "README.md").read_text()
    assert text.endswith(hf.without_header(card))
    assert text.count("\n---\n") == 1
    assert thermal.dataset.manifest.digest in text


def test_a_part_of_several_splits_is_divided(images, tmp_path):
    """A part that holds several splits, as in older datasets, is divided."""
    mixed = images.episodes.with_columns(
        split=pl.when(pl.col("episode") % 2 == 0).then(pl.lit("test")).otherwise(pl.lit("train"))
    )
    dataset = replace(images.dataset)
    field = next(n for n in vars(images.dataset) if isinstance(vars(dataset)[n], pl.DataFrame))
    object.__setattr__(dataset, field, mixed)
    hf.export(dataset, tmp_path / "x", None, lambda _done, _total: None, "all")
    for split in ("train", "test"):
        found = pl.read_parquet(tmp_path / "x" / "data" / f"{split}-*.parquet")
        own = mixed.filter(split=split).select("episode", "split")
        rows = images.rows.join(own, on="episode", maintain_order="left")
        assert found.select(rows.columns).equals(rows)
        names = sorted(p.name for p in (tmp_path / "x" / "data").glob(f"{split}-*"))
        assert names == [f"{split}-{i:05d}-of-{len(names):05d}.parquet" for i in range(len(names))]


@pytest.fixture
def files(source, tmp_path) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Return the files of the train split, and their expected content."""
    export(source.folder, "huggingface", tmp_path / "x")
    paths = sorted(str(p) for p in (tmp_path / "x" / "data").glob("train-*.parquet"))
    return paths, source.of_split("train")


def plain(value):
    """Return arrays of pandas as lists."""
    return [plain(v) for v in value] if isinstance(value, np.ndarray) else value


@pytest.mark.slow
def test_polars_reads_it(files):
    paths, expected = files
    assert pl.scan_parquet(paths).collect(engine="streaming").equals(expected)


@pytest.mark.slow
def test_pyarrow_dataset_reads_it(files):
    paths, expected = files
    table = pads.dataset(paths, format="parquet").to_table()
    same(pl.from_arrow(table), expected)


@pytest.mark.slow
def test_pandas_reads_it(files):
    paths, expected = files
    found = pd.concat([pd.read_parquet(path) for path in paths])
    assert len(found) == expected.height
    columns = ["episode", "step", "time_s", "choice", "propensity", "reward"]
    theirs = pl.from_pandas(found[columns].reset_index(drop=True), nan_to_null=True)
    ours = expected.select(columns).with_columns(pl.col("propensity", "reward").fill_nan(None))
    assert theirs.cast(ours.schema).equals(ours)
    for name in ("context", "candidates", "feasible", "behaviour_probabilities", "reward_terms"):
        ours = expected[name][-40:]
        theirs = pl.Series(name, [plain(v) for v in found[name][-40:]], dtype=ours.dtype)
        assert theirs.equals(ours, null_equal=True), name


@pytest.mark.slow
def test_duckdb_reads_it(files):
    paths, expected = files
    found = duckdb.sql(f"SELECT * FROM read_parquet({paths!r}) ORDER BY episode, step").pl()
    shown = [c for c in expected.columns if c != "image"]
    same(found.select(shown), expected.select(shown))


@pytest.mark.slow
def test_a_part_of_one_split_keeps_its_row_groups(long, tmp_path):
    export(long.folder, "huggingface", tmp_path / "x")
    [train] = (tmp_path / "x" / "data").glob("train-*")
    groups = [pq.ParquetFile(long.folder / p.path).num_row_groups
              for p in long.dataset.manifest.parts[:1]]  # fmt: skip
    assert pq.ParquetFile(train).num_row_groups == groups[0] > 1


def test_a_card_without_a_header_is_kept_whole():
    assert hf.without_header("# title\n---\n") == "# title\n---\n"
    assert hf.without_header("---\nlicense: x\n---\n\n# title\n") == "# title\n"
    assert hf.without_header("---\nno end\n") == "---\nno end\n"
