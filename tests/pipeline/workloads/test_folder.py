"""Tests that a workload folder is complete or absent, and is checked when it is read."""

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError, StorageError, TraceError, UnknownName
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.traces.synthetic import SyntheticConfig, generate
from hindcast.pipeline.workloads.folder import load_workload, save_workload

TASKS = "10,30,1,1,4,Terminated,50,0.01\n10,30,1,2,4,Waiting,,\n9,x,2,1,1,Terminated,50,.1\n"
EVENTS = "0,9,add,,64,0.69,1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "batch_task.csv").write_text(TASKS)
    (folder / "server_event.csv").write_text(EVENTS)
    return folder


@pytest.fixture
def workload(trace: Path, tmp_path: Path) -> Path:
    return ingest("alibaba2017", trace, tmp_path / "out").folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_is_written_is_what_is_read(trace: Path, tmp_path: Path) -> None:
    result = ingest("alibaba2017", trace, tmp_path / "a" / "b")
    assert result.quarantined == 1
    loaded = load_workload(result.folder)
    assert loaded.tasks.equals(result.workload.tasks)
    assert loaded.machines is not None
    assert loaded.machines.equals(result.workload.machines)
    assert loaded.provenance == result.workload.provenance


def test_the_manifest_names_what_came_in_and_what_was_left_out(workload: Path) -> None:
    manifest = json.loads((workload / "manifest.json").read_text())
    assert (manifest["kind"], manifest["version"]) == ("workload", 1)
    source = manifest["provenance"]["files"][0]
    digest = hashlib.sha256(TASKS.encode()).hexdigest()
    assert source == {"name": "batch_task.csv", "bytes": len(TASKS), "sha256": digest}
    assert manifest["provenance"]["left_out"] == {"status Waiting": 1, "quarantined": 1}
    assert manifest["provenance"]["counts"]["rows_read"] == 3
    written = {entry["name"]: entry for entry in manifest["files"]}
    assert list(written) == ["tasks.parquet", "machines.parquet", "quarantine.parquet"]
    for name, entry in written.items():
        content = (workload / name).read_bytes()
        assert entry["bytes"] == len(content)
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["rows"] == 1
    assert pl.read_parquet(workload / "quarantine.parquet").rows() == [
        (
            "batch_task.csv",
            3,
            "modify_timestamp is 'x', expected a number",
            "9,x,2,1,1,Terminated,50,.1",
        )
    ]


def test_the_same_input_gives_the_same_bytes(trace: Path, tmp_path: Path) -> None:
    first = contents(ingest("alibaba2017", trace, tmp_path / "one").folder)
    assert contents(ingest("alibaba2017", trace, tmp_path / "two").folder) == first
    assert contents(ingest("alibaba2017", trace, tmp_path / "one").folder) == first


def test_a_workload_is_replaced_without_leftovers(trace: Path, workload: Path) -> None:
    (trace / "server_event.csv").unlink()
    ingest("alibaba2017", trace, workload)
    assert not (workload / "machines.parquet").exists()
    assert load_workload(workload).machines is None


def test_an_interrupted_ingestion_is_no_workload_and_can_be_repeated(
    trace: Path, workload: Path
) -> None:
    before = contents(workload)
    (workload / "manifest.json").unlink()
    (workload / ".tasks.parquet.123.partial").write_text("half")
    with pytest.raises(DatasetError, match=r"there is no manifest\.json"):
        load_workload(workload)
    ingest("alibaba2017", trace, workload)
    assert contents(workload) == before


def test_a_trace_that_cannot_be_read_leaves_the_old_workload_alone(
    trace: Path, workload: Path
) -> None:
    before = contents(workload)
    (trace / "batch_task.csv").write_text("nonsense\n")
    with pytest.raises(TraceError):
        ingest("alibaba2017", trace, workload)
    assert contents(workload) == before


