"""Files that are there whole or not at all: temporary name, sync, rename; digests; JSON."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import DatasetError, StorageError

_PARTIAL = ".partial"  # suffix of a file that is still being written


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals while writing `path` into a StorageError."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            free = shutil.disk_usage(_existing(path)).free
            raise StorageError(
                f"{path}: the disk is full ({free / 1e6:.1f} MB free); nothing half-written was "
                "left, free some space and run the same command again"
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}:
            raise StorageError(f"{path}: cannot be written ({error.strerror})") from error
        if error.errno in {errno.ENOTDIR, errno.EEXIST, errno.EISDIR}:
            raise StorageError(
                f"{path}: a file is in the way of a folder, or the other way round "
                f"({error.strerror})"
            ) from error
        raise


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; StorageError where that is not possible."""
    with storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise StorageError(f"{path}: cannot be written (permission denied)")
    return path


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write(temporary)`, sync it and rename it to `path`; on any failure leave nothing.

    Raises StorageError for a full disk or a folder that cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PARTIAL}")
    with storage_errors(path):
        try:
            write(temporary)
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partials(folder: Path) -> None:
    """Delete what a killed process left behind under a temporary name."""
    for path in folder.glob(f".*{_PARTIAL}"):
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda temporary: _write_bytes(temporary, text.encode()))


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically: keys in the order given, two spaces, a final newline."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; DatasetError that names the file where it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, absurd numbers or depth
        raise DatasetError(f"{path}: not valid JSON ({error})") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, as lower-case hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 of UTF-8 text, as lower-case hex."""
    return hashlib.sha256(text.encode()).hexdigest()
