"""Tests of the README's five deployment commands with a real server and a worker on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.recipes.recipe import Recipe
from pipeline.verification.verify import verify
from tests.conftest import TINY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
PREFECT = [sys.executable, "-m", "prefect"]
LIMIT_S = 600.0  # per command: a first start migrates a database, and the machine may be busy.


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def surroundings(home: Path, port: int) -> dict[str, str]:
    """Return an environment that neither reads nor writes the user's Prefect settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {
        **kept,
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }


@contextmanager
def started(*argv: str, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process and end it with all its children when the context is left."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*PREFECT, *argv], cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        family = [psutil.Process(process.pid)] if process.poll() is None else []
        family += [child for parent in family for child in parent.children(recursive=True)]
        process.terminate()
        _, alive = psutil.wait_procs(family, timeout=20)
        for left in alive:
            left.kill()
        process.wait(timeout=20)


def call(*argv: str, env: dict[str, str]) -> str:
    """Run one command of Prefect to its end and return its output."""
    done = subprocess.run(
        [*PREFECT, *argv], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def ask(env: dict[str, str], path: str, body: dict[str, Any] | None = None) -> Any:
    """Send one request to the server's API."""
    request = urllib.request.Request(
        env["PREFECT_API_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def wait_for_server(server: subprocess.Popen[bytes], env: dict[str, str], log: Path) -> None:
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            assert ask(env, "/health") is True
        except OSError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        else:
            return


def test_a_deployed_build_makes_a_dataset(tmp_path: Path, tiny_recipe: Recipe) -> None:
    """`prefect.yaml` is deployed, a worker runs `build`, and the dataset that it wrote verifies."""
    port, out = free_port(), tmp_path / "dataset"
    env = surroundings(tmp_path / "home", port)
    server_log, worker_log = tmp_path / "server.log", tmp_path / "worker.log"
    start = ("server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
    with started(*start, env=env, log=server_log) as server:
        wait_for_server(server, env, server_log)
        call("work-pool", "create", "hindcast", "--type", "process", env=env)
        work = ("worker", "start", "--pool", "hindcast")
        with started(*work, env=env, log=worker_log):
            call("--no-prompt", "deploy", "--all", env=env)
            found = {d["name"]: d for d in ask(env, "/deployments/filter", {})}
            assert set(found) == {"build", "train", "train_online", "evaluate", "run"}
            assert not any(d["schedules"] for d in found.values())
            described = found["build"]["parameter_openapi_schema"]["properties"]
            assert all(p["description"] for p in described.values())

            overrides = f"overrides={json.dumps(TINY)}"
            shown = call(
                "deployment", "run", "build/build", "--param", f"out={out}", "--param", overrides,
                "--watch", "--watch-timeout", str(int(LIMIT_S)), env=env,
            )  # fmt: skip
            runs = ask(env, "/flow_runs/filter", {})
            states = [(r["name"], r["state_type"]) for r in runs]
            said = shown + worker_log.read_text()
            assert states == [("build binpack-synthetic-v1", "COMPLETED")], said
    assert verify(out).checks
    recorded = json.loads((out / "manifest.json").read_text())
    assert recorded["digest"] == tiny_recipe.digest
