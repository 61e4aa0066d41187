"""Upload folder of a dataset: its files as they are, and the documents of a publication.

    OUT/
      README.md  croissant.json  manifest.json  episodes.parquet  data/  workload/  ...
      .zenodo.json  DATASHEET.md  SHA256SUMS     (hindcast.pipeline.dataset.documents.publication)

The folder is a dataset itself: `hindcast verify OUT` accepts it.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.build import append_in_progress
from hindcast.pipeline.dataset.documents import croissant
from hindcast.pipeline.dataset.documents import publication as pub
from hindcast.pipeline.dataset.estimated import ESTIMATES, MODEL
from hindcast.pipeline.dataset.estimated import FOLDER as ESTIMATED
from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.pipeline.exports._target import new_folder
from hindcast.pipeline.recipes.checkpoints import FOLDER as POLICIES
from hindcast.pipeline.recipes.workload_source import DECISION_TABLES, RECORD
from hindcast.pipeline.storage.files import json_text, require_file, sha256_file, write_text

_AT_TOP: Final = (mf.NAME, mf.CARD, croissant.NAME)
_OPTIONAL: Final = (
    RECORD, *DECISION_TABLES, f"{ESTIMATED}/{MODEL}", f"{ESTIMATED}/{ESTIMATES}",
)  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A file to publish.

    Attributes:
        path: Its path in the publication.
        source: The file itself.
        bytes: Its size.
        sha256: Its digest.
    """

    path: str
    source: Path
    bytes: int
    sha256: str


def check_permission(manifest: mf.Manifest, permission: str) -> None:
    """Raise InputError if terms restrict the data and `permission` does not say why they may go."""
    if (found := pub.restrictions(manifest)) and not permission.strip():
        raise InputError(
            f"{manifest.name}: {'; '.join(found)}. That is no licence under which everybody may "
            "hand the data on. If you may, say why with --permission TEXT, which is published "
            "with them"
        )


def items(
    folder: Path, manifest: mf.Manifest, made: Path, creators: Sequence[str], permission: str
) -> list[Item]:
    """Return all files to publish, in order; those that the dataset lacks are written to `made`.

    Raises VerificationFailed for a file with other bytes than the manifest says, DatasetError for a
    link, and InputError if an append to the dataset is not finished.
    """
    if append_in_progress(folder) is not None:
        raise InputError(f"{folder}: an append to this dataset is not finished; finish it first")
    claimed = {entry.path: entry.sha256 for entry in (*manifest.parts, manifest.episodes)}
    found = [_item(folder, name) for name in _names(folder, [*_AT_TOP, *claimed])]
    for item in found:
        if claimed.get(item.path, item.sha256) != item.sha256:
            raise VerificationFailed(f"{item.source}: this file changed after its verification")
    texts = {
        pub.DATASHEET: pub.datasheet(manifest, permission),
        pub.ZENODO: json_text(pub.zenodo(manifest, creators, permission)),
    }
    for name, text in texts.items():
        write_text(made / name, text)
        found.append(_item(made, name))
    found.sort(key=lambda item: item.path)
    sums = "".join(f"{item.sha256}  {item.path}\n" for item in found)
    write_text(made / pub.SUMS, sums)
    return [*found, _item(made, pub.SUMS)]


def write_folder(found: Sequence[Item], out: Path) -> None:
    """Write the upload folder; raise StorageError if `out` has files already."""
    with new_folder(out) as temporary:
        for item in found:
            (temporary / item.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(item.source, temporary / item.path)
            if sha256_file(temporary / item.path) != item.sha256:
                raise VerificationFailed(f"{item.source}: this file changed while it was copied")


def _names(folder: Path, required: Sequence[str]) -> list[str]:
    """Return the files of a dataset that `verify` knows, by their paths in it."""
    names = [*required, *(name for name in _OPTIONAL if (folder / name).exists())]
    for below in (mf.WORKLOAD, POLICIES):
        names += [
            path.relative_to(folder).as_posix()
            for path in (folder / below).rglob("*")
            if not path.is_dir()
        ]
    return names


def _item(folder: Path, name: str) -> Item:
    size = require_file(folder / name)
    return Item(name, folder / name, size, sha256_file(folder / name))
