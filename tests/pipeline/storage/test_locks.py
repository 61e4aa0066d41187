"""Locks of folders: one writer at a time, and nothing that a dead one left keeps others out."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hindcast.pipeline.errors import FolderBusy, HindcastError, InputError, StorageError
from hindcast.pipeline.notes import telling
from hindcast.pipeline.storage import heartbeat, locks
from hindcast.pipeline.storage.heartbeat import Holder, holder_of
from hindcast.pipeline.storage.location import is_remote, location
from hindcast.pipeline.storage.locks import one_writer, writing

_HOLD = """
import sys
from pathlib import Path
from hindcast.pipeline.storage.locks import writing
with writing(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path):
    """Return a process that holds tmp_path/demo, until a line is written to it."""
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "demo")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "holds\n"
        yield process
        process.kill()


def at_once(monkeypatch):
    monkeypatch.setenv("HINDCAST_WAIT", "0")


def in_a_thread(work):
    """Run `work` in another thread, whose context holds no lock, and return its error."""
    errors = []

    def body():
        try:
            work()
        except HindcastError as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return errors[0] if errors else None


def hold(folder, **settings):
    with writing(folder, **settings):
        pass


def test_the_second_writer_is_told_who_is_at_work(tmp_path, other, monkeypatch):
    at_once(monkeypatch)
    with pytest.raises(FolderBusy, match=rf"demo: process {other.pid} on .* \(since 20.* UTC\)"):
        hold(tmp_path / "demo")


def test_the_second_writer_waits_and_says_so(tmp_path, other, monkeypatch):
    monkeypatch.delenv("HINDCAST_WAIT", raising=False)
    lines = []

    def tell(text):
        lines.append(text)
        other.stdin.write("\n")
        other.stdin.flush()

    with telling(tell), writing(tmp_path / "demo"):
        assert other.wait(30) == 0
    [line] = lines
    assert f"process {other.pid}" in line
    assert "waiting at most 600 s" in line


def test_a_killed_writer_keeps_nobody_out(tmp_path, other, monkeypatch):
    at_once(monkeypatch)
    other.send_signal(signal.SIGKILL)
    other.wait(30)
    assert (tmp_path / "demo" / ".lock").exists()
    with writing(tmp_path / "demo"):
        assert holder_of(tmp_path / "demo" / ".lock").process == os.getpid()
    assert not list((tmp_path / "demo").iterdir())


def test_every_user_of_a_folder_can_take_what_a_killed_one_left(tmp_path):
    with writing(tmp_path):
        assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o666


def test_a_lock_leaves_nothing_behind(tmp_path):
    with writing(tmp_path / "a" / "b"):
        assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == [".lock"]
        (tmp_path / "a" / "kept").touch()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["kept"]


def test_a_lock_beside_a_folder_leaves_the_folder_alone(tmp_path):
    with writing(tmp_path / "new", beside=True):
        assert [p.name for p in tmp_path.iterdir()] == [".new.lock"]
    assert not list(tmp_path.iterdir())


def test_locks_nest_in_one_command_but_not_between_threads(tmp_path, monkeypatch):
    at_once(monkeypatch)
    with writing(tmp_path), writing(tmp_path):
        assert isinstance(in_a_thread(lambda: hold(tmp_path)), FolderBusy)
        assert in_a_thread(lambda: hold(tmp_path / "inside")) is None
    assert in_a_thread(lambda: hold(tmp_path)) is None


def test_a_function_with_one_writer_holds_its_folder(tmp_path):
    @one_writer
    def work(number, out):
        return number, holder_of(Path(out) / ".lock").process

    assert work(3, out=str(tmp_path)) == (3, os.getpid())


def test_files_and_closed_folders_are_left_to_the_writer(tmp_path):
    file = tmp_path / "file"
    file.touch()
    hold(file)
    with pytest.raises(StorageError, match="a file has the name of a folder"):
        hold(file / "below" / "it")


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_the_limit_is_a_number_of_seconds(tmp_path, monkeypatch, text):
    monkeypatch.setenv("HINDCAST_WAIT", text)
    with pytest.raises(InputError, match=f"HINDCAST_WAIT is '{text}', expected a number of sec"):
        hold(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "no JSON", "[]", "{}", '{"process": "1"}', "[" * 100_000, "x" * 9999]
)
def test_a_strange_file_is_a_lock_of_nobody(tmp_path, content):
    (tmp_path / ".lock").write_text(content)
    assert holder_of(tmp_path / ".lock") == Holder()
    hold(tmp_path)
    assert not list(tmp_path.iterdir())


def test_names_in_a_lock_cannot_reach_the_terminal(tmp_path):
    value = json.loads(Holder.current().to_json()) | {"host": "a\x1b[31m"}
    (tmp_path / ".lock").write_text(json.dumps(value))
    assert holder_of(tmp_path / ".lock") == Holder()


