"""How `build` grows: with workers, with the length of the trace, and with the number of parts.

    python -m tests.benchmarks scaling

The same dataset is built by every runner that is installed, and compared with threads of one
process. A build of a few windows gives the time that the start takes; the rates are those of the
rest, which is more than one unit of work. Then a synthetic log is made 1, 10 and 100 times as long.
Each build is a process, whose time and largest memory are measured; a build of one window is the
constant part. Last, thousands of tiny parts are recorded by two workers of a `dask scheduler`,
whose memory is measured.
"""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from hindcast.flows.commands.build import Request
from hindcast.flows.runners import LOCAL, RUNNERS, check
from hindcast.pipeline.errors import InputError

Row = tuple[str, float, str, str]
LENGTHS: Final = (1, 10, 100)
WINDOWS: Final = 20  # of the shortest log
JOBS: Final = 60  # of a window
UNUSED: Final = 2  # windows of validation and test, which every recipe has
RECORDED: Final = 400  # windows of the dataset that the runners build: more than one unit of 20 s
STARTED: Final = 4  # windows of the dataset that shows how long the start of a runner takes
PARTS: Final = 5000
LIGHT: Final = 'behaviours=[{policy="sjf_easy",epsilon=0.2,episodes=6}]'
QUICK: Final = 0.1  # seconds between two looks at a process
ROUNDS: Final = 2


def settings(windows: int, *others: str) -> tuple[str, ...]:
    """Return overrides of queue-kth-v1 that record so many windows of the log."""
    return (
        f"config.jobs={JOBS}", "config.follow=0", "config.starts=[]",
        *splits(windows), *others,
    )  # fmt: skip


def splits(windows: int) -> tuple[str, ...]:
    """Return overrides by which so many windows are recorded, and UNUSED are not."""
    names = zip(("validation", "test"), range(windows, windows + UNUSED), strict=True)
    return (
        f'split.train="0..{windows - 1}"', *(f'split.{n}="{w}..{w}"' for n, w in names),
        'dataset_splits=["train"]',
    )  # fmt: skip


def write_log(path: Path, windows: int) -> None:
    """Write a log in the standard workload format, with enough jobs for the windows."""
    rng = np.random.default_rng(0)
    count = (windows + UNUSED) * JOBS
    begin = np.cumsum(rng.exponential(1200.0, count)).astype(int)
    runs, sizes = rng.integers(600, 40_000, count), rng.integers(1, 33, count)
    jobs = (
        f"{n} {b} 0 {r} {s} -1 -1 {s} 90000 -1 1 1 1 1 1 -1 -1 -1"
        for n, (b, r, s) in enumerate(zip(begin, runs, sizes, strict=True), start=1)
    )
    path.write_text("; MaxProcs: 100\n" + "\n".join(jobs) + "\n")


def built(out: Path, overrides: tuple[str, ...], *options: str) -> tuple[float, float, int]:
    """Build in a process; return seconds, its largest resident memory in MB, and decisions."""
    words = [word for override in overrides for word in ("--set", override)]
    argv = ["build", "queue-kth-v1", *words, "--out", str(out), *options]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "hindcast.flows.cli", *argv], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{argv} failed: {said[-1000:]}")
    manifest = json.loads((out / "manifest.json").read_text())
    return took, used.ru_maxrss / 1024.0, manifest["counts"]["decisions"]


def installed() -> list[str]:
    """Return the runners that are installed, beside that of this process."""
    found = []
    for name in RUNNERS:
        with contextlib.suppress(InputError):
            if name != LOCAL:
                check(Request("queue-kth-v1", "none", runner=name))
                found.append(name)
    return found


def runners(scratch: Path) -> Iterator[Row]:
    """Yield the time that every runner takes to start, and its rate, on this machine."""
    log = scratch / "log.swf"
    write_log(log, RECORDED)
    ways = [(LOCAL, 1), (LOCAL, 2), *((name, n) for name in installed() for n in (1, 2))]
    found: dict[tuple[str, int, int], list[tuple[float, int]]] = {}
    for number, windows, (name, workers) in itertools.product(
        range(ROUNDS), (STARTED, RECORDED), ways
    ):
        out = scratch / f"{name}-{workers}-{windows}-{number}"
        given = settings(windows, f"trace.path={str(log)!r}")
        took, _, decisions = built(out, given, "--runner", name, "--workers", str(workers))
        found.setdefault((name, workers, windows), []).append((took, decisions))
    starts = {way: min(found[*way, STARTED]) for way in ways}
    ends = {way: min(found[*way, RECORDED]) for way in ways}
    rates = {way: (ends[way][1] - starts[way][1]) / (ends[way][0] - starts[way][0]) for way in ways}
    for way in ways:
        name, workers = way
        what = f"scaling, build, runner {name}, {workers} worker{'s' * (workers > 1)}"
        yield f"{what}, start", starts[way][0], "s", ""
        beside = f"{rates[way] / rates[LOCAL, workers]:.2f} of local with {workers}"
        yield what, rates[way], "decisions/s", beside


