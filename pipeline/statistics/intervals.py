"""Statistics of (runs, windows) tables of results: every function is pure.

    runs      repetitions of one policy: evaluation seeds, or training seeds of one agent
    windows   problem instances; every policy meets the same ones, so comparisons are paired

Windows are the sample. Runs are treated according to their kind:

    evaluation seeds   are averaged inside their window. The average of a window carries the spread
                       of its seeds, so the spread of the windows counts this spread exactly once.
    training seeds     are common to all windows. Windows and seeds are crossed random effects: the
                       variance of a mean is that of the means of windows, plus that of the means of
                       seeds, less what both have of the noise of single cells.

An interval is Student's: the mean, and its standard error times a quantile of t with degrees of
freedom by Satterthwaite. Scores and differences of few windows are often skewed, so each end is the
farther of two: that of Student's t, and that of Hall's transformation, which corrects t for the
skewness of the windows (Hall 1992, "On the removal of skewness by transformation").

Windows of a log that share jobs are not independent. The variance of their mean is taken from the
slowest cosines over the windows in the order of the log, as many as the same jobs would give
degrees of freedom in windows beside each other (equal-weighted cosines, Lazarus et al. 2018, "HAR
inference: recommendations for practice"). It is multiplied by what the shared jobs alone would make
of that ratio. Windows that share nothing have all cosines, which is Student's t.

docs/protocol.md says how often these intervals hold the truth.

The interquartile mean, the probability of improvement and performance profiles are those of Agarwal
et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

import math
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hindcast.pipeline.statistics.distributions import t_quantile, t_tails

Array: TypeAlias = NDArray[np.float64]
Better: TypeAlias = Literal["lower", "higher"]
# First job of every window in a log, and the one after its last.
Stretches: TypeAlias = tuple[tuple[int, int], ...]

LEVEL: Final = 0.95
LEVEL_TEXT: Final = f"{LEVEL * 100:g} %"
_EQUAL: Final = 1e-24  # of a mean square: a smaller variance is that of rounding
_TIE: Final = 1e-9  # relative: averages of equal numbers may differ in their last bits


class Interval(NamedTuple):
    """Estimate and its interval; low and high are NaN if there is only one window."""

    value: float
    low: float
    high: float


class Estimate(NamedTuple):
    """Mean over windows, with what its interval needs.

    Attributes:
        value: The mean.
        error: Its standard error; NaN if there is only one window.
        degrees: Degrees of freedom of the standard error.
        skewness: Skewness of the mean, from that of the windows.
    """

    value: float
    error: float
    degrees: float
    skewness: float = 0.0

    @property
    def p_value(self) -> float:
        """Two-sided p-value of a mean of 0, below .05 if an interval of 95 % excludes 0."""
        if math.isnan(self.error):
            return math.nan
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        t, a = self.value / self.error, self.skewness
        hall = t + a * t**2 / 3.0 + a**2 * t**3 / 27.0 + a / 6.0
        return max(t_tails(t, self.degrees), t_tails(hall, self.degrees))

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the interval that ends at the farther of Student's ends and Hall's."""
        upper = _upper(level)
        if math.isnan(self.error):
            return Interval(self.value, math.nan, math.nan)
        quantile = t_quantile(upper, self.degrees)
        below = max(quantile, _hall(quantile, self.skewness))
        above = max(quantile, -_hall(-quantile, self.skewness))
        return Interval(self.value, self.value - below * self.error,
                        self.value + above * self.error)  # fmt: skip


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


def mean_interval(
    values: ArrayLike,
    *,
    trained: bool = False,
    stretches: Stretches | None = None,
    level: float = LEVEL,
) -> Interval:
    """Return the mean of one (runs, windows) table with its interval.

    Args:
        values: The table.
        trained: Whether the runs are training seeds; else they are averaged inside their window.
        stretches: Stretches of the log that windows count; None if windows share no jobs.
        level: Probability that the interval holds the mean.
    """
    return estimate(mean_cells(values, trained), stretches).interval(level)


def paired_difference(
    policy: ArrayLike,
    baseline: ArrayLike,
    *,
    trained: tuple[bool, bool] = (False, False),
    stretches: Stretches | None = None,
    level: float = LEVEL,
) -> Interval:
    """Return the mean of policy - baseline over the same windows, with its interval.

    policy (A, W) and baseline (B, W) may have different numbers of runs; every run of one is paired
    with every run of the other. `trained` says whose runs are training seeds. Raises ValueError if
    the numbers of windows differ.
    """
    return estimate(difference_cells(policy, baseline, *trained), stretches).interval(level)


