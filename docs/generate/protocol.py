"""Tables of the protocol page: datasets, test windows, anchors of the normalised score."""

import csv
from collections.abc import Mapping
from typing import Final

from docs.generate.results import FOLDER
from docs.generate.text import code, prose, table
from pipeline.recipes.loading import known_recipes, load_recipe
from pipeline.statistics.numbers import decimals_for, write_number

# Tables whose rows of rules and random are anchors; the first that has a recipe is taken.
TABLES: Final = ("offline.csv", "online.csv")


def protocol_pages() -> Mapping[str, str]:
    """Return the parts `parts/datasets.md` and `parts/anchors.md`."""
    return {"parts/datasets.md": _datasets(), "parts/anchors.md": _anchors()}


def _datasets() -> str:
    rows = []
    for name in known_recipes():
        recipe = load_recipe(name)
        if not recipe.behaviours:
            continue
        windows = {split: len(numbers) for split, numbers in recipe.split.items()}
        behaviours = len(recipe.behaviours)
        episodes = sum(b.episodes for b in recipe.behaviours) * sum(
            windows[split] for split in recipe.dataset_splits if split in windows
        )
        rows.append([
            code(name), recipe.scenario, recipe.level, str(behaviours), f"{episodes:,}",
            " / ".join(f"{windows.get(s, 0):,}" for s in ("train", "validation", "test")),
            code(recipe.digest[:12]),
        ])  # fmt: skip
    head = ["recipe", "scenario", "level", "behaviours", "episodes", "windows", "digest"]
    return table(head, rows)


def _anchors() -> str:
    rows, seen = [], set[str]()
    for name in TABLES:
        for recipe, group in _by_recipe(name).items():
            if recipe in seen:
                continue
            policies = {row["policy"]: row for row in group}
            rules = [r for r in group if r["policy"] in {g["baseline"] for g in group}]
            random = policies.get("random")
            ruled = {r["policy"]: r for r in rules if r["policy"] not in {"random", "behaviour"}}
            if random is None or not ruled:
                continue
            seen.add(recipe)
            higher = group[0]["higher_is_better"] == "true"
            best = (max if higher else min)(ruled.values(), key=lambda r: float(r["mean"]))
            learned = [r for r in group if r["policy"] not in {g["baseline"] for g in group}]
            top = (max if higher else min)(learned, key=lambda r: float(r["mean"]), default=None)
            rows.append(_anchor_row(recipe, group[0], random, best, top))
    head = ["recipe", "metric", "random (0)", "strongest rule (1)", "best agent of the table", "its score"]
    return table(head, rows)


def _anchor_row(
    recipe: str, first: Mapping[str, str], random: Mapping[str, str], best: Mapping[str, str],
    top: Mapping[str, str] | None,
) -> list[str]:  # fmt: skip
    zero, one = float(random["mean"]), float(best["mean"])
    decimals = decimals_for([zero, one])
    row = [
        code(recipe), code(first["metric"]), write_number(zero, decimals),
        f"{code(best['policy'])} {write_number(one, decimals)}",
    ]  # fmt: skip
    if top is None or zero == one:
        return [*row, "", ""]
    score = (float(top["mean"]) - zero) / (one - zero)
    return [*row, prose(f"{top['policy']} {write_number(float(top['mean']), decimals)}"), f"{score:.3f}"]


def _by_recipe(name: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a table by recipe, of the first metric that the table has for it."""
    groups: dict[str, list[dict[str, str]]] = {}
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            group = groups.setdefault(row["recipe"], [])
            if not group or row["metric"] == group[0]["metric"]:
                group.append(row)
    return groups
