"""Progress of long steps: a bar on a terminal, elsewhere a line every few seconds.

A step opens `progress(title)` and gets a function to call with (done, total). The caller of the
step chooses the display: the command line shows progress on stderr, a Prefect task writes it to the
log of the run, and without a display nothing is shown.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TextIO

from hindcast.pipeline.notes import telling

_INTERVAL_S: Final = 30.0  # minimal time between two lines of one step


class Tell(Protocol):
    """Function to which a step reports; `what` names the current work."""

    def __call__(self, done: int, total: int, what: str = "") -> None:
        """Report that `done` of `total` units are finished."""


class Display(Protocol):
    """Display of progress and notes."""

    def progress(self, title: str) -> AbstractContextManager[Tell]:
        """Show the progress of one step for as long as the context is open."""

    def note(self, text: str) -> None:
        """Show one permanent line."""


_display: ContextVar[Display | None] = ContextVar("hindcast_display", default=None)


@contextmanager
def showing(display: Display | None) -> Iterator[None]:
    """Show progress on `display` inside the context, unless another display is already set."""
    token = _display.set(_display.get() or display)
    try:
        with telling(note):
            yield
    finally:
        _display.reset(token)


@contextmanager
def progress(title: str) -> Iterator[Tell]:
    """Show the progress of one step on the display of the context, if any."""
    display = _display.get()
    if display is None:
        yield lambda _done, _total, _what="": None
        return
    with display.progress(title) as tell:
        yield tell


def note(text: str) -> None:
    """Show one line on the display of the context, if any."""
    display = _display.get()
    if display is not None:
        display.note(text)


def stderr_display() -> Display:
    """Return a display on stderr: bars on a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines(stderr_line)


def stderr_line(text: str) -> None:
    """Write one line to stderr and flush it."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def with_metrics(
    tell: Tell,
) -> tuple[Callable[[int, int], None], Callable[[int, Mapping[str, float]], None]]:
    """Return the `progress` and the `point` of a training; the last metrics are its current work.

    The first three metrics of a point are shown, with four digits.
    """
    last_metrics = ""

    def point(_step: int, metrics: Mapping[str, float]) -> None:
        nonlocal last_metrics
        last_metrics = ", ".join(f"{name} {value:.4g}" for name, value in [*metrics.items()][:3])

    def progress(done: int, total: int) -> None:
        tell(done, total, last_metrics)

    return progress, point


class Lines:
    """Display of lines, at most one in `interval_s` seconds, each with rate and estimate."""

    def __init__(
        self,
        write: Callable[[str], None],
        interval_s: float = _INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._interval_s = interval_s
        self._clock = clock

    def note(self, text: str) -> None:
        """Write the line."""
        self._write(text)

    @contextmanager
    def progress(self, title: str) -> Iterator[Tell]:
        """Write a line when one is due; a step shorter than the interval writes none."""
        started = last = self._clock()
        first: int | None = None  # units done before this call, which the estimate leaves out

        def tell(done: int, total: int, what: str = "") -> None:
            nonlocal last, first
            first = done if first is None else first
            now = self._clock()
            if now - last >= self._interval_s:
                last = now
                share = f"{done:,} of {total:,}"
                remaining = estimate(done - first, total - first, now - started)
                speed = rate(done - first, now - started)
                self._write(": ".join(filter(None, (title, what, share))) + speed + remaining)

        yield tell


def rate(done: int, elapsed_s: float) -> str:
    """Return a clause with the units per second, minute or hour so far, or "" if there are none."""
    if done <= 0 or elapsed_s <= 0:
        return ""
    for seconds, name in ((1, "second"), (60, "minute"), (3600, "hour")):
        number = done / elapsed_s * seconds
        if number >= 1 or name == "hour":
            return f", {number:,.0f} a {name}" if number >= 10 else f", {number:.1f} a {name}"
    return ""


def estimate(done: int, total: int, elapsed_s: float) -> str:
    """Return a clause with the time left at the speed so far, or "" if it is unknown."""
    if not 0 < done < total:
        return ""
    return f", about {duration(elapsed_s / done * (total - done))} left"


def duration(seconds: float) -> str:
    """Return a duration in words: "40 s", "7 min", "2 h 05 min"."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


class Bars:
    """Display of bars on a terminal, with elapsed and remaining time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self._console = Console(file=stream or sys.stderr, highlight=False)

    def note(self, text: str) -> None:
        """Print the line above the bar."""
        self._console.print(text, markup=False)

    @contextmanager
    def progress(self, title: str) -> Iterator[Tell]:
        """Show a bar, which stays when the step has ended."""
        from rich import progress as rich

        columns = (
            rich.TextColumn("{task.description}", markup=False), rich.BarColumn(),
            rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TextColumn("left:"),
            rich.TimeRemainingColumn(),
        )  # fmt: skip
        with rich.Progress(*columns, console=self._console) as bars:
            bar = bars.add_task(title, total=None)

            def tell(done: int, total: int, what: str = "") -> None:
                description = f"{title}: {what}" if what else title
                bars.update(bar, completed=done, total=total, description=description)

            yield tell
