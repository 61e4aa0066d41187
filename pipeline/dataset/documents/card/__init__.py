"""Card of a dataset, its README.md, generated from manifest, episodes and parts."""

from pathlib import Path

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.card.coverage import measure
from hindcast.pipeline.dataset.documents.card.page import card
from hindcast.pipeline.scenarios import load_scenario


def card_text(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> str:
    """Return README.md of the dataset in `folder`; the same dataset gives the same bytes."""
    scenario = load_scenario(manifest.recipe.scenario)
    return card(manifest, scenario, episodes, measure(folder, manifest, episodes))
