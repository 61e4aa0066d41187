"""Clusters of four worker processes on this machine, as a user starts them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

ROOT: Final = Path(__file__).resolve().parents[2]
WORKERS: Final = 4
_START_S: Final = 120.0
_OBJECTS: Final = 80 << 20


class Cluster:
    """A cluster of an engine, in processes of its own."""

    address: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        self._begun: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        """Start all processes and wait until the cluster listens."""
        raise NotImplementedError

    def at_work(self) -> list[psutil.Process]:
        """Return the processes that run tasks, or wait for some."""
        raise NotImplementedError

    def scheduler(self) -> psutil.Process:
        """Return the process without which the cluster is lost."""
        raise NotImplementedError

    def stop(self) -> None:
        """End all processes of the cluster."""
        for process in self._begun:
            with contextlib.suppress(psutil.NoSuchProcess):
                tree = psutil.Process(process.pid)
                for each in [tree, *tree.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
            process.wait()
        self._begun.clear()

    def close(self) -> None:
        """End the cluster and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _begin(self, *argv: str, **environment: str) -> psutil.Process:
        with (self.folder / "log.txt").open("ab") as log:
            # A folder of its own: the workers have to find everything by whole paths.
            begun = subprocess.Popen(
                argv, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            )  # fmt: skip
        self._begun.append(begun)
        return psutil.Process(begun.pid)

    def _wait(self, port: int) -> None:
        limit = time.monotonic() + _START_S
        while time.monotonic() < limit:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log.txt").read_text(errors="replace")[-2000:])


class Dask(Cluster):
    """A scheduler of Dask and four workers."""

    def start(self) -> None:
        """Start the scheduler, then the workers."""
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        run = (sys.executable, "-m")
        self._scheduler = self._begin(
            *run, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port),
            "--no-dashboard",
        )  # fmt: skip
        self._wait(port)
        self._workers = self._begin(
            *run, "distributed.cli.dask_worker", self.address, "--nworkers", str(WORKERS),
            "--nthreads", "1", "--no-dashboard", "--memory-limit", "0",
            "--local-directory", str(self.folder),
        )  # fmt: skip

    def at_work(self) -> list[psutil.Process]:
        """Return the processes below the one that watches them."""
        return [p for p in self._workers.children() if "spawn_main" in " ".join(p.cmdline())]

    def scheduler(self) -> psutil.Process:
        """Return the scheduler."""
        return self._scheduler


class Ray(Cluster):
    """A head of Ray with four processors."""

    def start(self) -> None:
        """Start the head and its server for clients."""
        port, clients = free_port(), free_port()
        self.address = f"ray://127.0.0.1:{clients}"
        ray = Path(sys.executable).with_name("ray")
        self._head = self._begin(
            str(ray), "start", "--head", "--block", "--num-cpus", str(WORKERS), "--port", str(port),
            "--ray-client-server-port", str(clients), "--include-dashboard=false",
            "--disable-usage-stats", "--temp-dir", str(self.folder), "--object-store-memory",
            str(_OBJECTS), "--min-worker-port", "0", "--max-worker-port", "0",
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_AUTH_MODE="disabled",
            # Otherwise its processes for clients end now and then while they start.
            GRPC_ENABLE_FORK_SUPPORT="0",
        )  # fmt: skip
        self._wait(clients)

    def at_work(self) -> list[psutil.Process]:
        """Return the workers that the raylet started."""
        return [p for p in self._children() if is_worker(p)]

    def scheduler(self) -> psutil.Process:
        """Return the process that keeps the state of the cluster."""
        return next(p for p in self._children() if p.name() == "gcs_server")

    def _children(self) -> Iterator[psutil.Process]:
        for process in self._head.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield process


def is_worker(process: psutil.Process) -> bool:
    """Return whether a process of Ray runs tasks."""
    with contextlib.suppress(psutil.NoSuchProcess):
        (title, *_) = process.cmdline() or [""]
        return title.startswith("ray::") and "Agent" not in title
    return False


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def kill(process: psutil.Process) -> None:
    """Send SIGKILL to a process, which may have ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


ENGINES: Final[Mapping[str, Any]] = {"dask": Dask, "ray": Ray}
