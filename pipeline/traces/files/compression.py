"""Contents of raw files, plain or compressed, as bytes.

Compressions are recognised by the first bytes of a file, not by its name: gzip, bzip2, xz, zstd
and zip. Each file of a zip archive is a content of its own. What is no text and no Parquet file is
named with the way to convert it (`binary_kind`).
"""

import bz2
import gzip
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from hindcast.pipeline.errors import TraceError

GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
PARQUET: Final = b"PAR1"
SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst", ".zip")
DAMAGED: Final = (
    EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError,
    RuntimeError,
)  # fmt: skip


def _zstd(path: Path) -> Any:
    import pyarrow as pa  # loaded for such a file alone

    return pa.input_stream(str(path), compression="zstd")


_OPENERS: Final[Mapping[bytes, Callable[[Path], Any]]] = {
    GZIP: gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
# First bytes -> what the file is, and how it becomes a table of text.
_BINARY: Final[Mapping[bytes, tuple[str, str]]] = {
    b"SQLite format 3\0": (
        "an SQLite database",
        "write its table as CSV: sqlite3 -header -csv FILE 'SELECT * FROM jobs' > jobs.csv",
    ),
    b"\xd0\xcf\x11\xe0": ("a workbook of Excel", "save it as CSV"),
    b"ARROW1": (
        "an Arrow (Feather) file",
        "convert it: pandas.read_feather(FILE).to_parquet('jobs.parquet')",
    ),
    b"ORC": ("an ORC file", "convert it: pandas.read_orc(FILE).to_parquet('jobs.parquet')"),
    b"Obj\x01": ("an Avro file", "convert it to CSV or Parquet"),
    b"\x89HDF": ("an HDF5 file", "convert it: pandas.read_hdf(FILE).to_parquet('jobs.parquet')"),
    b"\x93NUMPY": ("an array of NumPy", "write it as CSV with the names of its columns"),
    b"\x80\x04": ("a pickle, which is never opened", "write the table as CSV or Parquet"),
    b"\x80\x05": ("a pickle, which is never opened", "write the table as CSV or Parquet"),
    b"RDX": ("a file of R", "in R: write.csv(jobs, 'jobs.csv', row.names = FALSE)"),
    b"X\n\0\0": ("a file of R", "in R: write.csv(readRDS(FILE), 'jobs.csv', row.names = FALSE)"),
    b"%PDF": ("a PDF document", "export the table as CSV"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it: 7z x FILE"),
    b"Rar!": ("a RAR archive", "unpack it"),
    b"\x1f\x9d": ("compressed with compress(1)", "unpack it: uncompress FILE"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unpack it: lz4 -d FILE"),
    b"\xff\xfe": ("text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > jobs.csv"),
    b"\xfe\xff": ("text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > jobs.csv"),
}  # fmt: skip
_ZIPPED: Final[Mapping[str, tuple[str, str]]] = {  # a member -> what the archive is
    "xl/workbook.xml": ("a workbook of Excel", "save it as CSV"),
    "content.xml": ("a document of LibreOffice", "save it as CSV"),
}


def first_bytes(path: Path) -> bytes:
    """Return the first 16 bytes of a file as it is on the disk, which tell its kind."""
    with path.open("rb") as raw:
        return raw.read(16)


def members(path: Path) -> list[str]:
    """Return the files of a zip archive in natural order; [""] for any other file.

    Raises TraceError for archives that are documents, and for one without files.
    """
    if not first_bytes(path).startswith(_ZIP):
        return [""]
    with readable(path), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for member, (kind, how) in _ZIPPED.items():
        if member in names:
            raise TraceError(f"{path}: this is {kind}, which cannot be read; {how}")
    files = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    if not files:
        raise TraceError(f"{path}: this zip archive has no files")
    return sorted(files, key=natural)


def natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a key that sorts day9 before day10."""
    parts = re.findall(r"(\D*)(\d*)", name)
    return tuple((text, int(number or -1), number) for text, number in parts)


@contextmanager
def content(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open the content of a file, inflated if it is compressed; `member` is one of `members`.

    Reading a damaged file raises one of DAMAGED.
    """
    if stat.S_ISFIFO(path.stat().st_mode):  # a read of a FIFO may never return
        raise TraceError(f"{path}: this is a device, FIFO or socket, expected the file of a log")
    magic = first_bytes(path)
    if magic.startswith(_ZIP):
        name = member or members(path)[0]
        with zipfile.ZipFile(path) as archive, archive.open(name) as inflated:
            yield inflated
        return
    opener = next((o for sign, o in _OPENERS.items() if magic.startswith(sign)), None)
    with path.open("rb") if opener is None else opener(path) as inflated:
        yield inflated


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Replace the errors of a damaged file by a TraceError that names it."""
    try:
        yield
    except DAMAGED as error:
        raise TraceError(
            f"{path}: this file cannot be read to its end ({error}); download or copy it again"
        ) from error


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed in another way than gzip, which polars reads itself."""
    magic = first_bytes(path)
    return any(magic.startswith(sign) for sign in (_ZIP, *_OPENERS) if sign != GZIP)


def binary_kind(head: bytes) -> str:
    """Return what a file that begins so is, and how to convert it; "" if it may be text."""
    if head[257:262] == b"ustar":
        return "this is a tar archive; unpack it (tar xf FILE), and give the folder"
    for sign, (kind, how) in _BINARY.items():
        if head.startswith(sign):
            return f"this is {kind}, which cannot be read; {how}"
    return ""
