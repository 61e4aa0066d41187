"""From logged decisions to tensors: rows gathered by index, features expanded on the way.

Gathering by index costs a fraction of a network's update; a sampler that walks a list of
transitions in Python costs about as much as the update itself.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decisions import Decisions
from policies.features import FeatureMap
from policies.learned import Network


@dataclass(frozen=True)
class Minibatch:
    """B decisions, ready for a scorer.

    candidates (B, K, E), context (B, G), mask (B, K), choice (B,), drawn (B,)
    """

    candidates: Tensor
    context: Tensor
    mask: Tensor
    choice: Tensor
    drawn: Tensor


def gather(decisions: Decisions, network: Network, rows: NDArray[np.int64]) -> Minibatch:
    """The decisions at `rows` (B,), in that order."""
    return Minibatch(
        candidates=torch.from_numpy(expand(network.candidates, decisions.candidates[rows])),
        context=torch.from_numpy(expand(network.context, decisions.context[rows])),
        mask=torch.from_numpy(decisions.mask[rows]),
        choice=torch.from_numpy(decisions.choice[rows]),
        drawn=torch.from_numpy(decisions.drawn[rows]),
    )


def expand(feature_map: FeatureMap, raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """Network inputs (..., E) of raw features (..., F)."""
    expanded = feature_map.expand(raw.reshape(-1, raw.shape[-1]))
    return expanded.reshape(*raw.shape[:-1], feature_map.size)


def draw_rows(count: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`size` of `count` rows, uniformly, with replacement."""
    return rng.integers(0, count, size)
