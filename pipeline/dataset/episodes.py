"""Whole episodes of a dataset as arrays, one after the other: `Dataset.iter_episodes`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.errors import DatasetError


@dataclass(frozen=True)
class Trajectory:
    """One episode: T decisions and T + 1 observations; the last observation has no decision.

        observation   o0   o1   ...  oT-1   oT
        choice        c0   c1   ...  cT-1

    Attributes:
        about: Its row of `Dataset.episodes()`: episode, split, behaviour, window, return and
            others.
        time_s: (T + 1,) float64, simulated seconds since the start.
        context: (T + 1, C) float32.
        offsets: (T + 2,) int64; the candidates of observation t are offsets[t] to offsets[t + 1].
        candidates: (V, F) float32, of all observations.
        feasible: (V,) bool.
        probabilities: (V,) float32, of every candidate under the behaviour; zero for the last
            observation.
        image: (T + 1, P) uint8, or None if the scenario has no image.
        choice: (T,) int64, index into the candidates of its observation.
        propensity: (T,) float32, probability of the choice.
        reward: (T,) float64.
        terms: (T, K) float64, in the order of Spec.reward_terms.
        elapsed_s: (T,) float64, simulated seconds until the next observation.
        terminated: (T,) bool.
        truncated: (T,) bool.
        value: (T,) float64, Monte-Carlo values, or None if the spec is not `valued`.
    """

    about: Mapping[str, Any]
    time_s: NDArray[np.float64]
    context: NDArray[np.float32]
    offsets: NDArray[np.int64]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    image: NDArray[np.uint8] | None
    choice: NDArray[np.int64]
    propensity: NDArray[np.float32]
    reward: NDArray[np.float64]
    terms: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    value: NDArray[np.float64] | None

    def __len__(self) -> int:
        """Return T, the number of decisions."""
        return len(self.choice)

    def candidates_of(self, step: int) -> NDArray[np.float32]:
        """Return the candidates (N, F) of observation `step`, 0 to T."""
        return self.candidates[self.offsets[step] : self.offsets[step + 1]]

    def feasible_of(self, step: int) -> NDArray[np.bool_]:
        """Return which candidates (N,) of observation `step` could be chosen."""
        return self.feasible[self.offsets[step] : self.offsets[step + 1]]


# Arrays of a Trajectory with one element per candidate, and per observation; others: per decision.
_CANDIDATES = ("candidates", "feasible", "probabilities")
_OBSERVATIONS = ("time_s", "context", "image")


def iter_trajectories(dataset: DatasetFolder, split: str | None) -> Iterator[Trajectory]:
    """Return the episodes of `Dataset.iter_episodes`; raise DatasetError for an unknown split."""
    episodes = dataset.episodes(split)
    return _iterate(dataset, {row["episode"]: row for row in episodes.iter_rows(named=True)})


def _iterate(dataset: DatasetFolder, wanted: dict[int, dict[str, Any]]) -> Iterator[Trajectory]:
    parts = {p for row in wanted.values() for p in range(row["first_part"], row["last_part"] + 1)}
    pieces: list[dict[str, NDArray[Any]]] = []
    for part in sorted(parts):
        for block in dataset.blocks(part):
            starts = np.flatnonzero(np.diff(block.episode, prepend=-1))
            for start, stop in zip(starts, [*starts[1:], len(block)], strict=True):
                row = wanted.get(int(block.episode[start]))
                if row is None:
                    continue
                pieces.append(_cut(block, int(start), int(stop)))
                if block.choice[stop - 1] == NO_CHOICE:
                    yield _together(row, pieces, dataset)
                    del wanted[row["episode"]]
                    pieces = []
    if wanted:
        missing = next(iter(wanted))
        raise DatasetError(
            f"{dataset.folder}: rows of episode {missing} are missing from its parts; see "
            "`hindcast verify`"
        )


def _cut(block: Block, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Return rows of a block, copied so that the memory of the block can be freed."""
    first, last = block.offsets[start], block.offsets[stop]
    piece = {}
    for name in (f.name for f in fields(Block)):
        values = getattr(block, name)
        if values is not None and name != "offsets":
            inside = slice(first, last) if name in _CANDIDATES else slice(start, stop)
            piece[name] = values[inside].copy()
    piece["sizes"] = np.diff(block.offsets[start : stop + 1])
    return piece


def _together(
    row: dict[str, Any], pieces: list[dict[str, NDArray[Any]]], dataset: DatasetFolder
) -> Trajectory:
    """Join the pieces of an episode that lay in consecutive row groups."""
    whole = {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}
    steps = len(whole["step"]) - 1
    in_order = np.array_equal(whole["step"], np.arange(steps + 1))
    if steps != row["steps"] or not in_order or (whole["episode"] != row["episode"]).any():
        raise DatasetError(
            f"{dataset.folder}: rows of episode {row['episode']} are out of order; see "
            "`hindcast verify`"
        )
    columns: dict[str, Any] = {"image": None, "value": None}
    for name in (f.name for f in fields(Trajectory)):
        if name in whole:
            per_row = name in _CANDIDATES or name in _OBSERVATIONS
            columns[name] = whole[name] if per_row else whole[name][:steps]
    return Trajectory(about=row, offsets=np.cumsum([0, *whole["sizes"]]), **columns)
