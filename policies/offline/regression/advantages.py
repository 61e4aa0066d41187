"""Advantages of logged choices by least squares: the worth of a choice beyond its alternatives.

    G_t    discounted return to go,   b_t(c) the logged probabilities
    z_t    = phi(choice_t) - sum over c of b_t(c) phi(c)
    theta  = argmin  sum over t of (G_t - v . x_t - theta . z_t)^2 + ridge * D |theta|^2      with v
    f(c)   = theta . phi(c)

x_t is a baseline: the context, the step and its root. Given the observation, z_t has mean zero
under the behaviour for any f. A bad baseline therefore costs variance and does not bias theta: the
log's propensities do the work of a critic. f is the advantage, over the behaviours' mixture, of
choosing c now and then following the behaviours, as far as it is linear in phi. Its first choice is
one step of policy improvement. Further rounds, which also choose by f later on, replace G by

    r_t + gamma_t * (Y_(t+1) + max over c of f(c) - f(choice_(t+1)))

This adds up the shortfalls of later choices without any value of a state. Each round is one pass
over the log with sums of products: no step size, no draw, and memory that does not grow with the
log.

Sources: Robinson, "Root-N-Consistent Semiparametric Regression", Econometrica 1988; Murphy,
"Optimal Dynamic Treatment Regimes", JRSS B 2003 (regrets added back, as in the rounds); Nie &
Wager, "Quasi-Oracle Estimation of Heterogeneous Treatment Effects", Biometrika 2021.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.statistics.returns import discounted_sums, step_discounts
from hindcast.policies.networks.features import FeatureMap
from hindcast.policies.training.episode_stream import EpisodeChunk, EpisodeStream

Array = NDArray[np.float64]

_BASELINE_RIDGE: Final = 1e-6  # for context columns that are linearly dependent


@dataclass(frozen=True)
class AdvantageSettings:
    """Settings of the fit of advantages; invalid settings raise RecipeError.

    Attributes:
        discount: Discount of later rewards, per decision or per second, 0 to 1.
        discount_per: Unit of the discount: "decision" or "second".
        ridge: Penalty per decision, above 0, for columns of phi with deviation 1.
        share: Share of the episodes to learn from, above 0, at most 1. Behaviours are taken whole,
            the best inside their windows first, until they hold that share. Selecting episodes by
            their outcome instead would invalidate the comparison inside a decision.
        rounds: Number of rounds, at least 1. One round improves the current choice and then follows
            the behaviours; more rounds improve later choices too.
    """

    discount: float = number(0.95, "from 0 to 1")
    discount_per: Literal["decision", "second"] = "decision"
    ridge: float = number(0.1, "above 0")
    share: float = number(1.0, "above 0, at most 1")
    rounds: int = number(1, "from 1 to 1,000,000")

    def __post_init__(self) -> None:
        check_ranges(self, "advantage")


@dataclass(frozen=True)
class Maps:
    """Feature maps of a decision: phi of candidates, context of the baseline, longest episode."""

    candidates: FeatureMap
    context: FeatureMap
    longest: int

    def contrasts(self, chunk: EpisodeChunk) -> NDArray[np.float32]:
        """Return the z_t, (D, E)."""
        phi = self.candidates.expand(chunk.candidates)
        expected = np.add.reduceat(chunk.probabilities[:, None] * phi, chunk.offsets[:-1])
        contrasts: NDArray[np.float32] = phi[chunk.chosen] - expected
        return contrasts

    def baseline(self, chunk: EpisodeChunk) -> NDArray[np.float32]:
        """Return the x_t, (D, C + 3)."""
        elapsed = (chunk.step / max(self.longest, 1)).astype(np.float32)
        moment = self.context.expand(chunk.context)
        return np.column_stack([moment, elapsed, np.sqrt(elapsed), np.ones_like(elapsed)])


@dataclass(frozen=True)
class Solution:
    """The least-squares fit over a log.

    Attributes:
        theta: (E,) coefficients of the advantages.
        v: (C + 3,) coefficients of the baseline.
        spread: Deviation of theta . z over the logged choices.
        r2: Share of the variance left by the baseline that theta explains.
    """

    theta: Array
    v: Array
    spread: float
    r2: float


def to_go(chunk: EpisodeChunk, settings: AdvantageSettings, gains: Array | None = None) -> Array:
    """Return the discounted return of each decision, (D,), plus the `gains` (D,) of later ones."""
    per_second = settings.discount_per == "second"
    share = step_discounts(chunk.elapsed_s, settings.discount, per_second=per_second)
    if gains is None:
        return discounted_sums(chunk.episode, chunk.reward, share)
    return discounted_sums(chunk.episode, chunk.reward + gains, share) - gains


def shortfalls(chunk: EpisodeChunk, maps: Maps, theta: Array) -> Array:
    """Return f of the best candidate minus f of the logged choice, (D,)."""
    f = maps.candidates.expand(chunk.candidates) @ theta.astype(np.float32)
    best = np.maximum.reduceat(f, chunk.offsets[:-1])
    return np.asarray(best - f[chunk.chosen], np.float64)


def fit_advantages(
    log: EpisodeStream,
    kept: NDArray[np.bool_],
    maps: Maps,
    settings: AdvantageSettings,
    previous: Array | None = None,
) -> Solution:
    """Fit one round over the `kept` (E,) episodes; `previous` is theta of the round before."""
    e = maps.candidates.size
    size = e + maps.context.size + 3
    products, right, square, count = np.zeros((size, size)), np.zeros(size), 0.0, 0
    for chunk in log.chunks(kept):
        gains = None if previous is None else shortfalls(chunk, maps, previous)
        y = to_go(chunk, settings, gains)
        x = np.column_stack([maps.contrasts(chunk), maps.baseline(chunk)]).astype(np.float64)
        products += x.T @ x
        right += x.T @ y
        square += float(y @ y)
        count += len(y)
    if count == 0:
        raise DatasetError("the episodes of the best behaviours have no decisions")
    penalty = np.full(size, _BASELINE_RIDGE * count)
    penalty[:e] = settings.ridge * count
    solved: Array = np.asarray(np.linalg.solve(products + np.diag(penalty), right), np.float64)
    baseline_only = np.where(np.arange(size) < e, 0.0, solved)
    error, without = (
        square - 2.0 * float(w @ right) + float(w @ products @ w) for w in (solved, baseline_only)
    )
    theta = solved[:e]
    spread = float(np.sqrt(max(float(theta @ products[:e, :e] @ theta), 0.0) / count))
    return Solution(theta, solved[e:], spread, _explained(error, without))


def explained(
    log: EpisodeStream,
    kept: NDArray[np.bool_],
    maps: Maps,
    settings: AdvantageSettings,
    solution: Solution,
    previous: Array | None = None,
) -> float:
    """Return Solution.r2 on another log; NaN if none of its episodes is kept."""
    error = without = 0.0
    for chunk in log.chunks(kept):
        gains = None if previous is None else shortfalls(chunk, maps, previous)
        residual = to_go(chunk, settings, gains) - maps.baseline(chunk) @ solution.v
        without += float(residual @ residual)
        error += float(np.sum((residual - maps.contrasts(chunk) @ solution.theta) ** 2))
    return _explained(error, without)


def _explained(error: float, without: float) -> float:
    return 1.0 - error / without if without > 0.0 else float("nan")
