"""Tests that files are complete or absent, whatever the disk does."""

import errno
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import DatasetError, StorageError
from hindcast.pipeline.storage.files import (
    Stored,
    make_folder,
    read_json,
    sha256_text,
    write_atomically,
    write_json,
    write_text,
)
from hindcast.policies.registry import behaviours


def full(_path: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_fails_leaves_nothing_and_the_old_file_stays(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_reader_of_the_old_file_reads_it_to_the_end(tmp_path):
    """The new file has the name; it does not overwrite the old one, which somebody may read."""
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with path.open() as reader:
        write_text(path, "new")
        assert (reader.read(), path.read_text()) == ("old", "new")


def test_a_full_disk_is_said_to_be_full(tmp_path):
    with pytest.raises(StorageError, match="the disk is full"):
        write_atomically(tmp_path / "a", full)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_build_on_a_full_disk_goes_on_when_there_is_space(
    tiny_recipe, tiny_dataset, tmp_path, monkeypatch
):
    """The disk is full at the third part, and the next call ends in the same bytes."""
    out, synced = tmp_path / "d", os.fsync
    left = 12

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            full(tmp_path)
        synced(descriptor)

    monkeypatch.setattr("hindcast.pipeline.storage.files.os.fsync", fsync)
    with pytest.raises(StorageError, match="the disk is full"):
        build(tiny_recipe, behaviours(tiny_recipe), out)
    assert not (out / "manifest.json").exists()
    assert not list(out.rglob("*.partial"))
    monkeypatch.undo()
    build(tiny_recipe, behaviours(tiny_recipe), out)
    for path in tiny_dataset.rglob("*"):
        if path.is_file():
            assert (out / path.relative_to(tiny_dataset)).read_bytes() == path.read_bytes()


def test_a_build_on_a_disk_that_is_really_full(tiny_recipe, tmp_path):
    """The disk is a file system of 200 kB, where one can be mounted."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    if mounted:
        command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)]
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    if not mounted:
        return  # the simulated full disk above has shown the same
    try:
        with pytest.raises(StorageError, match="the disk is full"):
            build(tiny_recipe, behaviours(tiny_recipe), small / "d")
        assert not (small / "d" / "manifest.json").exists()
        assert not list(small.rglob("*.partial"))
    finally:
        subprocess.run(["umount", str(small)], check=False)


@pytest.mark.parametrize("out", ["/proc/nowhere/x", "/dev/null", "/dev/null/x"])
def test_a_folder_that_cannot_be_is_named(out, tiny_recipe):
    with pytest.raises(StorageError, match=out):
        build(tiny_recipe, behaviours(tiny_recipe), Path(out))


def test_a_folder_without_permission_is_named(tmp_path):
    """The error names the folder. Root may write everywhere, so the test drops root's rights."""
    tmp_path.chmod(0o500)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="cannot be written"):
            make_folder(tmp_path / "x")
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b"NaN,"])
def test_what_is_no_json_is_said_to_be_none(content, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"x\.json: this file is not valid JSON"):
        read_json(path)


def test_json_round_trip(tmp_path):
    write = partial(write_json, tmp_path / "x.json")
    write({"b": [1, 2.5, None], "a": "ü"})
    assert read_json(tmp_path / "x.json") == {"b": [1, 2.5, None], "a": "ü"}
    with pytest.raises(ValueError, match="JSON"):
        write({"x": float("nan")})
    assert read_json(tmp_path / "x.json")["a"] == "ü"


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    """Each writes a file of its own, also with the same process number on another machine."""
    path, inside = tmp_path / "part", []

    def second(temporary):
        temporary.write_text("whole")
        inside.append(temporary)

    def first(temporary):
        temporary.write_text("wh")
        write_atomically(path, second)
        assert temporary.read_text() == "wh"
        second(temporary)

    assert write_atomically(path, first) == Stored(5, sha256_text("whole"))
    assert inside[0] != inside[1]
    assert path.read_text() == "whole"
