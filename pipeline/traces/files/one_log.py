"""A compressed file or a folder of files as one log.

Readers read one file of text (plain or gzip) or one Parquet file. `one_log` gives them that file:

    what the path is              what is read
    a plain or gzip file          the file itself
    bz2, xz, zst                  its content
    zip                           the contents of its files
    a folder                      the contents of all files below it, as if they were joined

Files are joined in the natural order of their names (day9 before day10). The header of the first
file is dropped from the others; a file with another header is refused. Parquet files are joined by
the names of their columns. Quarantined rows, messages and the provenance name the file that a row
was read from, and its line there.
"""

import bisect
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Final

import polars as pl

from hindcast.pipeline.errors import HindcastError, TraceError
from hindcast.pipeline.storage.files import scratch
from hindcast.pipeline.traces.files.compression import (
    PARQUET,
    content,
    first_bytes,
    is_packed,
    members,
    natural,
    readable,
)
from hindcast.pipeline.traces.first_look import blocks_of, source_file
from hindcast.pipeline.workloads.schema import Workload

_LOG: Final = "a log, or a folder of logs"
_BESIDE: Final = re.compile(  # files that lie beside logs and are no logs
    r"(?i)^(\..*|.*~|readme.*|license.*|copying.*|(sha|md5).*sums?.*|.*\.(md|toml|html|pdf|png))$"
)
_NAME: Final = re.compile(r"""^\s*(["']?)[A-Za-z_][^"'={}:]{0,80}\1\s*$""")  # of a column
_SEPARATORS: Final = "|,;\t"
_BOM: Final = b"\xef\xbb\xbf"
_CLOCK: Final = re.compile(rb"(?m)^\s*;\s*UnixStartTime:\s*(\d+)")


@dataclass(frozen=True)
class OneLog:
    """A log as one file that a reader can read, and what it is made of.

    Attributes:
        path: The file to read.
        given: The path that was given.
        files: Raw files, in order.
        names: Name of each content, in order.
        firsts: Line (or row of Parquet) of `path` at which each content begins.
        dropped: Number of lines that each content has before, which `path` lacks.
    """

    path: Path
    given: Path
    files: tuple[Path, ...]
    names: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def place(self, line: int) -> tuple[str, int]:
        """Return the name of the content that a line of `path` comes from, and its line there."""
        nth = max(bisect.bisect_right(self.firsts, line) - 1, 0)
        return self.names[nth], line - self.firsts[nth] + 1 + self.dropped[nth]

    def credited(
        self, workload: Workload, quarantine: pl.DataFrame, beside: Iterable[Path] = ()
    ) -> tuple[Workload, pl.DataFrame]:
        """Return what was read from `path`, with the raw files as its source.

        `beside` are files that were read before, such as a mapping.
        """
        if not self.names:
            return workload, quarantine
        sources = tuple(source_file(file) for file in (*beside, *self.files))
        workload = replace(workload, provenance=replace(workload.provenance, files=sources))
        places = [self.place(line) for line in quarantine["line"]]
        named = quarantine.with_columns(
            file=pl.Series([name for name, _ in places], dtype=pl.String),
            line=pl.Series([line for _, line in places], dtype=pl.Int64),
        )
        return workload, named


def raw_files(path: Path) -> tuple[Path, ...]:
    """Return the files that make a log: the path, or the files below it in natural order.

    Hidden files, and those that lie beside logs (README, checksums), are no part of it.
    """
    if not path.is_dir():
        return (path,)
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(path)
        if not any(part.startswith(".") for part in Path(folder).relative_to(path).parts)
        for name in names
        if not _BESIDE.match(name) and (Path(folder) / name).is_file()
    ]
    return tuple(sorted(found, key=lambda file: natural(str(file.relative_to(path)))))


def first_file(path: Path) -> Path:
    """Return the first file of a log that has content; the path itself if it is no folder.

    Raises TraceError if a folder has no such file.
    """
    file = next((file for file in raw_files(path) if file.stat().st_size), None)
    if path.is_dir() and file is None:
        raise TraceError(f"{path}: this folder has no files with content, expected {_LOG}")
    return file or path


@contextmanager
def one_log(path: Path) -> Iterator[OneLog]:
    """Yield a log as one file, which exists while the context is open.

    Raises TraceError if a file is damaged, or files do not belong together or have no content.
    Errors that are raised in the context name the given path and the line in its own file.
    """
    if not path.is_dir() and (not path.is_file() or not is_packed(path)):
        yield OneLog(path, path, (path,))  # a reader says what is wrong with such a path
        return
    files = raw_files(path)
    with scratch() as folder:
        log = _joined(path, files, folder)
        try:
            yield log
        except HindcastError as error:
            if str(log.path) not in str(error):
                raise
            text = re.sub(r"\bline (\d+)\b", lambda match: _line(log, int(match[1])), str(error))
            raise type(error)(text.replace(str(log.path), str(path))) from error


