"""Files, on this machine and in object stores: atomic writing, checked reading, digests, JSON.

A local file is written under a temporary name, synced and renamed. A file of a store
(`hindcast.pipeline.storage.location`) is written to a local temporary file and uploaded in one
step; an object exists once its upload is complete. Files of a store are read through `local_copy`:
one at a time, on disk, not in memory.

Foreign files are checked before anything large is read or allocated:

- A file is a regular file of a bounded size, not a link, FIFO or device.
- JSON is bounded in depth, and holds only values of the JSON standard.
- Parquet: the footer's counts and sizes are bounded, and every page header of every column agrees
  with them, so that a page cannot decode to more than was claimed.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hindcast.pipeline.errors import DatasetError, HindcastError, StorageError
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.storage.parquet_pages import DamagedPage, check_chunk

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.parquet as pq

_PARTIAL = ".partial"  # suffix of a file that is still being written
LOCK = ".lock"  # suffix, or name, of a lock (hindcast.pipeline.storage.locks)
STATUS: Final = ".progress"  # name of the status of a running command (hindcast.flows.status)
LARGEST_JSON: Final = 64 << 20  # bytes; a manifest of a hundred thousand parts is smaller
LARGEST_GROUP: Final = 2 << 30  # decoded bytes of a row group
LARGEST_TABLE: Final = 4 << 30  # decoded bytes of a table that is read as a whole
_DEEPEST: Final = 64  # levels of nested JSON
_ERROR_NUMBER: Final = re.compile(r"\b(?:os error |errno = )(\d+)")


@dataclass(frozen=True)
class Stored:
    """Size and SHA-256 of a file that was written."""

    bytes: int
    sha256: str


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system while writing `path` into StorageError."""
    try:
        yield
    except HindcastError:
        raise
    except Exception as error:
        raise_if_full(path, error)
        if not isinstance(error, OSError):
            raise
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}:
            raise StorageError(f"{path}: this path cannot be written ({error.strerror})") from error
        if error.errno in {errno.ENOTDIR, errno.EEXIST, errno.EISDIR}:
            raise StorageError(
                f"{path}: a file has the name of a folder that is needed here, or a folder that of "
                f"a file ({error.strerror}); choose another path"
            ) from error
        raise


def raise_if_full(path: Path, error: Exception) -> None:
    """Raise StorageError if `error` says that the disk of `path` has no room for a file.

    So does an error that says that no file may be so large. Nothing is raised for other errors.
    """
    number = _error_number(error)
    if number in {errno.ENOSPC, errno.EDQUOT}:
        free = shutil.disk_usage(_existing(path)).free
        raise StorageError(
            f"{path}: the disk is full ({free:,} bytes free); no partial file was left; free some "
            "space and run the same command again"
        ) from error
    if number == errno.EFBIG:
        raise StorageError(
            f"{path}: the file would be larger than this process or file system allows (`ulimit "
            "-f`); no partial file was left; raise the limit and run the same command again"
        ) from error


def _error_number(error: BaseException) -> int | None:
    """Return the operating system's number of an error; polars and HDF5 give it only as text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _ERROR_NUMBER.search(str(error))
    return int(found[1]) if found else None


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; raise StorageError if that is not possible.

    Stores have no folders: there an object is written and removed, to test the access.
    """
    if is_remote(path):
        path.check_writable(f".{os.getpid()}{_PARTIAL}")
        return path
    with storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise StorageError(f"{path}: this folder cannot be written (permission denied)")
    return path


def write_atomically(path: Path, write: Callable[[Path], Any]) -> Stored:
    """Call `write(temporary)`, sync the file and rename it to `path`; a failure leaves nothing.

    Raises StorageError if the disk is full, the folder cannot be written, or the store refuses.
    """
    with ExitStack() as stack:
        temporary, stored = _written(path, write, stack)
        _put(temporary, path)
    return stored


