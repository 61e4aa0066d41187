"""How well episodes went, compared where they can be compared: inside their window.

The same tenth of two episodes on one window is about the same problem; the returns of two windows
are not, nor are what is left to gain at the beginning and at the end of an episode.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.decisions import Decisions
from pipeline.errors import DatasetError

_PARTS: Final = 10  # of an episode, by the number of its decision


def windows_of(decisions: Decisions) -> NDArray[np.int64]:
    """The window of each episode, (E,), numbered from 0; one of all where each has one episode."""
    names = decisions.episodes["window"].to_numpy()
    window = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return np.zeros_like(window) if (np.bincount(window) < 2).all() else window


def returns_to_go(decisions: Decisions) -> NDArray[np.float64]:
    """Rewards from each decision to the end of its episode, (D,).

    Raises DatasetError where it is not given and decisions are missing to sum it from.
    """
    d = decisions
    if d.to_go is not None:
        return d.to_go
    returns = d.episodes["return"].to_numpy().astype(np.float64)
    steps = d.episodes["steps"].to_numpy()
    if (np.bincount(d.episode, minlength=len(steps)) != steps).any():
        raise DatasetError(
            "returns to go are not known: only some decisions of an episode are here"
        )
    total = np.cumsum(d.reward) - d.reward
    first = np.searchsorted(d.episode, np.arange(len(steps)))
    before = total - total[np.minimum(first, len(total) - 1)][d.episode]
    return returns[d.episode] - before


def standardised_to_go(decisions: Decisions) -> NDArray[np.float32]:
    """Returns to go, (D,), standardised among decisions of one tenth of the episodes of one window.

    0 where there is nothing to compare. Every episode counts alike there, however many of its
    decisions there are.
    """
    d = decisions
    to_go = returns_to_go(d)
    steps = np.maximum(d.episodes["steps"].to_numpy(), 1)
    part = np.minimum(d.step * _PARTS // steps[d.episode], _PARTS - 1)
    own = np.unique(d.episode * _PARTS + part, return_inverse=True)[1]  # tenth of an episode
    cell = np.unique(windows_of(d)[d.episode] * _PARTS + part, return_inverse=True)[1]
    weight = 1.0 / np.bincount(own)[own]
    size = np.bincount(cell, weight)
    mean = np.bincount(cell, weight * to_go) / size
    centred = to_go - mean[cell]
    deviation = np.sqrt(np.bincount(cell, weight * centred**2) / size)
    noise = 1e-9 * np.sqrt(np.bincount(cell, weight * to_go**2) / size)
    varies = (deviation > noise)[cell]
    z = np.divide(centred, deviation[cell], out=np.zeros_like(centred), where=varies)
    return z.astype(np.float32)
