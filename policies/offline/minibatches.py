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

    candidates (sum of mask, E) the rows that the mask allows, context (B, G), mask (B, K),
    choice (B,), drawn (B,)
    """

    candidates: Tensor
    context: Tensor
    mask: Tensor
    choice: Tensor
    drawn: Tensor


def gather(decisions: Decisions, network: Network, rows: NDArray[np.int64]) -> Minibatch:
    """The decisions at `rows` (B,), in that order."""
    mask = decisions.mask[rows]
    candidates = network.candidates.expand(decisions.candidates[rows][mask])
    return Minibatch(
        candidates=torch.from_numpy(candidates),
        context=torch.from_numpy(network.context.expand(decisions.context[rows])),
        mask=torch.from_numpy(mask),
        choice=torch.from_numpy(decisions.choice[rows]),
        drawn=torch.from_numpy(decisions.drawn[rows]),
    )


def expand_padded(
    feature_map: FeatureMap, raw: NDArray[np.float32], mask: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Network inputs (B, K, E) of padded candidates (B, K, F); zeros where the mask forbids."""
    expanded = np.zeros((*mask.shape, feature_map.size), np.float32)
    expanded[mask] = feature_map.expand(raw[mask])
    return expanded


def draw_rows(count: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`size` of `count` rows, uniformly, with replacement."""
    return rng.integers(0, count, size)
