"""Logged decisions as arrays for learners: candidates padded to K, masks, next observations."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.simulation.spec import Spec


@dataclass(frozen=True)
class Decisions:
    """D logged decisions of E episodes; candidates are padded with zeros to K.

    If an observation had more than K candidates, the arrays hold the chosen one and K - 1 others
    drawn uniformly, and `drawn` is the number before the cut. Rows of `sample_decisions` are in
    order of episode and time; those of `Dataset.batches` are shuffled.

    Attributes:
        context: (D, C) float32, features of the moment.
        candidates: (D, K, F) float32, features of the candidates; with G further columns
            (D, K, F + G), see `FurtherColumns`.
        mask: (D, K) bool, true for a candidate that is feasible and not padding.
        drawn: (D,) int64, number of feasible candidates before the cut to K.
        choice: (D,) int64, position of the chosen candidate among the K.
        propensity: (D,) float32, probability with which the behaviour chose it.
        reward: (D,) float64, sum of the rewards of this decision.
        elapsed_s: (D,) float64, simulated seconds until the next decision.
        terminated: (D,) bool, true if the episode ended with this decision.
        episode: (D,) int64, row of `episodes`.
        step: (D,) int64, index of the decision inside its episode.
        episodes: One row per episode: episode, split, behaviour, seed, window, steps, return, and
            one column per outcome.
        next_context: (D, C) float32, context of the next observation. None unless requested.
        next_candidates: (D, K, F) float32, candidates of the next observation. None unless asked
            for.
        next_mask: (D, K) bool, mask of the next observation, all false after a terminal decision.
            None unless requested.
        value: (D,) float64, Monte-Carlo value. None if the spec is not `valued`.
        image: (D, P) uint8, image of the observation. None unless requested.
        next_image: (D, P) uint8, image of the next observation. None unless requested.
        to_go: (D,) float64, sum of rewards from this decision to the end of the episode. None in
            `Dataset.batches` unless requested.
        discounted: (D,) float64, the discounted sum. None unless requested, or if
            `sample_decisions` was given a discount of 1.
        probabilities: (D, K) float32, probability of each of the K under the behaviour, given that
            it chose one of them. None unless requested.
        truncated: (D,) bool, true if the episode was cut off after this decision. None unless
            requested.
        time_s: (D,) float64, simulated seconds since the start of the episode. None unless
            requested.
        reward_terms: (D, T) float64, in the order of Spec.reward_terms. None unless requested.
        return_to_go, discounted_return, behaviour_probabilities: The columns `to_go`, `discounted`
            and `probabilities` under the names that `Dataset.batches` takes.
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
    truncated: NDArray[np.bool_] | None = None
    time_s: NDArray[np.float64] | None = None
    reward_terms: NDArray[np.float64] | None = None

    @property
    def return_to_go(self) -> NDArray[np.float64] | None:
        """Sum of rewards from each decision to the end of its episode."""
        return self.to_go

    @property
    def discounted_return(self) -> NDArray[np.float64] | None:
        """Discounted sum of rewards from each decision to the end of its episode."""
        return self.discounted

    @property
    def behaviour_probabilities(self) -> NDArray[np.float32] | None:
        """Probability of each of the K under the behaviour."""
        return self.probabilities

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, rows: NDArray[np.int64]) -> "Decisions":
        """Return the decisions at these rows, with the same table of episodes.

        Args:
            rows: (R,) int64, indices of decisions.
        """
        taken: dict[str, Any] = {}
        for name in (field.name for field in fields(self) if field.name != "episodes"):
            column = getattr(self, name)
            taken[name] = None if column is None else column[rows]
        return replace(self, **taken)


# Columns that `Dataset.batches` adds on request, with the field of Decisions that holds each.
ON_REQUEST: Final[Mapping[str, str]] = {
    "return_to_go": "to_go",
    "discounted_return": "discounted",
    "behaviour_probabilities": "probabilities",
    "truncated": "truncated",
    "time_s": "time_s",
    "reward_terms": "reward_terms",
}


@dataclass(frozen=True)
class FurtherColumns:
    """Columns of candidates that are computed from logged observations while a log is read.

    Attributes:
        width: Number G of the columns.
        widen: Function (context (B, C), candidates (V, F), offsets (B + 1,), feasible (V,)) ->
            candidates with the columns at the end, (V, F + G). It is given all candidates of B
            observations, those of observation b in rows offsets[b]:offsets[b + 1].
    """

    width: int
    widen: Callable[..., NDArray[Any]]


@dataclass(frozen=True)
class Columns:
    """The arrays of a Decisions that is read.

    Attributes:
        k: Number K of candidates; None for that of the largest set.
        transitions: Whether the next observations are read (Decisions.next_*).
        images: Whether images are read, if the scenario has them.
        more: Names of fields to read without which a Decisions is whole.
        further: Further columns of the candidates.
    """

    k: int | None
    transitions: bool = False
    images: bool = False
    more: Collection[str] = ()
    further: FurtherColumns | None = None

    def arrays(self, spec: Spec, count: int) -> dict[str, NDArray[Any]]:
        """Return uninitialised arrays for `count` decisions, by the names of Decisions."""
        shapes = self._shapes(spec)
        return {name: np.empty((count, *shape), kind) for name, (shape, kind) in shapes.items()}

    def bytes(self, spec: Spec) -> int:
        """Return the bytes of one decision in these arrays."""
        shapes = self._shapes(spec).values()
        return sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes)

    def _shapes(self, spec: Spec) -> dict[str, tuple[tuple[int, ...], type]]:
        """Return the shape and type by decision of each array that is read."""
        k, further = self.k or 0, 0 if self.further is None else self.further.width
        observation: dict[str, tuple[tuple[int, ...], type]] = {
            "context": ((len(spec.context),), np.float32),
            "candidates": ((k, len(spec.candidates) + further), np.float32),
            "mask": ((k,), np.bool_),
        }
        if self.images and spec.image_shape:
            observation["image"] = ((int(np.prod(spec.image_shape)),), np.uint8)
        asked: dict[str, tuple[tuple[int, ...], type]] = {
            "to_go": ((), np.float64),
            "discounted": ((), np.float64),
            "probabilities": ((k,), np.float32),
            "truncated": ((), np.bool_),
            "time_s": ((), np.float64),
            "reward_terms": ((len(spec.reward_terms),), np.float64),
        }
        followed = {f"next_{name}": what for name, what in observation.items()}
        return {
            **observation,
            **(followed if self.transitions else {}),
            "drawn": ((), np.int64),
            "choice": ((), np.int64),
            "propensity": ((), np.float32),
            "reward": ((), np.float64),
            "elapsed_s": ((), np.float64),
            "terminated": ((), np.bool_),
            "episode": ((), np.int64),
            "step": ((), np.int64),
            **({"value": ((), np.float64)} if spec.valued else {}),
            **{name: what for name, what in asked.items() if name in self.more},
        }
