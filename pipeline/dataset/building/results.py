"""Results of a finished dataset, whoever made its parts: table of episodes, counts, documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.columns import row_count
from hindcast.pipeline.dataset.documents.card.coverage import Coverage
from hindcast.pipeline.dataset.documents.card.page import card
from hindcast.pipeline.dataset.documents.croissant import NAME as CROISSANT
from hindcast.pipeline.dataset.documents.croissant import croissant
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.caveats import Caveat


@dataclass(frozen=True)
class BuildResult:
    """Summary of a finished dataset, built by this call or an earlier one.

    Attributes:
        folder: Folder of the dataset.
        episodes: Number of its episodes.
        decisions: Number of its decisions.
        bytes: Size of its parts and its table of episodes.
        digest: Digest of the dataset.
        appended_before: Whether an append added nothing, since it was finished by an earlier call.
        caveats: Facts that limit what results on the dataset can say.
    """

    folder: Path
    episodes: int
    decisions: int
    bytes: int
    digest: str
    appended_before: bool = False
    caveats: tuple[Caveat, ...] = ()


def result_of(out: Path, manifest: mf.Manifest) -> BuildResult:
    """Return the summary of a finished dataset from its manifest."""
    size = manifest.episodes.bytes + sum(part.bytes for part in manifest.parts)
    counts = manifest.counts
    return BuildResult(
        out, counts["episodes"], counts["decisions"], size, manifest.digest,
        caveats=manifest.caveats,
    )  # fmt: skip


def write_episodes(out: Path, name: str, episodes: pl.DataFrame) -> mf.FileEntry:
    """Write the table of episodes and return its entry for the manifest."""
    stored = files.write_parquet(out / name, episodes)
    return mf.FileEntry(name, episodes.height, stored.bytes, stored.sha256)


def counts_of(parts: Sequence[mf.FileEntry], episodes: pl.DataFrame, spec: Spec) -> dict[str, int]:
    """Return the counts of a manifest."""
    counts = {
        "episodes": episodes.height,
        "decisions": int(episodes["steps"].sum()),
        "rows": sum(part.rows for part in parts),
        "windows": episodes["window"].n_unique(),
        "truncated_episodes": int(episodes["truncated"].sum()),
    }
    if counts["rows"] != row_count(episodes, spec):
        raise HindcastError(
            "the rows of the parts are not those of the episodes; please report this bug"
        )
    return counts


def describe(
    out: Path, manifest: mf.Manifest, scenario: Scenario, episodes: pl.DataFrame, coverage: Coverage
) -> None:
    """Write the documents made from the manifest and the data: card and Croissant metadata."""
    text, about = card(manifest, scenario, episodes, coverage), croissant(manifest)
    files.write_text(out / mf.CARD, text)
    files.write_json(out / CROISSANT, about)
