"""Datasets to export, and their content read by polars alone."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import hindcast.pipeline.dataset as ds
from tests.pipeline.exports.padded import labelled
from tests.sample_datasets import KINDS


@dataclass(frozen=True)
class Source:
    """A dataset as opened, with its rows, its decisions and its episodes read by polars."""

    dataset: ds.Dataset
    rows: pl.DataFrame
    decisions: pl.DataFrame
    episodes: pl.DataFrame

    @property
    def folder(self) -> Path:
        return self.dataset.folder

    def of_split(self, split: str) -> pl.DataFrame:
        """Return the rows of a split with their labels."""
        return labelled(self.rows, self.dataset).filter(split=split)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Source]:
    made: dict[str, Source] = {}

    def source(kind: str) -> Source:
        if kind not in made:
            dataset = ds.open(KINDS[kind](tmp_path_factory.mktemp(kind)))
            paths = [dataset.folder / p.path for p in dataset.manifest.parts]
            rows = pl.read_parquet(paths, glob=False)
            decisions = rows.filter(pl.col("choice").is_not_null())
            episodes = pl.read_parquet(dataset.folder / "episodes.parquet")
            made[kind] = Source(dataset, rows, decisions, episodes)
        return made[kind]

    return source


@pytest.fixture(params=[k for k in KINDS if k != "thermal"])
def source(request, sources) -> Source:
    """Return each dataset in turn: a long episode, images, values, cut-off episodes with NaN."""
    return sources(request.param)


@pytest.fixture
def long(sources) -> Source:
    return sources("long")


@pytest.fixture
def images(sources) -> Source:
    return sources("images")


@pytest.fixture
def thermal(sources) -> Source:
    return sources("thermal")
