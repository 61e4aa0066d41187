"""Verification of the documents of a dataset: its card and its Croissant metadata."""

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents import croissant, publication
from hindcast.pipeline.dataset.documents.card import card_text
from hindcast.pipeline.errors import VerificationFailed
from hindcast.pipeline.storage.files import LARGEST_JSON, json_text, local_copy, require_file


def check_documents(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> tuple[str, str]:
    """Write both documents again and compare; raise VerificationFailed if a byte differs.

    The text of the documents depends on the code that wrote them: if packages have other versions
    now, the documents are not compared. Returns the name of the check and its result.
    """
    written = [manifest.versions, *(segment.versions for segment in manifest.appended)]
    if any(versions != mf.versions() for versions in written):
        return "documents", "not compared, since other package versions wrote them"
    writers: Mapping[str, Callable[[], str]] = {  # the cheaper one first
        croissant.NAME: lambda: json_text(croissant.croissant(manifest)),
        mf.CARD: lambda: card_text(folder, manifest, episodes),
    }
    for name, write in writers.items():
        require_file(folder / name, LARGEST_JSON)
        with local_copy(folder / name) as copy:
            if copy.read_bytes() != write().encode():
                raise VerificationFailed(
                    f"{folder / name}: this document differs from the one that the manifest and "
                    "the data give"
                )
    return "documents", f"{', '.join(writers)} written again"


def of_publication(folder: Path) -> list[str]:
    """Return what of a published dataset is not compared, in words; empty if there is nothing."""
    added = publication.added(folder)
    return [f"{', '.join(added)}, which came with the publication"] if added else []