def relative_difference(
    policy: ArrayLike, baseline: ArrayLike, *, level: float = LEVEL
) -> Interval:
    """Return mean(policy) / mean(baseline) - 1 over the same windows, with its interval.

    policy (A, W) and baseline (B, W) are averaged over their runs. The interval has all ratios r
    for which policy - r * baseline may have the mean 0 by Student's t (Fieller 1954). It is not
    corrected for skewness, so it can exclude 0 where that of `paired_difference` does not. Its
    ends are NaN where the mean of the baseline may be 0 itself. Raises ValueError if the numbers
    of windows differ, or if the baseline has a mean of 0.
    """
    first, second = (of.mean(axis=0) for of in _same_windows(policy, baseline))
    x, y, windows = float(first.mean()), float(second.mean()), len(first)
    if y == 0.0:
        raise ValueError("a difference relative to a mean of 0 is not defined")
    if windows < 2:
        return Interval(x / y - 1.0, np.nan, np.nan)
    spread = np.cov(first, second) * (t_quantile(_upper(level), windows - 1) ** 2 / windows)
    square, linear = y * y - float(spread[1, 1]), x * y - float(spread[0, 1])
    root = linear**2 - square * (x * x - float(spread[0, 0]))
    if square <= 0.0:
        return Interval(x / y - 1.0, np.nan, np.nan)
    half = math.sqrt(max(root, 0.0))
    return Interval(x / y - 1.0, (linear - half) / square - 1.0, (linear + half) / square - 1.0)


def autocorrelation(differences: ArrayLike, stretches: Stretches | None = None) -> float:
    """Return the lag-1 autocorrelation of differences (W,) in the order of their windows.

    NaN for fewer than three windows, or for equal differences.
    """
    values = np.asarray(differences, dtype=np.float64)
    if stretches is not None:
        values = values[np.argsort([first for first, _ in stretches], kind="stable")]
    apart = values - values.mean()
    square = float(apart @ apart)
    if len(apart) < 3 or square <= _EQUAL * float(values @ values):
        return math.nan
    return float(apart[1:] @ apart[:-1]) / square


def windows_of_half(differences: ArrayLike) -> int:
    """Return the fewest windows whose differences (W,) make half of the sum; 0 for a sum of 0."""
    values = np.asarray(differences, dtype=np.float64)
    total = float(values.sum())
    if abs(total) <= _EQUAL * float(np.abs(values).sum()):
        return 0
    carried = np.cumsum(np.sort(values * np.sign(total))[::-1])
    return int((carried < 0.5 * abs(total)).sum()) + 1


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


def tie_tolerance(policy: Array, baseline: Array) -> float:
    """Return the difference up to which two window averages count as equal, in the unit."""
    return _TIE * float(max(np.abs(policy).max(), np.abs(baseline).max()))


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


def mean_cells(values: ArrayLike, trained: bool = False) -> Array:
    """Return one table as cells (A, 1, W) for `estimate`."""
    return _cells(table(values)[:, None, :], trained)


def difference_cells(
    policy: ArrayLike,
    baseline: ArrayLike,
    policy_trained: bool = False,
    baseline_trained: bool = False,
) -> Array:
    """Return the differences policy - baseline of all pairs of runs as cells (A, B, W)."""
    first, second = _same_windows(policy, baseline)
    return _cells(first[:, None, :], policy_trained) - _cells(
        second[None, :, :], keep_b=baseline_trained
    )


def improvement_cells(
    policy: ArrayLike,
    baseline: ArrayLike,
    better: Better = "lower",
    tolerance: float = 0.0,
    policy_trained: bool = False,
    baseline_trained: bool = False,
) -> Array:
    """Return 1 per win, 1/2 per tie and 0 per loss of all pairs of runs, as cells (A, B, W).

    Their mean is the probability that a run of the policy beats a run of the baseline on a random
    window (the Mann-Whitney statistic within a window; Agarwal et al. 2021).
    """
    first, second = _same_windows(policy, baseline)
    gain = _gain(first[:, None, :] - second[None, :, :], better)
    won = np.where(gain > tolerance, 1.0, np.where(gain < -tolerance, 0.0, 0.5))
    return _cells(won, policy_trained, baseline_trained)


