"""HDF5 files with arrays that grow."""

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hindcast.pipeline.storage.extras import missing


def load_h5py() -> Any:
    """Return the library; InputError with the name of the extra if it is not installed."""
    try:
        import h5py
    except ImportError as error:
        raise missing("h5py", "this format") from error
    return h5py


@contextlib.contextmanager
def new_hdf5(path: Path, **settings: Any) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Yield a new HDF5 file, and a function that raises the OSError of a write that failed.

    Call the function after every few rows. It is called once more when the file is closed.
    """
    with path.open("w+b", buffering=0) as raw:
        target = _Target(raw)
        with load_h5py().File(target, "w", **settings) as file:
            yield file, target.check
        target.check()


class _Target(io.RawIOBase):
    """File for the library HDF5 in which no write ever fails.

    After a write that fails, the library retries when the interpreter exits, and crashes. So data
    that the disk refuses stays in memory until `check` raises the error.
    """

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__()
        self._raw = raw
        self._at = 0
        self._error: OSError | None = None
        self._refused: list[tuple[int, bytes]] = []

    def check(self) -> None:
        """Raise the error of the first write that failed."""
        if self._error is not None:
            raise self._error

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        ends = [self._raw.seek(0, io.SEEK_END), *(at + len(data) for at, data in self._refused)]
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: max(ends)}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        """Write data at the current place; return its size, also if the disk refuses some of it."""
        unwritten = memoryview(data).cast("B")
        size = len(unwritten)
        try:
            self.check()
            self._raw.seek(self._at)
            while unwritten:  # a disk that is nearly full takes a part
                unwritten = unwritten[self._raw.write(unwritten) :]
        except OSError as error:
            self._error = error
            self._refused.append((self._at + size - len(unwritten), bytes(unwritten)))
        self._at += size
        return size

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        self._raw.seek(self._at)
        self._raw.readinto(view)
        for at, data in self._refused:
            start, stop = max(at, self._at), min(at + len(data), self._at + len(view))
            if start < stop:
                view[start - self._at : stop - self._at] = data[start - at : stop - at]
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        try:
            self.check()
            self._raw.truncate(size)
        except OSError as error:
            self._error = error
        return size


def append(group: Any, name: str, values: NDArray[Any], **filters: Any) -> None:
    """Append rows (R, ...) to an array of the group; the array is created if it does not exist.

    A name with "/" is an array of a group inside the group.
    """
    if name not in group:
        group.create_dataset(
            name, data=values, chunks=True, maxshape=(None, *values.shape[1:]), **filters
        )
        return
    array = group[name]
    before = array.shape[0]
    array.resize(before + len(values), axis=0)
    array[before:] = values
