"""YAML header of a card, which Hugging Face and other hubs read.

With it, `datasets.load_dataset(FOLDER, "decisions")` and `(FOLDER, "episodes")` load the folder
without conversion. The library caches what it loaded under the folder's name and a hash of the
configs, so every config has a description with the identity of the dataset: without one, two
datasets in folders of one name would be the same to it.
"""

from typing import Final

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.pages.markdown import quoted
from hindcast.pipeline.storage.files import sha256_text

MIXED: Final = "all_splits"  # name of the split if a part holds windows of several
_ROWS: Final = 1 << 17  # of the table of episodes that are looked at together
_SIZES: Final = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
    (10_000_000_000, "1B<n<10B"),
)


def config_lines(name: str, manifest: mf.Manifest) -> list[str]:
    """Return the first lines of a config: its name, and which dataset it is of."""
    return [f"- config_name: {name}", f"  description: {quoted(identity(manifest))}"]


def identity(manifest: mf.Manifest) -> str:
    """Return a line that differs between any two datasets: their recipes or their bytes differ.

    Other package versions can give one recipe other bytes; recorded decisions can change below one
    recipe. So the digest of the recipes alone is not enough.
    """
    files = sha256_text("\n".join(f.sha256 for f in (*manifest.parts, manifest.episodes)))
    return f"dataset {manifest.digest}, files {files}"


def files_by_split(manifest: mf.Manifest, episodes: pl.DataFrame) -> dict[str, list[str]]:
    """Return the paths of the parts by split, or all under MIXED if a part holds several splits."""
    held: list[set[str]] = [set() for _ in manifest.parts]
    places = episodes.select("split", "first_part", "last_part")
    rows = {row for some in places.iter_slices(_ROWS) for row in some.unique().rows()}
    for split, first, last in sorted(rows):
        for number in range(first, last + 1):
            held[number].add(split)
    if any(len(splits) != 1 for splits in held):
        return {MIXED: [p.path for p in manifest.parts]}
    files: dict[str, list[str]] = {}
    for splits, part in zip(held, manifest.parts, strict=True):
        files.setdefault(next(iter(splits)), []).append(part.path)
    return files


def size_category(rows: int) -> str:
    """Return the size class of Hugging Face."""
    return next((name for limit, name in _SIZES if rows < limit), "n>10B")