def estimate(cells: Array, stretches: Stretches | None = None) -> Estimate:
    """Return the mean of cells (A, B, W) and its standard error.

    An axis A or B longer than 1 has training seeds. Windows with `stretches` may share jobs.
    """
    windows, value = cells.shape[-1], float(cells.mean())
    if windows < 2:
        return Estimate(value, math.nan, math.nan)
    waves, scale = _waves(stretches) if stretches is not None else (None, 1.0)

    def variance(of: Array) -> float:
        """Return the variance of the mean over windows, summed over the rows of (n, W)."""
        squares = of.var(axis=1, ddof=1) if waves is None else ((of @ waves) ** 2).mean(axis=1)
        return float(squares.sum() * scale / windows)

    by_window, freedom = cells.mean(axis=(0, 1)), windows - 1 if waves is None else waves.shape[1]
    of_windows = variance(by_window[None])
    parts = [(of_windows, freedom)]  # variances, and their degrees of freedom
    for seeds in (cells.mean(axis=1), cells.mean(axis=0)):  # (A, W), (B, W)
        count = len(seeds)
        if count < 2:
            continue
        of_seeds = float(seeds.mean(axis=1).var(ddof=1)) / count
        noise = variance(seeds - by_window) / (count - 1) / count
        if of_seeds > noise:
            parts += [(of_seeds, count - 1), (-noise, (count - 1) * freedom)]
    total = math.fsum(part for part, _ in parts)
    if total <= _EQUAL * float(np.square(cells).mean()):
        return Estimate(value, 0.0, float(freedom))
    degrees = total**2 / math.fsum(part**2 / of for part, of in parts)
    skewness = skewness_of(by_window) * (of_windows / total) ** 1.5 / math.sqrt(freedom + 1)
    degrees = max(round(degrees, 1), 1.0)  # rounded, so that few quantiles have to be computed
    return Estimate(value, math.sqrt(total), degrees, skewness)


@lru_cache(maxsize=16)
def _waves(stretches: Stretches) -> tuple[Array | None, float]:
    """Return cosines (W, K) that windows are projected on, and the factor of their mean square.

    No cosines if no two windows share a job.
    """
    windows = len(stretches)
    first, stop = np.asarray(stretches, dtype=np.float64).T
    order = np.argsort(first, kind="stable")
    first, stop = first[order], stop[order]
    length, reach = stop - first, np.maximum.accumulate(stop)
    covered = reach[-1] - first[0] - np.maximum(first[1:] - reach[:-1], 0.0).sum()
    if covered == length.sum():
        return None, 1.0
    count = min(max(round(float(covered / length.mean()) - 1.0), 1), windows - 1)
    angle = np.pi / windows * np.multiply.outer(np.arange(windows) + 0.5, np.arange(1, count + 1))
    waves = math.sqrt(2.0 / windows) * np.cos(angle)
    shared = np.minimum.outer(stop, stop) - np.maximum.outer(first, first)
    common = np.maximum(shared, 0.0) / np.sqrt(np.multiply.outer(length, length))
    seen = float((waves * (common @ waves)).sum()) / count
    place = np.argsort(order)
    return waves[place], windows * float(common.mean()) / seen


def _hall(quantile: float, skewness: float) -> float:
    """Return the t that Hall's transformation for a skewness maps to a quantile."""
    if abs(skewness) < 1e-9:
        return quantile
    moved = 1.0 + skewness * (quantile - skewness / 6.0)
    return 3.0 / skewness * (float(np.cbrt(moved)) - 1.0)


def skewness_of(values: Array) -> float:
    """Return the skewness of a sample, corrected for its size; 0 for fewer than three values."""
    count, apart = len(values), values - values.mean()
    square = float((apart**2).mean())
    if count < 3 or square <= 0.0:
        return 0.0
    bias = math.sqrt(count * (count - 1)) / (count - 2)
    return float(bias * (apart**3).mean() / square**1.5)


def _cells(cells: Array, keep_a: bool = False, keep_b: bool = False) -> Array:
    """Return (A, B, W) with every axis of runs that is not kept averaged to length 1."""
    cells = cells if keep_a else np.asarray(cells.mean(axis=0, keepdims=True))
    return cells if keep_b else np.asarray(cells.mean(axis=1, keepdims=True))


def _gain(difference: Array, better: Better) -> Array:
    return -difference if better == "lower" else difference


def _same_windows(policy: ArrayLike, baseline: ArrayLike) -> tuple[Array, Array]:
    first, second = table(policy), table(baseline)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"paired tables need the same windows, got {first.shape[1]} and {second.shape[1]}"
        )
    return first, second


def _upper(level: float) -> float:
    """Return the probability below the upper end of an interval."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"expected a confidence level between 0 and 1, got {level}")
    return (1.0 + level) / 2.0
