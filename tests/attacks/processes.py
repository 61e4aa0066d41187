"""Commands of Hindcast in processes of their own that start at once.

Everything is imported once; a command is then a fork of this process, before any library has
started a thread. So a kill never falls into the imports of a command, where nothing is written.
"""

import contextlib
import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

LIMIT_S: Final = 300.0  # a command that takes longer hangs
SMALL: Final = (
    "--set", 'split.train="0..2"', "--set", 'split.validation="3..3"', "--set", 'split.test="4..5"',
    "--set", "trace.settings={n_jobs=60,instances_scale=0.02}",
    "--set", 'train.agents=["behaviour_cloning"]', "--set", "train.steps=40",
    "--set", 'evaluate.policies=["first_fit","tetris"]', "--set", 'evaluate.references=["tetris"]',
)  # fmt: skip
RECIPE: Final = "binpack-synthetic-v1"
_MODULES: Final = (
    "hindcast.flows.cli", "hindcast.flows.progress", "hindcast.flows.runs.stages",
    "hindcast.pipeline.dataset.building.append", "hindcast.pipeline.evaluation.evaluate",
    "hindcast.pipeline.report.page", "hindcast.pipeline.dataset.verification.verify",
    "hindcast.pipeline.scenarios.binpack", "hindcast.pipeline.scenarios.slots",
    "hindcast.policies.entrants", "hindcast.policies.registry",
    "hindcast.policies.offline.training", "hindcast.policies.online.training", "torch",
    "hindcast.pipeline.exports", "filelock",
)  # fmt: skip


def load() -> None:
    """Import what the commands need, and check that no thread was started."""
    for name in _MODULES:
        import_module(name)
    from hindcast.policies.training.resume import ResumeFile

    # States of trainings every tenth of a second instead of every 15 s: these trainings are short.
    ResumeFile.due = lambda self: self._clock() - self._last >= 0.1  # type: ignore[method-assign]
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        print(f"note: {threads} threads were started by imports", file=sys.stderr)


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, output, and seconds that it took."""

    code: int
    output: str
    took_s: float

    @property
    def is_clean(self) -> bool:
        """Whether the command ended by itself and without a traceback."""
        return self.code in {0, 2} and "Traceback" not in self.output


@dataclass(frozen=True)
class Started:
    """A running command."""

    argv: tuple[str, ...]
    process: int
    log: Path
    began: float

    def poll(self) -> Ended | None:
        """Return how the command ended, or None while it runs."""
        found, status = os.waitpid(self.process, os.WNOHANG)
        return self._ended(status) if found else None

    def wait(self, limit_s: float = LIMIT_S) -> Ended:
        """Wait for the command; kill it after the limit, which gives the code -9."""
        while time.monotonic() - self.began < limit_s:
            if (ended := self.poll()) is not None:
                return ended
            time.sleep(0.005)
        return self.kill()

    def kill(self) -> Ended:
        """Send SIGKILL and return how the command ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        return self._ended(os.waitpid(self.process, 0)[1])

    def _ended(self, status: int) -> Ended:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, text, time.monotonic() - self.began)


def start(argv: Sequence[str], folder: Path, log: Path) -> Started:
    """Start a command in a folder."""
    from hindcast.flows.cli import main

    sys.stdout.flush()
    sys.stderr.flush()
    began, process = time.monotonic(), os.fork()
    if process:
        return Started(tuple(argv), process, log, began)
    code = 70
    try:  # the child: nothing of the parent runs from here on
        os.chdir(folder)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(file, 1)
        os.dup2(file, 2)
        try:
            code = main(argv)
        except BaseException:  # noqa: BLE001  as Python prints it
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def content(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Return the names of files that differ, each with how."""

    def how(name: str) -> str:
        if name in found and name in expected:
            return "other bytes"
        return "not expected" if name in found else "missing"

    return [
        f"{name}: {how(name)}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]


def leftovers(folder: Path) -> Iterator[str]:
    """Yield the names of temporary files and locks below a folder."""
    for path in sorted(folder.rglob(".*")):
        yield path.relative_to(folder).as_posix()
