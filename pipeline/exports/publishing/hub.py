"""A dataset repository of the Hugging Face Hub, or of a server with its interface ($HF_ENDPOINT).

    hf://datasets/OWNER/NAME

All files of a dataset get there by one commit, or none does. It is based on the state that was
looked at: the server refuses it if somebody else has committed meanwhile. Afterwards the repository
is listed, and every file of it compared with what was to be sent. Files that it has already are not
sent again. A repository that holds anything but an earlier state of the same dataset is refused.

The token is read from $HF_TOKEN alone. Large files go as the installed client sends them: through
Xet where the package hf_xet is there, else as Git LFS.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.publication import OF_THE_HUB
from hindcast.pipeline.errors import HindcastError, InputError, StorageError, printable
from hindcast.pipeline.exports.publishing.folder import Item
from hindcast.pipeline.storage.extras import require
from hindcast.pipeline.storage.files import LARGEST_JSON, scratch

SCHEME: Final = "hf://"
_TOKEN: Final = "HF_TOKEN"  # noqa: S105 - the name of the variable
_URL: Final = re.compile(r"hf://datasets/([\w.-]{1,96}/[\w.-]{1,96})/?", re.ASCII)
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Pushed:
    """Result of a push to a repository of the Hub.

    Attributes:
        commit: Address of the commit with all files; if nothing was sent, that of the last commit.
        sent: Paths that were sent.
        removed: Paths that were removed.
    """

    commit: str
    sent: list[str]
    removed: list[str]


def repository(to: str) -> str:
    """Return OWNER/NAME of a URL of the Hub. Raises InputError."""
    found = _URL.fullmatch(to)
    if found is None:
        raise InputError(f"{to}: expected hf://datasets/OWNER/NAME")
    return found[1]


def check_access(to: str) -> None:
    """Raise InputError if the URL is none, the client is not installed, or there is no token."""
    repository(to)
    require(f"{to}: {SCHEME}", "huggingface_hub")
    if not os.environ.get(_TOKEN):
        raise InputError(
            f"{to}: the variable {_TOKEN} is not set; it holds a token of the Hub that may write "
            "to the repository"
        )


def push(found: Sequence[Item], manifest: mf.Manifest, to: str, *, private: bool) -> Pushed:
    """Send the files of a dataset to a repository, which is made if it does not exist.

    `private` is for a repository that is made. Raises StorageError if the repository holds
    something else, the server refuses, or what it has afterwards is not what was to be sent.
    """
    check_access(to)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    name, token = repository(to), os.environ[_TOKEN]
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token, library_name="hindcast")
    with _errors(to, token):
        url = api.create_repo(name, repo_type="dataset", private=private or None, exist_ok=True)
        head = str(api.dataset_info(name).sha)
        there = _tree(api, name, head)
        _refuse_other(api, name, head, there, manifest, to)
        changed = [item for item in found if not _is_there(item, there.get(item.path))]
        gone = sorted(there.keys() - {item.path for item in found} - OF_THE_HUB)
        if not changed and not gone:
            return Pushed(f"{url}/commit/{head}", [], [])
        commit = api.create_commit(
            name,
            [
                *(CommitOperationDelete(path) for path in gone),
                *(CommitOperationAdd(item.path, str(item.source)) for item in changed),
            ],
            repo_type="dataset",
            commit_message=f"{manifest.name}, data {manifest.data_sha256[:12]}",
            parent_commit=head,
        )
        there = _tree(api, name, commit.oid)
    wrong = [item.path for item in found if not _is_there(item, there.get(item.path))]
    wrong += sorted(there.keys() - {item.path for item in found} - OF_THE_HUB)
    if wrong:
        raise StorageError(
            f"{to}: after the commit {commit.oid[:12]} the repository has another {wrong[0]} than "
            "was sent; push again"
        )
    return Pushed(commit.commit_url, [item.path for item in changed], gone)


def _tree(api: Any, name: str, revision: str) -> dict[str, Any]:
    """Return the files of a repository by path."""
    entries = api.list_repo_tree(name, repo_type="dataset", revision=revision, recursive=True)
    return {entry.path: entry for entry in entries if hasattr(entry, "blob_id")}


def _is_there(item: Item, entry: Any) -> bool:
    """Return whether a file of the repository has the bytes of an item."""
    if entry is None or entry.size != item.bytes:
        return False
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == item.sha256)
    blob = hashlib.sha1(b"blob %d\0" % item.bytes, usedforsecurity=False)  # git's own name of it
    with item.source.open("rb") as reader:
        while chunk := reader.read(_CHUNK):
            blob.update(chunk)
    return bool(entry.blob_id == blob.hexdigest())


def _refuse_other(
    api: Any, name: str, head: str, there: dict[str, Any], manifest: mf.Manifest, to: str
) -> None:
    """Raise StorageError unless the repository is empty or has an earlier state of the dataset.

    `there` are its files by path at the commit `head`; `to` is the repository in messages.
    """
    if not there.keys() - OF_THE_HUB:
        return
    if mf.NAME not in there:
        raise StorageError(
            f"{to}: this repository has {min(there.keys() - OF_THE_HUB)}, and is no dataset of "
            "Hindcast; push to an empty or a new one"
        )
    if there[mf.NAME].size > LARGEST_JSON:
        raise StorageError(f"{to}: its manifest has {there[mf.NAME].size} bytes; push to a new one")
    with scratch() as folder:
        api.hf_hub_download(
            name, mf.NAME, repo_type="dataset", revision=head, local_dir=str(folder)
        )
        try:
            old = mf.read_manifest(folder)
        except InputError as error:
            told = str(error).replace(f"{folder}/", "")
            raise StorageError(f"{to}: {told}; push to a new one") from None
    ids = [one.recipe.to_dict()["id"] for one in (old, manifest)]
    if ids[0] != ids[1]:
        raise StorageError(f"{to}: this repository holds {ids[0]}, not {ids[1]}; push to a new one")
    if old.lineage != manifest.lineage:
        raise StorageError(
            f"{to}: this repository holds a dataset under the id {ids[0]} that was made of others "
            "in another way; push to a new one"
        )
    kept = {(part.path, part.sha256) for part in manifest.parts}
    if not kept.issuperset((part.path, part.sha256) for part in old.parts):
        raise StorageError(
            f"{to}: this repository holds other data under the id {ids[0]}, and published data do "
            "not change; give the recipe a new id, such as one that ends in -v2, and push to a new "
            "repository"
        )


@contextmanager
def _errors(to: str, token: str) -> Iterator[None]:
    """Turn errors of the client into a StorageError of one line, without the token."""
    try:
        yield
    except HindcastError:
        raise
    except Exception as error:  # noqa: BLE001  of the client, which has kinds of its own
        causes = [error, error.__cause__] if error.__cause__ is not None else [error]
        lines = [" ".join(str(cause).split()) or type(cause).__name__ for cause in causes]
        told = printable("; ".join(lines)).replace(token, "...")[:600]
        raise StorageError(f"{to}: nothing was committed, or it is not known ({told})") from None
