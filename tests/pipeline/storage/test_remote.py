"""Tests of folders in object stores: a real S3 protocol server on loopback, and a store in memory.

No request leaves this machine: credentials are made up, and the endpoint is 127.0.0.1.
"""

import gc
import hashlib
import http.server
import itertools
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import fsspec
import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, StorageError, TraceError, VerificationFailed
from hindcast.pipeline.storage import files as storage
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.remote import RemotePath, create, refusals
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.policies.registry import behaviours
from tests.conftest import TINY
from tests.representatives import nightly_but

pytestmark = pytest.mark.slow

BUCKET = "hindcast"
SETS = [word for value in TINY for word in ("--set", value)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Server:
    """Server of the S3 protocol that can be stopped and restarted with its content."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._server: Any = None
        self.start()

    def start(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server._server.server_close()
        self._server = None


@contextmanager
def surroundings(port: int) -> Iterator[None]:
    """Set credentials and an endpoint of S3 in the environment, hiding all others from clients."""
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        patch.delenv(name)
    values = {
        "AWS_ACCESS_KEY_ID": "made-up",
        "AWS_SECRET_ACCESS_KEY": "made-up",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in values.items():
        patch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    try:
        yield
    finally:
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        patch.undo()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server(free_port())
    yield server
    server.stop()


@pytest.fixture
def server(running) -> Iterator[Server]:
    """Start the server with its one bucket."""
    with surroundings(running.port):
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield running


def folder_of(name: str) -> Path:
    """Return a folder of the bucket that no other test uses."""
    return location(f"s3://{BUCKET}/{uuid.uuid4().hex}/{name}")


def remote_digest(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every object below the folder, as another client reads them."""
    client = boto3.client("s3")
    prefix = str(folder).removeprefix(f"s3://{BUCKET}/") + "/"
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    bodies = {o["Key"]: client.get_object(Bucket=BUCKET, Key=o["Key"])["Body"] for o in found}
    return {
        key.removeprefix(prefix): hashlib.sha256(body.read()).hexdigest()
        for key, body in bodies.items()
    }


def digest(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file()
    }


@pytest.fixture(scope="module")
def built(running, tiny_recipe) -> Path:
    """Return the tiny dataset in the store. Tests only read it."""
    with surroundings(running.port):
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        out = folder_of("tiny")
        build(tiny_recipe, behaviours(tiny_recipe), out, workers=2)
    return out


def test_a_build_in_a_store_has_the_bytes_of_a_local_one(server, built, tiny_recipe, tiny_dataset):
    """The objects equal the files and nothing else is left. A second build does nothing."""
    assert remote_digest(built) == digest(tiny_dataset)
    again = build(tiny_recipe, behaviours(tiny_recipe), built)
    assert str(again.folder) == str(built)
    assert again.digest == tiny_recipe.digest


def test_a_dataset_in_a_store_is_verified(server, built, tiny_recipe):
    checks = dict(verify(built, behaviours(tiny_recipe)).checks)
    assert checks["decisions"] == "10,068 replayed in the simulator"


def test_verify_names_the_object_that_was_changed(server, tiny_recipe, tiny_dataset):
    out = folder_of("changed")
    for path in tiny_dataset.rglob("*"):
        if path.is_file():
            key = f"{str(out).removeprefix(f's3://{BUCKET}/')}/{path.relative_to(tiny_dataset)}"
            content = path.read_bytes()
            if path.name == "part-00001.parquet":
                content = content[:-100] + bytes(1) + content[-99:]
            boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)
    with pytest.raises(VerificationFailed, match=rf"{out}/data/part-00001\.parquet: the SHA-256"):
        verify(out, behaviours(tiny_recipe))


def test_a_dataset_in_a_store_reads_as_the_local_one(server, built, tiny_dataset):
    remote, local = ds.open(str(built)), ds.open(tiny_dataset)
    assert remote.episodes().equals(local.episodes())
    for one, two in zip(remote.blocks(1), local.blocks(1), strict=True):
        np.testing.assert_array_equal(one.candidates, two.candidates)
        np.testing.assert_array_equal(one.choice, two.choice)
    parts = [built / part.path for part in remote.manifest.parts]
    scanned = storage.scan_parquet(parts).select("episode", "reward").collect()
    assert scanned.equals(
        pl.read_parquet(tiny_dataset / "data" / "*.parquet", columns=["episode", "reward"])
    )


