"""Anchors of the normalised score: what `random` and the best policy without learning reach.

    datasets/anchors.csv   one row per problem and its test windows
      windows              digest of the problem and the windows
      recipes              recipes that come with Hindcast and have these windows, with spaces
      count                number of windows
      metric, better       headline outcome, "lower" or "higher"
      random, draws        mean of `random`, and how often it drew in each window
      best, best_mean      the policy with the best mean of all that did not learn, looking ahead
                           included, in the committed tables of results; and that mean
      bound                mean of the bound; empty where there is none
      objective            of the returns
      random_return, best_return   means of the undiscounted return; empty if it was not played

    score = (mean - random) / (best_mean - random)

The protocol, the column `score` of reports, the leaderboard and the reference scores of Minari are
made from this file. `python -m docs.generate.anchors` writes it.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.summary.evaluations import Evaluation
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.problem import windows_key
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.scenarios import load_scenario

FILE: Final = "anchors.csv"
_SHOWN: Final = "foresight"  # this setting and those of Scenario.added only add columns


@dataclass(frozen=True)
class Anchor:
    """A row of the file, see the module; numbers that are not known are None."""

    windows: str
    recipes: tuple[str, ...]
    count: int
    metric: str
    better: str
    random: float
    draws: int
    best: str
    best_mean: float
    bound: float | None
    objective: str
    random_return: float | None
    best_return: float | None

    def score(self, mean: float) -> float:
        """Return the normalised score of a mean of the metric."""
        return (mean - self.random) / (self.best_mean - self.random)


COLUMNS: Final = tuple(one.name for one in fields(Anchor))


def windows_of(recipe: Recipe, split: str = "test") -> str:
    """Return the digest of problem and windows, whichever columns the recipe's settings add."""
    added = {_SHOWN, *load_scenario(recipe.scenario).added.values()}
    known = {name: False for name in added if hasattr(recipe.config, name)}
    return windows_key(replace(recipe, config=replace(recipe.config, **known)), split)


def anchor_of(recipe: Recipe, split: str = "test") -> Anchor | None:
    """Return the anchor of a recipe's windows; None if the file has none."""
    return anchors().get(windows_of(recipe, split))


def anchor_of_evaluation(evaluation: Evaluation) -> Anchor | None:
    """Return the anchor of the windows of an evaluation; None if the file has none."""
    try:
        recipe = parse_recipe(evaluation.settings, str(evaluation.folder))
        return anchor_of(recipe, evaluation.split)
    except (InputError, KeyError, TypeError):  # an older evaluation, or one without its plug-in
        return None


@cache
def anchors() -> Mapping[str, Anchor]:
    """Return all anchors by the digest of their windows."""
    path = recipe_folder() / FILE
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["windows"]: _anchor(row) for row in csv.DictReader(file)}


def _anchor(row: Mapping[str, str]) -> Anchor:
    number = {
        name: float(row[name]) if row[name] else None
        for name in ("bound", "random_return", "best_return")
    }
    return Anchor(
        windows=row["windows"], recipes=tuple(row["recipes"].split()), count=int(row["count"]),
        metric=row["metric"], better=row["better"], random=float(row["random"]),
        draws=int(row["draws"]), best=row["best"], best_mean=float(row["best_mean"]),
        bound=number["bound"], objective=row["objective"], random_return=number["random_return"],
        best_return=number["best_return"],
    )  # fmt: skip
