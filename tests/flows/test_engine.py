"""Tests of the embedded server: one per command, silent, original errors, no leftovers."""

import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest

from hindcast.flows import cli, engine
from hindcast.pipeline.errors import HindcastError, StorageError
from tests.conftest import TINY
from tests.representatives import nightly_but

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
SET = [word for override in TINY for word in ("--set", override)]
LONG = (
    "trace.settings.n_jobs=20000",
    'split.train="0..2999"',
    'split.validation="3000..3001"',
    'split.test="3002..3003"',
)
LIMIT_S = 240.0  # a first start migrates a database, and the machine may be busy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a PREFECT_HOME for these tests. Its database is migrated once."""
    return tmp_path_factory.mktemp("prefect")


def surroundings(home: Path) -> dict[str, str]:
    """Return the environment of a command with its own PREFECT_HOME and no server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**kept, "PREFECT_HOME": str(home)}


def hindcast(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hindcast.flows.cli", *argv], cwd=ROOT, env=surroundings(home),
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of stderr but warnings, and that simulators are compiled for once."""
    others = ("warning: ", "compiling simulators ")
    return [line for line in done.stderr.splitlines() if not line.startswith(others)]


def recorded(home: Path) -> list[tuple[str, str]]:
    """Return the names and states of the flow runs in the history."""
    with sqlite3.connect(home / "prefect.db") as connection:
        rows = connection.execute("select name, state_type from flow_run order by created")
        return list(rows)


def test_a_command_records_its_run_and_passes_errors_on(home, tmp_path):
    """A finished command prints results and is in the history.

    A failed one prints its error line only.
    """
    out = tmp_path / "dataset"
    done = hindcast(home, "build", "binpack-synthetic-v1", *SET, "--out", str(out), "--record")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{out}: ")
    assert lines(done) == ["starting Prefect"]
    assert (out / "manifest.json").is_file()

    file = tmp_path / "file"
    file.touch()
    failed = hindcast(home, "build", "binpack-synthetic-v1", *SET, "--out", str(file), "--record")
    assert failed.returncode == 2
    assert lines(failed) == [
        "starting Prefect",
        f"hindcast: {file}: this is a file, expected a folder; choose another --out",
    ]
    assert "StorageError" in (home / "hindcast.log").read_text(encoding="utf-8")
    name = "build binpack-synthetic-v1"
    assert recorded(home)[-2:] == [(name, "COMPLETED"), (name, "FAILED")]


@pytest.mark.parametrize(
    ("number", "code"),
    nightly_but({(signal.SIGTERM, 143)}, [(signal.SIGINT, 130), (signal.SIGTERM, 143)]),
)
def test_an_interrupted_command_leaves_no_process_behind(home, tmp_path, number, code):
    """An interrupted command prints one line and exits with the code that shells expect."""
    out, log = tmp_path / "dataset", tmp_path / "stderr"
    recipe = [*SET, *(word for override in LONG for word in ("--set", override))]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "hindcast.flows.cli", "build", "binpack-synthetic-v1", *recipe,
             "--out", str(out), "--record"],
            cwd=ROOT, env=surroundings(home), stderr=stderr,
        )  # fmt: skip
    try:
        until = time.monotonic() + LIMIT_S
        while not list(out.glob("data/part-*.parquet")):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    lines = log.read_text().splitlines()
    assert process.returncode == code, lines
    assert "the same command continues where it stopped" in lines[-1]
    assert "Traceback" not in " ".join(lines)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert not (out / "manifest.json").exists()


@pytest.mark.parametrize("user", ["", "me:secret@"])
def test_a_server_that_does_not_answer_is_one_line(user, monkeypatch, tmp_path, capsys):
    """The line says how to go on, and repeats no password."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}/api"
    monkeypatch.setenv("PREFECT_API_URL", f"http://{user}{address}")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    out = tmp_path / "dataset"
    assert cli.main(["build", "binpack-synthetic-v1", *SET, "--out", str(out)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"PREFECT_API_URL is http://{'...@' if user else ''}{address}, where no" in line
    assert "--direct" in line
    assert "secret" not in line
    assert not out.exists()


# Under load, this has closed the streams that pytest captures, and the tests after it failed.
@pytest.mark.nightly
def test_a_server_that_dies_during_a_command_is_one_line(monkeypatch, tmp_path, capsys):
    """Exit code 1 and the address; an error of the command itself is the one that is printed."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}/api"
    monkeypatch.setenv("PREFECT_API_URL", f"http://me:secret@{address}")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(engine, "check_server", lambda _url: None)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    raised: list[Exception | None] = [None, StorageError("x: the disk is full")]

    def lost(**_request):
        try:
            if (error := raised.pop(0)) is not None:
                raise error
        finally:
            raise httpx.ConnectError("Connection refused")

    monkeypatch.setattr("hindcast.flows.deployments.build", lost)
    argv = ["build", "binpack-synthetic-v1", *SET, "--out", str(tmp_path / "dataset")]
    assert cli.main(argv) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"PREFECT_API_URL is http://...@{address}, where the Prefect server no longer" in line
    assert "continues where it stopped" in line
    assert "secret" not in line
    assert not logging.raiseExceptions
    assert cli.main(argv) == 2
    assert capsys.readouterr().err == "hindcast: x: the disk is full\n"


def test_a_disk_without_room_for_the_history_is_one_line(monkeypatch, tmp_path):
    """Neither the server nor its log can write; an error of Prefect itself is one line as well."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))

    class Server:
        started = False

    thread = threading.Thread()
    thread.start()
    monkeypatch.setattr(engine.shutil, "disk_usage", lambda _path: SimpleNamespace(free=5))
    with pytest.raises(HindcastError, match=r"hindcast\.log \(its disk has 5 bytes free\)"):
        engine._wait_until_started(Server(), thread)
    with engine._silent_logging():
        assert not logging.raiseExceptions
    with pytest.raises(HindcastError, match=r"\(no room\), see .*log"), engine._loss_of(None):
        raise httpx.HTTPError("no room")


def test_commands_at_the_same_time_have_a_database_each(tmp_path):
    """Commands at the same time have a database each, as an SQLite file serves one server only.

    The first database is free again afterwards.
    """
    with engine._own_database(tmp_path) as first, engine._own_database(tmp_path) as second:
        assert (first.name, second.name) == ("prefect.db", "prefect-1.db")
    with engine._own_database(tmp_path) as again:
        assert again == first


def test_the_environment_is_left_as_it_was(monkeypatch, tmp_path):
    """Variables are set only inside the context, and only those that the user has not set."""
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = dict(os.environ)
    with engine.prefect_engine():
        assert os.environ["DO_NOT_TRACK"] == "0"
        assert os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
        assert os.environ["PREFECT_HOME"] == str(tmp_path / "hindcast" / "prefect")
    assert dict(os.environ) == before


def test_without_a_writable_cache_the_home_is_temporary(monkeypatch, tmp_path):
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with engine.prefect_home():
        home = Path(os.environ["PREFECT_HOME"])
        assert home.is_dir()
    assert not home.exists()
