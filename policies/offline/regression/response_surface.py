"""Response surface: the best weights of a linear priority around a rule, by regression on episodes.

    episode     of `around_RULE`, with its drawn weights w (F,), standard normal per column
    y           its headline outcome less the median of these episodes on the same window, more is
                better; a lower value than minus the upper decile counts as that
    surface     y ~ b + g . w + h . (w^2 - 1)            ridge regression
    weights     the maximum of the surface in each column, at distance `radius` from the rule
    score       STRENGTH * rank by the rule + the priority with these weights

One episode is one observation. All of its choices had the same weights, so no credit is assigned to
single choices. A few hundred episodes were enough for 35 columns of `multicluster`. Values are
limited because many draws do badly, and their outcomes are heavy-tailed.

Source: see hindcast.policies.offline.regression.surface.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.heuristics.around import PREFIX, STRENGTH
from hindcast.policies.networks.settings import NetworkSettings, Weights, make_network
from hindcast.policies.offline.regression.surface import Array, surface_learner
from hindcast.policies.training.learner import Learner, Task

_BEST: Final = 0.9  # quantile of the values whose negative is the lowest value
_FLAT: Final = 0.5  # quantile of the curvatures that counts as the smallest


@dataclass(frozen=True)
class Config:
    """Settings of the response surface; RecipeError for a network that is not a linear score.

    Attributes:
        network: Scorer of the candidate: linear, without squares, with one rule, the RULE.
        radius: Length of the weights in units of the draws, above 0.
        ridge: Penalty of the regression, above 0.
    """

    network: NetworkSettings = field(default_factory=lambda: NetworkSettings(quadratic=False))
    radius: float = number(6.0, "above 0")
    ridge: float = number(1.0, "above 0")

    def __post_init__(self) -> None:
        check_ranges(self)
        shape = self.network
        linear = shape.kind == "mlp" and not (shape.hidden or shape.quadratic or shape.context)
        if not linear or shape.image or shape.columns or not shape.logs:
            raise RecipeError(
                "response_surface: network has other inputs than the candidate's features and "
                "their logarithms; expected a linear score without quadratic"
            )


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`.

    Raises RecipeError without a rule, and DatasetError for a log without episodes around it.
    """
    rule = _rule_of(task, config)
    train = observations(_episodes(task, "train"), rule, task.spec)
    held_out = observations(_episodes(task, "validation"), rule, task.spec, required=False)
    network = make_network(
        task.spec.context, task.spec.candidates, config.network, scenario=task.spec.scenario
    )

    def weights(surface: Array) -> Weights:
        layer = np.zeros(network.shapes["layer0.weight"], np.float32)
        layer[0] = priority(optimum(surface, config.radius), task.spec)
        return {"layer0.weight": layer, "layer0.bias": np.zeros(1, np.float32)}

    return surface_learner(
        network, (design(train[0]), train[1]), (design(held_out[0]), held_out[1]), config.ridge,
        weights, task.seed,
    )  # fmt: skip


def _rule_of(task: Task, config: Config) -> str:
    behaviours = _episodes(task, "train")["behaviour"].unique().sort().to_list()
    around = [name for name in behaviours if name.startswith(PREFIX)]
    if len(config.network.rules) != 1:
        raise RecipeError(
            "response_surface: network.rules is "
            f"{list(config.network.rules)}, expected the one rule of the episodes around it; the "
            f"log has {', '.join(around) or 'no such episodes'}"
        )
    return config.network.rules[0]


def _episodes(task: Task, split: str) -> pl.DataFrame:
    """Return the episodes of a split, of the whole log if it is there."""
    if task.logs is not None:
        log = task.logs.train if split == "train" else task.logs.validation
        return pl.DataFrame() if log is None else log.episodes
    decisions = task.decisions if split == "train" else task.validation
    return pl.DataFrame() if decisions is None else decisions.episodes


def observations(
    episodes: pl.DataFrame, rule: str, spec: Spec, *, required: bool = True
) -> tuple[Array, Array]:
    """Return the drawn weights (E, F) of episodes around a rule and their values y (E,).

    Raises DatasetError if there are fewer episodes than twice the weights, if `required`.
    """
    columns = len(spec.learned_candidates)
    chosen = episodes
    if len(episodes):
        is_chosen = pl.col("behaviour").str.split("+").list.first() == f"{PREFIX}{rule}"
        chosen = episodes.filter(is_chosen)
    if required and len(chosen) < 2 * columns:
        raise DatasetError(
            f"response_surface: the log has {len(chosen)} episodes of {PREFIX}{rule}, expected at "
            f"least {2 * columns}, twice the weights that are drawn; add a behaviour with policy = "
            f'"{PREFIX}{rule}" to the recipe'
        )
    if not len(chosen):
        return np.empty((0, columns)), np.empty(0)
    headline = spec.outcomes[0]
    sign = 1.0 if headline.better == "higher" else -1.0
    value = sign * pl.col(headline.name)
    y = chosen.select(value - value.median().over("window")).to_series().to_numpy()
    drawn = np.array(chosen["behaviour_parameters"].to_list()).reshape(len(chosen), columns, 3)
    limit = float(np.quantile(y, _BEST))
    return drawn[:, :, 2] * _units(spec), np.maximum(y, -limit)


def _units(spec: Spec) -> Array:
    """Return factors (F,) that make the drawn weights standard normal."""
    features = [spec.candidates[column] for column in spec.learned_candidates]
    return np.array([1.0 if feature.heavy_tailed else feature.scale for feature in features])


def design(w: Array) -> Array:
    """Return the columns of the surface: 1, w (F,) and w^2 - 1 (F,)."""
    return np.column_stack([np.ones(len(w)), w, w**2 - 1.0])


def optimum(surface: Array, radius: float) -> Array:
    """Return the weights (F,) of length `radius` towards the maximum of the surface.

    A column whose curvature is small or has the wrong sign counts as having the median curvature.
    """
    columns = len(surface) // 2
    slope, curvature = surface[1 : columns + 1], -surface[columns + 1 :]
    floor = max(float(np.quantile(np.abs(curvature), _FLAT)), 1e-12)
    towards = slope / (2.0 * np.maximum(curvature, floor))
    length = float(np.linalg.norm(towards))
    return towards * (radius / length) if length > 0.0 else towards


def priority(w: Array, spec: Spec) -> Array:
    """Return weights of the inputs of a linear scorer with one rule, from weights w (F,).

    The inputs are the columns, choice and rank of the rule, and logarithms of heavy-tailed columns.
    """
    heavy = np.array([spec.candidates[c].heavy_tailed for c in spec.learned_candidates])
    linear = w / _units(spec)
    return np.concatenate([np.where(heavy, 0.0, linear), [0.0, STRENGTH], linear[heavy]])
