"""What a choice was worth by a value network: generalised advantage estimation.

    delta_t = r_t + g_t V_t+1 - V_t                       V_T = last_value
    A_t     = delta_t + g_t lambda A_t+1                  A_T = 0
            = sum over k >= t of (g lambda)_t ... (g lambda)_k-1 delta_k

g_t is the discount of the step from decision t to the next one: a number, or one per decision
where it stands for the seconds that passed. lambda = 1 is the return less the value, lambda = 0
believes the value of the next decision. A_t + V_t is the target of the value network.

Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
Estimation", ICLR 2016, equations 11 and 16.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.kernel import compiled

Floats = NDArray[np.float64]

_GIVEN = types.Array(types.float64, 1, "C", readonly=True)
_WRITTEN = types.Array(types.float64, 1, "C")


@compiled(types.void(_GIVEN, _GIVEN, _GIVEN, types.float64, types.float64, _WRITTEN))
def _backwards(
    reward: Any, value: Any, discount: Any, lam: Any, last_value: Any, advantage: Any
) -> None:
    following, running = last_value, 0.0
    for t in range(len(reward) - 1, -1, -1):
        delta = reward[t] + discount[t] * following - value[t]
        running = delta + discount[t] * lam * running
        advantage[t] = running
        following = value[t]


def gae(
    reward: Floats, value: Floats, discount: Floats | float, lam: float, last_value: float
) -> Floats:
    """Advantages (T,) of one trajectory, float64.

    reward (T,), value (T,) of the observation before each choice, discount (T,) or one number,
    last_value of the observation after the last choice: 0 where the episode is over. Raises
    HindcastError where the lengths differ.
    """
    count = len(reward)
    discounts = (
        np.broadcast_to(np.asarray(discount, np.float64), count)
        if (np.ndim(discount) == 0)
        else np.asarray(discount, np.float64)
    )
    if np.shape(value) != (count,) or discounts.shape != (count,):
        raise HindcastError(
            f"gae: reward {np.shape(reward)}, value {np.shape(value)} and discount "
            f"{discounts.shape} are not of one trajectory"
        )
    advantage = np.empty(count)
    _backwards(
        np.ascontiguousarray(reward, np.float64), np.ascontiguousarray(value, np.float64),
        np.ascontiguousarray(discounts), lam, last_value, advantage,
    )  # fmt: skip
    return advantage


def step_discounts(elapsed_s: Floats, discount: float, *, per_second: bool) -> Floats:
    """Discount (T,) of every step: one number, or that number per second that passed."""
    if per_second:
        return np.asarray(discount**elapsed_s, np.float64)
    return np.full(len(elapsed_s), discount)
