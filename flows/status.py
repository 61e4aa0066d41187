"""Status of a running command, a file in the folder that it writes, for `hindcast watch`.

    OUT/.progress    JSON: who is at work and since when, the open steps with their counts, the
                     steps that have ended, and the last notes

The file is replaced every few seconds while something is reported, and removed when the command
ends. A killed command leaves it; its holder is then a process that has ended. The file is a
message, not a record: nothing is resumed from it, and it is not part of any output.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from hindcast.flows.parser import dated
from hindcast.flows.progress import Display, Tell
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.storage.files import STATUS, read_json, write_json
from hindcast.pipeline.storage.heartbeat import Holder, read_holder
from hindcast.pipeline.storage.location import is_remote, location

EVERY_S: Final = 2.0  # between two writings; an object store gets one in REMOTE_S seconds
REMOTE_S: Final = 20.0
_KEPT: Final = 12  # ended steps, and notes


@dataclass(frozen=True)
class StepStatus:
    """One step of a command.

    Attributes:
        title: Name of the step.
        what: The current work inside the step.
        done: Finished units.
        total: All units; 0 if they are not known.
        before: Units that an earlier call had finished, which the rate leaves out.
        elapsed_s: Seconds since the step began.
    """

    title: str
    what: str = ""
    done: int = 0
    total: int = 0
    before: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True)
class Status:
    """State of a command.

    Attributes:
        command: Name of the command.
        holder: The process.
        updated: Time of this state, seconds since 1970.
        steps: The open steps, the outermost first.
        ended: The last steps that ended.
        notes: The last notes.
    """

    command: str
    holder: Holder
    updated: float
    steps: tuple[StepStatus, ...] = ()
    ended: tuple[StepStatus, ...] = ()
    notes: tuple[str, ...] = ()


@contextmanager
def recording(display: Display, out: str | None, command: str) -> Iterator[Display]:
    """Return a display that also keeps the status of a command in the folder `out`, if any.

    A place that cannot be used is left to the command, which names it in its error.
    """
    try:
        recorder = Recorder(display, location(dated(out or "")), command) if out else None
    except HindcastError:
        recorder = None
    if recorder is None:
        yield display
        return
    try:
        yield recorder
    finally:
        recorder.close()


class Recorder:
    """A display that forwards to another one, and writes the status every few seconds."""

    def __init__(
        self,
        display: Display,
        out: Path,
        command: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._display = display
        self._path = out / STATUS
        self._command = command
        self._clock = clock
        self._every_s = REMOTE_S if is_remote(out) else EVERY_S
        self._last = clock()
        self._holder = Holder.current()
        self._steps: list[StepStatus] = []
        self._ended: deque[StepStatus] = deque(maxlen=_KEPT)
        self._notes: deque[str] = deque(maxlen=_KEPT)

    def note(self, text: str) -> None:
        """Keep the note, and show it."""
        self._notes.append(text)
        self._write()
        self._display.note(text)

    @contextmanager
    def progress(self, title: str) -> Iterator[Tell]:
        """Keep the counts of a step, and show them."""
        began, place, first = self._clock(), len(self._steps), True
        self._steps.append(StepStatus(title))
        try:
            with self._display.progress(title) as show:

                def tell(done: int, total: int, what: str = "") -> None:
                    nonlocal first
                    before = done if first else self._steps[place].before
                    first, elapsed_s = False, self._clock() - began
                    self._steps[place] = StepStatus(title, what, done, total, before, elapsed_s)
                    self._write()
                    show(done, total, what)

                yield tell
        finally:
            self._ended.extend(self._steps[place:])
            del self._steps[place:]

    def close(self) -> None:
        """Remove the status."""
        with contextlib.suppress(HindcastError, OSError):
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        """Write the status if it is due; the step itself reports a folder that is not writable."""
        now = self._clock()
        if now - self._last < self._every_s:
            return
        self._last = now
        status = Status(
            self._command, self._holder, time.time(), tuple(self._steps), tuple(self._ended),
            tuple(self._notes),
        )  # fmt: skip
        with contextlib.suppress(HindcastError, OSError):
            if is_remote(self._path) or self._path.parent.is_dir():
                write_json(self._path, asdict(status))


def read_status(path: Path) -> Status | None:
    """Return the status in a file; None if it is gone or damaged."""
    try:
        value = read_json(path)
        assert isinstance(value, dict)
        values = {field.name: value[field.name] for field in fields(Status)}
        values["holder"] = read_holder(values["holder"])
        for name in ("steps", "ended"):
            values[name] = tuple(_step(step) for step in values[name])
        values["notes"] = tuple(str(note) for note in values["notes"])
        values["command"], values["updated"] = str(values["command"]), float(values["updated"])
        return Status(**values)
    except (HindcastError, OSError, AssertionError, KeyError, TypeError, ValueError):
        return None


def _step(value: Any) -> StepStatus:
    types = get_type_hints(StepStatus)
    return StepStatus(**{name: types[name](value[name]) for name in types})
