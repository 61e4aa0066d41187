"""Tests of the commands of the page about Prefect, with a real server and a worker on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from hindcast.flows.engine import server_settings
from hindcast.pipeline.dataset.verification.verify import verify
from tests.flows.test_flows import DEPLOYED

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parent.parent.parent
PREFECT = [sys.executable, "-m", "prefect"]
LIMIT_S = 600.0  # per command: a first start migrates a database, and the machine may be busy.
DAY = "2026-11-20"
SMALL = (
    "config.starts=[]", "config.jobs=5", "config.follow=0", 'split.train="0..0"',
    'split.validation="1..1"',
    'split.test="2..3"', "train.agents=[]", "evaluate.seeds=1",
    "evaluate.policies=['random', 'fcfs_easy']", "evaluate.references=['random']",
)  # fmt: skip


def write_log(path: Path, rng: np.random.Generator) -> None:
    """Write a log of 30 jobs in the standard workload format."""
    jobs = (
        f"{number} {number * 3600} 0 {rng.integers(600, 9000)} {size} -1 -1 {size} 9000 -1 1"
        " 1 1 1 1 -1 -1 -1\n"
        for number, size in enumerate(rng.integers(1, 60, size=30).tolist(), start=1)
    )
    path.write_text("; MaxProcs: 100\n" + "".join(jobs))


LEASES = "prefect.server.concurrency.lease_storage.filesystem"


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
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
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
    """Send one request to the server's API, again while its database is locked (503)."""
    request = urllib.request.Request(
        env["PREFECT_API_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > until:
                raise
        time.sleep(0.5)


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


def wait_for_run(env: dict[str, str], run: str, log: Path) -> dict[str, Any]:
    """Return a flow run that has ended."""
    until = time.monotonic() + LIMIT_S
    while True:
        found: dict[str, Any] = ask(env, f"/flow_runs/{run}")
        if found["state_type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}:
            return found
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.5)


def test_a_night_on_a_server(tmp_path: Path) -> None:
    """`prefect.yaml` is deployed, and a worker runs `nightly` on the log of a day.

    The run shows its finding, scores and report. A log that is missing fails with its cause in one
    line.
    """
    port, out = free_port(), tmp_path / "nights"
    write_log(tmp_path / f"{DAY}.swf", np.random.default_rng(1))
    env = surroundings(tmp_path / "home", port)
    server_log, worker_log = tmp_path / "server.log", tmp_path / "worker.log"
    start = ("server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
    with started(*start, env=env, log=server_log) as server:
        wait_for_server(server, env, server_log)
        told = server_settings(env["PREFECT_API_URL"])
        assert told["server"]["concurrency"]["lease_storage"] == LEASES
        call("work-pool", "create", "hindcast", "--type", "process", env=env)
        work = ("worker", "start", "--pool", "hindcast")
        with started(*work, env=env, log=worker_log):
            call("--no-prompt", "deploy", "--all", env=env)
            found = {d["name"]: d for d in ask(env, "/deployments/filter", {})}
            assert set(found) == set(DEPLOYED)
            assert not any(d["schedules"] for d in found.values())
            for name in ("build", "nightly"):
                described = found[name]["parameter_openapi_schema"]["properties"]
                assert all(p["description"] for p in described.values())

            given = {"recipe": "queue-kth-v1", "out": str(out), "overrides": [*SMALL]}
            given["trace"] = str(tmp_path / "{date}.swf")
            runs = [
                ask(
                    env, f"/deployments/{found['nightly']['id']}/create_flow_run",
                    {"parameters": {**given, "date": day}},
                )["id"]
                for day in (DAY, "2026-11-30")
            ]  # fmt: skip
            ended = [wait_for_run(env, run, worker_log) for run in runs]
            said = worker_log.read_text()
            assert [e["state_type"] for e in ended] == ["COMPLETED", "FAILED"], said
            names = [f"nightly queue-kth-v1, {day}" for day in (DAY, "2026-11-30")]
            assert [e["name"] for e in ended] == names
            [cause] = ended[1]["state"]["message"].splitlines()
            assert "2026-11-30.swf: no such file" in cause
            artifacts = ask(
                env, "/artifacts/filter", {"artifacts": {"key": {"like_": "nightly-%"}}}
            )
            keys = {"nightly-report", "nightly-report-finding", "nightly-report-scores"}
            assert {(a["flow_run_id"], a["key"]) for a in artifacts} == {(runs[0], k) for k in keys}
    [night] = out.iterdir()
    assert night.name.startswith(f"{DAY}-")
    assert (night / "report.html").is_file()
    assert verify(night / "dataset").checks
