"""The file of anchors, `hindcast.pipeline.evaluation.anchors`, and its table in the documentation.

    python -m docs.generate.anchors [--work FOLDER]

writes datasets/anchors.csv: the policies without learning come from the committed tables of
results, whose commands say which windows they were scored on; `random` and the best of them are
played again on these windows, `random` with five draws. Looking ahead takes hours, so the return is
that of the best policy that does not. Scores of finished problems are kept below FOLDER. A policy
that is played has to have the mean of the tables, or nothing is written.
"""

import argparse
import csv
import io
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from docs.generate.results import BOUNDS, COMMANDS, FOLDER, LOOKING_AHEAD, RULES
from docs.generate.text import code, table
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.evaluation.anchors import COLUMNS, FILE, anchors, windows_of
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation, read_scores
from hindcast.pipeline.pages.numbers import decimals_for, write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import known_recipes, recipe_folder
from hindcast.pipeline.storage.files import write_text
from hindcast.policies.entrants import entrants

_TABLES: Final = ("offline.csv", "online.csv", LOOKING_AHEAD)
_DRAWS: Final = 5
_SLOWDOWN: Final = "mean_bounded_slowdown"
_NEAR: Final = 1e-4  # relative: numbers of the tables have six digits
_SLOW: Final = "rollout"  # looking ahead on all windows of a problem can take hours


class Scored(NamedTuple):
    """A policy without learning in the tables: its mean and its row's metric and direction."""

    policy: str
    mean: float
    metric: str
    better: str


def anchors_table() -> str:
    """Return the anchors as a table, a row per problem."""
    rows = []
    for one in anchors().values():
        decimals = decimals_for([one.random, one.best_mean])
        bound = (
            ["", ""] if one.bound is None
            else [write_number(one.bound, decimals), write_number(one.score(one.bound), 3)]
        )  # fmt: skip
        rows.append([
            ", ".join(map(code, one.recipes)), f"{one.count:,}",
            f"{code(one.metric)}, {one.better}",
            write_number(one.random, decimals),
            f"{code(one.best)} {write_number(one.best_mean, decimals)}", *bound,
        ])  # fmt: skip
    head = ["recipes", "windows", "metric, better", "random (0)", "best without learning (1)"]
    return table([*head, "bound", "its score"], rows)


def scored_policies() -> Iterator[tuple[str, Scored]]:
    """Yield the policies without learning of all tables, with the digests of their windows."""
    commands = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    for name in _TABLES:
        with (FOLDER / name).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        baselines = {(row["recipe"], row["baseline"]) for row in rows}
        for row in rows:
            windows, count = played_windows(commands[row["command"]])
            learned = (row["recipe"], row["policy"]) not in baselines
            if windows and count == int(row["windows"]) and not learned:
                better = "higher" if row["higher_is_better"] == "true" else "lower"
                yield windows, Scored(row["policy"], float(row["mean"]), row["metric"], better)


@cache
def scored() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return the means of the policies without learning, by windows and metric.

    Those of a log's rules and of the same windows under another number are joined.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for windows, one in scored_policies():
        found.setdefault((windows, one.metric), {})[one.policy] = one.mean
    for rules in _rules_by_log().values():
        for (_, metric), means in found.items():
            both = means.keys() & rules.keys() if metric == _SLOWDOWN else set()
            if both and all(means[name] == rules[name] for name in both):  # the same windows
                means.update(rules)
    for (_, metric), means in found.items():
        for (_, other), more in found.items():
            if metric == other == _SLOWDOWN and _same_windows(means, more):
                means.update(more | means)
    return found


