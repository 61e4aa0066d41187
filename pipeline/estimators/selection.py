"""Metrics of the selection of policies by estimates, given the true values.

    estimated, true   (P,) values of the same P policies, higher is better

Rank correlation, regret@k, SharpeRatio@k (Kiyohara et al. 2024, "Towards Assessing and Benchmarking
Risk-Return Tradeoff of Off-Policy Evaluation", equation 4) and the two error rates of the test "is
this policy better than the reference?".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """All metrics of one estimator over a set of policies.

    Attributes:
        policies: Number of policies.
        rank_correlation: Spearman's rank correlation, ties with their mean rank; NaN if either side
            is constant.
        regret: regret@k by k, in the unit of the return, 0 or more.
        sharpe: SharpeRatio@k by k.
        type_1: Type I error rate against the reference; NaN if no policy can be misjudged so.
        type_2: Type II error rate against the reference; NaN if no policy can be misjudged so.
    """

    policies: int
    rank_correlation: float
    regret: dict[int, float]
    sharpe: dict[int, float]
    type_1: float
    type_2: float


def assess(
    estimated: ArrayLike,
    true: ArrayLike,
    *,
    behaviour: float,
    reference: int | None = None,
    ks: tuple[int, ...] = (1, 3),
) -> Selection:
    """Return all metrics of the estimates.

    `behaviour` is the log's mean return and `reference` the index of the best heuristic. Policies
    whose estimate is NaN are ranked last. Raises ValueError for arrays of different lengths.
    """
    estimates, truth = _pair(np.nan_to_num(np.asarray(estimated, float), nan=-np.inf), true)
    used_ks = [k for k in ks if k <= len(truth)]
    errors = (
        (float("nan"), float("nan"))
        if reference is None or len(truth) == 1  # nothing to compare with the reference
        else error_rates(np.delete(estimates, reference), np.delete(truth, reference),
                         estimated_reference=float(estimates[reference]),
                         true_reference=float(truth[reference]))
    )  # fmt: skip
    return Selection(
        policies=len(truth),
        rank_correlation=rank_correlation(estimates, truth),
        regret={k: regret_at(estimates, truth, k) for k in used_ks},
        sharpe={k: sharpe_ratio_at(estimates, truth, k, behaviour) for k in used_ks},
        type_1=errors[0],
        type_2=errors[1],
    )


def ranks(values: ArrayLike) -> Array:
    """Return ranks 1..P; ties share their mean rank."""
    array = np.asarray(values, np.float64)
    _unique, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse], np.float64)


def rank_correlation(estimated: ArrayLike, true: ArrayLike) -> float:
    """Return Spearman's rank correlation (Pearson's of ranks); NaN if a side is constant."""
    first, second = (ranks(side) for side in _pair(estimated, true))
    first, second = first - first.mean(), second - second.mean()
    size = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / size) if size > 0.0 else float("nan")


def top(estimated: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return the indices of the k highest estimates, highest first; among equal ones the earlier.

    Raises ValueError if k is not one of 1..P.
    """
    array = np.asarray(estimated, np.float64)
    if not 1 <= k <= len(array):
        raise ValueError(f"k is {k}, expected 1 to {len(array)}")
    return np.argsort(-array, kind="stable")[:k]


def best_of_first(
    estimated: ArrayLike, true: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the policies in the order of their estimates, and the best of the first k of them.

    The second (P,) has the policy of the highest true value among the first 1, 2, ..., P: what is
    known after as many trials.
    """
    estimates, truth = _pair(estimated, true)
    order = top(estimates, len(truth))
    reached = np.maximum.accumulate(truth[order])
    leads = np.concatenate([[True], reached[1:] > reached[:-1]])
    return order, order[np.maximum.accumulate(np.where(leads, np.arange(len(order)), 0))]


def regret_at(estimated: ArrayLike, true: ArrayLike, k: int) -> float:
    """Return the best true value of all, minus the best among the k highest estimates."""
    estimates, truth = _pair(estimated, true)
    return float(truth.max() - truth[top(estimates, k)].max())


def sharpe_ratio_at(estimated: ArrayLike, true: ArrayLike, k: int, behaviour: float) -> float:
    """Return (best true value of the k picked - behaviour's) / deviation of the k true values.

    The ratio is the gain of trying the k picked policies online, over the risk of doing so. If the
    deviation is zero (one policy, or equal ones), the ratio is infinite with the sign of the gain,
    or NaN if the gain is zero too.
    """
    estimates, truth = _pair(estimated, true)
    picked = truth[top(estimates, k)]
    gain, risk = float(picked.max() - behaviour), float(picked.std())
    if risk > 0.0:
        return gain / risk
    return float("nan") if gain == 0.0 else float(np.copysign(np.inf, gain))


def error_rates(
    estimated: ArrayLike,
    true: ArrayLike,
    *,
    estimated_reference: float,
    true_reference: float,
) -> tuple[float, float]:
    """Return the type I and type II error rates of the verdict "better than the reference".

    Type I: the share called better among the policies that are not better. Type II: the share not
    called better among the policies that are better. A rate is NaN if its set of policies is empty.
    """
    estimates, truth = _pair(estimated, true)
    better, called = truth > true_reference, estimates > estimated_reference
    return _share(called[~better]), _share(~called[better])


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else float("nan")


def _pair(estimated: ArrayLike, true: ArrayLike) -> tuple[Array, Array]:
    first, second = np.asarray(estimated, np.float64), np.asarray(true, np.float64)
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise ValueError(
            f"expected two arrays of one length, got shapes {first.shape} and {second.shape}"
        )
    return first, second
