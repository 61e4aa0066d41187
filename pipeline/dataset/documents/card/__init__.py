"""Card of a dataset, its README.md, generated from manifest, episodes and parts."""

from pathlib import Path

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.card.coverage import Coverage, measure
from hindcast.pipeline.dataset.documents.card.page import card
from hindcast.pipeline.storage.files import write_text


def write_card(
    folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame, coverage: Coverage | None = None
) -> None:
    """Write README.md into the dataset folder, after its parts; `coverage` if it is measured."""
    found = measure(folder, manifest, episodes) if coverage is None else coverage
    write_text(folder / mf.CARD, card(manifest, episodes, found))


def card_text(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> str:
    """Return README.md of the dataset in `folder`; the same dataset gives the same bytes."""
    return card(manifest, episodes, measure(folder, manifest, episodes))