class Clock:
    """Clock that the test moves."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(params=["store", "file"])
def path(request, tmp_path):
    """Return a lock in a store, or on a file system without flock."""
    if request.param == "file":
        yield tmp_path / ".lock"
        return
    folder = location(f"memory://locks-{os.getpid()}")
    yield folder / ".lock"
    (folder / ".lock").unlink(missing_ok=True)


def renewed(path, clock=Clock()):  # noqa: B008  never moved unless given
    return heartbeat.attempt_of(
        path, path.parent, lambda _text: None, clock=clock, sleep=lambda _s: None
    )


def elsewhere(**values):
    """Return a holder on another machine that was heard a moment ago."""
    own = json.loads(Holder.current().to_json())
    return Holder(**{**own, "host": "other", "machine": "boot:1", "token": "theirs", **values})


def put(path, holder):
    """Write a lock as another process does, under a temporary name of its own."""
    if is_remote(path):
        heartbeat._write(path, holder)
    else:
        temporary = path.with_name("theirs")
        temporary.write_text(holder.to_json())
        temporary.replace(path)


def test_a_renewed_lock_is_for_one_writer(path):
    release = renewed(path)()
    assert isinstance(renewed(path)(), Holder)
    release()
    assert holder_of(path) is None
    release = renewed(path)()
    release()


def test_a_lock_from_elsewhere_holds_while_it_is_renewed(path):
    clock = Clock()
    attempt = renewed(path, clock)
    for beat in range(4):
        put(path, elsewhere(beat=beat))
        assert attempt() == elsewhere(beat=beat, since=attempt().since, renewed=attempt().renewed)
        clock.now += heartbeat.DEAD_S - 1.0
    clock.now += 2.0
    attempt()()
    assert holder_of(path) is None


def test_a_lock_of_yesterday_is_not_waited_for(path):
    put(path, elsewhere(renewed="2020-01-01T00:00:00Z"))
    renewed(path)()()


@pytest.mark.skipif(not heartbeat._machine(), reason="the numbers of processes tell nothing here")
def test_a_dead_process_of_this_machine_is_seen_at_once(path):
    own = {"machine": heartbeat._machine()}
    parent = {"process": os.getppid(), "start": heartbeat._start(os.getppid())}
    put(path, elsewhere(**own, **parent))
    assert isinstance(renewed(path)(), Holder)
    put(path, elsewhere(**own, start="1"))  # its number was used again
    renewed(path)()()
    put(path, elsewhere(**own, process=2**22 + 1))
    renewed(path)()()


def test_a_lock_that_could_not_be_removed_does_not_keep_its_own_process_out(path, monkeypatch):
    release = renewed(path)()
    with monkeypatch.context() as patch:
        patch.setattr(heartbeat, "holder_of", lambda _path: Holder())  # the store is not there
        release()
    assert holder_of(path).process == os.getpid()
    renewed(path)()()
    assert holder_of(path) is None


def test_one_of_two_that_take_over_has_the_lock(path):
    put(path, elsewhere(renewed="2020-01-01T00:00:00Z"))
    late = elsewhere(token="later")
    attempt = heartbeat.attempt_of(
        path, path.parent, lambda _text: None, sleep=lambda _s: put(path, late)
    )
    assert attempt() == late


def test_a_lost_lock_is_left_to_its_new_holder(path, monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.001)
    told = threading.Event()
    release = heartbeat.attempt_of(path, path.parent, lambda _text: told.set())()
    while not told.is_set():  # a beat on its way may still replace this once
        put(path, elsewhere())
    release()
    assert holder_of(path).token == "theirs"


def test_the_line_of_a_lost_lock_is_shown_although_another_thread_finds_it(path, monkeypatch):
    """A thread has no context variables of the one that opened `telling`."""

    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks, "_lock", refuse)
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.001)
    lines = []
    with telling(lines.append), writing(path.parent):
        deadline = time.monotonic() + 30.0
        while not lines and time.monotonic() < deadline:
            put(path, elsewhere())
    assert lines
    assert "took over the lock of this process" in lines[0]


def test_a_beat_is_counted(path, monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.001)
    release = renewed(path)()
    while holder_of(path).beat < 2:
        pass
    release()


def test_without_flock_the_file_is_renewed(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks, "_lock", refuse)
    at_once(monkeypatch)
    with writing(tmp_path):
        assert isinstance(in_a_thread(lambda: hold(tmp_path)), FolderBusy)
    assert not list(tmp_path.iterdir())


def test_a_store_is_locked_too(monkeypatch):
    at_once(monkeypatch)
    folder = location("memory://locked/demo")
    with writing(folder):
        assert isinstance(in_a_thread(lambda: hold(folder)), FolderBusy)
        hold(folder, beside=True)
    assert not folder.exists()
