"""A small network that scores candidates, for comparison with the conditional logit.

If the network predicts held-out choices much better, the logit misses a part of the behaviour.
"""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from hindcast.policies.ope.behaviour.choice_sets import ChoiceSets

Array = NDArray[np.float64]

_HIDDEN: Final = 32
_EPOCHS: Final = 12
_BATCH: Final = 128  # choices
_RATE: Final = 3e-3


def network_utilities(train: ChoiceSets, test: ChoiceSets, seed: int) -> Array:
    """Fit a network of 32 hidden units on choices; return its utilities of others, (V,)."""
    draws = torch.Generator().manual_seed(seed)
    mean, scale = train.rows.mean(axis=0), train.rows.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    rows, others = (
        torch.from_numpy(((sets.rows - mean) / scale).astype(np.float32)) for sets in (train, test)
    )
    size = rows.shape[1]
    weights = [
        (torch.randn(size, _HIDDEN, generator=draws) / size**0.5).requires_grad_(),
        torch.zeros(_HIDDEN, requires_grad=True),
        (torch.randn(_HIDDEN, 1, generator=draws) / _HIDDEN**0.5).requires_grad_(),
    ]
    optimiser = torch.optim.Adam(weights, lr=_RATE)
    for _ in range(_EPOCHS):
        for batch in torch.split(torch.randperm(len(train), generator=draws), _BATCH):
            choices = np.sort(batch.numpy())
            starts, sizes = train.offsets[choices], np.diff(train.offsets)[choices]
            inside = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            owner = torch.from_numpy(np.repeat(np.arange(len(choices)), sizes))
            scores = _score(weights, rows[torch.from_numpy(inside)])
            highest = torch.full((len(choices),), -torch.inf).scatter_reduce(
                0, owner, scores.detach(), "amax"
            )
            totals = torch.zeros(len(choices)).index_add(0, owner, (scores - highest[owner]).exp())
            chosen = torch.from_numpy(np.cumsum(sizes) - sizes + train.chosen[choices] - starts)
            loss = (totals.log() + highest - scores[chosen]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    with torch.no_grad():
        return _score(weights, others).numpy().astype(np.float64)


def _score(weights: list[torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
    first, bias, second = weights
    return ((rows @ first + bias).relu() @ second)[:, 0]