def lengths(scratch: Path) -> Iterator[Row]:
    """Yield time and memory of builds of logs of several lengths."""
    log = scratch / "grown.swf"
    write_log(log, WINDOWS * LENGTHS[-1])
    lines = log.read_text().splitlines(keepends=True)
    found = []
    for times in (0, *LENGTHS):
        windows = max(times * WINDOWS, 1)
        path = scratch / f"times-{times}.swf"
        path.write_text("".join(lines[: 1 + (windows + UNUSED) * JOBS]))
        given = settings(windows, f"trace.path={str(path)!r}", LIGHT)
        found.append(built(scratch / f"times-{times}", given, "--direct", "--workers", "1"))
    (constant, _, _), (first_s, first_mb, _) = found[0], found[1]
    for times, (took, memory, decisions) in zip(LENGTHS, found[1:], strict=True):
        what = f"scaling, build of a log {times} times as long"
        beside = f"{(took - constant) / (first_s - constant):.1f} times, {decisions:,} decisions"
        yield f"{what}, time", took - constant, "s", beside
        yield f"{what}, memory", memory, "MB", f"{memory / first_mb:.2f} times"


def resident(process: psutil.Process) -> float:
    """Return the resident memory of a process in MB."""
    return float(process.memory_info().rss) / 1e6


@contextlib.contextmanager
def cluster(scratch: Path, workers: int) -> Iterator[tuple[str, psutil.Process]]:
    """Start a scheduler and workers as processes; yield the address and the scheduler."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = (sys.executable, "-m", "dask")
    started: list[subprocess.Popen[bytes]] = []
    with (scratch / "dask.log").open("wb") as log, contextlib.ExitStack() as stack:
        for argv in (
            ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"),
            *[("worker", address, "--nthreads", "1", "--memory-limit", "0", "--no-dashboard",
               "--no-nanny", "--local-directory", str(scratch))] * workers,
        ):  # fmt: skip
            process = subprocess.Popen([*dask, *argv], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            started.append(process)
        yield address, psutil.Process(started[0].pid)


def parts(scratch: Path, count: int = PARTS) -> Iterator[Row]:
    """Yield the memory of a Dask scheduler before, during and after a build of many parts."""
    from distributed import Client

    given = (
        "config.max_time_steps=200", *splits(count),
        'behaviours=[{policy="random",episodes=24}]',
    )  # fmt: skip
    words = [word for override in given for word in ("--set", override)]
    with cluster(scratch, 2) as (address, scheduler), Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        before = resident(scheduler)
        argv = [
            "build", "slots-deeprm-v1", *words, "--out", str(scratch / "parts"),
            "--runner", "dask", "--address", address,
        ]  # fmt: skip
        began = time.perf_counter()
        with (scratch / "parts.log").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "hindcast.flows.cli", *argv], stdout=said, stderr=said
            )
        during = before
        while process.poll() is None:
            during = max(during, resident(scheduler))
            time.sleep(QUICK)
        took = time.perf_counter() - began
        if process.returncode:
            raise SystemExit((scratch / "parts.log").read_text()[-1000:])
        after = resident(scheduler)
    manifest = scratch / "parts" / "manifest.json"
    entries = len(json.loads(manifest.read_text())["parts"])
    yield "scaling, Dask scheduler before", before, "MB", ""
    yield f"scaling, Dask scheduler during {entries:,} parts", during, "MB", f"{took:.0f} s in all"
    yield f"scaling, Dask scheduler after {entries:,} parts", after, "MB", f"+{after - before:.1f}"
    yield "scaling, parts with two workers", entries / took, "parts/s", "tiny parts"
    yield "scaling, manifest", manifest.stat().st_size / entries, "bytes/part", ""


def measure() -> Iterator[Row]:
    """Yield rows of (quantity, value, unit, comparison)."""
    for part in (runners, lengths, parts):
        with tempfile.TemporaryDirectory() as scratch:
            yield from part(Path(scratch))
