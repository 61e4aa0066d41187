"""Holders of locks, and locks that their holder renews, where no system call locks a file.

An object store has no locks, but it creates an object for one of two writers only. The holder
writes the object again every EVERY_S seconds, with a count that grows. Whoever waits takes the lock
over if the count has not grown for DEAD_S seconds of watching, so clocks need not agree, or if the
time in it is OLD_S seconds ago, so that a lock of yesterday is not waited for. On the same machine,
a holder is dead as soon as its process has ended; a number of a process that was used again is
recognised by the start of the process.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import StorageError
from hindcast.pipeline.notes import Tell
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.files import parse_json
from hindcast.pipeline.storage.location import is_remote

EVERY_S: Final = 20.0
DEAD_S: Final = 120.0
OLD_S: Final = 900.0
SETTLE_S: Final = 3.0  # between taking over a lock and reading who took it over last
_LARGEST: Final = 4096  # bytes of a lock
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_renewing: Final[set[str]] = set()  # tokens of the locks that this process holds
_PLAIN: Final = re.compile(r"[\w.:+-]{0,100}")


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock; as text, it is named for a message.

    Attributes:
        process: Number of the process, 0 if it is not known.
        host: Name of its host.
        since: Time when it took the lock, UTC.
        machine: The boot and the process namespace in which its number means this process.
        start: When the process started, in ticks since the boot; empty if it is not known.
        token: Text that no other holder has.
        beat: How often the lock was renewed.
        renewed: Time when it was renewed last, UTC.
    """

    process: int = 0
    host: str = ""
    since: str = ""
    machine: str = ""
    start: str = ""
    token: str = ""
    beat: int = 0
    renewed: str = ""

    @staticmethod
    def current() -> "Holder":
        """Return this process as a new holder."""
        process, now = os.getpid(), datetime.now(UTC).strftime(_TIME)
        host = re.sub(r"[^\w.:+-]", "-", socket.gethostname())[:100]
        token = f"{host}:{process}:{threading.get_ident()}:{time.time_ns()}"
        return Holder(process, host, now, _machine(), _start(process), token[-100:], 0, now)

    def __str__(self) -> str:
        """Return the holder for a message."""
        if not self.process:
            return "another process"
        since = self.since.replace("T", " ").replace("Z", " UTC")
        return f"process {self.process} on {self.host} (since {since})"

    def to_json(self) -> str:
        """Return the content of a lock."""
        return json.dumps(asdict(self)) + "\n"


@cache
def _machine() -> str:
    """Return what identifies the numbers of processes: boot and namespace; "" if not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = re.sub(r"\D", "", Path("/proc/self/ns/pid").readlink().name)
    except (OSError, ValueError):  # no Linux
        return ""
    return f"{boot}:{space}"


def _start(process: int) -> str:
    """Return when a process started, in ticks since the boot; "" if there is no such process."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def holder_of(path: Path) -> Holder | None:
    """Return who holds a lock according to its file, or None if there is no such file.

    A file that cannot be read as a lock has an unknown holder, `Holder()`.
    """
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _LARGEST:
            return Holder()
        return read_holder(parse_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return Holder()


def read_holder(value: object) -> Holder:
    """Return the holder of a JSON object; one that cannot be read is unknown, `Holder()`."""
    kinds = {each.name: type(each.default) for each in fields(Holder)}
    if not isinstance(value, dict) or {n: type(v) for n, v in value.items()} != kinds:
        return Holder()
    if not all(_PLAIN.fullmatch(text) for text in value.values() if isinstance(text, str)):
        return Holder()  # names of strangers are printed
    return Holder(**value)


def has_ended(holder: Holder) -> bool:
    """Return whether the holder is a process of this machine that has ended."""
    return (
        bool(holder.machine)
        and holder.machine == _machine()
        and (_start(holder.process) != holder.start)
    )


def attempt_of(
    path: Path,
    out: Path,
    tell: Tell,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Callable[[], Callable[[], None] | Holder]:
    """Return a function that tries once to take a lock that is renewed.

    It returns the function that releases the lock, or the holder.
    """
    seen: tuple[tuple[str, int], float] | None = None  # token and beat, and when they were new

    def attempt() -> Callable[[], None] | Holder:
        """Return the function that releases the lock, or its holder if another has it."""
        nonlocal seen
        found, own = holder_of(path), Holder.current()
        if found is None:
            if _create(path, own):
                return _renewed(path, own, out, tell)
            return holder_of(path) or Holder()
        now, state = clock(), (found.token, found.beat)
        if seen is None or seen[0] != state:
            seen = (state, now)
        if now - seen[1] < DEAD_S and not _is_dead(found):
            return found
        # If several writers take over at once, the last one has the lock.
        _write(path, own)
        sleep(SETTLE_S)
        last = holder_of(path) or Holder()
        return _renewed(path, own, out, tell) if last.token == own.token else last

    return attempt


def _is_dead(holder: Holder) -> bool:
    """Return whether the holder's process has ended, as far as one look shows it."""
    if has_ended(holder):
        return True
    if holder.machine and holder.machine == _machine():
        # A lock of this process that it could not remove, since the store did not answer.
        return holder.process == os.getpid() and holder.token not in _renewing
    try:
        renewed = datetime.strptime(holder.renewed, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return False
    return (datetime.now(UTC) - renewed).total_seconds() > OLD_S


def _create(path: Path, own: Holder) -> bool:
    """Write the lock unless there is one; return whether it was written."""
    content = own.to_json().encode()
    if is_remote(path):
        from hindcast.pipeline.storage.remote import create

        return create(path, content)
    files.make_folder(path.parent)
    with files.storage_errors(path):
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
    return True


def _write(path: Path, own: Holder) -> None:
    files.write_bytes(path, own.to_json().encode())


def _renewed(path: Path, own: Holder, out: Path, tell: Tell) -> Callable[[], None]:
    """Renew the lock in a thread, and return the function that ends that and removes the lock."""
    ended = threading.Event()
    _renewing.add(own.token)

    def renew() -> None:
        beat = 0
        while not ended.wait(EVERY_S):
            # The next beat may succeed where this one finds the store out of reach.
            with contextlib.suppress(StorageError, OSError):
                found = holder_of(path)
                if found is not None and found.process and found.token != own.token:
                    tell(f"{out}: {found} took over the lock of this process, which was not heard")
                    return
                beat += 1
                now = datetime.now(UTC).strftime(_TIME)
                _write(path, replace(own, beat=beat, renewed=now))

    thread = threading.Thread(target=renew, name="hindcast-lock", daemon=True)
    thread.start()

    def release() -> None:
        ended.set()
        thread.join()
        _renewing.discard(own.token)
        with contextlib.suppress(StorageError, OSError):
            found = holder_of(path)
            if found is not None and found.token == own.token:
                path.unlink(missing_ok=True)

    return release
