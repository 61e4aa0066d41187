"""Tables of the protocol page: datasets, test windows, anchors of the normalised score."""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.results import BOUNDS, FOLDER, SIZES
from docs.generate.text import code, table
from hindcast.pipeline.pages.numbers import decimals_for, write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes

# Tables whose rows of rules and random are anchors; the first that has a recipe is taken.
TABLES: Final = ("offline.csv", "online.csv")


def protocol_pages() -> Mapping[str, str]:
    """Return the part `parts/datasets.md`."""
    return {"parts/datasets.md": _datasets()}


def _datasets() -> str:
    rows = []
    with (FOLDER / SIZES).open(newline="", encoding="utf-8") as file:
        sizes = {row["digest"]: row for row in csv.DictReader(file)}
    for name in known_recipes():
        recipe = load_recipe(name)
        if not recipe.behaviours:
            continue
        windows = {split: len(numbers) for split, numbers in recipe.split.items()}
        behaviours = len(recipe.behaviours)
        episodes = sum(b.episodes for b in recipe.behaviours) * sum(
            windows[split] for split in recipe.dataset_splits if split in windows
        )
        size = sizes.get(recipe.digest)
        rows.append([
            code(name), recipe.scenario, recipe.level, str(behaviours), f"{episodes:,}",
            f"{int(size['decisions']):,}" if size else "",
            f"{int(size['bytes']) / 1e6:,.1f}" if size else "",
            " / ".join(f"{windows.get(s, 0):,}" for s in ("train", "validation", "test")),
            code(recipe.digest[:12]),
        ])  # fmt: skip
    head = ["recipe", "scenario", "level", "behaviours", "episodes", "decisions", "MB", "windows"]
    return table([*head, "digest"], rows)


def anchors_table() -> str:
    """Return the anchors of the normalised score, a row per recipe."""
    rows, seen, known = [], set[str](), set(known_recipes())
    with (FOLDER / BOUNDS).open(newline="", encoding="utf-8") as file:
        bounds = {row["recipe"]: float(row["mean"]) for row in csv.DictReader(file)}
    for name in TABLES:
        for recipe, group in _by_recipe(name).items():
            if recipe in seen or recipe not in known:
                continue
            row = _anchor_row(recipe, group, bounds.get(recipe))
            if row:
                rows.append(row)
                seen.add(recipe)
    head = ["recipe", "metric", "random (0)", "strongest rule (1)", "bound", "its score"]
    return table([*head, "highest agent row", "its score"], rows)


def _anchor_row(recipe: str, rows: Sequence[Mapping[str, str]], bound: float | None) -> list[str]:
    """Return the row of a recipe, empty where its table has no rule or no `random`."""
    means = {row["policy"]: float(row["mean"]) for row in rows}
    baselines = {row["baseline"] for row in rows}
    best = max if rows[0]["higher_is_better"] == "true" else min
    rules = [name for name in means if name in baselines - {"random", "behaviour"}]
    agents = [name for name in means if name not in baselines]  # the first of equals, as in a table
    if "random" not in means or not rules:
        return []
    rule = best(rules, key=means.__getitem__)
    zero, one = means["random"], means[rule]
    decimals = decimals_for([zero, one])

    def shown(name: str, value: float) -> list[str]:
        number = write_number(value, decimals)
        return [f"{name} {number}".strip(), write_number((value - zero) / (one - zero), 3)]

    row = [code(recipe), code(rows[0]["metric"]), write_number(zero, decimals)]
    row += shown(code(rule), one)[:1]
    row += shown("", bound) if bound is not None else ["", ""]
    highest = best(agents, key=means.__getitem__) if agents else ""
    return row + (shown(code(highest), means[highest]) if highest else ["", ""])


def _by_recipe(name: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a table by recipe, of the first metric that the table has for it."""
    groups: dict[str, list[dict[str, str]]] = {}
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            group = groups.setdefault(row["recipe"], [])
            if not group or row["metric"] == group[0]["metric"]:
                group.append(row)
    return groups