@contextmanager
def written_together() -> Iterator[Callable[[Path, Callable[[Path], Any]], Stored]]:
    """Yield `write(path, write_file)`, whose files appear under their names at the end, or not.

    All are written and synced before the first is renamed, so a full disk leaves what was there.
    The last one is the file that says "finished": an older one is removed before the first rename.
    """
    with ExitStack() as stack:
        waiting: list[tuple[Path, Path]] = []

        def write(path: Path, write_file: Callable[[Path], Any]) -> Stored:
            temporary, stored = _written(path, write_file, stack)
            waiting.append((temporary, path))
            return stored

        yield write
        if waiting:
            waiting[-1][1].unlink(missing_ok=True)
        for temporary, path in waiting:
            _put(temporary, path)


def _written(path: Path, write: Callable[[Path], Any], stack: ExitStack) -> tuple[Path, Stored]:
    """Write a file under a temporary name and sync it; `stack` removes it, unless it is renamed.

    The name is one of its own, since processes of several machines may write the same file. A file
    of a store is written on this machine.
    """
    if is_remote(path):
        temporary = stack.enter_context(scratch()) / path.name
    else:
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{_PARTIAL}")
        stack.callback(temporary.unlink, missing_ok=True)
    with storage_errors(temporary if is_remote(path) else path):
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
            return temporary, Stored(handle.tell(), digest)


def _put(temporary: Path, path: Path) -> None:
    """Give a written file its name."""
    if is_remote(path):
        path.upload(temporary)
        return
    with storage_errors(path):
        temporary.replace(path)
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder on this machine, which is removed at the end."""
    with storage_errors(Path(tempfile.gettempdir())):
        folder = tempfile.TemporaryDirectory(prefix="hindcast-")
    with folder as name:
        yield Path(name)


@contextmanager
def local_copy(path: Path, beside: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield a local file with the content of `path`, which exists while the context is open.

    Files of `beside` that are below the folder of `path` are copied too, and lie beside the copy.
    A local path is yielded itself. Errors raised inside the context about the copy name `path`.
    Raises FileNotFoundError if there is no such object, StorageError if the store refuses.
    """
    if not is_remote(path):
        yield path
        return
    with scratch() as folder, _downloaded(path.parent, (path, *beside), folder):
        yield folder / path.name


@contextmanager
def local_folder(
    path: Path, read_with: Callable[[Path], Iterable[Path]] | None = None
) -> Iterator[Path]:
    """Yield the `local_copy` of a file, or of a folder with the files directly in it.

    `read_with(path)` names the files that are read with a file, which are copied too.
    """
    if not is_remote(path) or not path.is_dir():
        named = read_with(path) if read_with is not None and is_remote(path) else ()
        with local_copy(path, [file for file in named if file.is_file()]) as copy:
            yield copy
        return
    with scratch() as folder:
        copy = folder / path.name
        with _downloaded(path, [file for file in path.iterdir() if file.is_file()], copy):
            yield copy


@contextmanager
def _downloaded(above: Path, files: Iterable[Path], out: Path) -> Iterator[None]:
    """Download the files that are below a folder of a store to `out`; errors name the store."""
    out.mkdir(exist_ok=True)
    for file in dict.fromkeys(files):
        if is_remote(file) and file.is_relative_to(above) and ".." not in file.parts:
            copy = out / str(file.relative_to(above))
            with storage_errors(copy):
                copy.parent.mkdir(parents=True, exist_ok=True)
                file.download(copy)
    with _named(out, above):
        yield


@contextmanager
def _named(copy: Path, path: Path) -> Iterator[None]:
    """Replace the name of a copy by the name of its original in errors."""
    try:
        yield
    except HindcastError as error:
        if str(copy) not in str(error):
            raise
        raise type(error)(str(error).replace(str(copy), str(path).rstrip("/"))) from error


def remove_partials(folder: Path) -> None:
    """Delete the temporary files that a killed process left."""
    for path in list(folder.glob(f".*{_PARTIAL}")):
        path.unlink(missing_ok=True)


