"""First look at a raw trace: whether the file exists and is text, and its first lines.

Every error message here is one line with the file, what was found and what was expected.
"""

import codecs
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NoReturn

from hindcast.pipeline.errors import TraceError, nearest, no_such_path
from hindcast.pipeline.storage.files import sha256_file
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.traces.files.compression import (
    DAMAGED,
    GZIP,
    binary_kind,
    content,
    first_bytes,
    is_packed,
    readable,
)
from hindcast.pipeline.workloads.schema import SourceFile

_HEAD_BYTES: Final = 65_536
_ZLIB: Final = (b"x\x01", b"x\x9c", b"x\xda")
_JSON: Final = (b"{", b"[")  # the first byte of a text that may be one line
_LONGEST_LINE: Final = 1 << 20  # bytes; also the size of a block
_SUFFIXES: Final = (".csv", ".csv.gz")


def head_lines(path: Path, expected: str) -> list[str]:
    """Return the complete lines within the first 64 KiB of a text file, plain or compressed.

    A byte-order mark and carriage returns are removed; bytes that are not UTF-8 become U+FFFD.
    Raises TraceError if the file is missing, a folder, unreadable, empty or binary, or if its first
    line is longer than 64 KiB, unless it is JSON; `expected` completes the message.
    """
    head = _head(path, expected)
    if kind := binary_kind(head):
        raise TraceError(f"{path}: {kind}")
    if b"\0" in head:
        raise TraceError(
            f"{path}: this is a binary file (or UTF-16), expected {expected} as UTF-8 text"
        )
    if len(head) > _HEAD_BYTES:
        complete_lines, newline, _ = head.rpartition(b"\n")
        if not newline and head.lstrip()[:1] in _JSON:
            complete_lines = head
        elif not newline:
            raise TraceError(
                f"{path}: no line ends within the first {_HEAD_BYTES} bytes, expected {expected}"
            )
        head = complete_lines
    lines = head.decode("utf-8-sig", errors="replace").split("\n")
    if not any(line.strip() for line in lines):
        raise TraceError(f"{path}: this file is empty, expected {expected}")
    return [line.removesuffix("\r") for line in lines]


def require_lines(path: Path) -> None:
    """Raise TraceError if a line of a text file, plain or gzip, is longer than 1 MiB.

    Readers hold whole lines in memory, and a small compressed file can inflate to a line of any
    length. Here no more than one block is held. Other compressions are refused.
    """
    if first_bytes(path).startswith(_ZLIB) or is_packed(path):
        raise TraceError(f"{path}: this file is compressed, expected plain text or gzip")
    with readable(path), content(path) as text:
        for _ in blocks_of(text, path):
            pass


def blocks_of(text: IO[bytes], path: Path, *, json: bool = False) -> Iterator[bytes]:
    """Yield a text in blocks of 1 MiB; raise TraceError if a line is longer than that.

    With `json`, the lines of a text that begins as JSON may be longer.
    """
    number, length = 1, 0  # of the line that the next block continues
    while block := text.read(_LONGEST_LINE):
        if json and number == 1 and not length:
            json = block.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in _JSON
        first = block.find(b"\n")
        length += len(block) if first < 0 else first
        if length > _LONGEST_LINE and not json:
            raise TraceError(
                f"{path}: line {number} is longer than {_LONGEST_LINE:,} bytes, "
                "expected rows of a trace; is this another file?"
            )
        if first >= 0:
            number += block.count(b"\n")
            length = len(block) - 1 - block.rfind(b"\n")
        yield block


def _head(path: Path, expected: str) -> bytes:
    """Return the first bytes of a file: at most one more than the head, if the file is longer."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise TraceError(
                f"{path}: this cannot be read: it is a folder, expected the file of {expected}"
            )
        if not stat.S_ISREG(mode):
            raise TraceError(
                f"{path}: this is a device, FIFO or socket, expected the file of {expected}"
            )
        with content(path) as text:
            return text.read(_HEAD_BYTES + 1)
    except FileNotFoundError:
        no_such_file(path, expected)
    except DAMAGED as error:
        if isinstance(error, OSError) and error.strerror:
            fault = f"this file cannot be read ({error.strerror})"
        else:
            kind = "gzip" if first_bytes(path).startswith(GZIP) else "compressed"
            fault = f"this {kind} file is damaged ({error})"
        raise TraceError(f"{path}: {fault}, expected {expected}") from error


def no_such_file(path: Path, expected: str) -> NoReturn:
    """Raise TraceError for a path that does not exist, with the nearest name in its folder."""
    neighbours = _names(path.parent) if not is_remote(path) and path.parent.is_dir() else []
    raise TraceError(no_such_path(str(path), expected, neighbours))


def find_table(folder: Path, name: str) -> Path | None:
    """Return the file of a table in a folder: `name.csv`, else the only `name*.csv`.

    Files may end in .csv or .csv.gz. Returns None if there is no such file; raises TraceError if
    several files match equally well.
    """
    exact = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
    for path in exact:
        if path.is_file():
            return path
    candidates = [
        folder / other
        for other in _names(folder)
        if other.startswith(name) and other.endswith(_SUFFIXES) and (folder / other).is_file()
    ]
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise TraceError(
            f"{folder}: several files could be {name}.csv ({names}); rename the one to read to "
            f"{name}.csv, or give its path"
        )
    return candidates[0] if candidates else None


def folder_without(folder: Path, names: Sequence[str], expected: str) -> TraceError:
    """Return the error for a folder without any of the files `names`; it lists the files there."""
    present = _names(folder)
    close = next((match for name in names if (match := nearest(name, present))), None)
    if close:
        hint = f"; did you mean the file {close!r}?"
    elif present:
        hint = f"; it has {', '.join(present[:5])}{', ...' if len(present) > 5 else ''}"
    else:
        hint = "; the folder is empty"
    return TraceError(
        f"{folder}: there is no {' or '.join(names)} in this folder, expected {expected}{hint}"
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise TraceError(f"{folder}: this folder cannot be listed ({error.strerror})") from error


def source_file(path: Path) -> SourceFile:
    """Return name (without folder), bytes and SHA-256 of a raw file, for the provenance."""
    return SourceFile(name=path.name, bytes=path.stat().st_size, sha256=sha256_file(path))
