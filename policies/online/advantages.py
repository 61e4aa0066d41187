"""What a choice was worth: what came after it, less what comes after it on average.

    return to go      G_t = r_t + discount * G_t+1
    baseline          over the trajectories of one window
      "decision"      mean of G at the same decision number; one that is over counts as 0 (DeepJS)
      "time"          mean of what each earned from the same time on (DeepRM): time stands still
                      while an agent decides, so that trajectories of one time are at many numbers
      "none"          0
    normalised        divided by the standard deviation over the window's decisions

A trajectory is part of its own mean, as published: over n trajectories that leaves the direction
of the gradient as it is and takes 1/n of its length.

Sources: Li & Hu, "DeepJS", ICBDC 2019; Mao et al., "Resource Management with Deep Reinforcement
Learning", HotNets 2016, algorithm 1.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Baseline = Literal["decision", "time", "none"]
Floats = NDArray[np.float64]


def returns_to_go(reward: Floats, discount: float = 1.0) -> Floats:
    """Discounted sum of the rewards of every decision and those after it, (T,)."""
    if discount == 1.0:
        return np.cumsum(reward[::-1])[::-1].copy()
    found = np.empty(len(reward))
    running = 0.0
    for t in range(len(reward) - 1, -1, -1):
        running = reward[t] + discount * running
        found[t] = running
    return found


def advantages(
    rewards: Sequence[Floats],
    times: Sequence[Floats],
    baseline: Baseline,
    *,
    discount: float = 1.0,
    normalise: bool = False,
) -> list[Floats]:
    """Return to go less the baseline, (T,) of each trajectory of one window.

    rewards and times (T,) of each; times never fall.
    """
    to_go = [returns_to_go(reward, discount) for reward in rewards]
    found = against_group(to_go, times, baseline)
    if normalise:
        deviation = float(np.concatenate(found).std())
        found = [a / deviation for a in found] if deviation > 0.0 else found
    return found


def against_group(
    worth: Sequence[Floats], times: Sequence[Floats], baseline: Baseline
) -> list[Floats]:
    """What each decision was worth, (T,) of each trajectory, less the baseline over all of them."""
    found = _baselines(worth, times, baseline)
    return [w - b for w, b in zip(worth, found, strict=True)]


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
    padded = [np.append(g, 0.0) for g in to_go]
    return [
        np.mean(
            [g[np.searchsorted(t, own, side="left")] for g, t in zip(padded, times, strict=True)],
            axis=0,
        )
        for own in times
    ]