def is_partial(name: str) -> bool:
    """Return whether a file of this name belongs to a writer that is at work, or was killed.

    It is a file that is still being written, a lock, or the status of a command.
    """
    return name.startswith(".") and name.endswith((_PARTIAL, LOCK, STATUS))


def remove_folder(folder: Path) -> None:
    """Delete a folder and all below it, as far as that is possible."""
    if is_remote(folder):
        folder.remove()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def require_file(path: Path, largest: int | None = None, *, links: bool = False) -> int:
    """Return the size of a regular file in bytes; raise DatasetError if it is anything else.

    Reading a FIFO would never end. A symbolic link inside a dataset could lead to any file of this
    machine, so links are refused unless `links` says that the user named the file.
    """
    try:
        if not links and path.is_symlink():
            raise DatasetError(
                f"{path}: this is a symbolic link, which is not followed inside a dataset or a "
                "checkpoint; copy the file itself (cp -rL)"
            )
        found = path.stat()
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    except OSError as error:
        raise DatasetError(f"{path}: this file cannot be read ({error.strerror})") from error
    except ValueError as error:  # a NUL, or characters that no file name can have
        raise DatasetError(f"{str(path)!r}: this cannot be the name of a file") from error
    if not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "device, FIFO or socket"
        raise DatasetError(f"{path}: this is a {kind}, expected a file")
    if largest is not None and found.st_size > largest:
        raise DatasetError(
            f"{path}: this file has {found.st_size} bytes, expected at most {largest}"
        )
    return int(found.st_size)


def require_parquet(path: Path, *, whole: bool = True) -> "pq.FileMetaData":
    """Return the footer of a Parquet file that is safe to decode; raise DatasetError otherwise.

    `whole` bounds all row groups together by LARGEST_TABLE, otherwise each by LARGEST_GROUP.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = require_file(path)
    try:
        with path.open("rb") as handle:
            metadata = pq.read_metadata(handle)
            total = rows = 0
            for index in range(metadata.num_row_groups):
                group = metadata.row_group(index)
                rows += group.num_rows
                decoded = sum(
                    check_chunk(handle, group.column(c), size) for c in range(group.num_columns)
                )
                total = total + decoded if whole else decoded
                if total > (LARGEST_TABLE if whole else LARGEST_GROUP):
                    raise DamagedPage(f"it decodes to more than {total >> 20} MiB at once")  # noqa: TRY301
    except DamagedPage as error:
        raise DatasetError(f"{path}: this is not a sound Parquet file ({error})") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DatasetError(f"{path}: this file cannot be read as Parquet ({error})") from error
    if rows != metadata.num_rows:
        raise DatasetError(
            f"{path}: the footer says {metadata.num_rows} rows, its row groups have {rows}"
        )
    return metadata


def read_parquet(path: Path) -> "pl.DataFrame":
    """Return one Parquet file as a table; raise DatasetError if that is not possible."""
    import polars as pl

    panic = pl.exceptions.PanicException  # a BaseException
    try:
        with local_copy(path) as copy:
            require_parquet(copy)
            return pl.read_parquet(copy, glob=False, hive_partitioning=False)
    except (pl.exceptions.PolarsError, panic, OSError) as error:
        raise DatasetError(f"{path}: this file cannot be read as Parquet ({error})") from error


def read_listed(path: Path, entry: Mapping[str, Any]) -> "pl.DataFrame":
    """Return a Parquet file that a manifest lists with its `sha256` and its number of `rows`.

    Raises DatasetError if the file is missing or changed, cannot be read, or has other rows.
    """
    if not path.exists() and not path.is_symlink():
        raise DatasetError(f"{path}: this file is missing, but the manifest lists it")
    require_file(path)
    digest = sha256_file(path)
    if digest != entry.get("sha256"):
        raise DatasetError(
            f"{path}: this file was changed: its SHA-256 is {digest}, the manifest says "
            f"{entry.get('sha256')}"
        )
    table = read_parquet(path)
    if table.height != entry.get("rows"):
        raise DatasetError(
            f"{path}: this file has {table.height} rows, the manifest says {entry.get('rows')!r}"
        )
    return table


def write_parquet(path: Path, table: "pl.DataFrame") -> Stored:
    """Write a table atomically as Parquet, compressed like all tables of datasets."""
    return write_atomically(path, table_writer(table, compression_level=3))


def table_writer(table: "pl.DataFrame", **settings: Any) -> Callable[[Path], int]:
    """Return a function that writes a table as Parquet to a path, for `write_atomically`.

    The file is made in memory first, where it is smaller than the table: polars does not always
    say that a disk is full, and may report a damaged file instead.
    """

    def write(path: Path) -> int:
        content = BytesIO()
        table.write_parquet(content, **{"compression": "zstd", **settings})
        return path.write_bytes(content.getbuffer())

    return write


def scan_parquet(paths: Sequence[Path]) -> "pl.LazyFrame":
    """Return Parquet files of one folder as a lazy table; queries read only what they need."""
    import polars as pl

    if not any(is_remote(path) for path in paths):
        for path in paths:
            require_parquet(path, whole=False)
        return pl.scan_parquet(list(paths), glob=False, hive_partitioning=False)
    import pyarrow.dataset as pads

    from hindcast.pipeline.storage.remote import arrow_files

    return pl.scan_pyarrow_dataset(pads.dataset(**arrow_files(paths), format="parquet"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, bytes_writer(content))


def bytes_writer(content: bytes) -> Callable[[Path], int]:
    """Return a function that writes the bytes to a path, for `write_atomically` and the like."""
    return lambda path: path.write_bytes(content)


def text_writer(text: str) -> Callable[[Path], int]:
    """Return a function that writes text as UTF-8 to a path."""
    return bytes_writer(text.encode())


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, text_writer(text))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically: keys in the order given, two spaces, a final newline."""
    write_text(path, json_text(value))


