"""Advantages of trajectories: returns-to-go less a baseline over a window, and GAE.

    return to go      G_t = r_t + discount * G_t+1
    baseline          over the trajectories of one window
      "decision"      mean of G at the same decision number; a finished trajectory counts as 0
                      (DeepJS)
      "time"          mean of each trajectory's return from the same time on (DeepRM); several
                      decisions may share a time, so their numbers differ between trajectories
      "none"          0
    normalised        divided by the standard deviation over the window's decisions

As published, the mean includes the trajectory itself: over n trajectories, this keeps the direction
of the gradient and reduces its length by 1/n.

Sources: Li & Hu, "DeepJS", ICBDC 2019; Mao et al., "Resource Management with Deep Reinforcement
Learning", HotNets 2016, algorithm 1.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.kernel import compiled
from hindcast.pipeline.statistics.returns import returns_to_go

Baseline = Literal["decision", "time", "none"]
Floats = NDArray[np.float64]

_GIVEN = types.Array(types.float64, 1, "C", readonly=True)
_WRITTEN = types.Array(types.float64, 1, "C")


def advantages(
    rewards: Sequence[Floats],
    times: Sequence[Floats],
    baseline: Baseline,
    *,
    discount: float = 1.0,
    normalise: bool = False,
) -> list[Floats]:
    """Return returns-to-go less the baseline, (T,) of each trajectory of one window.

    rewards and times are (T,) of each trajectory; times never decrease.
    """
    to_go = [returns_to_go(reward, discount) for reward in rewards]
    return against_group(to_go, times, baseline, normalise=normalise)


def against_group(
    gains: Sequence[Floats], times: Sequence[Floats], baseline: Baseline, *, normalise: bool = False
) -> list[Floats]:
    """Return `gains`, (T,) of each trajectory, less the baseline over all trajectories."""
    advantage = [g - b for g, b in zip(gains, _baselines(gains, times, baseline), strict=True)]
    deviation = float(np.concatenate(advantage).std()) if normalise else 0.0
    return [a / deviation for a in advantage] if deviation > 0.0 else advantage


def _baselines(
    to_go: Sequence[Floats], times: Sequence[Floats], baseline: Baseline
) -> list[Floats]:
    if baseline == "none":
        return [np.zeros(len(g)) for g in to_go]
    if baseline == "decision":
        total = np.zeros(max(map(len, to_go)))
        for g in to_go:
            total[: len(g)] += g
        return [total[: len(g)] / len(to_go) for g in to_go]
    all_times = np.concatenate(times)  # one search for all pairs of trajectories, for speed
    total = np.zeros(len(all_times))
    for g, t in zip(to_go, times, strict=True):
        total += np.append(g, 0.0)[np.searchsorted(t, all_times, side="left")]
    ends = np.cumsum([len(t) for t in times])[:-1]
    return np.split(total / len(to_go), ends)


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
    """Return the generalised advantage estimates (T,) of one trajectory, float64.

        delta_t = r_t + g_t V_t+1 - V_t                       V_T = last_value
        A_t     = delta_t + g_t lambda A_t+1                  A_T = 0
                = sum over k >= t of (g lambda)_t ... (g lambda)_k-1 delta_k

    g_t is the discount of the step from decision t to the next one: a number, or one per decision
    if it depends on the seconds that passed. lambda = 1 is the return less the value, lambda = 0
    uses the value of the next decision. A_t + V_t is the target of the value network. Source:
    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation",
    ICLR 2016, equations 11 and 16.

    reward is (T,), value (T,) of the observation before each choice, discount (T,) or one number,
    last_value of the observation after the last choice: 0 if the episode is over. Raises
    HindcastError if the lengths differ.
    """
    count = len(reward)
    discounts = np.asarray(discount, np.float64)
    if discounts.ndim == 0:
        discounts = np.full(count, discounts)
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
