"""The count of lines by room."""

import pytest

from tests import size


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("pipeline/storage/files.py", "pipeline/storage"),
        ("pipeline/traces/swf/reader.py", "pipeline/traces"),
        ("policies/registry.py", "policies"),
        ("tests/flows/test_cli.py", "tests"),
        ("hindcast.py", "the root"),
    ],
)
def test_a_room_is_a_folder_of_a_package(name, room):
    assert size.room_of(name) == room


def test_lines_are_those_of_git_and_of_the_change(monkeypatch):
    """A room that a change emptied is shown too."""
    answers = {
        "ls-files": ["tests/size.py"],
        "diff": ["3\t1\ttests/size.py", "0\t40\tpipeline/gone/old.py"],
    }
    monkeypatch.setattr(size, "git", lambda word, *_: answers[word])
    lines = len((size.ROOT / "tests/size.py").read_text(encoding="utf-8").splitlines())
    assert size.rows("main") == [("pipeline/gone", 0, 0, 40), ("tests", lines, 3, 1)]
