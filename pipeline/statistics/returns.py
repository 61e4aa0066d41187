"""Discounts of steps, and discounted sums of rewards."""

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_SIGNATURE = types.float64[::1](_INTEGERS, _FLOATS, _FLOATS)


def step_discounts(elapsed_s: Floats, discount: float, *, per_second: bool) -> Floats:
    """Return the discount (T,) of every step: constant, or that number per second elapsed."""
    if per_second:
        return np.asarray(discount**elapsed_s, np.float64)
    return np.full(len(elapsed_s), discount)


@njit(_SIGNATURE, cache=True, nogil=True, error_model="numpy")
def _sums(episode: Any, reward: Any, share: Any) -> Any:
    sums = np.empty(len(reward))
    for i in range(len(reward) - 1, -1, -1):
        goes_on = i + 1 < len(reward) and episode[i + 1] == episode[i]
        sums[i] = reward[i] + (share[i] * sums[i + 1] if goes_on else 0.0)
    return sums


def discounted_sums(episode: NDArray[np.integer], reward: NDArray[Any], share: Floats) -> Floats:
    """Return the discounted rewards from each row to the end of its episode, (D,).

    Rows of an episode are consecutive, in order and complete. share (D,) is the discount of
    everything after a row: sum = reward + share * next sum.
    """
    return np.asarray(
        _sums(
            np.ascontiguousarray(episode, np.int64),
            np.ascontiguousarray(reward, np.float64),
            np.ascontiguousarray(share, np.float64),
        )
    )


def returns_to_go(reward: Floats, discount: float = 1.0) -> Floats:
    """Return the discounted sum of rewards from each decision on, (T,) of one episode."""
    count = len(reward)
    return discounted_sums(np.zeros(count, np.int64), reward, np.full(count, discount))
