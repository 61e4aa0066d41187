"""Opened folder of a finished dataset, as needed by everything that reads its decisions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.part import Block, read_blocks
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.simulation.spec import Spec

LEFT_OUT: Final = "left out"  # split of episodes that a view leaves out


@dataclass(frozen=True)
class DatasetFolder:
    """Files of a finished dataset: manifest, table of episodes, parts."""

    folder: Path
    manifest: mf.Manifest
    _episodes: pl.DataFrame
    left_out: tuple[int, ...] = ()

    @property
    def spec(self) -> Spec:
        """Names, units and ranges of all observations, rewards and outcomes."""
        return self.manifest.spec

    @property
    def recipe(self) -> Recipe:
        """The recipe that the dataset was built from."""
        return self.manifest.recipe

    def episodes(self, split: str | None = None) -> pl.DataFrame:
        """Return the table of episodes: one row per episode, of one split or of all.

        The columns are those of episodes.parquet in datasets/README.md. Raises DatasetError if the
        split has no episodes.
        """
        if split is None:
            return self._episodes
        found = self._episodes.filter(pl.col("split") == split)
        if found.is_empty():
            known = self._episodes["split"].unique().sort().to_list()
            raise DatasetError(
                f"{self.folder}: split {split!r} has no episodes; known: {', '.join(known)}"
            )
        return found

    def without(self, windows: Iterable[int]) -> Self:
        """Return the dataset with the episodes of these windows in no split."""
        left_out = tuple(sorted({*self.left_out, *windows}))
        is_left_out = pl.col("window").is_in(left_out)
        split = pl.when(is_left_out).then(pl.lit(LEFT_OUT)).otherwise(pl.col("split"))
        episodes = self._episodes.with_columns(split.alias("split"))
        return replace(self, _episodes=episodes, left_out=left_out)

    def blocks(self, part: int, without: frozenset[str] = frozenset()) -> Iterator[Block]:
        """Return the row groups of a part, in order, `without` columns of `columns.SKIPPABLE`."""
        return read_blocks(self.part(part), self.spec, without)

    def part(self, part: int) -> Path:
        """Return the path of a part."""
        return self.folder / self.manifest.parts[part].path
