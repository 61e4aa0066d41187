"""Tests that a full disk is one error for every way of writing, and that nothing is lost by it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from hindcast.pipeline.errors import StorageError
from hindcast.pipeline.evaluation.summary.summarise import Summary, summarise
from hindcast.pipeline.evaluation.summary.writing import summary_texts, write_summary
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.folder import load_workload, save_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from tests.pipeline.evaluation.summary.test_results import write

ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.fixture
def room(monkeypatch):
    """Return a function that lets so many files be written until the disk is full."""
    synced = os.fsync

    def limit(count: int) -> None:
        left = [count]

        def fsync(descriptor: int) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            synced(descriptor)

        monkeypatch.setattr("hindcast.pipeline.storage.files.os.fsync", fsync)

    return limit


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
        (OSError("No space left on device (os error 28)"), "the disk is full"),
        (pl.exceptions.ComputeError("No space left on device (os error 28)"), "the disk is full"),
        (OSError("file write failed: errno = 28, error message = ..."), "the disk is full"),
        (OSError(errno.EFBIG, "File too large"), "`ulimit -f`"),
    ],
)
def test_every_library_says_it_in_its_own_way(error, message, tmp_path):
    def write(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(StorageError, match=message):
        files.write_atomically(tmp_path / "a", write)
    assert not contents(tmp_path)


def test_other_errors_stay_what_they_are(tmp_path):
    def write(_path: Path) -> None:
        raise pl.exceptions.ComputeError("no such column")

    with pytest.raises(pl.exceptions.ComputeError):
        files.write_atomically(tmp_path / "a", write)


def report(summary: Summary, out: Path) -> None:
    write_summary(summary, out, {**summary_texts(summary), "report.html": "<html>"})


@pytest.mark.slow
def test_a_report_is_whole_or_as_it_was(tmp_path, room):
    """Neither files of a new report nor a mixture of two are left, at whatever file it ends."""
    summary = summarise([write(tmp_path / "evaluation")])
    other = summarise([write(tmp_path / "other", recipe="s-v1")])
    out = tmp_path / "out"
    for count in range(6):
        room(count)
        with pytest.raises(StorageError, match="the disk is full"):
            report(summary, out)
        assert not contents(out)
    room(100)
    report(summary, out)
    before = contents(out)
    assert "report.html" in before
    room(5)
    with pytest.raises(StorageError, match="the disk is full"):
        report(other, out)
    assert contents(out) == before


def workload(name: str) -> Workload:
    row = (0, 0, name, "a", 0.0, 1.0, 1.0, 0.1, 1)
    tasks = pl.DataFrame([row], schema=dict(TASK_COLUMNS), orient="row")
    return Workload(tasks, Provenance("synthetic"))


def test_an_older_workload_outlives_a_full_disk(tmp_path, room):
    save_workload(workload("old"), tmp_path / "w")
    before = contents(tmp_path)
    for count in range(3):
        room(count)
        with pytest.raises(StorageError, match="the disk is full"):
            save_workload(workload("new"), tmp_path / "w")
        assert contents(tmp_path) == before
    room(100)
    save_workload(workload("new"), tmp_path / "w")
    assert load_workload(tmp_path / "w").tasks["job_id"].to_list() == ["new"]


HDF5 = """
import resource, sys
import numpy as np
from pathlib import Path
from hindcast.pipeline.exports._hdf5 import append, new_hdf5
rows = np.random.default_rng(0).random((400, 50))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    with new_hdf5(Path(sys.argv[1])) as (file, check):
        for number in range(3):
            append(file, f"episode_{number}/rows", rows)
            check()
except OSError as error:
    print(error.errno)
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 100, 3000, 250_000, 400_000])
def test_hdf5_survives_a_write_that_fails(size, tmp_path):
    """The library neither crashes when the interpreter exits, nor prints its own errors."""
    pytest.importorskip("h5py")
    done = subprocess.run(
        [sys.executable, "-c", HDF5, str(tmp_path / "x"), str(size)], cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(errno.EFBIG), "")


@pytest.mark.slow
def test_hdf5_has_what_was_written(tmp_path):
    h5py = pytest.importorskip("h5py")
    done = subprocess.run(
        [sys.executable, "-c", HDF5, str(tmp_path / "x"), "-1"], cwd=ROOT, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
    with h5py.File(tmp_path / "x") as file:
        assert [file[f"episode_{n}/rows"].shape for n in range(3)] == [(400, 50)] * 3
