"""Data-quality study: agents trained on different logs of one problem, scored on one test split.

    hindcast study RECIPE --agents A B --vary windows --values 6 24 --seeds 0 1 --out OUT

    OUT/windows-6/ ...     one whole run per point, resumable like any run (flows.runs.stages)
    OUT/study.json         the varied setting and the points, in order
    OUT/study.parquet      COLUMNS: every policy of every point, on the headline metric

Only the log is varied; every point is scored on the same windows.

    level     behaviours of the recipes that differ in nothing else: random, heuristic, mixed
    windows   number of windows of the train split that are logged, from the first
    epsilon   probability of a uniform choice, of all behaviours except those that are uniform
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import polars as pl

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, did_you_mean
from hindcast.pipeline.evaluation.summary.evaluations import read_table
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe, Recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.storage.files import read_json
from hindcast.pipeline.storage.provenance import NOT_RECORDED

Vary: TypeAlias = Literal["level", "windows", "epsilon"]
NAME: Final = "study.json"
TABLE: Final = "study.parquet"
COLUMNS: Final[Mapping[str, Any]] = {
    "scenario": pl.String(), "recipe": pl.String(), "vary": pl.String(), "value": pl.String(),
    "policy": pl.String(), "kind": pl.String(), "metric": pl.String(), "unit": pl.String(),
    "higher_is_better": pl.Boolean(), "seeds": pl.Int64(), "windows": pl.Int64(),
    "train_decisions": pl.Int64(), "mean": pl.Float64(), "low": pl.Float64(),
    "high": pl.Float64(), "provenance": pl.String(), "command": pl.String(),
}  # fmt: skip
_UNIFORM: Final = "random"


@dataclass(frozen=True)
class Point:
    """One log of a study.

    Attributes:
        name: Name of its folder.
        value: The varied value.
        overrides: Settings of the recipe, as `section.key=value`.
    """

    name: str
    value: str
    overrides: tuple[str, ...]


def plan(
    recipe: str,
    overrides: Sequence[str],
    agents: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    vary: str,
    values: Sequence[str],
) -> list[Point]:
    """Return the points of a study, in the order of `values`; all levels if there are no values.

    Raises RecipeError for an unknown `vary`, and for values that the recipe cannot have.
    """
    if vary not in get_args(Vary):
        raise RecipeError(
            f"--vary {vary!r} is no setting of a study; {did_you_mean(vary, get_args(Vary))}"
        )
    loaded = load_recipe(recipe, overrides)
    # Settings of agents that the study does not train would be refused.
    kept = {a: dict(s) for a, s in loaded.train.settings.items() if a in agents}
    common = [f"train.agents={_toml(list(agents))}", f"train.seeds={_toml(list(seeds))}"]
    common += [f"train.settings={_toml(kept)}"] if loaded.train.settings else []
    common += [] if steps is None else [f"train.steps={steps}"]
    if vary == "level":
        changed = _levels(loaded, recipe, values)
    elif vary == "windows":
        changed = {value: _windows(loaded, value) for value in values}
    else:
        changed = {value: _epsilon(loaded, value) for value in values}
    if not changed:
        raise RecipeError(f"--vary {vary} needs --values, the points of the study")
    return [
        Point(f"{vary}-{value}", value, (*overrides, *common, setting))
        for value, setting in changed.items()
    ]


def _levels(loaded: Recipe, name: str, values: Sequence[str]) -> dict[str, str]:
    """Return the behaviours of the recipes with the same problem and windows, by level."""
    own = load_recipe(name)
    family: dict[str, Recipe] = {own.level: own} if own.level else {}
    for shipped in known_recipes():
        try:
            other = load_recipe(shipped)
        except InputError:  # of a scenario that is not installed
            continue
        if other.level and _problem(other) == _problem(own):
            family.setdefault(other.level, other)
    for value in values:
        if value not in family:
            raise RecipeError(
                f"--values {value}: {loaded.id} has no recipe of that level; "
                f"{did_you_mean(value, family)}"
            )
    chosen = values or [level for level in ("random", "heuristic", "mixed") if level in family]
    return {
        level: f"behaviours={_behaviours(family[level].behaviours, family[level].code)}"
        for level in chosen
    }


def _problem(recipe: Recipe) -> tuple[Any, ...]:
    """Return what two recipes have in common that differ in their behaviours alone."""
    return (
        recipe.scenario, recipe.config, recipe.objective, recipe.trace, dict(recipe.split),
        recipe.seed,
    )  # fmt: skip


def _windows(loaded: Recipe, value: str) -> str:
    """Return the override that leaves this number of train windows, the first ones."""
    there = loaded.split.get("train", range(0))
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= len(there):
        raise RecipeError(
            f"--values {value}: expected a number of train windows from 1 to {len(there)}"
        )
    return f'split.train="{there.start}..{there.start + int(value) - 1}"'


def _epsilon(loaded: Recipe, value: str) -> str:
    """Return the override that gives every behaviour but the uniform one this epsilon."""
    try:
        epsilon = float(value)
    except ValueError:
        epsilon = -1.0
    if not 0.0 <= epsilon <= 1.0:
        raise RecipeError(f"--values {value}: expected a probability epsilon from 0 to 1")
    changed: dict[tuple[str, float, float], int] = {}
    for b in loaded.behaviours:
        key = (b.policy, 0.0 if b.policy == _UNIFORM else epsilon, b.temperature)
        changed[key] = changed.get(key, 0) + b.episodes
    behaviours = [BehaviourRecipe(*k, n) for k, n in changed.items()]
    return f"behaviours={_behaviours(behaviours, loaded.code)}"


def _behaviours(behaviours: Sequence[BehaviourRecipe], code: Mapping[str, str]) -> str:
    """Return behaviours as one line of TOML."""
    return _toml(
        [
            {"policy": code.get(b.policy, b.policy), "epsilon": b.epsilon,
             "temperature": b.temperature, "episodes": b.episodes}
            for b in behaviours
        ]
    )  # fmt: skip


def _toml(value: Any) -> str:
    """Return a value as one line of TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def collect(
    folder: Path, vary: str, points: Sequence[Point], recipe: Recipe, command: str
) -> pl.DataFrame:
    """Return the table of a study from the evaluations of its points."""
    from hindcast.pipeline import dataset
    from hindcast.pipeline.evaluation.summary.summarise import summarise

    rows: list[dict[str, Any]] = []
    for point in points:
        run = folder / point.name
        summary = summarise([run / "evaluation"]).settings[0]
        setting, pairing = summary.setting, summary.setting.headline
        metric = pairing.metric
        decisions = int(dataset.open(run / "dataset").episodes("train")["steps"].sum())
        for policy, own in zip(pairing.ranked, summary.rows[metric.name], strict=True):
            rows.append(
                {
                    "scenario": recipe.scenario, "recipe": recipe.id, "vary": vary,
                    "value": point.value, "policy": policy.name, "kind": policy.kind,
                    "metric": metric.name, "unit": metric.unit,
                    "higher_is_better": metric.better == "higher", "seeds": len(policy.runs),
                    "windows": len(pairing.windows), "train_decisions": decisions,
                    "mean": own["mean"], "low": own["low"], "high": own["high"],
                    "provenance": setting.origin(policy), "command": command,
                }
            )  # fmt: skip
    return pl.DataFrame(rows, schema=dict(COLUMNS), orient="row")


def study_points(folder: Path) -> list[Path]:
    """Return the runs of a study folder, in order; DatasetError if study.json is damaged."""
    value = read_json(folder / NAME)
    points = value.get("points") if isinstance(value, dict) else None
    if not isinstance(points, list) or not points:
        raise DatasetError(
            f"{folder / NAME}: is no study; expected a list 'points' as `hindcast study` writes"
        )
    names = [str(p.get("name")) if isinstance(p, dict) else "" for p in points]
    for name in names:
        if not name or Path(name).name != name or name in {".", ".."}:
            raise DatasetError(f"{folder / NAME}: point {name!r} is not the name of a folder")
    return [folder / name for name in names]


def read_study(folder: Path) -> pl.DataFrame:
    """Return the table of a study folder; DatasetError if its columns are not COLUMNS."""
    path = folder / TABLE
    table = read_table(path)
    if "provenance" not in table.columns:  # a study of 0.1.0
        table = table.with_columns(pl.lit(NOT_RECORDED).alias("provenance"))
        table = table.select(name for name in COLUMNS if name in table.columns)
    if dict(table.schema) != dict(COLUMNS):
        raise DatasetError(f"{path}: expected the columns {', '.join(COLUMNS)}")
    return table
