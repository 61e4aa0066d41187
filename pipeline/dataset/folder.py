"""The folder of a finished dataset, as everything that reads its decisions needs it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipeline.dataset import manifest as mf
from pipeline.dataset.part import Block, read_blocks
from pipeline.errors import DatasetError
from pipeline.recipes.recipe import Recipe
from pipeline.simulation.spec import Spec


@dataclass(frozen=True)
class DatasetFolder:
    """The files of a finished dataset: manifest, table of episodes, parts."""

    folder: Path
    manifest: mf.Manifest
    _episodes: pl.DataFrame

    @property
    def spec(self) -> Spec:
        """Names, units and ranges of everything in it."""
        return self.manifest.spec

    @property
    def recipe(self) -> Recipe:
        """What it was built from."""
        return self.manifest.recipe

    def episodes(self, split: str | None = None) -> pl.DataFrame:
        """One row per episode, of one split or of all; see datasets/README.md for the columns.

        DatasetError where there is no episode of that split.
        """
        if split is None:
            return self._episodes
        found = self._episodes.filter(pl.col("split") == split)
        if found.is_empty():
            known = self._episodes["split"].unique().sort().to_list()
            raise DatasetError(
                f"{self.folder}: no episodes of split {split!r}; it has {', '.join(known)}"
            )
        return found

    def blocks(self, part: int, without: frozenset[str] = frozenset()) -> Iterator[Block]:
        """The row groups of a part, in order; `without` columns of `parts.SKIPPABLE`."""
        return read_blocks(self.part(part), self.spec, without)

    def part(self, part: int) -> Path:
        """The file of a part."""
        return self.folder / self.manifest.parts[part].path
