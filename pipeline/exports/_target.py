"""Target of an export: a folder or file that appears under its name only when it is complete.

It is written under a temporary name in the same folder, synced and renamed. Object stores cannot
rename: for them a folder is made on this machine and uploaded file by file, the README last.
"""

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hindcast.pipeline.errors import StorageError
from hindcast.pipeline.exports import ExportResult
from hindcast.pipeline.storage.files import make_folder, scratch, storage_errors, sync
from hindcast.pipeline.storage.location import is_remote

README = "README.md"


@contextmanager
def new_folder(out: Path, last: str = README) -> Iterator[Path]:
    """Yield a temporary folder that becomes `out` at the end of the context, unless it fails.

    To a store the files named `last` are uploaded behind the others.

    Raises StorageError if `out` is a file or a folder that is not empty.
    """
    if is_remote(out):
        if out.exists():
            raise StorageError(f"{out}: is not empty; choose another --out")
        with scratch() as folder, storage_errors(folder):
            yield folder
            names = sorted(p.relative_to(folder).as_posix() for p in _files(folder))
            for name in sorted(names, key=lambda name: Path(name).name == last):
                (out / name).upload(folder / name)
        return
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out}: is a file, expected a new folder")
    if out.is_dir() and any(out.iterdir()):
        raise StorageError(f"{out}: is not empty; choose another --out")
    temporary = _temporary(out)
    with storage_errors(out):
        try:
            temporary.mkdir()
            yield temporary
            for path in sorted(temporary.rglob("*")):
                sync(path)
            temporary.replace(out)
            sync(out.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield a temporary file name; the file becomes `out` at the end of the context.

    Raises StorageError if `out` exists.
    """
    if out.exists():
        fault = "is a folder, expected the name of a new file" if out.is_dir() else "exists already"
        raise StorageError(f"{out}: {fault}; choose another --out")
    if is_remote(out):
        with scratch() as folder, storage_errors(folder):
            yield folder / out.name
            out.upload(folder / out.name)
        return
    out = out.resolve()
    temporary = _temporary(out)
    with storage_errors(out):
        try:
            yield temporary
            sync(temporary)
            temporary.replace(out)
            sync(out.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def result(out: Path, notes: tuple[str, ...] = ()) -> ExportResult:
    """Return the result of an export, with the files at `out` counted."""
    files = _files(out) if out.is_dir() else [out]
    return ExportResult(out, len(files), sum(p.stat().st_size for p in files), notes)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("**/*") if path.is_file()]


def _temporary(out: Path) -> Path:
    """Return the temporary name; remove the temporary files of killed exports to `out` first.

    The caller holds the lock of `out`, so no other export is writing to such a name.
    """
    make_folder(out.parent)
    for leftover in list(out.parent.glob(f".{glob.escape(out.name)}.*.partial")):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
    return out.with_name(f".{out.name}.{os.getpid()}.partial")
