"""Files of a dataset that are compared with its manifest and copied, and its card."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hindcast.pipeline.dataset.manifest import CARD, FileEntry
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import require_file

_CHUNK: Final = 1 << 20
_LARGEST_CARD: Final = 16 << 20


def copy_checked(folder: Path, entry: FileEntry, target: Path) -> None:
    """Copy a file of the manifest; DatasetError if its SHA-256 is not the manifest's."""
    with target.open("wb") as writer:
        check_digest(folder, entry, writer.write)


def check_digest(
    folder: Path, entry: FileEntry, take: Callable[[bytes], object] = lambda _: None
) -> None:
    """Raise DatasetError unless a file has the SHA-256 of the manifest; `take` gets its bytes."""
    source = folder / entry.path
    require_file(source)
    digest = hashlib.sha256()
    with source.open("rb") as reader:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            take(chunk)
    if digest.hexdigest() != entry.sha256:
        raise DatasetError(
            f"{source}: the SHA-256 differs from the manifest's; see `hindcast verify`"
        )


def card_of(folder: Path) -> str:
    """Return README.md of the dataset, or "" without one; DatasetError if it is unsafe to read."""
    path = folder / CARD
    if not path.exists() and not path.is_symlink():
        return ""
    require_file(path, _LARGEST_CARD)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: is not UTF-8 text ({error})") from error
