"""Logged decisions as arrays for learners: candidates padded to K, masks, what came next."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.simulation.spec import Spec


@dataclass(frozen=True)
class Decisions:
    """D logged decisions of E episodes; candidates padded with zeros to K, identifiers kept.

    Where an observation had more than K candidates, the chosen one and K - 1 others drawn
    uniformly are here, and `drawn` says from how many. `choice` is the position of the chosen
    candidate among the K. Rows of `sample_decisions` are in order of episode and time; those of
    `Dataset.batches` are shuffled.

    context           (D, C) float32
    candidates        (D, K, F) float32
    mask              (D, K) bool     feasible and not padding
    drawn             (D,) int64      feasible candidates before the cut to K
    choice            (D,) int64
    propensity        (D,) float32    probability with which the behaviour chose it
    reward            (D,) float64    sum of the rewards of this decision
    elapsed_s         (D,) float64
    terminated        (D,) bool       the episode ended with this decision
    value             (D,) float64    Monte-Carlo value, or None where the spec is not `valued`
    episode           (D,) int64      index into `episodes`
    step              (D,) int64      decision index inside its episode
    probabilities     (D, K) float32  with which the behaviour would have chosen each of the K,
                                      given that it chose one of them; None unless asked
    image             (D, P) uint8    of the observation; None unless asked
    to_go             (D,) float64    rewards from this decision to the end of the episode; None in
                                      `Dataset.batches`
    discounted        (D,) float64    the same discounted, as `sample_decisions` was asked to
    next_*            what followed; a terminal row has an all-false next_mask. None unless asked

    episodes          one row per episode: episode, split, behaviour, seed, window, steps, return,
                      and one column per outcome
    """

    context: NDArray[np.float32]
    candidates: NDArray[np.float32]
    mask: NDArray[np.bool_]
    drawn: NDArray[np.int64]
    choice: NDArray[np.int64]
    propensity: NDArray[np.float32]
    reward: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    episode: NDArray[np.int64]
    step: NDArray[np.int64]
    episodes: pl.DataFrame
    next_context: NDArray[np.float32] | None = None
    next_candidates: NDArray[np.float32] | None = None
    next_mask: NDArray[np.bool_] | None = None
    value: NDArray[np.float64] | None = None
    image: NDArray[np.uint8] | None = None
    next_image: NDArray[np.uint8] | None = None
    to_go: NDArray[np.float64] | None = None
    discounted: NDArray[np.float64] | None = None
    probabilities: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, rows: NDArray[np.int64]) -> "Decisions":
        """The decisions at these rows, of the same episodes."""
        taken: dict[str, Any] = {}
        for name in (field.name for field in fields(self) if field.name != "episodes"):
            column = getattr(self, name)
            taken[name] = None if column is None else column[rows]
        return replace(self, **taken)


def make_columns(
    count: int,
    spec: Spec,
    k: int,
    *,
    transitions: bool = False,
    images: bool = False,
    probabilities: bool = False,
) -> dict[str, NDArray[Any]]:
    """Arrays for that many decisions by the names of Decisions, not yet filled."""
    shapes = _shapes(spec, k, transitions, images, probabilities)
    return {name: np.empty((count, *shape), kind) for name, (shape, kind) in shapes.items()}


def decision_bytes(
    spec: Spec,
    k: int,
    *,
    transitions: bool = False,
    images: bool = False,
    probabilities: bool = False,
) -> int:
    """Bytes that one decision takes in the arrays of Decisions; `to_go` is 8 more."""
    shapes = _shapes(spec, k, transitions, images, probabilities).values()
    return sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes)


def _shapes(
    spec: Spec, k: int, transitions: bool, images: bool, probabilities: bool
) -> Mapping[str, tuple[tuple[int, ...], type]]:
    observation: dict[str, tuple[tuple[int, ...], type]] = {
        "context": ((len(spec.context),), np.float32),
        "candidates": ((k, len(spec.candidates)), np.float32),
        "mask": ((k,), np.bool_),
    }
    if images and spec.image_shape:
        observation["image"] = ((int(np.prod(spec.image_shape)),), np.uint8)
    followed = {f"next_{name}": what for name, what in observation.items()} if transitions else {}
    return {
        **observation,
        **followed,
        "drawn": ((), np.int64),
        "choice": ((), np.int64),
        "propensity": ((), np.float32),
        "reward": ((), np.float64),
        "elapsed_s": ((), np.float64),
        "terminated": ((), np.bool_),
        "episode": ((), np.int64),
        "step": ((), np.int64),
        **({"value": ((), np.float64)} if spec.valued else {}),
        **({"probabilities": ((k,), np.float32)} if probabilities else {}),
    }
