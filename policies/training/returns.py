"""Returns of episodes and returns to go, compared inside one window.

The same tenth of two episodes on one window poses about the same problem. Returns of two windows
are not comparable, and neither are returns to go at the beginning and at the end of an episode.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.statistics.returns import discounted_sums

_PARTS: Final = 10  # of an episode, by the numbers of its decisions
_BINS: Final = 20  # of a window's longest episode; its potential is interpolated between them
_LEAST: Final = 0.1  # of the median window's deviation


def windows_of(decisions: Decisions) -> NDArray[np.int64]:
    """Return the window of each episode, (E,), numbered from 0.

    If every window has one episode, all episodes share one window.
    """
    names = decisions.episodes["window"].to_numpy()
    window = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return np.zeros_like(window) if (np.bincount(window) < 2).all() else window


def undiscounted_to_go(decisions: Decisions) -> NDArray[np.float64]:
    """Return the rewards from each decision to the end of its episode, (D,).

    Raises DatasetError if the sums are not given and some decisions of an episode are missing.
    """
    d = decisions
    if d.to_go is not None:
        return d.to_go
    returns = d.episodes["return"].to_numpy().astype(np.float64)
    steps = d.episodes["steps"].to_numpy()
    if (np.bincount(d.episode, minlength=len(steps)) != steps).any():
        raise DatasetError(
            "returns to go are not known: only some decisions of an episode are loaded"
        )
    total = np.cumsum(d.reward) - d.reward
    first = np.searchsorted(d.episode, np.arange(len(steps)))
    before = total - total[np.minimum(first, len(total) - 1)][d.episode]
    return returns[d.episode] - before


def discounted_to_go(decisions: Decisions, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discounted rewards from each decision to the end of its episode, (D,).

    share (D,) is the factor that the discount puts on everything after a decision. Raises
    DatasetError if the sums were not taken at loading and some decisions of an episode are missing.
    """
    d = decisions
    if (share == 1.0).all():
        return undiscounted_to_go(d)
    if d.discounted is not None:
        return d.discounted
    if (np.bincount(d.episode, minlength=len(d.episodes)) != d.episodes["steps"].to_numpy()).any():
        raise DatasetError(
            "discounted returns are not known: only some decisions of an episode are loaded; load "
            "with the discount"
        )
    return discounted_sums(d.episode, d.reward, share)


def against_window(
    decisions: Decisions, to_go: NDArray[np.float64], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rewards and returns to go, both (D,), relative to the other episodes of the window.

        reward'_t  = (reward_t + share_t * p(w, t + 1) - p(w, t)) / s(w)       p = 0 after the end
        to_go'_t   = (to_go_t - p(w, t)) / s(w)

    p(w, t) is the mean return to go of the logged episodes of window w at their decision t. It is a
    potential, so it changes the rank of no policy (Ng, Harada & Russell, "Policy invariance under
    reward transformations", ICML 1999). Without a potential, values would first have to learn what
    is left to gain of a workload, of which choices are a small part. s(w) is the deviation of to_go
    - p in the window; dividing by it lets every window count alike, however heavy the tails. s(w)
    is at least a tenth of the median window's, so that a window on which no choice matters is not
    blown up.
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
    """Return returns to go, (D,), standardised among the same tenth of a window's episodes.

    The result is 0 if there is nothing to compare. Every episode counts alike, however many of its
    decisions are in the sample.
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
    """Return the names of the best behaviours, enough of them to hold that share of the episodes.

    Behaviours are ranked by their mean return, standardised among the episodes of a window, or
    among all episodes if no window has two. The result has at least one behaviour; for a share of 1
    it has all of them.
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
    """Return a mask (E,) of the episodes of these behaviours."""
    found: NDArray[np.bool_] = episodes["behaviour"].is_in(names).to_numpy()
    return found
