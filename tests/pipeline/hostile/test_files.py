"""Tests that special files are not waited for, and that huge files or bad JSON are not read."""

import json
import os
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.storage.files import json_text, read_json, require_file
from hindcast.policies.entrants import entrants
from hindcast.policies.registry import behaviours
from tests.pipeline.hostile.tampering import (
    PART,
    assert_commands_refuse,
    command,
    read_all,
    refused,
    use,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize(
    "name",
    [PART, "episodes.parquet", "manifest.json", "workload/manifest.json", "workload/tasks.parquet",
     "README.md", "croissant.json"],
)  # fmt: skip
def test_what_is_no_file_is_not_waited_for(folder, tmp_path, name, kind):
    """Readers refuse a FIFO that has no writer, as opening it would block for ever."""
    (folder / name).unlink()
    os.mkfifo(folder / name) if kind == "fifo" else (folder / name).mkdir()
    assert Path(name).name in refused(lambda: verify(folder))
    if not name.startswith("workload"):
        use(folder, tmp_path / "out")
    if name == "manifest.json":
        for read in read_all(folder):
            refused(read)


def test_what_is_no_file_is_called_by_its_name(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, what in ((tmp_path / "fifo", "FIFO"), (tmp_path, "folder"), ("/dev/zero", "device")):
        with pytest.raises(DatasetError, match=what):
            require_file(Path(path))
    with pytest.raises(DatasetError, match="cannot be the name of a file"):
        require_file(tmp_path / "a\0b")


@pytest.mark.nightly
def test_a_manifest_of_a_gigabyte_is_not_read(folder, capsys, tmp_path):
    with (folder / "manifest.json").open("r+b") as handle:
        handle.truncate(1 << 30)
    for read in read_all(folder):
        assert "1073741824 bytes" in refused(read)
    assert_commands_refuse(folder, capsys, tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        b'{"kind": "dataset", "version": 1, "recipe": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' * 500 + b"1" + b"}" * 500,
        b"[" * 10_000_000,
        b"\xff\xfe{}",
        b'{"kind": "dataset\xff"}',
        b'{"kind": "dataset", "version": 1, "counts": NaN}',
        b'{"kind": "dataset", "version": 1, "counts": 1e999}',
        b'{"kind": "dataset", "version": ' + b"9" * 100_000 + b"}",
        b"",
        b"null",
        b'"dataset"',
        b"\x80\x04\x95",
    ],
    ids=range(12),
)
def test_json_that_is_none_is_refused(folder, content, capsys, tmp_path):
    (folder / "manifest.json").write_bytes(content)
    for read in read_all(folder):
        assert "manifest.json" in refused(read)
    assert_commands_refuse(folder, capsys, tmp_path / "out")


@pytest.mark.slow
@settings(derandomize=True, max_examples=300, deadline=None)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_as_json_are_a_value_or_an_error_of_ours(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with suppress(DatasetError):
        json_text(read_json(path)).encode()


def test_text_for_a_terminal_is_printed_as_text(folder, capsys):
    """Control characters of a folder's texts are escaped before they reach the terminal."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["kind"] = "data\x1b[2Jset\x07"
    (folder / "manifest.json").write_text(json_text(manifest))
    code, said = command(capsys, "verify", folder)
    assert code == 2
    assert "\x1b" not in said
    assert "\x07" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", b"[" * 100_000),
        ("plan.json", b"{}"),
        ("part-00000.json", b"{"),
        ("part-00000.json", b'{"path": "../x", "rows": 1, "bytes": 1, "sha256": "x"}'),
        ("part-00000.json", b'{"path": 1}'),
        ("part-00000.json", b"[]"),
        ("part-00000.parquet", b"PAR1"),
    ],
)
def test_a_hostile_interrupted_build_is_refused(tiny_recipe, tmp_path, monkeypatch, name, content):
    """The last operation of a build fails, and the files that the build left are then changed."""
    out = tmp_path / "d"

    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hindcast.pipeline.dataset.building.build.describe", fail)
    with pytest.raises(KeyboardInterrupt):
        build(tiny_recipe, behaviours(tiny_recipe), out)
    monkeypatch.undo()
    assert (out / ".building" / name).exists()
    (out / ".building" / name).write_bytes(content)
    assert str(out) in refused(lambda: build(tiny_recipe, behaviours(tiny_recipe), out))
    assert not (out / "manifest.json").exists()


@pytest.mark.parametrize("content", [b"PAR1", b"", "other columns", "link"], ids=range(4))
def test_a_hostile_interrupted_evaluation_is_refused(tiny_recipe, tmp_path, monkeypatch, content):
    """Scores of finished policies, and the folder that holds them, are replaced."""
    chosen = entrants(tiny_recipe, ["random"])

    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hindcast.pipeline.evaluation.evaluate.pl.concat", fail)
    with pytest.raises(KeyboardInterrupt):
        evaluate(tiny_recipe, chosen, split="test", out=tmp_path / "e")
    monkeypatch.undo()
    [scores] = (tmp_path / "e" / ".evaluating").glob("*.parquet")
    if content == "link":
        scores.parent.rename(tmp_path / "elsewhere")
        scores.parent.symlink_to(tmp_path / "elsewhere")
    elif content == "other columns":
        pl.DataFrame({"a": [1]}).write_parquet(scores)
    else:
        scores.write_bytes(content)
    refused(lambda: evaluate(tiny_recipe, chosen, split="test", out=tmp_path / "e"))
