"""Reading a dataset: its spec, its episodes, its decisions as tables, episodes or minibatches.

    from pipeline import dataset as ds

    dataset = ds.open("demo/dataset")                    # or a URL: s3://bucket/demo/dataset
    dataset.spec, dataset.recipe, dataset.manifest       # what it is
    dataset.episodes("train")                            # a polars DataFrame
    dataset.transitions("train")                         # a polars LazyFrame
    for batch in dataset.batches(256, rng, k=32): ...    # shuffled, for training
    for episode in dataset.iter_episodes(): ...          # one after the other, whole

All of it works on folders larger than memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pipeline.dataset import manifest as mf
from pipeline.dataset.columns import episodes_schema
from pipeline.dataset.decisions import Decisions
from pipeline.dataset.episodes import Trajectory
from pipeline.dataset.folder import DatasetFolder
from pipeline.errors import DatasetError
from pipeline.storage.files import read_parquet
from pipeline.storage.location import location

_LONGEST_NAME: Final = 1000  # bytes of a behaviour's name


@dataclass(frozen=True)
class Dataset(DatasetFolder):
    """A finished dataset folder, opened for reading."""

    def transitions(self, split: str | None = None) -> pl.LazyFrame:
        """Decisions with what came next, one row each; nothing is read before it is collected.

        The columns of datasets/README.md, and next_time_s, next_context, next_candidates,
        next_feasible and, where there is one, next_image: those of the following row of the same
        episode. After the last decision that is the closing row's observation; whether a value may
        be expected of it is said by `terminated`. The closing rows themselves are left out.

        In order of episode and step. A query that is collected with `engine="streaming"` holds a
        row group at a time, and reads the columns that it needs; on a store as on a disk.
        DatasetError for an unknown split, at once, and for a damaged part when it is collected.
        """
        from pipeline.dataset.transitions import transitions

        return transitions(self, split)

    def iter_episodes(self, split: str | None = None) -> Iterator[Trajectory]:
        """Every episode of a split, or of all, as arrays (pipeline.dataset.episodes.Trajectory).

        One episode and a row group are held at a time, however long the episode.
        """
        from pipeline.dataset.episodes import iter_trajectories

        return iter_trajectories(self, split)

    def batches(
        self,
        size: int,
        rng: np.random.Generator,
        *,
        split: str = "train",
        k: int | None = None,
        transitions: bool = True,
        images: bool = False,
        buffer: int = 256 << 20,
        readers: int = 2,
        repeat: bool = False,
    ) -> Iterator[Decisions]:
        """Shuffled minibatches of `size` decisions, every decision of the split once per pass.

        size         decisions in a minibatch; the last one of a pass is smaller
        k            candidate sets are cut or padded to K as `pipeline.dataset.padding` says; None
                     cuts nothing and pads each minibatch to its largest set
        transitions  also what followed (Decisions.next_*)
        images       also the images, where the scenario has them
        buffer       bytes that are shuffled at once
        readers      threads that decode row groups; they change the speed, nothing else
        repeat       begin the next pass, in another order, when one is over; never ends

        How good is the shuffle? Row groups (about 1.5 million candidates each) are poured whole
        into the buffer, in uniformly random order over the split. Each minibatch is drawn uniformly
        without replacement from what is there, and when half of it is gone, the rest is joined by
        the next row groups. So a split that fits into the buffer is shuffled uniformly. Of a larger
        one a minibatch mixes the episodes of as many random row groups as the buffer holds, and a
        decision is seen near those of its own row group more often than chance would have it.

        The order depends on `rng` alone, of which one draw is taken now. Besides the buffer, which
        is never smaller than two row groups, a row group or two per reader are in memory.
        DatasetError for an unknown split, at once, and for a damaged part when it is met;
        InputError for a size, K or number of readers below 1.
        """
        from pipeline.dataset.batches import batches

        return batches(
            self, size, rng, split=split, k=k, transitions=transitions, images=images,
            buffer=buffer, readers=readers, repeat=repeat,
        )  # fmt: skip


def open(path: str | Path) -> Dataset:  # noqa: A001 - it is called through the module
    """Open a dataset: a folder, or a URL of a store (`pipeline.storage.location`).

    DatasetError where it is not a whole one, InputError for a URL that cannot be spoken to. Only
    the manifest and the table of episodes are read; `hindcast verify` checks the rest.
    """
    folder = location(path)
    manifest = mf.read_manifest(folder)
    path = folder / manifest.episodes.path
    episodes = read_parquet(path)
    expected = episodes_schema(manifest.spec)
    if dict(episodes.schema) != expected:
        raise DatasetError(f"{path}: columns differ from the spec of the manifest")
    _check_episodes(episodes, manifest, path)
    return Dataset(folder, manifest, episodes)


def _check_episodes(episodes: pl.DataFrame, manifest: mf.Manifest, path: Path) -> None:
    """DatasetError for episodes that would send a reader out of its bounds.

    Numbered from 0, nothing null, names of sane length, steps that the parts have rows for.
    """
    parts = len(manifest.parts)
    sound = (
        episodes.height == manifest.episodes.rows
        and not sum(episodes.null_count().row(0))
        and not episodes["behaviour_parameters"].explode(empty_as_null=False).null_count()
        and bool((episodes["episode"] == pl.int_range(episodes.height, eager=True)).all())
        and bool((episodes["split"].str.len_bytes() <= _LONGEST_NAME).all())
        and bool((episodes["behaviour"].str.len_bytes() <= _LONGEST_NAME).all())
        and bool(episodes["first_part"].is_between(0, parts - 1).all())
        and bool(episodes["last_part"].is_between(episodes["first_part"], parts - 1).all())
        and bool(episodes["steps"].is_between(0, sum(part.rows for part in manifest.parts)).all())
        and sum(part.rows for part in manifest.parts) == episodes["steps"].sum() + episodes.height
    )
    if not sound:
        raise DatasetError(f"{path}: its episodes or their counts are not those of the parts")
