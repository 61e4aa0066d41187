"""Reading a dataset: its spec, its episodes, its decisions as tables, episodes or minibatches.

    from hindcast.pipeline import dataset as ds

    dataset = ds.open("demo/dataset")                    # or a URL: s3://bucket/demo/dataset
    dataset.spec, dataset.recipe, dataset.manifest       # what it is
    dataset.episodes("train")                            # a polars DataFrame
    dataset.transitions("train")                         # a polars LazyFrame
    for batch in dataset.batches(256, rng, k=32): ...    # shuffled, for training
    dataset.torch(256, seed=1)                           # the same for PyTorch's DataLoader
    for episode in dataset.iter_episodes(): ...          # one after the other, whole

All of these work on folders larger than memory.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.columns import episodes_schema, row_count
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.dataset.episodes import Trajectory
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import read_parquet
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:  # importing PyTorch takes seconds
    from hindcast.pipeline.dataset.torch_batches import TorchBatches

_LONGEST_NAME: Final = 1000  # bytes of a behaviour's name


@dataclass(frozen=True)
class Dataset(DatasetFolder):
    """A finished dataset, opened for reading by `open_dataset`.

    Attributes:
        folder: Folder of the dataset, on this machine or in a store.
        manifest: Lineage, spec and checksums of the dataset, as in manifest.json.
        left_out: Windows whose episodes are in no split, see `without`.
    """

    def __repr__(self) -> str:
        counts = self.manifest.counts
        return (
            f"Dataset({str(self.folder)!r}: {self.recipe.id}, {counts['episodes']:,} episodes, "
            f"{counts['decisions']:,} decisions)"
        )

    def transitions(self, split: str | None = None) -> pl.LazyFrame:
        """Return decisions with their next observations as a lazy table, one row per decision.

        The columns are those of datasets/README.md, and next_time_s, next_context, next_candidates,
        next_feasible and, if the scenario has images, next_image: those of the following row of the
        same episode. After the last decision they are the observation of the closing row;
        `terminated` says whether a value may follow it. Closing rows themselves are left out. Rows
        are in order of episode and step.

        Nothing is read before the query is collected. With `engine="streaming"` a query holds one
        row group at a time and reads only the columns that it needs, on a store as on a disk.

        Args:
            split: Name of a split; None for all episodes.

        Raises:
            DatasetError: The split is unknown (raised at once), or a part is damaged (raised when
                the query is collected).
        """
        from hindcast.pipeline.dataset.transitions import transitions

        return transitions(self, split)

    def iter_episodes(self, split: str | None = None) -> Iterator[Trajectory]:
        """Yield every episode as arrays (hindcast.pipeline.dataset.episodes.Trajectory).

        One episode and one row group are in memory at a time, however long the episode.

        Args:
            split: Name of a split; None for all episodes.

        Raises:
            DatasetError: The split is unknown, or a part is damaged.
        """
        from hindcast.pipeline.dataset.episodes import iter_trajectories

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
        columns: Collection[str] = (),
        discount: float | None = None,
        per_second: bool = False,
    ) -> Iterator[Decisions]:
        """Return shuffled minibatches of decisions, with every decision of the split once per pass.

        Row groups (about 1.5 million candidates each) are poured whole into a buffer, in uniformly
        random order over the split. Each minibatch is drawn uniformly without replacement from the
        buffer; when half of it is used, the next row groups are added to the rest. So a split that
        fits into the buffer is shuffled uniformly. A minibatch of a larger split mixes the episodes
        of as many random row groups as the buffer holds, and decisions of one row group are closer
        together than by chance.

        `columns` adds any of these, each an attribute of Decisions with that name:

            return_to_go              sum of rewards from the decision to the end of its episode
            discounted_return         the same with every later reward discounted
            behaviour_probabilities   probability of each candidate under the behaviour
            truncated                 whether the episode was cut off after the decision
            time_s                    simulated seconds since the start of the episode
            reward_terms              terms of the reward, in the order of Spec.reward_terms

        `propensity`, the behaviour's probability of the choice, and `terminated` are always there.
        For the first two, the rewards of every part are read once before the first pass.

        The order depends on `rng` alone, of which one draw is taken now. In memory are the buffer,
        which is never smaller than two row groups, and one or two row groups per reader.

        Args:
            size: Number of decisions in a minibatch, at least 1; the last one of a pass is smaller.
            rng: Source of the random order.
            split: Name of the split.
            k: Number of candidates K; sets are cut or padded to K as
                `hindcast.pipeline.dataset.padding` describes. None cuts nothing and pads each
                minibatch to its largest set.
            transitions: True to add the next observations (Decisions.next_*).
            images: True to add the images, if the scenario has them.
            buffer: Bytes that are shuffled at once.
            readers: Threads that decode row groups; they change only the speed.
            repeat: True to begin another pass, in a new order, after each; the iterator never
                ends.
            columns: Names of columns to add.
            discount: Discount factor of discounted_return, 0 to 1; the spec's by default.
            per_second: True if that is the discount of a simulated second, not of a decision.

        Raises:
            DatasetError: The split is unknown (raised at once), or a part is damaged (raised when
                it is read).
            InputError: `size`, `k`, `readers` or `buffer` is below 1, a column does not exist, or
                `discount` is out of range or not used.
        """
        from hindcast.pipeline.dataset.batches import BatchOptions, batches

        options = BatchOptions(
            size, split, k, transitions, images, buffer, readers, repeat, columns, discount,
            per_second,
        )  # fmt: skip
        return batches(self, rng, options)

    def torch(
        self,
        batch: int,
        *,
        shard: tuple[int, int] = (0, 1),
        seed: int = 0,
        split: str = "train",
        k: int | None = None,
        transitions: bool = True,
        images: bool = False,
        buffer: int = 64 << 20,
        columns: Collection[str] = (),
        discount: float | None = None,
        per_second: bool = False,
        drop_last: bool = False,
    ) -> "TorchBatches":
        """Return shuffled minibatches as an IterableDataset for PyTorch's DataLoader.

        Each epoch is one pass of a loader::

            data = dataset.torch(256, seed=1, shard=(rank, ranks))
            loader = DataLoader(data, batch_size=None, num_workers=4)
            for epoch in range(10):
                data.set_epoch(epoch)
                for batch in loader: ...        # batch["candidates"], batch["choice"], ...

        A minibatch is a dictionary of tensors under the names of Decisions and of `columns`;
        `episode` is the number of the episode in the dataset. In an epoch, every decision of the
        split is in one minibatch of one worker of one shard, for any number of workers and shards
        and both start methods. Workers read their own row groups, in an order that the seed and the
        epoch give, and shuffle as many at once as `buffer` holds.

        A StatefulDataLoader of torchdata resumes by itself. With a plain DataLoader, call
        `load_state_dict({"epoch": e, "position": n})` after n minibatches of epoch e, before a pass
        of as many workers.

        Args:
            batch: Number of decisions in a minibatch, at least 1; the last one of an epoch is
                smaller.
            shard: Shard (i, n), one of n that are disjoint: rank and number of processes.
            seed: Seed of the orders, the same in all shards.
            split: Name of the split.
            k: Number of candidates K, as in `batches`. None pads each minibatch to its largest set.
            transitions: True to add the next observations.
            images: True to add the images, if the scenario has them.
            buffer: Bytes that a worker shuffles at once; it holds about twice as many.
            columns: Names of columns to add, as in `batches`.
            discount: Discount factor of discounted_return, 0 to 1; the spec's by default.
            per_second: True if that is the discount of a simulated second.
            drop_last: True to leave out the last decisions of each epoch, fewer than n
                minibatches, so that all shards have equally many minibatches of `batch` decisions,
                as training on several devices at once needs.

        Raises:
            DatasetError: The split is unknown, or a part is damaged.
            InputError: PyTorch is not installed, or a setting is out of range.
        """
        from hindcast.pipeline.dataset.batches import BatchOptions
        from hindcast.pipeline.storage.extras import require

        require("Dataset.torch", "torch")
        from hindcast.pipeline.dataset.torch_batches import TorchBatches

        options = BatchOptions(
            batch, split, k, transitions, images, buffer, 2, repeat=False, columns=columns,
            discount=discount, per_second=per_second,
        )  # fmt: skip
        return TorchBatches(self, options, shard, seed, drop_last=drop_last)


def open(path: str | Path) -> Dataset:  # noqa: A001 - it is called through the module
    """Open a dataset: a folder, or a URL of a store (`hindcast.pipeline.storage.location`).

    Only the manifest and the table of episodes are read; `hindcast verify` checks the rest. Raises
    DatasetError if the folder is not a finished dataset, InputError if the URL cannot be used.
    """
    folder = location(path)
    manifest = mf.read_manifest(folder)
    path = folder / manifest.episodes.path
    episodes = read_parquet(path)
    expected = episodes_schema(manifest.spec)
    if dict(episodes.schema) != expected:
        raise DatasetError(
            f"{path}: the columns differ from the manifest's spec; see `hindcast verify`"
        )
    _check_episodes(episodes, manifest, path)
    return Dataset(folder, manifest, episodes)


def _check_episodes(episodes: pl.DataFrame, manifest: mf.Manifest, path: Path) -> None:
    """Raise DatasetError for a table of episodes that would lead a reader out of bounds.

    Episodes are numbered from 0, nothing is null, names have a bounded length, and the parts have
    rows for all steps.
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
        and sum(part.rows for part in manifest.parts) == row_count(episodes, manifest.spec)
    )
    if not sound:
        raise DatasetError(
            f"{path}: the episodes or their counts differ from those of the parts, or are not "
            "numbered from 0"
        )
