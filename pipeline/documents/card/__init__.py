"""The card of a dataset, its README.md: generated from the manifest, the episodes and the parts."""

from pathlib import Path

import polars as pl

from pipeline.dataset import manifest as mf
from pipeline.documents.card.coverage import measure
from pipeline.documents.card.page import card
from pipeline.storage.files import write_text


def write_card(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> None:
    """Write README.md into the dataset folder, whose parts are there already."""
    write_text(folder / mf.CARD, card_text(folder, manifest, episodes))


def card_text(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> str:
    """What README.md of the dataset in `folder` says; the same bytes for the same dataset."""
    return card(manifest, episodes, measure(folder, manifest, episodes))
