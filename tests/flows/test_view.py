"""Tests of `hindcast view`: what it accepts, what it writes, and what it refuses."""

import json
import re

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.schedules.schedule import write_schedule
from tests.made_schedules import made_schedule
from tests.pipeline.report.view_pages import Elements, held

QUEUE = ["queue-lublin1-v1", "--set", "config.jobs=64", "--set", "config.follow=30"]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Write two schedules, and a folder that has them as `whatif` writes them; work beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run" / "jobs").mkdir(parents=True)
    for policy in ("fcfs", "saf"):
        schedule = made_schedule(60, policy)
        write_schedule(schedule, tmp_path / f"{policy}.parquet")
        write_schedule(schedule, tmp_path / "run" / "jobs" / f"{policy}.parquet")
    return tmp_path


def told(capsys, *words):
    """Return the result of a command line as JSON."""
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_files_and_folders_give_the_same_page(made, capsys):
    pages = []
    for words in (["fcfs.parquet", "saf.parquet"], ["run", "--policy", "fcfs", "saf"],
                  ["run", "saf.parquet", "--policy", "fcfs"]):  # fmt: skip
        found = told(capsys, "view", *words)
        assert found["policies"] == ["fcfs", "saf"]
        assert found["jobs"] == [60, 60]
        assert found["page"] == "view.html"
        pages.append((made / "view.html").read_bytes())
        assert found["bytes"] == len(pages[-1])
    assert pages[0] == pages[1] == pages[2]


def test_one_schedule_is_a_page_too(made, capsys):
    found = told(capsys, "view", "saf.parquet", "--out", "new/one.html")
    assert found["policies"] == ["saf"]
    assert len(held((made / "new" / "one.html").read_text("utf-8")).facts["schedules"]) == 1


@pytest.mark.slow
def test_a_recipe_is_played_and_its_policies_are_compared(tmp_path, capsys):
    out = str(tmp_path / "view.html")
    found = told(capsys, "view", *QUEUE, "--policy", "fcfs_easy", "saf_easy", "--out", out)
    text = " ".join(Elements((tmp_path / "view.html").read_text("utf-8")).text.split())
    assert "The first decision that differs" in text
    assert found["difference"] in text
    assert [caveat["code"] for caveat in found["caveats"]]
    for caveat in found["caveats"]:  # what limits the workload is said on the page
        assert caveat["text"][1:] in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.parquet"], "none.parquet: no such file, expected a schedule"),
        (["run"], "run: expected --policy, one or two of fcfs, saf"),
        (["run", "--policy", "fcf"], "unknown policy of run/jobs 'fcf'; did you mean 'fcfs'?"),
        (["run", "saf.parquet", "--policy", "fcfs", "saf"], "one schedule or two, expected no 3"),
        (["fcfs.parquet", "--policy", "fcfs"], "--policy is for folders and recipes"),
        (["fcfs.parquet", "queue-lublin1-v1"], "queue-lublin1-v1: expected a schedule (.parquet)"),
        (["fcfs.parquet", "--window", "3"], "--window is for a recipe, and fcfs.parquet is none"),
        (["fcfs.parquet", "--out", "page"], "--out page: the page is one file, expected a name"),
        (["queue-lublin1-v1"], "expected one or two policies: --policy A B"),
        (["queue-lublin1-v1", "saf.parquet", "--policy", "fcfs_easy"], "are two --policy, not B"),
        (["queue-lublin1-v1", "--policy", "fcfs_eas"], "did you mean 'fcfs_easy'?"),
        (["empty.parquet"], "empty.parquet: this file cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_one_line(made, capsys, words, told):
    (made / "empty.parquet").write_bytes(b"")
    assert main(["view", *words]) == 2
    told_there = capsys.readouterr().err.strip()
    assert told in told_there
    assert not re.search("Traceback|\n", told_there)
    assert not (made / "view.html").exists()
