"""Locations of folders and files: a local path, or a URL of an object store.

    demo/dataset, file:///data/demo    pathlib.Path
    s3://bucket/demo                   Amazon S3 and stores with its protocol   extra s3
    gs://bucket/demo                   Google Cloud Storage                     extra gs
    az://container/demo                Azure Blob Storage                       extra az
    memory://name                      memory of this process, for tests

Credentials and endpoints are never part of a URL: each store's client reads its usual environment
(docs/how-to/remote-stores.md). Importing this module loads no store's client; `location` loads one
when a URL names its store.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast
from urllib.parse import unquote

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.storage.extras import require

if TYPE_CHECKING:

    class StoredPath(Path):
        """Type of hindcast.pipeline.storage.remote.RemotePath for type checkers: a kind of Path."""

        def upload(self, local: Path) -> None: ...  # noqa: D102
        def download(self, local: Path) -> None: ...  # noqa: D102
        def check_writable(self, probe: str) -> None: ...  # noqa: D102
        def remove(self) -> None: ...  # noqa: D102


# The package of each scheme's client.
SCHEMES: Final[Mapping[str, str | None]] = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "file": None,
    "memory": None,
}
_URL: Final = re.compile(r"^([^/]+)://(.*)$", re.DOTALL)
_COLLAPSED: Final = re.compile(rf"^({'|'.join(SCHEMES)}):/(?!/)")


def location(text: Any) -> Path:
    """Return the path that a text names; a path is returned unchanged.

    A URL becomes an object with those methods of pathlib.Path that are used here
    (`hindcast.pipeline.storage.remote`); they raise StorageError if the store refuses. Raises
    InputError if the scheme is unknown, its package is not installed, or the URL names no bucket.
    """
    if isinstance(text, PurePath) or not isinstance(text, str):
        return cast("Path", text)
    url = _URL.match(text)
    if url is None:
        if found := _COLLAPSED.match(text):
            raise InputError(
                f"{text}: a URL has two slashes after the colon; did you mean {found[1]}://... ?"
            )
        return Path(text)
    scheme, rest = url[1], url[2]
    if scheme not in SCHEMES:
        raise InputError(f"{text}: unknown scheme {scheme!r}; {did_you_mean(scheme, SCHEMES)}")
    if scheme == "file":
        return _local(text, rest)
    _check(text, scheme, rest)
    from hindcast.pipeline.storage.remote import RemotePath

    return cast("Path", RemotePath.at(text))


def is_remote(path: Path) -> "TypeGuard[StoredPath]":
    """Return whether `location` made this path from the URL of a store."""
    return not isinstance(path, PurePath)


def traces_folder() -> Path:
    """Return the folder of raw traces: $HINDCAST_TRACES, else shared/traces by the checkout."""
    setting = os.environ.get("HINDCAST_TRACES")
    return (
        location(setting) if setting else Path(__file__).resolve().parents[3] / "shared" / "traces"
    )


def _local(text: str, rest: str) -> Path:
    host, slash, path = rest.partition("/")
    if not slash or host not in {"", "localhost"}:
        raise InputError(f"{text}: this URL has a host or no path, expected file:///absolute/path")
    return Path("/" + unquote(path))


def _check(text: str, scheme: str, rest: str) -> None:
    """Raise InputError for URLs that a client could misread, and for missing packages."""
    bucket = rest.partition("/")[0]
    if not bucket:
        raise InputError(f"{text}: this URL names no bucket, expected {scheme}://BUCKET/FOLDER")
    if "@" in bucket:
        shown = f"{scheme}://...@{rest.rpartition('@')[2]}"
        raise InputError(f"{shown}: credentials belong in the environment, not in a URL")
    if "::" in rest or not {".", ".."}.isdisjoint(rest.split("/")):
        raise InputError(f"{text}: '::', '.' and '..' cannot be part of a URL's path")
    needs = SCHEMES[scheme]
    if needs is not None:
        require(f"{text}: {scheme}://", needs)