def read_json(path: Path, largest: int = LARGEST_JSON) -> Any:
    """Read JSON; raise DatasetError if the file is missing, too large or not valid JSON."""
    require_file(path, largest)
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, absurd numbers or depth
        raise DatasetError(f"{path}: this file is not valid JSON ({error})") from error
    except OSError as error:
        raise DatasetError(f"{path}: this file cannot be read ({error.strerror})") from error


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError or RecursionError if it is damaged.

    NaN, infinities, halves of surrogate pairs and more than 64 levels are refused: they could not
    be written again.
    """
    value = json.loads(text, parse_constant=_refuse_constant)
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise ValueError(f"it is nested deeper than {_DEEPEST} levels")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, str):
        value.encode()  # UnicodeEncodeError, a ValueError, for half a surrogate pair
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        raise ValueError("a number is too large for a float")
    return value if isinstance(value, list) else []


def read_manifest(
    folder: Path, kind: str, versions: tuple[int, ...], command: str
) -> dict[str, Any]:
    """Return the manifest.json of a folder; raise DatasetError if it is missing or another kind.

    `command` is the one that writes such folders.
    """
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise DatasetError(f"{folder}: {what}, expected a {kind} (see `hindcast {command} --help`)")
    path = folder / "manifest.json"
    if not path.exists() and not path.is_symlink():
        raise DatasetError(
            f"{folder}: there is no {path.name}, so this is no finished {kind}; "
            f"run `hindcast {command}` again to finish it"
        )
    value = read_json(path)
    found = value.get("kind") if isinstance(value, dict) else type(value).__name__
    if not isinstance(value, dict) or found != kind:
        raise DatasetError(f"{path}: kind is {found!r}, expected {kind!r}")
    if value.get("version") not in versions:
        expected = " or ".join(map(str, versions))
        raise DatasetError(f"{path}: version is {value.get('version')!r}, expected {expected}")
    return value


def json_text(value: Any) -> str:
    """Return the text that `write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as lower-case hex; raise DatasetError for a FIFO or a device."""
    require_file(path, links=True)
    with local_copy(path) as copy, copy.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """Return the SHA-256 of UTF-8 text, as lower-case hex."""
    return hashlib.sha256(text.encode()).hexdigest()
