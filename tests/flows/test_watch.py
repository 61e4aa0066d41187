"""Tests of the status that a running command keeps, and of `hindcast watch`, which shows it."""

import json

import pytest

from hindcast.flows import progress, status
from hindcast.flows.cli import main
from hindcast.flows.commands import watch
from hindcast.pipeline.storage.files import STATUS, is_partial
from hindcast.pipeline.storage.heartbeat import Holder
from tests.conftest import TINY


@pytest.fixture
def recorder(tmp_path):
    """Return a recorder for tmp_path whose clock is moved by the test, and the clock."""
    now = [100.0]
    lines: list[str] = []
    display = progress.Lines(lines.append, clock=lambda: now[0])
    return status.Recorder(display, tmp_path, "build", clock=lambda: now[0]), now, lines


def work(recorder, now):
    """Report the parts 20 to 23 of 100, one a second, with a note before."""
    recorder.note("starting")
    with recorder.progress("build x") as tell:
        for done in range(20, 24):
            tell(done, 100, "loss 0.25")
            now[0] += 1.0
        yield


def test_a_status_has_counts_rate_and_notes(recorder, tmp_path):
    record, now, lines = recorder
    for _ in work(record, now):
        found = status.read_status(tmp_path / STATUS)
        assert found is not None
        [step] = found.steps
        assert (step.title, step.what, step.total, step.before) == ("build x", "loss 0.25", 100, 20)
        assert found.notes == ("starting",)
        assert found.holder.process == Holder.current().process
        [shown] = [line for line in watch.lines(watch.statuses(tmp_path)) if "running" in line]
        assert "build x: loss 0.25: 22 of 100, 1.0 a second, about 78 s left" in shown
    assert lines == ["starting"]
    assert is_partial(STATUS)


def test_steps_end_and_the_file_goes_with_the_command(recorder, tmp_path):
    record, now, _ = recorder
    list(work(record, now))
    now[0] += 10
    record.note("next")
    found = status.read_status(tmp_path / STATUS)
    assert (found.steps, [step.title for step in found.ended]) == ((), ["build x"])
    record.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    out = tmp_path / "later"
    with status.recording(progress.Lines(print), str(out), "build") as display:
        display.note("started")
    assert not out.exists()


def test_a_place_that_cannot_be_used_is_left_to_the_command():
    lines = progress.Lines(print)
    with status.recording(lines, "s4://bucket", "build") as display:
        assert display is lines


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps": 3}', '{"command": 1, "holder": {}}'])
def test_a_damaged_status_is_passed_over(tmp_path, text):
    (tmp_path / STATUS).write_text(text)
    assert status.read_status(tmp_path / STATUS) is None
    assert watch.statuses(tmp_path) == []


def test_watch_ends_at_once_where_nobody_is_at_work(tmp_path, capsys):
    assert main(["watch", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: no command is at work here\n"
    assert main(["watch", str(tmp_path / "none")]) == 2


def test_pages_that_are_there_are_linked(recorder, tmp_path, capsys):
    """Those of the folder and of the folders in it; others are not named."""
    places = (tmp_path / "whatif.html", tmp_path / "a b" / "report.html")
    for place in (*places, tmp_path / "a b" / "c" / "view.html", tmp_path / "other.html"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("a page")
    pages = [f"  page     {place.as_uri()}" for place in places]
    assert "a%20b" in pages[1]
    assert main(["watch", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == pages
    record, now, _ = recorder
    for _ in work(record, now):
        assert watch.lines(watch.statuses(tmp_path))[-2:] == pages


def test_a_killed_command_is_said_to_be_interrupted(recorder, tmp_path, capsys):
    record, now, _ = recorder
    for _ in work(record, now):
        value = json.loads((tmp_path / STATUS).read_text())
        value["holder"]["start"] = "0"  # another process has its number now
    (tmp_path / STATUS).write_text(json.dumps(value))
    assert main(["watch", str(tmp_path)]) == 0
    assert "the process has ended, the same command continues" in capsys.readouterr().out
    assert main(["watch", str(tmp_path), "--once", "--json"]) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["command"], row["at_work"]) == ("build", False)


def test_a_training_shows_its_last_metrics():
    told = []
    tell, point = progress.with_metrics(lambda *what: told.append(what))
    tell(0, 10)
    point(5, {"loss": 0.123456, "a": 1.0, "b": 2.0, "c": 3.0})
    tell(5, 10)
    assert told == [(0, 10, ""), (5, 10, "loss 0.1235, a 1, b 2")]


@pytest.mark.slow
def test_a_command_keeps_a_status_where_it_writes(tmp_path, monkeypatch):
    """Every writing is due here; the last one is gone with the command."""
    monkeypatch.setattr(status, "EVERY_S", 0.0)
    written = []
    write = status.write_json

    def keep(path, value):
        written.append(value)
        write(path, value)

    monkeypatch.setattr(status, "write_json", keep)
    out = tmp_path / "dataset"
    recipe = ["binpack-synthetic-v1", *(word for setting in TINY for word in ("--set", setting))]
    assert main(["build", *recipe, "--out", str(out), "--direct"]) == 0
    assert any(step["title"].startswith("build") for each in written for step in each["steps"])
    assert not (out / STATUS).exists()