def test_a_folder_with_something_else_is_never_overwritten(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"not empty and not a workload \(it has 'batch_task"):
        ingest("alibaba2017", trace, trace)
    other = tmp_path / "dataset"
    other.mkdir()
    (other / "manifest.json").write_text('{"kind": "dataset"}')
    with pytest.raises(StorageError, match="holds a dataset, not a workload"):
        ingest("alibaba2017", trace, other)
    (other / "manifest.json").write_text("[")
    with pytest.raises(StorageError, match="not valid JSON"):
        ingest("alibaba2017", trace, other)
    with pytest.raises(StorageError, match="is a file, expected a folder"):
        ingest("alibaba2017", trace, trace / "batch_task.csv")


def test_an_unknown_format_is_answered_with_the_nearest(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'alibaba2017'"):
        ingest("alibaba2071", trace, tmp_path / "out")


def test_progress_begins_at_nothing_and_ends_at_all(trace: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    ingest("alibaba2017", trace, tmp_path / "out", lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == [0, 1, 2]
    assert {total for _, total, _ in seen} == {2}


def test_a_synthetic_workload_is_stored_like_a_real_one(tmp_path: Path) -> None:
    drawn = generate(SyntheticConfig(n_jobs=20), np.random.default_rng(0))
    save_workload(drawn, tmp_path / "out")
    loaded = load_workload(tmp_path / "out")
    assert loaded.tasks.equals(drawn.tasks)
    assert loaded.provenance == drawn.provenance


def test_what_is_not_a_workload_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nowhere: no such folder"):
        load_workload(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="file: this is a file, expected a workload"):
        load_workload(tmp_path / "file")
    with pytest.raises(DatasetError, match=r"there is no manifest\.json"):
        load_workload(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "dataset"}, "kind is 'dataset', expected 'workload'"),
        ({"version": 2}, "version is 2, expected 1"),
        ({"files": None}, "the list 'files' is missing"),
        ({"files": []}, r"tasks\.parquet is missing from 'files'"),
        ({"files": [{"name": "../x"}]}, r"file '\.\./x' is not part of a workload"),
        ({"provenance": {"format": "x"}}, "'provenance' is damaged"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    workload: Path, changes: dict[str, object], words: str
) -> None:
    edit_manifest(workload, **changes)
    with pytest.raises(DatasetError, match=words):
        load_workload(workload)


def test_a_changed_or_missing_file_is_found(workload: Path) -> None:
    path = workload / "tasks.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    with pytest.raises(
        DatasetError, match=r"tasks\.parquet: this file was changed: its SHA-256 is"
    ):
        load_workload(workload)
    path.unlink()
    with pytest.raises(DatasetError, match=r"tasks\.parquet: this file is missing"):
        load_workload(workload)


def replace_tasks(workload: Path, content: bytes) -> None:
    path = workload / "tasks.parquet"
    path.write_bytes(content)
    entry = {"name": path.name, "rows": 1, "sha256": hashlib.sha256(content).hexdigest()}
    edit_manifest(workload, files=[entry])


def test_a_table_with_other_columns_or_no_table_is_refused(workload: Path, tmp_path: Path) -> None:
    load_workload(workload).tasks.drop("memory").write_parquet(tmp_path / "other")
    replace_tasks(workload, (tmp_path / "other").read_bytes())
    with pytest.raises(DatasetError, match=r"the columns are job Int64, .* expected job Int64"):
        load_workload(workload)
    replace_tasks(workload, b"not parquet")
    with pytest.raises(DatasetError, match="Parquet"):
        load_workload(workload)


def test_columns_that_a_format_adds_at_the_end_are_kept(workload: Path, tmp_path: Path) -> None:
    tasks = load_workload(workload).tasks.with_columns(deadline_s=pl.lit(1.0))
    tasks.write_parquet(tmp_path / "other")
    replace_tasks(workload, (tmp_path / "other").read_bytes())
    assert load_workload(workload).tasks.columns[-1] == "deadline_s"


def test_every_format_says_where_it_is_from_and_on_which_terms() -> None:
    for name, entry in FORMATS.items():
        assert entry.name == name
        assert all((entry.description, entry.path, entry.source, entry.terms, entry.citation))
