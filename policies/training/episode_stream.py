"""All decisions of a split, in chunks of whole episodes, readable as often as an agent needs.

    log = log_of_dataset(dataset, "train")            reads the parts again in every pass
    log = log_of_decisions(decisions)                 decisions in memory, of whole episodes
    for chunk in log.chunks(None): ...

An agent that only sums over decisions needs no sample of them: a pass holds one chunk at a time,
however large the log is. Infeasible candidates are left out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.decisions import Decisions, FurtherColumns
from hindcast.pipeline.dataset.episodes import Trajectory
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.decisions import NAME as DECISIONS

_DECISIONS: Final = 1 << 14  # of a chunk, at least; one episode may have more


@dataclass(frozen=True)
class EpisodeChunk:
    """Whole episodes of D decisions over V feasible candidates.

    Attributes:
        episode: (D,) int64, row of EpisodeStream.episodes.
        step: (D,) int64, number of the decision in its episode.
        context: (D, C) float32.
        offsets: (D + 1,) int64 into candidates.
        candidates: (V, F) float32, or (V, F + G) with further columns.
        probabilities: (V,) float32, of the behaviour; those of a decision sum to 1.
        chosen: (D,) int64, the logged choices as rows of candidates.
        reward: (D,) float64.
        elapsed_s: (D,) float64, in seconds.
    """

    episode: NDArray[np.int64]
    step: NDArray[np.int64]
    context: NDArray[np.float32]
    offsets: NDArray[np.int64]
    candidates: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    chosen: NDArray[np.int64]
    reward: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]

    def __len__(self) -> int:
        """Return D, the number of decisions."""
        return len(self.chosen)


@dataclass(frozen=True)
class EpisodeStream:
    """The episodes of a split, and a function that iterates over all of their decisions.

    Attributes:
        episodes: Table of the episodes, one row each.
        chunks: Function of a mask (E,) bool of episodes, or None for all. It makes one pass over
            those episodes, in order, and yields them in chunks.
    """

    episodes: pl.DataFrame
    chunks: Callable[[NDArray[np.bool_] | None], Iterator[EpisodeChunk]]


@dataclass(frozen=True)
class Logs:
    """The whole logs that an agent reads: the split to learn from, and validation if any."""

    train: EpisodeStream
    validation: EpisodeStream | None = None


def log_of_dataset(
    dataset: Dataset, split: str, further: FurtherColumns | None = None
) -> EpisodeStream:
    """Return the log of a dataset's split, with `further` columns of the candidates.

    Reading it raises DatasetError if the split does not exist or a part is damaged.
    """
    episodes = dataset.episodes(split)
    elsewhere = dataset.spec.scenario == DECISIONS
    row = {episode: i for i, episode in enumerate(episodes["episode"])}

    def chunks(kept: NDArray[np.bool_] | None) -> Iterator[EpisodeChunk]:
        held: list[dict[str, NDArray[Any]]] = []
        for trajectory in dataset.iter_episodes(split):
            index = row[trajectory.about["episode"]]
            if len(trajectory) and (kept is None or kept[index]):
                known = _known(trajectory) if elsewhere else trajectory
                held.append(_columns_of(index, known, further))
            if sum(len(piece["chosen"]) for piece in held) >= _DECISIONS:
                yield _chunk_of(held)
                held = []
        if held:
            yield _chunk_of(held)

    return EpisodeStream(episodes, chunks)


def log_of_decisions(decisions: Decisions) -> EpisodeStream:
    """Return the log of decisions in memory, as one chunk.

    Raises DatasetError if decisions of an episode are missing, or if the decisions came without the
    behaviour's probabilities.
    """
    d = decisions
    probabilities = d.probabilities
    if probabilities is None:
        raise DatasetError("these decisions came without the probabilities of their candidates")
    steps = d.episodes["steps"].to_numpy()
    if (np.bincount(d.episode, minlength=len(steps)) != steps).any():
        raise DatasetError("only some decisions of an episode are loaded, but all are needed")

    def chunks(kept: NDArray[np.bool_] | None) -> Iterator[EpisodeChunk]:
        rows = np.arange(len(d)) if kept is None else np.flatnonzero(kept[d.episode])
        if len(rows) == 0:
            return
        mask, episode = d.mask[rows], d.episode[rows]
        offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        within = np.cumsum(mask, axis=1)[np.arange(len(rows)), d.choice[rows]] - 1
        yield EpisodeChunk(
            episode=episode,
            step=d.step[rows],
            context=d.context[rows],
            offsets=offsets,
            candidates=d.candidates[rows][mask],
            probabilities=probabilities[rows][mask],
            chosen=offsets[:-1] + within,
            reward=d.reward[rows],
            elapsed_s=d.elapsed_s[rows],
        )

    return EpisodeStream(d.episodes, chunks)


def _known(trajectory: Trajectory) -> Trajectory:
    """Return an episode with 0 for missing numbers, beside which `x_missing` stands."""
    context, candidates = (
        np.nan_to_num(values) for values in (trajectory.context, trajectory.candidates)
    )
    return replace(trajectory, context=context, candidates=candidates)


def _columns_of(
    episode: int, trajectory: Trajectory, further: FurtherColumns | None
) -> dict[str, NDArray[Any]]:
    """Return the decisions of an episode with their feasible candidates, as columns of a chunk.

    `episode` is its row of EpisodeStream.episodes. `sizes` are the numbers of feasible candidates
    of each decision; `chosen` is the place of the choice among those of its decision.
    """
    decisions = len(trajectory)  # the observation after the last decision is left out
    offsets, context = trajectory.offsets[: decisions + 1], trajectory.context[:decisions]
    end = int(offsets[-1])
    feasible, candidates = trajectory.feasible[:end], trajectory.candidates[:end]
    if further is not None:
        widened = further.widen(context, candidates, offsets, feasible)
        candidates = widened.astype(np.float32)
    before = np.concatenate([[0], np.cumsum(feasible)])  # feasible candidates before each row
    first = offsets[:-1]
    return {
        "episode": np.full(decisions, episode),
        "step": np.arange(decisions),
        "context": context,
        "sizes": np.diff(before[offsets]),
        "candidates": candidates[feasible],
        "probabilities": trajectory.probabilities[:end][feasible],
        "chosen": before[first + trajectory.choice] - before[first],
        "reward": trajectory.reward,
        "elapsed_s": trajectory.elapsed_s,
    }


def _chunk_of(pieces: Iterable[dict[str, NDArray[Any]]]) -> EpisodeChunk:
    """Return the chunk of episodes, of which each piece has the columns of `_columns_of`."""
    whole = {name: np.concatenate([p[name] for p in pieces]) for name in next(iter(pieces))}
    offsets = np.concatenate([[0], np.cumsum(whole.pop("sizes"))])
    whole["chosen"] = offsets[:-1] + whole["chosen"]
    return EpisodeChunk(offsets=offsets, **whole)
