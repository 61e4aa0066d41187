"""Whole logged episodes as ragged arrays, since weights are products over all of an episode.

episode      0 0 0 1 1 ...        offsets   [0, 3, 5, ...]        into decisions
decision     0 1 2 3 4 ...        rows      [0, 11, 22, 30, ...]  into candidates
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.workload_source import RECORDED
from hindcast.policies.networks.limits import Limits, limits_of
from hindcast.policies.networks.rules import own_spec

LARGEST: Final = 1 << 28  # numbers of candidates held at once: 1 GB as float32
_EQUAL: Final = 1e-6  # largest difference of probabilities that are the same, in float32
_OF_DECISIONS: Final = ("episode", "context", "choice", "propensity", "reward", "elapsed_s")
_OF_CANDIDATES: Final = ("candidates", "feasible", "probabilities")


@dataclass(frozen=True, eq=False)
class LogLimits:
    """Limits of the observations of a log.

    Attributes:
        context: Limits of the context.
        candidates: Limits of the candidates.
        where: The log, as errors name it.
    """

    context: Limits
    candidates: Limits
    where: str

    def require(self, context: NDArray[np.floating], candidates: NDArray[np.floating]) -> None:
        """Raise DatasetError for the first value that is not within its limits."""
        self.context.require(context, self.where)
        self.candidates.require(candidates, self.where)


@dataclass(frozen=True)
class WholeEpisodes:
    """E whole episodes of D decisions over V candidates, without closing rows.

    Attributes:
        offsets: (E + 1,) int64 into decisions.
        rows: (D + 1,) int64 into candidates.
        context: (D, C) float32.
        candidates: (V, F) float32.
        feasible: (V,) bool.
        probabilities: (V,) float32, of the behaviour.
        choice: (D,) int64, index of the logged choice among the decision's candidates.
        propensity: (D,) float64, the behaviour's probability of the logged choice.
        reward: (D,) float64.
        elapsed_s: (D,) float64, in seconds.
        table: The dataset's rows about these episodes, in order.
        image: (D, P) uint8, or None.
        limits: Limits of the observations that compiled rules may read; None if they are known to
            be of the simulator.
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
    limits: LogLimits | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def decisions(self) -> int:
        """Number D of decisions."""
        return len(self.choice)

    @cached_property
    def chosen(self) -> NDArray[np.int64]:
        """Logged choices as rows of candidates, (D,)."""
        return self.rows[:-1] + self.choice

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Mask (D,) of the last decision of every episode."""
        last = np.zeros(self.decisions, np.bool_)
        last[self.offsets[1:] - 1] = True
        return last

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """Window of every episode, (E,)."""
        return self.table["window"].to_numpy().astype(np.int64)


def whole_windows(episodes: pl.DataFrame, limit: int) -> list[int]:
    """Return evenly spaced windows, as many as hold at most `limit` decisions in all; at least one.

    The windows are the middles of intervals of equal length. Otherwise the first and the last
    window would be in every selection, and if those two were large, they could leave a single
    window out of a hundred small ones.
    """
    sizes = episodes.group_by("window").agg(pl.col("steps").sum()).sort("window")
    windows, steps = sizes["window"].to_numpy(), sizes["steps"].to_numpy()
    for count in range(len(windows), 1, -1):
        at = ((np.arange(count) + 0.5) * len(windows) / count).astype(np.int64)
        if steps[at].sum() <= limit:
            return [int(w) for w in windows[at]]
    return [int(windows[len(windows) // 2])]


def read_episodes(
    dataset: Dataset, split: str, *, limit: int, image: bool = False
) -> WholeEpisodes:
    """Return all episodes of evenly spaced windows of a split, about `limit` decisions at most.

    Raises InputError if the split does not exist or its decisions need too much memory, and
    DatasetError if the dataset cannot be read, has other features than its scenario, or has
    propensities that are not the stored probabilities of the choices.
    """
    table = dataset.episodes(split)
    if table.is_empty():
        splits = sorted(dataset.episodes()["split"].unique())
        raise InputError(f"{dataset.folder}: no episodes of split {split!r}; it has {splits}")
    table = table.filter(pl.col("window").is_in(whole_windows(table, limit))).sort("episode")
    chosen = table["episode"].to_numpy()
    parts = sorted(
        {p for a, b in table.select("first_part", "last_part").rows() for p in range(a, b + 1)}
    )
    pieces: list[dict[str, NDArray[Any]]] = []
    size = 0
    for part in parts:
        for block in dataset.blocks(part):
            piece = _cut(block, chosen, image)
            size += piece["candidates"].size
            if size > LARGEST:
                raise InputError(
                    f"{dataset.folder}: {limit:,} decisions of split {split} need more than "
                    f"{LARGEST * 4 >> 30} GB; give a lower --limit"
                )
            pieces.append(piece)
    log = _join(pieces, table, dataset)
    _check_propensities(log, dataset)
    # A history has unknown values, NaN. It is of `thermal`, whose rules use no value as an index.
    if (dataset.recipe.trace.format, dataset.recipe.scenario) == (RECORDED, "thermal"):
        return log
    where = str(dataset.folder)
    own = own_spec(dataset.recipe, dataset.spec, where)
    return replace(log, limits=LogLimits(limits_of(own.context), limits_of(own.candidates), where))


def _check_propensities(log: WholeEpisodes, dataset: Dataset) -> None:
    """Raise DatasetError if a propensity is not the stored probability of its choice."""
    stored = log.probabilities[log.chosen].astype(np.float64)
    wrong = np.abs(stored - log.propensity) > _EQUAL  # False where one of them is not known
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DatasetError(
            f"{dataset.folder}: {int(wrong.sum()):,} of {log.decisions:,} propensities are not the "
            f"behaviour_probabilities of their choices, first {log.propensity[first]:.4g} where "
            f"{stored[first]:.4g} is stored; see `hindcast verify`"
        )


def pick(log: WholeEpisodes, decisions: NDArray[np.int64]) -> WholeEpisodes:
    """Return the decisions (n,), in rising order, as n episodes of one decision."""
    rows = np.concatenate([np.arange(log.rows[d], log.rows[d + 1]) for d in decisions])
    episodes = np.searchsorted(log.offsets, decisions, side="right") - 1
    return WholeEpisodes(
        offsets=np.arange(len(decisions) + 1),
        rows=np.concatenate([[0], np.cumsum(np.diff(log.rows)[decisions])]),
        table=log.table[episodes],
        **{name: getattr(log, name)[rows] for name in _OF_CANDIDATES},
        **{name: getattr(log, name)[decisions] for name in _OF_DECISIONS if name != "episode"},
        image=None if log.image is None else log.image[decisions],
        limits=log.limits,
    )


def _cut(block: Block, episodes: NDArray[np.int64], image: bool) -> dict[str, NDArray[Any]]:
    """Return the decisions of some episodes in a block, as columns."""
    keep = np.isin(block.episode, episodes) & (block.choice != NO_CHOICE)
    sizes = np.diff(block.offsets)
    inside = np.repeat(keep, sizes)
    names = (*_OF_DECISIONS, "image") if image and block.image is not None else _OF_DECISIONS
    piece = {name: getattr(block, name)[keep] for name in names}
    piece |= {name: getattr(block, name)[inside] for name in _OF_CANDIDATES}
    return {"sizes": sizes[keep], **piece}


def _join(
    pieces: list[dict[str, NDArray[Any]]], table: pl.DataFrame, dataset: Dataset
) -> WholeEpisodes:
    """Return the decisions of all pieces as episodes, those of `table` in its order.

    Raises DatasetError if the parts hold the decisions of other episodes.
    """
    joined = {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}
    steps = table["steps"].to_numpy().astype(np.int64)
    if not np.array_equal(joined.pop("episode"), np.repeat(table["episode"].to_numpy(), steps)):
        raise DatasetError(
            f"{dataset.folder}: the decisions in the parts do not match episodes.parquet"
        )
    rows = np.concatenate([[0], np.cumsum(joined.pop("sizes"))])
    joined["propensity"] = joined["propensity"].astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(steps)])
    columns: dict[str, Any] = joined
    return WholeEpisodes(offsets=offsets, rows=rows, table=table, **columns)
