"""Table of the protocol page: datasets with their test windows."""

import csv
from collections.abc import Mapping

from docs.generate.results import FOLDER, SIZES
from docs.generate.text import code, table
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes


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
            code(recipe.digest[:12]), code(size["data_sha256"][:12] if size else ""),
        ])  # fmt: skip
    head = ["recipe", "scenario", "level", "behaviours", "episodes", "decisions", "MB", "windows"]
    return table([*head, "digest", "data"], rows)
