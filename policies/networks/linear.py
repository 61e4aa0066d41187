"""Weights of linear networks in the raw features, with which anybody can compute their scores.

    score = constant + sum of weight * value

The standardisation of the network's inputs is folded in: the weight of an input is divided by its
deviation, and the mean is in the constant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.decisions.encoding import REST
from hindcast.pipeline.decisions.live.description import LOG, SIDES, Description, read_description
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.toml import table_toml
from hindcast.pipeline.storage import files
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.checkpoint import read_description as read_checkpoint
from hindcast.policies.networks.features import FeatureMap, input_names
from hindcast.policies.networks.policy import LearnedPolicy

Array = NDArray[np.float64]

_SCORE: Final = (
    "The score of a candidate is `constant` plus the sum of weight x value over all tables below; "
    "what is not in them has the weight 0. The feasible candidate with the highest score is "
    "chosen, the first of equal ones. `A * B` is the product of two values."
)
_CONTEXT: Final = " The tables of the context add the same to every candidate."
_LOGARITHM: Final = " log1p(A) is log(1 + A), and -log(1 - A) for A below 0."
_MISSING: Final = " A missing number is 0, and `NAME_missing` is then 1, else 0."
_LEVELS: Final = (
    " A category adds the weight of its level, that of `*` for a level that is not named, and 0 "
    "where it is missing; in a product, `NAME=LEVEL` is 1 for that level, else 0."
)


@dataclass(frozen=True)
class Inputs:
    """Weights of the expanded columns of one side, the context or the candidates.

    Attributes:
        names: Names of the expanded columns (E,): features, logarithms, products.
        weights: (E,) weights of their raw values.
        columns: The map from raw rows to them.
    """

    names: tuple[str, ...]
    weights: Array
    columns: FeatureMap

    def values(self, rows: Array) -> Array:
        """Return the raw values (M, E) of rows (M, F), in double precision."""
        own, n = rows[:, self.columns.columns], self.columns.products
        logs = np.sign(own) * np.log1p(np.abs(own))
        heavy = np.asarray(self.columns.heavy)
        base = np.where(heavy, logs, own)
        one, other = np.triu_indices(n)
        return np.hstack([own, logs[:, heavy], base[:, one] * base[:, other]])


@dataclass(frozen=True)
class Linear:
    """A linear score in raw features.

    Attributes:
        constant: Added to every score.
        candidates: Weights of a candidate.
        context: Weights of the decision, which add the same to every candidate.
    """

    constant: float
    candidates: Inputs
    context: Inputs

    def scores(self, context: Array, candidates: Array) -> Array:
        """Return the scores (N,) of a decision with context (C,) and candidates (N, F)."""
        same = self.constant + (self.context.values(context[None]) @ self.context.weights)[0]
        return np.asarray(self.candidates.values(candidates) @ self.candidates.weights + same)


def linear_of(policy: object) -> Linear | None:
    """Return the linear score of a policy; None if its network is not linear in known features."""
    if type(policy) is not LearnedPolicy:
        return None
    network = policy.network
    settings = network.settings
    if (
        settings.hidden or settings.kind != "mlp" or settings.places or settings.image
        or network.outputs != 1 or len(network.rules)
    ):  # fmt: skip
        return None
    layer = policy.weights["layer0.weight"][0].astype(np.float64)
    size, constant = network.candidates.size, float(policy.weights["layer0.bias"][0])
    sides = []
    for part, features, columns in (
        (layer[:size], policy.features_candidates, network.candidates),
        (layer[size:], policy.features_context, network.context),
    ):
        weights = part * columns.inverse
        constant -= float(weights @ columns.mean)
        sides.append(Inputs(tuple(input_names(features, columns)), weights, columns))
    return Linear(constant, *sides)


def weights_table(linear: Linear, description: Description | None = None) -> dict[str, Any]:
    """Return the weights of a linear score as a table, with a sentence that says how to use them.

    The categories of a log are tables of their levels.
    """
    tables: dict[str, Any] = {}
    for side, inputs in zip(SIDES, (linear.context, linear.candidates), strict=True):
        levels = {} if description is None else _levels(description, side)
        own = len(inputs.columns.columns)
        parts: dict[str, dict[str, Any]] = {"": {}, "_categories": {}, "_products": {}}
        singles = len(inputs.names) - inputs.columns.products * (inputs.columns.products + 1) // 2
        for place, (name, weight) in enumerate(zip(inputs.names, inputs.weights, strict=True)):
            if weight == 0.0:
                continue
            if place < own and name in levels:
                category, level = levels[name]
                parts["_categories"].setdefault(category, {})[level] = float(weight)
            else:
                parts["" if place < singles else "_products"][name] = float(weight)
        tables |= {f"{side}{part}": table for part, table in parts.items() if table}
    text = _SCORE
    for sentence, there in (
        (_CONTEXT, any(name.startswith(SIDES[0]) for name in tables)),
        (_LOGARITHM, any("log1p(" in name for table in tables.values() for name in table)),
        (_MISSING, any(name.endswith("_missing") for table in tables.values() for name in table)),
        (_LEVELS, any(name.endswith("_categories") for name in tables)),
    ):
        text += sentence * there
    return {"how": text, "constant": linear.constant, **tables}


def _levels(description: Description, side: str) -> Mapping[str, tuple[str, str]]:
    """Return category and level by the names of their columns."""
    return {
        f"{name}={level}": (name, level)
        for name in description.categories(side)
        for level in (*description.levels[f"{side}.{name}"], REST)
    }


def write_weights(folder: Path, out: Path) -> dict[str, Any]:
    """Write the weights of a linear checkpoint to a file, TOML or JSON by its ending.

    Raises InputError for a checkpoint that is not linear.
    """
    policy, about = load_policy(folder), read_checkpoint(folder)
    linear = linear_of(policy)
    if linear is None:
        raise InputError(
            f"{folder}: the score of {policy.name} is not linear in its features, so it has no "
            "weights to paste; expected an agent that was trained with --set network.hidden=[]"
        )
    training, description = about["training"], None
    if LOG in training:
        description = read_description(training[LOG], f"{folder}: training.{LOG}")
    table = {"agent": policy.name, **weights_table(linear, description)}
    text = files.json_text(table) if out.suffix == ".json" else table_toml(table)
    files.make_folder(out.parent)
    files.write_text(out, text)
    return table
