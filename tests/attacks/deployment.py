"""A Prefect server on loopback, workers, and runs of the deployments of prefect.yaml.

Everything is below one folder: the database of the server, logs, traces and what the runs write.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.flows.test_deployment import (
    PREFECT,
    ROOT,
    ask,
    call,
    free_port,
    surroundings,
    wait_for_server,
)

ENDED: Final = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
PATIENCE_S: Final = 120.0  # in which a server has to answer
POOL: Final = "hindcast"


@dataclass
class Deployment:
    """The processes of one deployment.

    Attributes:
        place: Folder of databases, logs and results.
        env: Environment of all processes.
        processes: Running processes, by a name such as server or worker-0.
        limit: Flow runs of one worker at a time.
    """

    place: Path
    env: dict[str, str]
    limit: int = 1
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start the server, or a worker whose name begins with worker."""
        port = self.env["PREFECT_API_URL"].rpartition(":")[2].removesuffix("/api")
        argv = (
            ("server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui")
            if name == "server"
            else ("worker", "start", "--pool", POOL, "--limit", str(self.limit))
        )
        log = self.place / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*PREFECT, *argv], cwd=ROOT, env=self.env, stdout=output, stderr=output
            )
        self.processes[name] = process
        if name == "server":
            wait_for_server(process, self.env, log)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process, and to nothing that it started."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def flows(self) -> list[int]:
        """Return the processes of flow runs: the children of the workers."""
        found: list[int] = []
        for name, process in self.processes.items():
            if name != "server":
                with contextlib.suppress(psutil.NoSuchProcess):
                    family = psutil.Process(process.pid).children(recursive=True)
                    found += [child.pid for child in family]
        return found

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request to the server, again and again while it does not answer."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask(self.env, path, None if body is None else dict(body))
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def give(self, name: str, parameters: Mapping[str, Any]) -> str:
        """Create a run of a deployment and return its number."""
        found = self.ask(f"/deployments/name/{name}/{name}")["id"]
        run = self.ask(f"/deployments/{found}/create_flow_run", {"parameters": dict(parameters)})
        return str(run["id"])

    def state(self, run: str) -> str:
        """Return the state of a run, such as RUNNING."""
        return str(self.ask(f"/flow_runs/{run}")["state_type"])

    def wait(self, run: str, limit_s: float) -> str:
        """Wait until a run has ended, at most so long, and return its state."""
        until = time.monotonic() + limit_s
        while (state := self.state(run)) not in ENDED and time.monotonic() < until:
            time.sleep(0.5)
        return state


@contextlib.contextmanager
def deployed(
    place: Path, workers: int = 1, limit: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Start a server, deploy prefect.yaml, and start workers; end all of them afterwards.

    The automations of automations.yaml are created. SIGTERM ends the campaign, processes included.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place.mkdir(parents=True, exist_ok=True)
    env = {**surroundings(place / "home", free_port()), **(settings or {})}
    found = Deployment(place, env, limit)
    try:
        found.start("server")
        call("work-pool", "create", POOL, "--type", "process", env=env)
        call("automation", "create", "--from-file", "automations.yaml", env=env)
        call("--no-prompt", "deploy", "--all", env=env)
        for number in range(workers):
            found.start(f"worker-{number}")
        yield found
    finally:
        for process in found.flows():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for name in list(found.processes):
            found.kill(name)
