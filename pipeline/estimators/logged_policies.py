"""The policies of a log as points in a space, and a Gaussian process over their scores.

    logged policy    0   1   2   3   0   1   4   5       policies of the episodes, (N,)
    window           7   7   7   7   8   8   8   8
    return         -90 -20 -35 -60 -80 -10 -15 -70
    score          -1.2 1.2 .3 -.3 -1.2 1.2 .3 -.3       normal score of the rank in the window

The score of an episode compares it with the other episodes of its window and nothing else. Ranks
take out the window and the scale of returns, which a few disastrous policies would otherwise set.

    cov(f(i), f(j)) = s^2 * exp(-d_ij / l)      mean score of policy i = m + f(i) + noise / n_i

d is a squared distance between the choices of two policies and n_i the number of episodes of
policy i. Length l and noise are the pair of a grid with the highest likelihood of the log's own
scores, where s and m are at their maximum (ordinary kriging; Rasmussen & Williams 2006, sections
2.7 and 5.4).
"""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.selection import ranks

Array = NDArray[np.float64]

_LENGTHS: Final = tuple(2.0 ** (0.5 * k) for k in range(-6, 9))  # times the median distance
_NOISES: Final = tuple(2.0**k for k in range(-8, 4))  # times s^2
_JITTER: Final = 1e-9


@dataclass(frozen=True)
class LoggedPolicies:
    """P policies of N logged episodes, as points with squared distances.

    The episodes may be more than those that an estimator weights: also episodes of other splits
    show how policies compare. Raises InputError for arrays of other lengths.

    Attributes:
        distance: (P, P) squared distances between the policies, 0 or more.
        policy: (N,) int64, index of the policy of every episode.
        window: (N,) int64, window of every episode.
        returns: (N,) returns of the episodes.
    """

    distance: Array
    policy: NDArray[np.int64]
    window: NDArray[np.int64]
    returns: Array

    def __post_init__(self) -> None:
        n, p = len(self.returns), len(self.distance)
        if self.distance.shape != (p, p) or len(self.policy) != n or len(self.window) != n:
            raise InputError(
                "logged policies: distances must be square, and arrays of episodes of one length"
            )
        if n == 0 or not np.array_equal(np.unique(self.policy), np.arange(p)):
            raise InputError("logged policies: every policy needs an episode")

    @cached_property
    def counts(self) -> Array:
        """Number of episodes of every policy, (P,)."""
        return np.bincount(self.policy).astype(np.float64)

    @cached_property
    def scores(self) -> Array:
        """Normal score of every episode's rank among the episodes of its window, (N,)."""
        scores = np.empty(len(self.returns))
        for window in np.unique(self.window):
            members = self.window == window
            scores[members] = normal_scores(ranks(self.returns[members]))
        return scores

    @cached_property
    def fitted(self) -> tuple[float, Array]:
        """Length l, and the inverse (P, P) of the covariance over s^2, noise included."""
        means = np.bincount(self.policy, self.scores) / self.counts
        distances = self.distance[self.distance > 0.0]
        scale = float(np.median(distances)) if len(distances) else 1.0
        best, length, inverse = -np.inf, scale, np.eye(len(means))
        for factor in _LENGTHS:
            similarity = np.exp(-self.distance / (factor * scale))
            for noise in _NOISES:
                covariance = similarity + np.diag(noise / self.counts + _JITTER)
                likelihood = _log_likelihood(covariance, means)
                if likelihood > best:
                    best, length = likelihood, factor * scale
                    inverse = np.linalg.inv(covariance)
        return length, inverse

    def take(self, keep: NDArray[np.bool_]) -> "LoggedPolicies":
        """Return the policies where `keep` (P,) is True, with their episodes."""
        of_episodes = keep[self.policy]
        return LoggedPolicies(
            self.distance[np.ix_(keep, keep)], (np.cumsum(keep) - 1)[self.policy[of_episodes]],
            self.window[of_episodes], self.returns[of_episodes],
        )  # fmt: skip

    def weights(self, distance: Array) -> tuple[Array, float]:
        """Return weights (N,) of episodes, and the similarity to the nearest policy, 0 to 1.

        The sum of the weights is 1, and the weighted sum of the scores is the expected score of a
        policy at the distances (P,). Weights of policies behind a nearer one can be negative.
        """
        length, inverse = self.fitted
        similarity = np.exp(-distance / length)
        kriging, ones = inverse @ similarity, inverse.sum(axis=1)
        of_policies = kriging + (1.0 - kriging.sum()) * ones / ones.sum()
        return (of_policies / self.counts)[self.policy], float(similarity.max())


def normal_scores(positions: Array) -> Array:
    """Return the normal quantiles of ranks 1..n, each at (rank - 1/2) / n."""
    quantile = NormalDist().inv_cdf
    return np.array([quantile((rank - 0.5) / len(positions)) for rank in positions])


def _log_likelihood(covariance: Array, means: Array) -> float:
    """Return the log-likelihood of mean scores (P,), with mean and scale at their maximum."""
    factor = np.linalg.cholesky(covariance)
    solved = np.linalg.solve(factor, np.column_stack([means, np.ones(len(means))]))
    residual = (
        solved[:, 0] - (solved[:, 0] @ solved[:, 1]) / (solved[:, 1] @ solved[:, 1]) * solved[:, 1]
    )
    size = max(float(residual @ residual) / len(means), 1e-12)
    return float(-0.5 * len(means) * np.log(size) - np.log(np.diag(factor)).sum())
