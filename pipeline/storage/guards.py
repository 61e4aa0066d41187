"""Guards for foreign files: checks before anything large is read or allocated.

- A file is a regular file of a bounded size, not a link, FIFO or device.
- JSON is bounded in depth, and holds only values of the JSON standard.
- Parquet: the footer's counts and sizes are bounded, and every page header of every column agrees
  with them, so that a page cannot decode to more than was claimed.
"""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.parquet_pages import DamagedPage, check_chunk

if TYPE_CHECKING:
    import pyarrow.parquet as pq

LARGEST_JSON: Final = 64 << 20  # bytes; a manifest of a hundred thousand parts is smaller
_DEEPEST: Final = 64  # levels of nested JSON
_MOST: Final = 1 << 40  # of anything that is counted
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
LARGEST_GROUP: Final = 2 << 30  # decoded bytes of a row group
LARGEST_TABLE: Final = 4 << 30  # decoded bytes of a table that is read as a whole


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


def _of(kind: type[Any], expected: str) -> Callable[[Any], Any]:
    """Return a function that passes values of exactly this type and raises TypeError for others."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{str(value)[:40]!r} is a {type(value).__name__}, expected {expected}")
        return value

    return check


a_table: Final[Callable[[Any], dict[str, Any]]] = _of(dict, "a table")
a_list: Final[Callable[[Any], list[Any]]] = _of(list, "a list")
a_text: Final[Callable[[Any], str]] = _of(str, "text")
_a_whole_number: Final[Callable[[Any], int]] = _of(int, "a whole number")


def a_count(value: Any, most: int = _MOST) -> int:
    """Return a whole number from 0 to `most`; raise TypeError or ValueError for anything else."""
    if not 0 <= _a_whole_number(value) <= most:
        raise ValueError(f"{str(value)[:40]} is out of range, expected 0 to {most}")
    return int(value)


def a_sha256(value: Any) -> str:
    """Return a SHA-256 in lower-case hex; raise TypeError or ValueError for anything else."""
    if not _SHA256.fullmatch(a_text(value)):
        raise ValueError(
            f"{value[:80]!r} is not a SHA-256, expected 64 lower-case hexadecimal digits"
        )
    return str(value)
