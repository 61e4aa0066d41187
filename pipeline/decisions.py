"""Logged decisions as arrays for learners: candidates padded to K, masks, what came next."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray


@dataclass(frozen=True)
class Decisions:
    """D logged decisions of E episodes; candidates padded with zeros to K, identifiers kept.

    Where an observation had more than K candidates, the chosen one and K - 1 others drawn
    uniformly are here, and `drawn` says from how many. `choice` is the position of the chosen
    candidate among the K. Rows of one episode are consecutive and in order of time.

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

    def __len__(self) -> int:
        return len(self.choice)