def _same_windows(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether the rules that both tables have, at least three, have the same means.

    Recipes of a log number its test windows differently, so their digests differ.
    """
    both = (one.keys() & other.keys()) - {"random"}
    return len(both) >= 3 and all(one[name] == other[name] for name in both if "@" not in name)


def _rules_by_log() -> Mapping[str, Mapping[str, float]]:
    """Return the means of rules on the test windows of logs, without those that know run times."""
    found: dict[str, dict[str, float]] = {}
    with (FOLDER / RULES).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["part"] == "test" and row["kind"] == "heuristic":
                found.setdefault(row["log"], {})[row["policy"]] = float(row["slowdown"])
    return found


@cache
def played_windows(command: str) -> tuple[str, int]:
    """Return the digest and the number of the test windows of a command; "" for other windows."""
    words = shlex.split(command.partition(" && ")[0])
    split = words[words.index("--split") + 1] if "--split" in words else "test"
    settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    if split != "test" or "--trace" in words or ("--plan" in words and not settings):
        return "", 0
    try:
        recipe = load_recipe(words[2], settings)
        return windows_of(recipe), len(recipe.windows("test"))
    except HindcastError:  # a recipe file or a checkpoint that is not in the repository
        return "", 0


def write(work: Path) -> str:
    """Return the text of the file of anchors."""
    better = {(windows, one.metric): one.better for windows, one in scored_policies()}
    found: dict[str, list[Scored]] = {}
    for (windows, metric), means in scored().items():
        ones = [Scored(name, mean, metric, better[windows, metric]) for name, mean in means.items()]
        found.setdefault(windows, []).extend(ones)
    recipes: dict[str, list[Recipe]] = {}
    for recipe in map(load_recipe, known_recipes()):
        if "test" in recipe.split and (windows := windows_of(recipe)) in found:
            recipes.setdefault(windows, []).append(recipe)
    with (FOLDER / BOUNDS).open(newline="", encoding="utf-8") as file:
        bounds = {row["recipe"]: float(row["mean"]) for row in csv.DictReader(file)}
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    for windows, group in recipes.items():
        bound = [bounds[r.id] for r in group if r.id in bounds]
        row = _row(windows, group, found[windows], bound[0] if bound else None, work)
        if row is not None:
            out.writerow(row)
    return text.getvalue()


def _row(
    windows: str, group: list[Recipe], ones: list[Scored], bound: float | None, work: Path
) -> list[Any] | None:
    """Return the row of a problem; None without a policy that is better than `random`."""
    recipe = group[0]
    for name in ("random", "behaviour"):
        ones = [one for one in ones if one.policy != name]
    folder = work / recipe.id
    means = _means(recipe, ["random"], folder / "random")
    metric = read_evaluation(folder / "random").headline
    ranked = sorted((s for s in ones if s.metric == metric), key=lambda one: one.mean)
    if not ranked:
        return None
    ranked = ranked[::-1] if ranked[0].better == "higher" else ranked
    best, quick = ranked[0], next(one for one in ranked if _SLOW not in one.policy)
    low, high = means["random", metric], best.mean
    if (high > low) != (best.better == "higher") or high == low:
        return None
    again = _means(recipe, [quick.policy], folder / "best")
    if abs(again[quick.policy, metric] - quick.mean) > _NEAR * abs(quick.mean):
        raise SystemExit(f"{recipe.id}: {quick.policy} is {quick.mean} in the tables, played again "
                         f"{again[quick.policy, metric]}")  # fmt: skip
    shown = [
        f"{low:.6g}",
        _DRAWS,
        best.policy,
        f"{high:.6g}",
        "" if bound is None else f"{bound:.6g}",
    ]
    returns = [f"{r:.6g}" for r in (means["random", "return"], again[quick.policy, "return"])]
    return [windows, " ".join(r.id for r in group), len(recipe.windows("test")), metric,
            best.better, *shown, recipe.objective, *returns]  # fmt: skip


def _means(recipe: Recipe, names: list[str], out: Path) -> Mapping[tuple[str, str], float]:
    """Return the means of policies by (policy, metric), which are played unless they were."""
    evaluate(recipe, entrants(recipe, names), split="test", out=out, seeds=_DRAWS)
    grouped = read_scores(out).group_by("policy", "metric").agg(pl.col("value").mean())
    return {(policy, metric): mean for policy, metric, mean in grouped.iter_rows()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("anchors"))
    write_text(recipe_folder() / FILE, write(parser.parse_args().work))
    sys.stdout.write(f"{recipe_folder() / FILE}: {len(anchors())} problems\n")