READ_BY_WORKERS = """
import sys
from torch.utils.data import DataLoader
from hindcast.pipeline import dataset as ds

if __name__ == "__main__":
    dataset = ds.open(sys.argv[1])
    steps = dataset.episodes("train")["steps"].sum()
    loader = DataLoader(
        dataset.torch(512), batch_size=None, num_workers=2, multiprocessing_context=sys.argv[2]
    )
    assert sum(len(batch["choice"]) for batch in loader) == steps
"""


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_pytorch_read_a_dataset_of_a_store(method, server, built, tmp_path):
    """The process has connections to the store, which no worker can use.

    A process of its own forks, so that nothing but its own threads has run; a hang ends.
    """
    script = tmp_path / "read.py"
    script.write_text(READ_BY_WORKERS)
    words = [sys.executable, str(script), str(built), method]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_every_command_takes_urls(server, built, tiny_dataset, tmp_path, capsys):
    """Training, evaluation and report in the store give the same results as on disk."""

    def run(place: str, data: str) -> list[str]:
        agent, scores = f"{place}/agent", f"{place}/scores"
        commands = [
            ["train", data, "--agent", "behaviour_cloning", "--steps", "5", "--direct"],
            ["evaluate", "binpack-synthetic-v1", *SETS, "--policy", "tetris", agent, "--direct"],
            ["report", scores, "--direct"],
        ]
        for command, out in zip(commands, (agent, scores, f"{place}/page"), strict=True):
            assert cli.main([*command, "--out", out]) == 0, capsys.readouterr().err
        return [
            f"{agent}/weights.safetensors",
            f"{scores}/scores.parquet",
            f"{place}/page/summary.md",
        ]

    there = run(str(folder_of("commands")), str(built))
    here = run(str(tmp_path), str(tiny_dataset))
    for one, two in zip(there[:2], here[:2], strict=True):
        assert location(one).read_bytes() == Path(two).read_bytes()
    assert "tetris" in location(there[2]).read_text()
    assert cli.main(["verify", str(built)]) == 0


@pytest.mark.nightly
def test_a_run_in_a_store_is_done_once(server, capsys):
    out = str(folder_of("run"))
    small = ["--set", "train.steps=5", "--set", 'evaluate.policies=["tetris", "random"]']
    small += ["--set", 'evaluate.references=["random"]']
    command = ["run", "binpack-synthetic-v1", *SETS, *small, "--out", out, "--direct"]
    assert cli.main(command) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.splitlines()[-1] == f"{out}/report.html"
    before = remote_digest(location(out))
    assert "report.html" in before
    assert cli.main(command) == 0
    assert remote_digest(location(out)) == before


def test_a_raw_trace_and_a_workload_may_lie_in_a_store(server, tmp_path):
    """Provenance and errors name the object, not the temporary copy."""
    text = "; Version: 2.2\n; MaxProcs: 8\n" + "".join(
        f"{job} {job * 10} 0 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1\n" for job in range(1, 9)
    )
    (tmp_path / "log.swf").write_text(text)
    raw = folder_of("raw")
    storage.write_text(raw / "log.swf", text)
    ingest("swf", tmp_path / "log.swf", tmp_path / "out")
    ingest("swf", raw / "log.swf", raw / "out")
    assert remote_digest(raw / "out") == digest(tmp_path / "out")
    assert load_workload(raw / "out").tasks.height == 8
    storage.write_text(raw / "bad.swf", "; nothing\n")
    with pytest.raises(Exception, match=rf"^{raw}/bad\.swf: "):
        ingest("swf", raw / "bad.swf", raw / "bad")


def test_files_beside_a_trace_in_a_store_are_read_as_here(server, tmp_path):
    texts = {
        "batch_task.csv": "10,50,1,1,4,Terminated,50,0.01\n",
        "batch_instance.csv": "10,15,1,1,7,Terminated,1,1,1,1,1,1\n" * 2,
        "server_event.csv": "0,7,add,,64,0.7,0.5\n",
        "m.toml": 'file = "t.csv"\n[columns]\nsubmit="at"\nduration="run"\ncores="c"\n',
        "t.csv": "at,run,c\n1,10,1\n5,10,2\n",
        "up.toml": 'file = "../t.csv"\n[columns]\nsubmit="at"\nduration="run"\ncores="c"\n',
    }
    raw = folder_of("beside")
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        storage.write_text(raw / name, text)
    for kind, name in (("alibaba2017", "batch_task.csv"), ("table", "m.toml")):
        ingest(kind, tmp_path / name, tmp_path / kind)
        ingest(kind, raw / name, raw / kind)
        assert remote_digest(raw / kind) == digest(tmp_path / kind)
    message = rf"^{raw}/up\.toml: file: {raw}/\.\./t\.csv: no such file"
    with pytest.raises(TraceError, match=message):
        ingest("table", raw / "up.toml", tmp_path / "up")


