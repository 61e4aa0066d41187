"""Prices of coming slots from a log alone, by regression of outcomes on drawn prices.

    episode     of `random_prices`, with its drawn weights w (12,), in units of the draws
    y           its return less the mean return of these episodes on the same window
    surface     y ~ b + g . w + sum over i <= j of h_ij (w_i w_j - [i = j])     ridge regression
    weights     the maximum of the surface at a distance of at most `radius` from 0

One episode is one observation. All of its decisions had the same prices, so no credit is assigned
to single decisions. The surface has 91 coefficients: 2,000 episodes gave prices that are hardly
better than the best rule, 4,000 gave a third of what playing finds
(hindcast.flows.papers.prices.agent).

Source: see hindcast.policies.offline.regression.surface. The agent is ours.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from hindcast.flows.papers.prices.network import PricesNetwork, PricesSettings, prices_network
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.policies.heuristics.prices import RANDOM_PRICES, STEP, WEIGHTS
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.settings import Weights
from hindcast.policies.offline.regression.surface import Array, surface_learner
from hindcast.policies.online.evolution import as_weights
from hindcast.policies.training.learner import Learner, Task

_PAIRS: Final = np.triu_indices(WEIGHTS)
_COEFFICIENTS: Final = 1 + WEIGHTS + len(_PAIRS[0])
_HALVINGS: Final = 100  # of the interval that holds the multiplier


@dataclass(frozen=True)
class Config:
    """Settings of `price_surface`.

    Attributes:
        radius: Largest length of the weights in units of the draws, above 0.
        ridge: Penalty of the regression, above 0.
    """

    radius: float = number(4.0, "above 0")
    ridge: float = number(1000.0, "above 0")

    def __post_init__(self) -> None:
        check_ranges(self)


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`.

    Raises DatasetError for a log without episodes of random_prices.
    """
    w, y, level = observations(task.decisions)
    network = _network(task, level)
    held_out = None
    if task.validation is not None:
        other_w, other_y, _ = observations(task.validation, required=False)
        held_out = design(other_w), other_y

    def weights(surface: Array) -> Weights:
        return as_weights(network, STEP * optimum(surface, config.radius))

    return surface_learner(network, (design(w), y), held_out, config.ridge, weights, task.seed)


def _network(task: Task, level: float) -> PricesNetwork:
    """Return the network whose level is that of the log."""
    plain = prices_network(PricesSettings(), task.spec.context, task.spec.candidates)
    rows = np.zeros((1, len(task.spec.context)))
    rows[0, 0] = level
    return replace(plain, context=fit_map(task.spec.context, (0,), quadratic=False, rows=rows))


def observations(decisions: Decisions, *, required: bool = True) -> tuple[Array, Array, float]:
    """Return the drawn weights (E, 12) in units of the draws, the values y (E,), and the level.

    Raises DatasetError if there are fewer episodes than twice the coefficients, if `required`.
    """
    named = pl.col("behaviour").str.split("+").list.first() == RANDOM_PRICES.name
    found = decisions.episodes.filter(named)
    if required and len(found) < 2 * _COEFFICIENTS:
        raise DatasetError(
            f"price_surface: the log has {len(found)} episodes of {RANDOM_PRICES.name}, expected "
            f"at least {2 * _COEFFICIENTS}, twice the coefficients of the surface; add a behaviour "
            f'with policy = "{RANDOM_PRICES.name}" to the recipe, with more episodes'
        )
    if not len(found):
        return np.empty((0, WEIGHTS)), np.empty(0), 0.0
    total = pl.col("return")
    y = found.select(total - total.mean().over("window")).to_series().to_numpy()
    drawn = np.array(found["behaviour_parameters"].to_list(), np.float64)
    return drawn[:, 1:] / STEP, y.astype(np.float64), float(drawn[0, 0])


def design(w: Array) -> Array:
    """Return the columns of the surface: 1, w (12,), and the products of two weights (78,)."""
    i, j = _PAIRS
    return np.column_stack([np.ones(len(w)), w, w[:, i] * w[:, j] - (i == j)])


def optimum(surface: Array, radius: float) -> Array:
    """Return the weights (12,) of at most length `radius` at which a surface (91,) is highest.

    They solve (m I - H) w = g with the gradient g at 0 and the Hessian H, and with the smallest
    multiplier m >= 0 that leaves the surface concave and the weights inside the ball. Along a
    direction in which the gradient is exactly 0 the weights are 0, even if the surface rises to
    both sides.
    """
    slope, quadratic = surface[1 : WEIGHTS + 1], np.zeros((WEIGHTS, WEIGHTS))
    quadratic[_PAIRS] = surface[WEIGHTS + 1 :]
    values, vectors = np.linalg.eigh(quadratic + quadratic.T)  # the Hessian
    along = vectors.T @ slope

    def at(multiplier: float) -> Array:
        gap = np.maximum(multiplier - values, 1e-12)
        return np.where(along == 0.0, 0.0, along / gap)

    low = max(0.0, float(values[-1]))
    if low == 0.0 and np.linalg.norm(at(low)) <= radius:
        return np.asarray(vectors @ at(low))
    high = low + float(np.linalg.norm(slope)) / radius
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.linalg.norm(at(middle)) > radius else (low, middle)
    return np.asarray(vectors @ at(high))
