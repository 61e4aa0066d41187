"""Statistics of (runs, windows) tables of results: every function is pure.

    runs      repetitions of one policy: evaluation seeds, or training seeds of one agent
    windows   problem instances; every policy meets the same ones, so comparisons are paired

Windows are the sample. Each bootstrap replicate draws as many windows as there are, with
replacement, and uses the same draw for every policy, which keeps pairs together. Runs are treated
according to their kind:

    evaluation seeds   are averaged inside their window. The average of a window carries the spread
                       of its seeds, so resampling windows counts this spread exactly once.
    training seeds     are common to all windows, so they are drawn with replacement as well,
                       crossed with the windows (Owen 2007, "The pigeonhole bootstrap"). Of few
                       seeds that differ more than windows do, the interval is too narrow, as
                       bootstrap intervals of small samples are.

The draws depend on the number of windows and on the number of runs alone. So the same scores have
the same interval in every table and in every recipe.

Intervals are percentile intervals. The interquartile mean, the probability of improvement and
performance profiles are those of Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of
the Statistical Precipice".
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Better: TypeAlias = Literal["lower", "higher"]

RESAMPLES = 10_000
LEVEL = 0.95
_WINDOWS, _FIRST, _SECOND = 0, 1, 2  # axes that are drawn, each from a stream of its own
_BLOCK = 1 << 21  # numbers held at once while resampling: 16 MB


class Interval(NamedTuple):
    """Estimate and its interval; low and high are NaN if there is only one window."""

    value: float
    low: float
    high: float


class WinTieLoss(NamedTuple):
    """Numbers of windows on which a policy is better than, equal to and worse than another."""

    wins: int
    ties: int
    losses: int


def table(values: ArrayLike) -> Array:
    """Return `values` as a (runs, windows) table; one dimension is one run.

    Raises ValueError for an empty table, a number that is not finite, or more dimensions.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[None, :] if array.ndim == 1 else array
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"expected a (runs, windows) table, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("a table of results holds a number that is not finite")
    return array


def median(values: Array) -> Array:
    """Return the median over runs and windows together: (..., runs, windows) -> (...)."""
    return np.asarray(np.median(values, axis=(-2, -1)))


def iqm(values: Array) -> Array:
    """Return the interquartile mean over runs and windows together: (..., runs, windows) -> (...).

    Of n sorted values, floor(n / 4) are dropped at either end and the rest are averaged. This is
    the trimmed mean of Agarwal et al. 2021 (section 4.3), with whole values and no weights at the
    edges.
    """
    flat = values.reshape(*values.shape[:-2], -1)
    count = flat.shape[-1]
    cut = count // 4
    if cut:
        flat = np.partition(flat, (cut, count - cut - 1), axis=-1)
    return np.asarray(flat[..., cut : count - cut].mean(axis=-1))


