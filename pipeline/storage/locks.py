"""Locks: one process at a time writes a folder; readers are never kept out.

    FOLDER/.lock         held while a command writes the folder
    PARENT/.NAME.lock    held while an export writes NAME, which appears when it is complete

A lock is a JSON file that names its holder: process, host and time. On a file system, the kernel
holds the lock (flock, through the package filelock) and releases it when the process ends, however
it ends; the file alone means nothing. In an object store, and on a file system without
flock, the holder renews the file instead, see `hindcast.pipeline.storage.heartbeat`.

A second writer waits, after one line that names the holder, for at most WAIT_S seconds or the
number in the environment variable HINDCAST_WAIT; 0 refuses at once. Locks nest: a step may write
the folder that its caller holds. Whoever holds a folder may take those inside it, never those
around it, so two commands never wait for each other.
"""

import contextlib
import errno
import functools
import inspect
import math
import os
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from hindcast.pipeline.errors import FolderBusy, InputError
from hindcast.pipeline.notes import tell, teller
from hindcast.pipeline.storage import files, heartbeat
from hindcast.pipeline.storage.extras import UNSUPPORTED, installed
from hindcast.pipeline.storage.heartbeat import Holder
from hindcast.pipeline.storage.location import is_remote, location

if not installed("fcntl"):
    raise ImportError(UNSUPPORTED)

WAIT_S: Final = 600.0
VARIABLE: Final = "HINDCAST_WAIT"
_PAUSE_S: Final = 0.2  # between two attempts, doubled up to the longest pause
_LONGEST_PAUSE_S: Final = 2.0
_WITHOUT_FLOCK: Final = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}

P = ParamSpec("P")
R = TypeVar("R")
Release = Callable[[], None]

_held: ContextVar[frozenset[str]] = ContextVar("hindcast_held", default=frozenset())


@contextlib.contextmanager
def writing(out: Path, *, beside: bool = False) -> Iterator[None]:
    """Keep other writers out of `out` for as long as the context is open.

    The folder is created if it does not exist, and removed at the end if it is still empty. With
    `beside`, the lock lies beside `out` and only its parent is created.

    Raises FolderBusy if another process holds the lock for longer than this one waits, and
    StorageError if the lock cannot be written.
    """
    whole = out if is_remote(out) else out.absolute()
    folder = whole.parent if beside else whole
    if folder.exists() and not _is_writable(folder):
        yield  # nobody writes it, which the caller reports if it tries
        return
    path = folder / (f".{whole.name}{files.LOCK}" if beside else files.LOCK)
    key = str(path) if is_remote(path) else os.path.realpath(path)
    if key in _held.get():
        yield
        return
    made = [] if is_remote(folder) else _missing(folder)
    try:
        release = _acquire(path, out)
        token = _held.set(_held.get() | {key})
        try:
            yield
        finally:
            _held.reset(token)
            release()
    finally:
        for empty in made:
            with contextlib.suppress(OSError):
                empty.rmdir()


def one_writer(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that holds its argument `out`, a folder, while it runs."""
    parameters = inspect.signature(function)

    @functools.wraps(function)
    def alone(*args: P.args, **keywords: P.kwargs) -> R:
        with writing(location(parameters.bind(*args, **keywords).arguments["out"])):
            return function(*args, **keywords)

    return alone


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and (is_remote(folder) or os.access(folder, os.W_OK | os.X_OK))


def _missing(folder: Path) -> list[Path]:
    """Return the folders that have to be created for this one, the innermost first."""
    found = []
    while not folder.exists():
        found.append(folder)
        folder = folder.parent
    return found


def _acquire(path: Path, out: Path) -> Release:
    """Wait for the lock, take it, and return the function that releases it."""
    limit, attempt, told = _limit(), _attempt_of(path, out), False
    started, pause = time.monotonic(), _PAUSE_S
    while True:
        found = attempt()
        if not isinstance(found, Holder):
            return found
        waited = time.monotonic() - started
        if waited >= limit:
            after = f" after {limit:.0f} s of waiting" if limit else ""
            raise FolderBusy(
                f"{out}: {found} is writing here{after}; run the same command again when it has "
                f"ended, or wait longer with {VARIABLE}=SECONDS"
            )
        if not told:
            tell(f"{out}: {found} is writing here; waiting at most {limit:.0f} s ({VARIABLE})")
            told = True
        time.sleep(min(pause, limit - waited))
        pause = min(2.0 * pause, _LONGEST_PAUSE_S)


def _limit() -> float:
    text = os.environ.get(VARIABLE, "")
    try:
        limit = float(text or WAIT_S)
    except ValueError:
        limit = math.nan
    if not 0.0 <= limit < math.inf:
        raise InputError(f"{VARIABLE} is {text[:40]!r}, expected a number of seconds, at least 0")
    return limit


def _attempt_of(path: Path, out: Path) -> Callable[[], Release | Holder]:
    """Return a function that tries once to take the lock: a release if it did, else the holder."""
    if is_remote(path):
        return _renewed(path, out)
    renewed = None  # set where the file system has no locks

    def attempt() -> Release | Holder:
        nonlocal renewed
        if renewed is None:
            try:
                return _lock(path, out)
            except OSError as error:
                if error.errno not in _WITHOUT_FLOCK:
                    raise
                renewed = _renewed(path, out)
        return renewed()

    return attempt


def _renewed(path: Path, out: Path) -> Callable[[], Release | Holder]:
    """Return the same for a lock that its holder renews."""
    # The thread that renews it has no context, so it gets the function.
    return heartbeat.attempt_of(path, out, teller() or (lambda _text: None))


def _lock(path: Path, out: Path) -> Release | Holder:
    """Try once to take the lock of the operating system."""
    from filelock import FileLock, Timeout

    # One object for each attempt. The file keeps its name only as long as it is held: filelock
    # takes no lock on a file that was removed between opening and locking it. In a folder that
    # several users write, the file that one of them left must not keep the others out.
    lock = FileLock(path, mode=0o666, blocking=False, thread_local=False, fallback_to_soft=False)
    with files.storage_errors(out):
        while True:
            if not path.parent.is_dir():
                files.make_folder(path.parent)
            try:
                lock.acquire()
                break
            except Timeout:
                return heartbeat.holder_of(path) or Holder()
            except FileNotFoundError:  # another writer removed the folder, which was empty
                continue
        own = Holder.current()

        def release() -> None:
            try:
                found = heartbeat.holder_of(path)
                if found is not None and found.token == own.token:  # else the folder was replaced
                    path.unlink(missing_ok=True)
            finally:
                lock.release()

        try:
            path.write_text(own.to_json(), encoding="utf-8")
        except BaseException:
            path.unlink(missing_ok=True)
            lock.release()
            raise
    return release
