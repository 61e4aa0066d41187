"""How well episodes went, compared where they can be compared: inside their window.

The same tenth of two episodes on one window is about the same problem; the returns of two windows
are not, nor are what is left to gain at the beginning and at the end of an episode.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.dataset.decisions import Decisions
from pipeline.errors import DatasetError
from pipeline.statistics.returns import discounted_sums

_PARTS: Final = 10  # of an episode, by the number of its decision
_BINS: Final = 20  # of a window's longest episode, between which its potential is interpolated
_LEAST: Final = 0.1  # of the median window's deviation


def windows_of(decisions: Decisions) -> NDArray[np.int64]:
    """The window of each episode, (E,), numbered from 0; one of all where each has one episode."""
    names = decisions.episodes["window"].to_numpy()
    window = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return np.zeros_like(window) if (np.bincount(window) < 2).all() else window


def undiscounted_to_go(decisions: Decisions) -> NDArray[np.float64]:
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


def discounted_to_go(decisions: Decisions, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rewards from each decision to the end of its episode, (D,), discounted.

    share (D,) is what the discount leaves of all that comes after a decision. Raises DatasetError
    where the sums were not taken at loading and decisions are missing to take them from.
    """
    d = decisions
    if (share == 1.0).all():
        return undiscounted_to_go(d)
    if d.discounted is not None:
        return d.discounted
    if (np.bincount(d.episode, minlength=len(d.episodes)) != d.episodes["steps"].to_numpy()).any():
        raise DatasetError(
            "discounted returns are not known: only some decisions of an episode are here; load "
            "with the discount"
        )
    return discounted_sums(d.episode, d.reward, share)


def against_window(
    decisions: Decisions, to_go: NDArray[np.float64], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rewards and returns to go, both (D,), in units of what choices make of one window.

        reward'_t  = (reward_t + share_t * p(w, t + 1) - p(w, t)) / s(w)       p = 0 after the end
        to_go'_t   = (to_go_t - p(w, t)) / s(w)

    p(w, t), the mean return to go of the logged episodes of window w at their decision t, is a
    potential: it changes no policy's rank (Ng, Harada & Russell, "Policy invariance under reward
    transformations", ICML 1999). s(w), the deviation of to_go - p in the window, lets every window
    count alike, however heavy the tails; at least a tenth of the median window's, so that a window
    on which nothing matters is not blown up. Without a potential values would first have to
    learn what is left to gain of a workload, of which choices are a small part.
    """
    d = decisions
    window = windows_of(d)[d.episode]
    here, after = np.zeros(len(d)), np.zeros(len(d))
    size = np.zeros(int(window.max()) + 1)
    for w in np.unique(window):
        rows = np.flatnonzero(window == w)
        step = d.step[rows]
        width = max(1, -(-int(step.max() + 1) // _BINS))
        count = np.bincount(step // width)
        used = count > 0
        centre = (np.bincount(step // width, step)[used]) / count[used]
        mean = np.bincount(step // width, to_go[rows])[used] / count[used]
        here[rows] = np.interp(step, centre, mean)
        after[rows] = np.where(d.terminated[rows], 0.0, np.interp(step + 1, centre, mean))
        size[w] = np.sqrt(np.square(to_go[rows] - here[rows]).mean())
    varies = size > 1e-9 * max(float(np.abs(to_go).max(initial=0.0)), 1e-300)
    least = _LEAST * float(np.median(size[varies])) if varies.any() else 1.0
    unit = np.maximum(size, least)[window]
    return (d.reward + share * after - here) / unit, (to_go - here) / unit


def standardised_to_go(decisions: Decisions) -> NDArray[np.float32]:
    """Returns to go, (D,), standardised among decisions of one tenth of the episodes of one window.

    0 where there is nothing to compare. Every episode counts alike there, however many of its
    decisions there are.
    """
    d = decisions
    to_go = undiscounted_to_go(d)
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


def best_behaviours(episodes: pl.DataFrame, share: float) -> list[str]:
    """Names of the behaviours with the best returns inside windows, until they have that share.

    Compared are means of returns standardised among the episodes of a window, or of all where no
    window has two. At least one behaviour; all of them for a share of 1.
    """
    alone = episodes["window"].n_unique() == episodes.height
    values = pl.col("return")
    mean, deviation = values.mean(), values.std(ddof=0)
    if not alone:
        mean, deviation = mean.over("window"), deviation.over("window")
    z = pl.when(deviation > 0.0).then((values - mean) / deviation).otherwise(0.0)
    ranked = (
        episodes.with_columns(z.alias("z"))
        .group_by("behaviour")
        .agg(pl.col("z").mean(), pl.len().alias("episodes"))
        .sort("z", "behaviour", descending=[True, False])
    )
    before = ranked["episodes"].cum_sum() - ranked["episodes"]
    kept: list[str] = ranked.filter(before < share * episodes.height)["behaviour"].to_list()
    return kept


def of_behaviours(episodes: pl.DataFrame, names: list[str]) -> NDArray[np.bool_]:
    """Which episodes are of these behaviours, (E,)."""
    found: NDArray[np.bool_] = episodes["behaviour"].is_in(names).to_numpy()
    return found
