"""Comparisons of two policies on the same `multicluster` episodes: Eval and Score-A to Score-D.

All functions take arrays of one number per episode, (E,): TMDL and AJDR (percent) of a policy and
of its baseline, for both of which lower is better. A score is the policy's share of 100; the
baseline has the rest.

Source: Liu et al., Section V-C, see hindcast.pipeline.scenarios.multicluster.
"""

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.multicluster.config import EVAL_MISS

Numbers = NDArray[np.float64]


def evaluation(tmdl: Numbers, ajdr: Numbers) -> Numbers:
    """Return Eval = 1 / (.02 * TMDL + AJDR), higher is better; infinite if both are 0."""
    cost = EVAL_MISS * np.asarray(tmdl, np.float64) + ajdr
    return np.divide(1.0, cost, out=np.full_like(cost, np.inf), where=cost > 0)


def score_a(tmdl: Numbers, ajdr: Numbers, base_tmdl: Numbers, base_ajdr: Numbers) -> float:
    """Return the percentage of the episodes in which the policy is better on both metrics."""
    return _percent((tmdl < base_tmdl) & (ajdr < base_ajdr))


def score_b(tmdl: Numbers, ajdr: Numbers, base_tmdl: Numbers, base_ajdr: Numbers) -> float:
    """Return Score-A plus half an episode for each one with only one better metric, in percent."""
    won = np.asarray(tmdl < base_tmdl, np.float64) + np.asarray(ajdr < base_ajdr, np.float64)
    return _percent(won / 2)


def score_c(tmdl: Numbers, ajdr: Numbers, base_tmdl: Numbers, base_ajdr: Numbers) -> float:
    """Return the percentage of the episodes in which the policy has the higher Eval."""
    return _percent(evaluation(tmdl, ajdr) > evaluation(base_tmdl, base_ajdr))


def score_d(tmdl: Numbers, ajdr: Numbers, base_tmdl: Numbers, base_ajdr: Numbers) -> float:
    """Return the percentage of the episodes whose two percent changes have a sum below 0.

    A change from 0 to 0 counts as 0. A change from 0 to more is infinite, so the episode is lost.
    """
    return _percent(_change(tmdl, base_tmdl) + _change(ajdr, base_ajdr) < 0)


def _change(value: Numbers, base: Numbers) -> Numbers:
    change = np.asarray(value, np.float64) - base
    from_zero = np.where(change > 0, np.inf, 0.0)
    return np.divide(change, base, out=from_zero, where=np.asarray(base) > 0)


def _percent(won: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return float(100.0 * np.mean(won))