def bootstrap_interval(
    values: ArrayLike,
    *,
    resample_runs: bool = False,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return the mean of one (runs, windows) table with its percentile interval.

    Windows are resampled. Runs are resampled as well if `resample_runs` (training seeds), and are
    averaged inside their window otherwise.
    """
    cells = mean_cells(values, resample_runs)
    return bootstrap_intervals([cells], resamples=resamples, level=level, seed=seed)[0]


def paired_difference(
    policy: ArrayLike,
    baseline: ArrayLike,
    *,
    resample_policy: bool = False,
    resample_baseline: bool = False,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return the mean of policy - baseline over the same windows, with its interval.

    policy (A, W) and baseline (B, W) may have different numbers of runs; every run of one is paired
    with every run of the other. Set `resample_*` if the runs are training seeds. Raises ValueError
    if the numbers of windows differ.
    """
    cells = difference_cells(policy, baseline, resample_policy, resample_baseline)
    return bootstrap_intervals([cells], resamples=resamples, level=level, seed=seed)[0]


def relative_difference(
    policy: ArrayLike,
    baseline: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return mean(policy) / mean(baseline) - 1 over the same windows, with its interval.

    policy (A, W) and baseline (B, W) are averaged over their runs. A replicate is the ratio of the
    two means on one draw of the windows, so the interval excludes 0 if that of `paired_difference`
    does. Raises ValueError if the numbers of windows differ, or if the baseline has a mean of 0.
    """
    first, second = (of.mean(axis=0) for of in _same_windows(policy, baseline))
    if second.mean() == 0.0:
        raise ValueError("a difference relative to a mean of 0 is not defined")
    value, windows = float(first.mean() / second.mean() - 1.0), len(first)
    if windows < 2:
        return Interval(value, np.nan, np.nan)
    streams: dict[tuple[int, int], np.random.Generator] = {}
    block, replicates = min(resamples, max(1, _BLOCK // windows)), []
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        drawn = _next(seed, _WINDOWS, windows, rows, streams)
        denominator = drawn @ second
        replicates.append(drawn @ first / np.where(denominator == 0.0, np.nan, denominator) - 1.0)
    low, high = np.nanquantile(np.concatenate(replicates), _tails(level))
    return Interval(value, float(low), float(high))


def win_tie_loss(
    policy: ArrayLike, baseline: ArrayLike, better: Better = "lower", tolerance: float = 0.0
) -> WinTieLoss:
    """Count the windows won, tied and lost by the policy's average over runs.

    A difference to the baseline of at most `tolerance`, in the unit of the metric, is a tie.
    """
    first, second = _same_windows(policy, baseline)
    gain = _gain(first.mean(axis=0) - second.mean(axis=0), better)
    wins = int((gain > tolerance).sum())
    losses = int((gain < -tolerance).sum())
    return WinTieLoss(wins, gain.size - wins - losses, losses)


def performance_profile(values: ArrayLike, taus: ArrayLike, better: Better = "lower") -> Array:
    """Return the share of runs x windows at least as good as each threshold: (T,) -> (T,).

    "lower" counts values <= tau, "higher" counts values >= tau. Over ratios to the best value this
    is the profile of Dolan and Moré 2002; over scores it is that of Agarwal et al. 2021.
    """
    flat = np.sort(table(values), axis=None)
    thresholds = np.asarray(taus, dtype=np.float64)
    if better == "lower":
        counts = np.searchsorted(flat, thresholds, side="right")
    else:
        counts = flat.size - np.searchsorted(flat, thresholds, side="left")
    return np.asarray(counts / flat.size)


def mean_cells(values: ArrayLike, resample_runs: bool = False) -> Array:
    """Return one table as cells (A, 1, W) for `bootstrap_intervals`."""
    return _cells(table(values)[:, None, :], resample_runs)


def difference_cells(
    policy: ArrayLike,
    baseline: ArrayLike,
    resample_policy: bool = False,
    resample_baseline: bool = False,
) -> Array:
    """Return the differences policy - baseline of all pairs of runs as cells (A, B, W)."""
    first, second = _same_windows(policy, baseline)
    return _cells(first[:, None, :], resample_policy) - _cells(
        second[None, :, :], resample_b=resample_baseline
    )


def improvement_cells(
    policy: ArrayLike,
    baseline: ArrayLike,
    better: Better = "lower",
    tolerance: float = 0.0,
    resample_policy: bool = False,
    resample_baseline: bool = False,
) -> Array:
    """Return 1 per win, 1/2 per tie and 0 per loss of all pairs of runs, as cells (A, B, W).

    Their mean is the probability that a run of the policy beats a run of the baseline on a random
    window (the Mann-Whitney statistic within a window; Agarwal et al. 2021).
    """
    first, second = _same_windows(policy, baseline)
    gain = _gain(first[:, None, :] - second[None, :, :], better)
    won = np.where(gain > tolerance, 1.0, np.where(gain < -tolerance, 0.0, 0.5))
    return _cells(won, resample_policy, resample_baseline)


def bootstrap_intervals(
    tables: Sequence[Array],
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> list[Interval]:
    """Return percentile intervals of the means of many tables of cells.

    `tables` are K arrays (A, B, W) with W in common; an axis A or B longer than 1 is resampled too.

    A replicate is the mean weighted by the number of draws of each window and each run. All tables
    share one draw of the windows, and one draw of each axis of runs that has the same length, so an
    interval does not depend on the other tables, to the last digit. Memory stays below some tens of
    MB for any number of tables, runs and windows.
    """
    if not tables:
        return []
    windows = tables[0].shape[-1]
    estimates = [float(cells.mean()) for cells in tables]
    if windows < 2:
        return [Interval(value, np.nan, np.nan) for value in estimates]
    replicates = np.empty((resamples, len(tables)))
    blocks: dict[int, list[int]] = {}  # tables by the replicates that are held at once
    for k, cells in enumerate(tables):
        largest = max(windows, cells.shape[0] * cells.shape[1])
        blocks.setdefault(min(resamples, max(1, _BLOCK // largest)), []).append(k)
    for block, members in blocks.items():
        streams: dict[tuple[int, int], np.random.Generator] = {}
        for start in range(0, resamples, block):
            rows = slice(start, min(start + block, resamples))
            shared: dict[tuple[int, int], Array] = {}
            for k in members:
                for axis, count in zip((_FIRST, _SECOND), tables[k].shape, strict=False):
                    if count > 1 and (axis, count) not in shared:
                        shared[axis, count] = _next(seed, axis, count, rows, streams)
            drawn = _next(seed, _WINDOWS, windows, rows, streams)
            for k in members:
                replicates[rows, k] = _replicates(tables[k], drawn, shared)
    low, high = np.quantile(replicates, _tails(level), axis=0)
    return [Interval(v, float(a), float(b)) for v, a, b in zip(estimates, low, high, strict=True)]


def _next(
    seed: int,
    axis: int,
    count: int,
    rows: slice,
    streams: dict[tuple[int, int], np.random.Generator],
) -> Array:
    """Return the next draws of an axis, from a generator that belongs to its length."""
    if (axis, count) not in streams:
        streams[axis, count] = np.random.default_rng([seed, axis, count])
    return _draw_counts(count, rows.stop - rows.start, streams[axis, count])


def _replicates(cells: Array, drawn: Array, runs: Mapping[tuple[int, int], Array]) -> Array:
    """Return the weighted means of cells (A, B, W) by draws (R, W) and draws of the runs: (R,)."""
    first, second, windows = cells.shape
    flat = np.ascontiguousarray(cells).reshape(-1, windows)
    means = (drawn @ flat.T / windows).reshape(-1, first, second)
    if first > 1:
        means = np.einsum("ra,rab->rb", runs[_FIRST, first] / first, means)[:, None, :]
    if second > 1:
        means = np.einsum("rb,rb->r", runs[_SECOND, second] / second, means[:, 0, :])[:, None, None]
    return np.asarray(means[:, 0, 0])


def _draw_counts(count: int, size: int, rng: np.random.Generator) -> Array:
    """Return numbers of draws of each of `count` items, with replacement: (size, count)."""
    drawn = rng.integers(count, size=(size, count))
    drawn += np.arange(size)[:, None] * count
    counts = np.bincount(drawn.ravel(), minlength=size * count)
    return counts.reshape(size, count).astype(np.float64)


def _cells(cells: Array, resample_a: bool = False, resample_b: bool = False) -> Array:
    """Return (A, B, W) with every axis of runs that is not resampled averaged to length 1."""
    cells = cells if resample_a else np.asarray(cells.mean(axis=0, keepdims=True))
    return cells if resample_b else np.asarray(cells.mean(axis=1, keepdims=True))


def _gain(difference: Array, better: Better) -> Array:
    return -difference if better == "lower" else difference


def _same_windows(policy: ArrayLike, baseline: ArrayLike) -> tuple[Array, Array]:
    first, second = table(policy), table(baseline)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"paired tables need the same windows, got {first.shape[1]} and {second.shape[1]}"
        )
    return first, second


def _tails(level: float) -> list[float]:
    if not 0.0 < level < 1.0:
        raise ValueError(f"expected a confidence level between 0 and 1, got {level}")
    return [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
