"""Whole logged episodes as ragged arrays: weights are products over all of an episode's decisions.

episode      0 0 0 1 1 ...        offsets   [0, 3, 5, ...]        into decisions
decision     0 1 2 3 4 ...        rows      [0, 11, 22, 30, ...]  into candidates
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.dataset import Dataset
from pipeline.dataset.columns import NO_CHOICE
from pipeline.dataset.part import Block
from pipeline.errors import DatasetError, InputError

LARGEST: Final = 1 << 28  # numbers of candidates held at once: 1 GB as float32


@dataclass(frozen=True)
class WholeEpisodes:
    """E whole episodes of D decisions over V candidates, closing rows left out.

    offsets         (E + 1,) int64 into decisions
    rows            (D + 1,) int64 into candidates
    context         (D, C) float32;  image (D, P) uint8 or None
    candidates      (V, F) float32;  feasible (V,) bool
    probabilities   (V,) float32, of the behaviour
    choice          (D,) index among its own candidates;  propensity, reward, elapsed_s (D,)
    table           the dataset's rows about these episodes, in order
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    context: NDArray[np.float32]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    choice: NDArray[np.int64]
    propensity: NDArray[np.float64]
    reward: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    table: pl.DataFrame
    image: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def decisions(self) -> int:
        """D."""
        return len(self.choice)

    @cached_property
    def chosen(self) -> NDArray[np.int64]:
        """The logged choices as rows of candidates, (D,)."""
        return self.rows[:-1] + self.choice

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Whether a decision is its episode's last, (D,)."""
        last = np.zeros(self.decisions, np.bool_)
        last[self.offsets[1:] - 1] = True
        return last

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The window of every episode, (E,)."""
        return self.table["window"].to_numpy().astype(np.int64)


def whole_windows(episodes: pl.DataFrame, limit: int) -> list[int]:
    """As many windows, evenly spaced, as hold `limit` decisions in all; one at least.

    The middles of as many equal stretches: the first and the last window would else be in every
    choice, and two large ones there would leave a single window of a hundred small ones.
    """
    sizes = episodes.group_by("window").agg(pl.col("steps").sum()).sort("window")
    windows, steps = sizes["window"].to_numpy(), sizes["steps"].to_numpy()
    for count in range(len(windows), 1, -1):
        at = ((np.arange(count) + 0.5) * len(windows) / count).astype(np.int64)
        if steps[at].sum() <= limit:
            return [int(w) for w in windows[at]]
    return [int(windows[len(windows) // 2])]


def read_episodes(
    dataset: Dataset,
    split: str,
    *,
    limit: int,
    image: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> WholeEpisodes:
    """All episodes of evenly spaced windows of a split, at most about `limit` decisions in all.

    Raises InputError where the split does not exist, DatasetError where it is not readable.
    """
    table = dataset.episodes(split)
    if table.is_empty():
        known = sorted(dataset.episodes()["split"].unique())
        raise InputError(f"{dataset.folder}: no episodes of split {split!r}; it has {known}")
    table = table.filter(pl.col("window").is_in(whole_windows(table, limit))).sort("episode")
    wanted = table["episode"].to_numpy()
    parts = sorted(
        {p for a, b in table.select("first_part", "last_part").rows() for p in range(a, b + 1)}
    )
    pieces: list[_Piece] = []
    held = 0
    for done, part in enumerate(parts, start=1):
        for block in dataset.blocks(part):
            piece = _cut(block, wanted, image)
            held += piece.candidates.size
            if held > LARGEST:
                raise InputError(
                    f"{dataset.folder}: {limit:,} decisions of split {split} need more than "
                    f"{LARGEST * 4 >> 30} GB; give a lower --limit"
                )
            pieces.append(piece)
        if progress is not None:
            progress(done, len(parts))
    return _join(pieces, table, dataset)


@dataclass(frozen=True)
class _Piece:
    episode: NDArray[np.int64]
    sizes: NDArray[np.int64]
    context: NDArray[np.float32]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    choice: NDArray[np.int64]
    propensity: NDArray[np.float32]
    reward: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    image: NDArray[np.uint8] | None


def _cut(block: Block, wanted: NDArray[np.int64], image: bool) -> _Piece:
    """The decisions of wanted episodes in a block."""
    keep = np.isin(block.episode, wanted) & (block.choice != NO_CHOICE)
    sizes = np.diff(block.offsets)
    inside = np.repeat(keep, sizes)
    return _Piece(
        block.episode[keep], sizes[keep], block.context[keep], block.candidates[inside],
        block.feasible[inside], block.probabilities[inside], block.choice[keep],
        block.propensity[keep], block.reward[keep], block.elapsed_s[keep],
        block.image[keep] if image and block.image is not None else None,
    )  # fmt: skip


def _join(pieces: list[_Piece], table: pl.DataFrame, dataset: Dataset) -> WholeEpisodes:
    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(p, name) for p in pieces])

    steps = table["steps"].to_numpy().astype(np.int64)
    episode = column("episode")
    if not np.array_equal(episode, np.repeat(table["episode"].to_numpy(), steps)):
        raise DatasetError(f"{dataset.folder}: decisions do not agree with episodes.parquet")
    return WholeEpisodes(
        offsets=np.concatenate([[0], np.cumsum(steps)]),
        rows=np.concatenate([[0], np.cumsum(column("sizes"))]),
        context=column("context"),
        candidates=column("candidates"),
        feasible=column("feasible"),
        probabilities=column("probabilities"),
        choice=column("choice"),
        propensity=column("propensity").astype(np.float64),
        reward=column("reward"),
        elapsed_s=column("elapsed_s"),
        table=table,
        image=column("image") if pieces[0].image is not None else None,
    )
