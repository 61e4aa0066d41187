"""The documents of a dataset: its card and its Croissant metadata, as they should be."""

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from pipeline.dataset import manifest as mf
from pipeline.documents import croissant
from pipeline.documents.card import card_text
from pipeline.errors import VerificationFailed
from pipeline.storage.files import json_text, local_copy
from pipeline.storage.guards import LARGEST_JSON, require_file


def check_documents(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> tuple[str, str]:
    """Both written again and compared; VerificationFailed where a byte differs.

    Their words are those of the code that wrote them: where packages have other versions by now,
    only the data can be verified.
    """
    written = [manifest.versions, *(segment.versions for segment in manifest.appended)]
    if any(versions != mf.versions() for versions in written):
        return "documents", "not compared: written by other package versions"
    writers: Mapping[str, Callable[[], str]] = {  # the cheap one first
        croissant.NAME: lambda: json_text(croissant.croissant(manifest)),
        mf.CARD: lambda: card_text(folder, manifest, episodes),
    }
    for name, write in writers.items():
        require_file(folder / name, LARGEST_JSON)
        with local_copy(folder / name) as copy:
            if copy.read_bytes() != write().encode():
                raise VerificationFailed(
                    f"{folder / name}: is not what the manifest and the data give"
                )
    return "documents", f"{', '.join(writers)} written again"
