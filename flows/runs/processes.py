"""Processes that run commands side by side.

Two commands with one thread each take less time than one after the other with two threads each,
since parts of a training run on one thread.
"""

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from hindcast.flows import units
from hindcast.flows.commands import Call, name_of
from hindcast.flows.progress import Lines, showing, stderr_line
from hindcast.pipeline.errors import HindcastError

_Pending = Future[dict[str, Any]]


class Places:
    """This process, in which commands run through `call`, or other processes, see `places`."""

    def __init__(self, call: Call, others: Executor | None = None) -> None:
        self._call, self._others = call, others

    def start(self, title: str, request: Any) -> _Pending:
        """Start the command of a request; `title` is put before its lines of progress.

        In this process, the command has ended when the function returns, and its error is raised.
        """
        if self._others is not None:
            return self._others.submit(_run, title, name_of(request), dict(vars(request)))
        ended: _Pending = Future()
        ended.set_result(dict(self._call(request)))
        return ended


@contextlib.contextmanager
def places(workers: int, call: Call) -> Iterator[Places]:
    """Start `workers` processes for commands, or none if it is 1; then `call` runs them here.

    If an error or an interruption leaves the context, the commands that are running are ended.
    """
    if workers == 1:
        yield Places(call)
        return
    start = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=start, initializer=_ignore_interrupts) as pool:
        try:
            yield Places(call, pool)
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def result_of(pending: _Pending) -> dict[str, Any]:
    """Return the result of a command that has ended, or raise its error."""
    try:
        return pending.result()
    except BrokenProcessPool as error:
        raise HindcastError(
            "a process was ended from outside, perhaps for want of memory; the same command "
            "continues where it stopped"
        ) from error


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(title: str, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    with showing(Lines(partial(_line, title))):
        return units.command(name, parameters)


def _line(title: str, text: str) -> None:
    stderr_line(f"{title}: {text}")