def _line(log: OneLog, line: int) -> str:
    name, own = log.place(line)
    return f"line {own}" if len(log.names) == 1 else f"line {own} of {name}"


def _joined(path: Path, files: tuple[Path, ...], folder: Path) -> OneLog:
    """Return the log of a path, with its contents written to a file in `folder`."""
    log = OneLog(folder / path.name, path, files)
    if first_bytes(first_file(path)).startswith(PARQUET):
        return _join_parquet(log)
    header: _Header | None = None
    line = 1
    with log.path.open("wb") as out:
        for file in (file for file in files if file.stat().st_size):
            with readable(file):
                for member in members(file):
                    with content(file, member) as text:
                        name = file.name if not member else f"{file.name}/{member}"
                        blocks = blocks_of(text, file, json=True)
                        head = next(blocks, b"").removeprefix(_BOM)
                        found = _header_of(head, file if not member else file / member)
                        header = header or found
                        skipped = _repeated(header, found) if log.names else 0
                        log.names.append(name)
                        log.firsts.append(line)
                        log.dropped.append(skipped)
                        line += _write(out, head.split(b"\n", skipped)[skipped:], blocks)
    return log


@dataclass(frozen=True)
class _Header:
    """First line of a file that is not blank, and its place."""

    file: Path
    text: str
    line: int
    is_header: bool
    clock: bytes | None


def _header_of(head: bytes, file: Path) -> _Header | None:
    """Return the first line that is not blank in the head of a file; None if there is none."""
    for number, line in enumerate(head.split(b"\n"), start=1):
        if text := line.decode(errors="replace").strip():
            clock = _CLOCK.search(head)
            return _Header(file, text, number, _is_header(text), clock[1] if clock else None)
    return None


def _is_header(text: str) -> bool:
    """Return whether a line has only names of columns, two or more."""
    fields = text.split(max(_SEPARATORS, key=text.count))
    return len(fields) > 1 and all(_NAME.match(name) for name in fields if name.strip())


def _repeated(header: _Header | None, found: _Header | None) -> int:
    """Return the number of lines to drop from a file: up to its header, if it is the same.

    Raises TraceError if it has another header than the first file.
    """
    if header is None or found is None:
        return 0
    if header.clock != found.clock and header.clock is not None and found.clock is not None:
        raise TraceError(
            f"{found.file}: UnixStartTime is {found.clock.decode()}, but in {header.file.name} it "
            f"is {header.clock.decode()}; their clocks differ, so they are not one log"
        )
    if not header.is_header:
        return 0
    if header.text == found.text:
        return found.line
    if found.is_header:
        raise TraceError(
            f"{found.file}: the header is {found.text[:120]!r}, expected that of "
            f"{header.file.name}, {header.text[:120]!r}; give files of one kind"
        )
    return 0


def _write(out: IO[bytes], head: Iterable[bytes], blocks: Iterable[bytes]) -> int:
    """Write the content of a file, its first block in `head`; return the number of lines."""
    written = 0
    last = b"\n"
    for block in chain(head, blocks):
        out.write(block)
        written += block.count(b"\n")
        last = block[-1:] or last
    if last != b"\n":
        out.write(b"\n")
    return written + (last != b"\n")


def _join_parquet(log: OneLog) -> OneLog:
    """Write the rows of all Parquet files of a log to one."""
    frames: list[pl.LazyFrame] = []
    columns: list[str] = []
    row = 1
    for file in log.files:
        try:
            names = list(pl.read_parquet_schema(file))
            rows = int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError) as error:
            why = str(error).splitlines()[0]
            raise TraceError(
                f"{file}: this file cannot be read as Parquet, as {log.files[0].name} is ({why})"
            ) from error
        columns = columns or names
        if set(names) != set(columns):
            odd = ", ".join(sorted(set(names) ^ set(columns))[:5])
            raise TraceError(
                f"{file}: its columns are not those of {log.files[0].name} (only one of the two "
                f"has {odd}); give files of one kind"
            )
        frames.append(pl.scan_parquet(file, glob=False).select(columns))
        log.names.append(file.name)
        log.firsts.append(row)
        log.dropped.append(0)
        row += rows
    try:
        pl.concat(frames, how="vertical_relaxed").sink_parquet(log.path)
    except pl.exceptions.PolarsError as error:
        why = str(error).splitlines()[0]
        raise TraceError(f"{log.given}: the Parquet files differ in their types ({why})") from error
    return log