def test_appended_in_a_store_as_here(server, tiny_recipe, tiny_dataset, tmp_path):
    out, known = folder_of("appended"), behaviours(tiny_recipe)
    for place in (out, tmp_path / "d"):
        build(tiny_recipe, known, place)
        append(tiny_recipe, known, place)
    assert remote_digest(out) == digest(tmp_path / "d")


def stopping(server: Server, after: int) -> Callable[[RemotePath, Path], None]:
    """Return an `upload` that stops the server at the upload of that number."""
    upload, count = RemotePath.upload, itertools.count(1)

    def stops(self: RemotePath, local: Path) -> None:
        if next(count) == after:
            server.stop()
        upload(self, local)

    return stops


@pytest.mark.parametrize("after", nightly_but({9}, [3, 9, 14]))
def test_a_server_that_goes_away_in_the_middle(
    server, after, tiny_recipe, tiny_dataset, monkeypatch
):
    """The build reports the lost server.

    Once the server is back, the same build ends in the same bytes.
    """
    out, known = folder_of("stopped"), behaviours(tiny_recipe)
    monkeypatch.setattr(RemotePath, "upload", stopping(server, after))
    try:
        with pytest.raises(StorageError, match=r"cannot be reached.*continues where it stopped"):
            build(tiny_recipe, known, out)
    finally:
        server.start()
    monkeypatch.undo()
    with surroundings(server.port):
        assert "manifest.json" not in remote_digest(out)
        with pytest.raises(DatasetError, match="no finished dataset"):
            ds.open(out)
        uploaded = set(remote_digest(out))
        assert {f for f in uploaded if f.startswith(".building/")}
        build(tiny_recipe, known, out, workers=2)
        assert remote_digest(out) == digest(tiny_dataset)


def test_a_connection_that_is_dropped_is_used_again_in_silence(server, monkeypatch, caplog):
    """Each request is sent on a connection that was lost just before, once, and then again."""
    from aiohttp.client_exceptions import ClientConnectionResetError
    from aiohttp.http_writer import StreamWriter

    send, dropped = StreamWriter.send_headers, []

    def lost(self: Any) -> None:
        if len(dropped) < 2:
            dropped.append(self)
            self.transport.abort()
            raise ClientConnectionResetError("Cannot write to closing transport")
        send(self)

    monkeypatch.setattr(StreamWriter, "send_headers", lost)
    path = location(f"s3://{BUCKET}/dropped/a.txt")
    storage.write_text(path, "x" * 5000)
    assert path.read_text() == "x" * 5000
    assert len(dropped) == 2
    gc.collect()
    assert "never retrieved" not in caplog.text


