"""The first look at a raw trace: is it there, is it text, which lines does it begin with.

Everything that can be said about a file before it is read in earnest is said here, as one line
that names the file, what was found and what was expected.
"""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from pipeline.errors import TraceError, nearest
from pipeline.storage.files import sha256_file
from pipeline.workloads.schema import SourceFile

_HEAD_BYTES: Final = 65_536
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SUFFIXES: Final = (".csv", ".csv.gz")


def head_lines(path: Path, expected: str) -> list[str]:
    """Return the complete lines within the first 64 KiB of a text file, plain or gzip-compressed.

    A byte-order mark and carriage returns are removed; bytes that are not UTF-8 become U+FFFD.
    Raises TraceError where `path` is missing, a folder, unreadable, empty, binary or one endless
    line; `expected` completes its message.
    """
    content = _head(path, expected)
    if b"\0" in content:
        raise TraceError(f"{path}: is a binary file (or UTF-16), expected {expected} as UTF-8 text")
    if len(content) > _HEAD_BYTES:
        whole, newline, _ = content.rpartition(b"\n")
        if not newline:
            raise TraceError(
                f"{path}: no line ends within the first {_HEAD_BYTES} bytes, expected {expected}"
            )
        content = whole
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    if not any(line.strip() for line in lines):
        raise TraceError(f"{path}: is empty, expected {expected}")
    return [line.removesuffix("\r") for line in lines]


def _head(path: Path, expected: str) -> bytes:
    """One byte more than the head where the file is longer than that."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            if not compressed:
                return raw.read(_HEAD_BYTES + 1)
            with gzip.open(raw) as inflated:
                return inflated.read(_HEAD_BYTES + 1)
    except FileNotFoundError:
        _no_such_file(path, expected)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path}: a damaged gzip file ({error}), expected {expected}") from error
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror}), expected {expected}"
        ) from error


def _no_such_file(path: Path, expected: str) -> NoReturn:
    hint = ""
    if path.parent.is_dir():
        close = nearest(path.name, _names(path.parent))
        hint = f"; did you mean {close!r}?" if close else ""
    raise TraceError(f"{path}: no such file or folder, expected {expected}{hint}")


def find_table(folder: Path, name: str) -> Path | None:
    """Return the file of a folder that holds a table: `name.csv`, else the only `name*.csv`.

    Files may end in .csv or .csv.gz. None where there is none; TraceError where several
    are equally good.
    """
    exact = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
    for path in exact:
        if path.is_file():
            return path
    found = [
        folder / other
        for other in _names(folder)
        if other.startswith(name) and other.endswith(_SUFFIXES) and (folder / other).is_file()
    ]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise TraceError(
            f"{folder}: several files could be {name}.csv ({names}); name the one to read "
            f"{name}.csv or give its path"
        )
    return found[0] if found else None


def folder_without(folder: Path, names: Sequence[str], expected: str) -> TraceError:
    """Return the error for a folder that has none of the files `names`; it names what is there."""
    there = _names(folder)
    close = next((match for name in names if (match := nearest(name, there))), None)
    if close:
        found = f"; did you mean the file {close!r}?"
    elif there:
        found = f"; it has {', '.join(there[:5])}{', ...' if len(there) > 5 else ''}"
    else:
        found = "; it is empty"
    return TraceError(
        f"{folder}: no {' or '.join(names)} in this folder, expected {expected}{found}"
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise TraceError(f"{folder}: cannot be listed ({error.strerror})") from error


def source_file(path: Path) -> SourceFile:
    """Describe a raw file for provenance: its name (never its place), bytes, SHA-256."""
    return SourceFile(name=path.name, bytes=path.stat().st_size, sha256=sha256_file(path))
