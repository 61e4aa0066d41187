"""Many command lines, each in a process forked from one that has loaded the libraries.

`Forks` starts that process; `Forks.run` gives it a command line and returns its outcome. A
command ends as it would for a user, the exit of the interpreter included.
"""

import atexit
import contextlib
import csv
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
TIMED_OUT = -100  # exit code of a command that was stopped after its time
MODULES = (
    "hindcast.flows.cli", "hindcast.flows.progress", "hindcast.pipeline.dataset.building.append",
    "hindcast.pipeline.dataset.building.build", "hindcast.pipeline.evaluation.evaluate",
    "hindcast.pipeline.exports.croissant", "hindcast.pipeline.exports.csv",
    "hindcast.pipeline.exports.d3rlpy", "hindcast.pipeline.exports.d4rl",
    "hindcast.flows.papers.thermal_report.history.export", "hindcast.pipeline.exports.huggingface",
    "hindcast.pipeline.exports.minari", "hindcast.flows.papers.thermal_report.history.importing",
    "hindcast.pipeline.inspection", "hindcast.pipeline.report.page", "hindcast.pipeline.report.svg",
    "hindcast.pipeline.traces.ingest", "hindcast.pipeline.dataset.verification.verify",
    "hindcast.policies.entrants", "hindcast.policies.heuristics.binpack",
    "hindcast.policies.offline.training", "hindcast.policies.online.training",
    "hindcast.policies.ope.ope", "hindcast.policies.registry", "h5py", "pandas", "torch",
    "torch._dynamo",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command line.

    Attributes:
        code: Exit code; negative for a signal, TIMED_OUT if it was stopped.
        out: Its stdout.
        err: Its stderr.
        seconds: Wall-clock time.
        memory: Largest resident memory in bytes, the loaded libraries included.
        events: What the audit hook saw: (event, argument), if `audit` was asked for.
    """

    code: int
    out: str
    err: str
    seconds: float
    memory: int
    events: list[tuple[str, str]] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Lines of stderr that are not progress."""
        return [line for line in self.err.splitlines() if line.startswith("hindcast: ")]

    @property
    def stray(self) -> list[str]:
        """Lines of stderr that no user should see: tracebacks, exceptions that were ignored."""
        words = ("Traceback", "Exception ignored", "panicked", "Segmentation", "never retrieved")
        return [line for line in self.err.splitlines() if any(word in line for word in words)]


def reported(rows: Sequence[Mapping[str, Any]], noun: str, out: Path) -> int:
    """Write the rows of a campaign as CSV, print a summary, and return the exit code."""
    save(rows, out)
    wrong = sum(bool(row["faults"]) for row in rows)
    print(f"{len(rows)} {noun}, {wrong} with faults: {out}")
    return 1 if wrong else 0


def save(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write the rows of a campaign as CSV."""
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


class Forks:
    """Process with loaded libraries that forks once for each command line."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.forks", *modules], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        seconds: float = 300.0,
        memory: int = 0,
        audit: bool = False,
        whole_exit: bool = False,
        cwd: Path = ROOT,
    ) -> Outcome:
        """Run `hindcast ARGV`, or `python -c CODE` for ["-c", CODE], and return the outcome.

        `memory` limits the address space in addition to what the libraries take, in bytes. With
        `whole_exit` the interpreter is finalised, which takes 2 s for the loaded libraries;
        otherwise only the exit functions of Python and of C libraries run.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            request = {
                "argv": list(argv), "env": dict(env or {}), "seconds": seconds, "memory": memory,
                "audit": audit, "whole_exit": whole_exit, "cwd": str(cwd), "folder": folder,
            }  # fmt: skip
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer = json.loads(self._server.stdout.readline())
            out, err, events = (
                (Path(folder) / name).read_bytes().decode(errors="replace")
                for name in ("out", "err", "events")
            )
        seen = [(pair[0], pair[1]) for pair in map(json.loads, events.splitlines())]
        return Outcome(**answer, out=out, err=err, events=seen)

    def close(self) -> None:
        """End the process."""
        if self._server.stdin is not None:
            self._server.stdin.close()
        self._server.wait()


def _serve() -> int:
    """Answer requests until stdin ends; in a forked process, run one and return its exit code."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        started = time.monotonic()
        if (child := os.fork()) == 0:
            code = _command(request)
            return code if request["whole_exit"] else _exit(code)
        code, memory = _wait(child, started + request["seconds"])
        answer = {"code": code, "seconds": time.monotonic() - started, "memory": memory}
        print(json.dumps(answer), flush=True)
    return 0


def _exit(code: int) -> int:
    """End the process as the interpreter does, without freeing what the libraries hold."""
    gc.collect()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)
    return code


def _wait(child: int, until: float) -> tuple[int, int]:
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.wait4(child, 0)
            return TIMED_OUT, 0
        time.sleep(0.005)


def _command(request: Mapping[str, Any]) -> int:
    os.setsid()
    folder = Path(request["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    events = os.open(folder / "events", os.O_WRONLY | os.O_CREAT)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    if request["memory"]:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        limit = taken + request["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if request["audit"]:
        _audit(events)
    argv = request["argv"]
    if argv[0] == "-c":
        sys.argv = ["-c"]
        exec(compile(argv[1], "<command>", "exec"), {"__name__": "__main__"})
        return 0
    from hindcast.flows import cli

    sys.argv = ["hindcast", *argv]
    return cli.main(argv)


def _audit(events: int) -> None:
    """Write a line for every file that is opened for reading or writing, and every connection."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "socket.connect", "socket.getaddrinfo", "os.listdir", "os.remove",
                     "os.rename", "os.mkdir", "subprocess.Popen", "os.symlink"}:  # fmt: skip
            what = arguments[1] if event == "socket.connect" else arguments[0]
            what = os.fsdecode(what) if isinstance(what, str | bytes | os.PathLike) else repr(what)
            os.write(events, (json.dumps([event, what]) + "\n").encode())

    sys.addaudithook(hook)


if __name__ == "__main__":
    sys.exit(_serve())
