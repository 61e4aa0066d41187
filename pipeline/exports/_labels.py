"""Episodes that an export writes, and the labels that each of their decisions gets.

split       name of the split
window      problem instance; of a log of decisions, its unit
behaviour   name of the policy that took the decision
discount    factor of the value of the next observation: the spec's, and 0 after the last
            decision of an episode that ended
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.splits import SPLITS

ALL: Final = "all"  # in place of the name of a split
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Labels:
    """Labels of the E episodes of a dataset, and which of them an export writes.

    Attributes:
        split: Name of the split that is written, or "all".
        episodes: The written rows of the table of episodes, in order.
        number: (E,) place of each episode in `episodes`; -1 if it is not written.
        splits: Names of splits, first those of SPLITS.
        behaviours: Names of behaviours in the order of their first episodes.
        split_of: (E,) index in `splits`.
        behaviour_of: (E,) index in `behaviours`.
        window_of: (E,) number of the window.
        discount: Discount factor of the spec.
    """

    split: str
    episodes: pl.DataFrame
    number: Ints
    splits: tuple[str, ...]
    behaviours: tuple[str, ...]
    split_of: Ints
    behaviour_of: Ints
    window_of: Ints
    discount: float

    @property
    def decisions(self) -> int:
        """Number of decisions that are written."""
        return int(self.episodes["steps"].sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a user of the export needs to know."""
        if self.split == ALL:
            return ()
        written, count = self.episodes.height, len(self.number)
        others = "; --split all writes the others too" if written < count else ""
        return (f"split {self.split}: {written:,} of {count:,} episodes{others}",)

    def of(self, episode: Ints, terminated: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the labels of rows (R,): codes of split and behaviour, window, discount."""
        return {
            "split": self.split_of[episode],
            "window": self.window_of[episode],
            "behaviour": self.behaviour_of[episode],
            "discount": np.where(terminated, 0.0, self.discount).astype(np.float32),
        }

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Names behind the codes of `of`, by label."""
        return {"split": self.splits, "behaviour": self.behaviours}

    def writes(self, episode: Ints) -> NDArray[np.bool_]:
        """Return which rows (R,) of these episodes are written.

        Raises DatasetError for an episode that the table of episodes does not have.
        """
        if not 0 <= episode.min(initial=0) <= episode.max(initial=0) < len(self.number):
            raise DatasetError(
                f"a part holds rows of episode {int(episode.max())}, the table of episodes has "
                f"{len(self.number):,} episodes; see `hindcast verify`"
            )
        return np.asarray(self.number[episode] >= 0)

    def ranges(self, episode: Ints) -> Iterator[tuple[int, int]]:
        """Yield the ranges of consecutive rows of these episodes (R,) that are written."""
        written = np.concatenate([[False], self.writes(episode), [False]])
        edges = np.flatnonzero(written[1:] != written[:-1]).reshape(-1, 2)
        yield from ((int(begin), int(end)) for begin, end in edges)


def labels_of(dataset: Dataset, split: str) -> Labels:
    """Return the labels of a dataset; raise DatasetError if it has no episode of the split."""
    table = dataset.episodes()
    episodes = dataset.episodes(None if split == ALL else split)
    number = np.full(table.height, -1, np.int64)
    number[episodes["episode"].to_numpy()] = np.arange(episodes.height)
    splits = tuple(dict.fromkeys((*SPLITS, *table["split"])))
    behaviours = tuple(dict.fromkeys(table["behaviour"]))
    return Labels(
        split, episodes, number, splits, behaviours, _codes(table["split"], splits),
        _codes(table["behaviour"], behaviours), table["window"].to_numpy(), dataset.spec.discount,
    )  # fmt: skip


def _codes(names: pl.Series, known: tuple[str, ...]) -> Ints:
    return names.replace_strict(
        list(known), list(range(len(known))), return_dtype=pl.Int64
    ).to_numpy()