def one_line(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return the error line of a command that exits with 2."""
    assert cli.main(list(argv)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    last = [line for line in said.err.splitlines() if line.startswith("hindcast:")]
    assert said.err.splitlines()[-1:] == last
    return last[0]


BUILD = ["build", "binpack-synthetic-v1", *SETS, "--direct", "--out"]


def test_a_bucket_that_is_not_there(server, capsys):
    for command in (
        [*BUILD, "s3://absent/d"],
        ["verify", "s3://absent/d"],
        ["show", "s3://absent"],
    ):
        assert "there is no bucket 'absent'" in one_line(capsys, *command)


def test_nothing_listens(capsys):
    with surroundings(free_port()):
        for command in ([*BUILD, "s3://bucket/d"], ["verify", "s3://bucket/d"]):
            said = one_line(capsys, *command)
            assert "s3://bucket/d" in said
            assert "cannot be reached" in said
            assert "AWS_ENDPOINT_URL" in said


def test_credentials_that_are_wrong(capsys):
    """A store that answers 403, as S3 does for an unknown key, causes an error."""

    class Denying(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            body = (
                b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>'
                b"<Message>The AWS Access Key Id you provided does not exist</Message></Error>"
            )
            self.send_response(403)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_arguments: Any) -> None:
            """Log nothing."""

    with closing_server(Denying) as port, surroundings(port):
        for command in ([*BUILD, "s3://bucket/d"], ["verify", "s3://bucket/d"]):
            said = one_line(capsys, *command)
            assert "access was refused" in said
            assert "AWS_ACCESS_KEY_ID" in said


@contextmanager
def closing_server(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_credentials_that_are_missing(server, capsys, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    said = one_line(capsys, *BUILD, f"s3://{BUCKET}/none")
    assert "access was refused" in said
    assert "AWS_ACCESS_KEY_ID" in said


def test_a_folder_of_something_else_is_left_alone(server, tiny_recipe):
    out = folder_of("thesis")
    storage.write_text(out / "thesis.txt", "all of it")
    with pytest.raises(StorageError, match="not empty"):
        build(tiny_recipe, behaviours(tiny_recipe), out)
    assert list(remote_digest(out)) == ["thesis.txt"]


def test_one_of_two_writers_has_the_lock_of_a_folder(server, monkeypatch):
    monkeypatch.setenv("HINDCAST_WAIT", "0")
    folder, errors = folder_of("d"), []
    assert create(folder / ".lock", b"1")
    assert not create(folder / ".lock", b"2")
    assert (folder / ".lock").read_bytes() == b"1"
    (folder / ".lock").unlink()

    def second() -> None:
        try:
            with writing(folder):
                pass
        except StorageError as error:
            errors.append(str(error))

    with writing(folder):
        thread = threading.Thread(target=second)  # holds no lock of this one
        thread.start()
        thread.join()
    assert not folder.exists()
    [error] = errors
    assert error.startswith(f"{folder}: process {os.getpid()} on ")
    with pytest.raises(StorageError, match="there is no bucket 'none'"):
        create(location("s3://none/d/.lock"), b"")


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return a folder of the store in memory."""
    yield location(f"memory://{uuid.uuid4().hex}/d")
    fsspec.filesystem("memory").store.clear()


def test_files_of_a_store_are_written_and_read(memory):
    stored = storage.write_atomically(memory / "a" / "x", lambda path: path.write_bytes(b"abc"))
    assert (stored.bytes, stored.sha256) == (3, hashlib.sha256(b"abc").hexdigest())
    assert storage.sha256_file(memory / "a" / "x") == stored.sha256
    storage.write_json(memory / "b.json", {"a": 1})
    assert storage.read_json(memory / "b.json") == {"a": 1}
    assert [p.name for p in memory.iterdir()] == ["a", "b.json"]
    assert [str(p) for p in memory.glob("*.json")] == [f"{memory}/b.json"]
    storage.remove_folder(memory / "a")
    assert not (memory / "a" / "x").exists()


def test_what_fails_is_not_uploaded_and_the_old_object_stays(memory):
    storage.write_text(memory / "x", "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.write_atomically(memory / "x", half)
    assert (memory / "x").read_text() == "old"
    assert [p.name for p in memory.iterdir()] == ["x"]


def test_a_folder_is_tried_and_left_empty(memory):
    storage.write_text(memory / "x", "there")
    storage.make_folder(memory)
    assert [p.name for p in memory.iterdir()] == ["x"]


def test_an_object_is_read_piece_by_piece(memory):
    """Seeking and short reads give the bytes of the object."""
    content = np.random.default_rng(0).bytes(3_000_000)
    storage.write_atomically(memory / "x", lambda path: path.write_bytes(content))
    with (memory / "x").open("rb") as handle:
        handle.seek(-7, os.SEEK_END)
        assert handle.read() == content[-7:]
        handle.seek(5)
        assert handle.read(2_500_000) == content[5:2_500_005]
        assert handle.read(2) == content[2_500_005:2_500_007]


def test_missing_objects_are_missing_files(memory):
    with pytest.raises(DatasetError, match=rf"{memory}/x: no such file"):
        storage.read_json(memory / "x")
    with pytest.raises(FileNotFoundError), storage.local_copy(memory / "x"):
        pass
    assert not (memory / "x").exists()
    (memory / "x").unlink(missing_ok=True)


def test_what_is_said_of_a_copy_is_said_of_the_object(memory):
    storage.write_text(memory / "x", "a")

    def complain() -> None:
        with storage.local_copy(memory / "x") as copy:
            raise DatasetError(f"{copy}: is bad")

    with pytest.raises(DatasetError, match=rf"^{memory}/x: is bad$"):
        complain()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError("Forbidden"), "access was refused"),
        (ConnectionRefusedError(111, "Connection refused"), "cannot be reached"),
        (TimeoutError("late"), "cannot be reached"),
        (RuntimeError("odd"), "the store refused"),
        (FileNotFoundError("The specified bucket does not exist: NoSuchBucket"), "no bucket 'b'"),
    ],
)
def test_refusals_name_the_url(error, said):
    with pytest.raises(StorageError, match=rf"^s3://b/x: .*{said}"), refusals("s3://b/x"):
        raise error
