"""Tests of the cache of parsed traces."""

import dataclasses
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS, cache, swf
from hindcast.pipeline.workloads.folder import save_workload

FIELDS = "-1 360 1 -1 -1 1 360 -1 1 1 1 1 -1 -1 -1 -1"


def write_log(path: Path, jobs: int = 20) -> Path:
    rows = (f"{i} {10 * i} {FIELDS}" for i in range(1, jobs + 1))
    path.write_text("; MaxProcs: 10\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return an empty cache folder that is in use."""
    monkeypatch.setenv("HINDCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "traces"


@pytest.fixture
def reads(monkeypatch) -> list[Path]:
    """Return the list of paths that the SWF reader reads from now on."""
    found: list[Path] = []

    def read(path):
        found.append(path)
        return swf.read(path)

    read.__module__ = swf.__name__
    form = dataclasses.replace(FORMATS["swf"], read=read)
    monkeypatch.setattr(cache, "FORMATS", {"swf": form})
    return found


def bytes_of(workload, out: Path) -> dict[str, bytes]:
    save_workload(workload, out)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_a_log_is_parsed_once_and_gives_the_same_bytes(folder, reads, tmp_path):
    log = write_log(tmp_path / "log.swf")
    first, second = cache.read_trace("swf", log), cache.read_trace("swf", log)
    assert reads == [log]
    assert first.provenance == second.provenance
    parsed = bytes_of(swf.read(log)[0], tmp_path / "parsed")
    assert bytes_of(second, tmp_path / "cached") == parsed
    assert {"tasks.parquet", "machines.parquet", "manifest.json"} < set(parsed)


def test_changed_content_is_parsed_again_even_with_the_same_size_and_time(folder, reads, tmp_path):
    log = write_log(tmp_path / "log.swf")
    cache.read_trace("swf", log)
    before = log.stat()
    log.write_text(log.read_text().replace("MaxProcs: 10", "MaxProcs: 20"))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert log.stat().st_size == before.st_size
    assert cache.read_trace("swf", log).machines["cores"].to_list() == [20.0]
    assert len(reads) == 2


def test_a_table_beside_the_trace_counts(folder, traces, tmp_path):
    """server_event.csv gives the machines, so an entry without it does not serve."""
    with (traces / "alibaba2017" / "jobs.csv").open() as jobs:
        (tmp_path / "jobs.csv").write_text("".join(islice(jobs, 50)))
    assert cache.read_trace("alibaba2017", tmp_path / "jobs.csv").machines is None
    shutil.copy(traces / "alibaba2017" / "server_event.csv", tmp_path)
    assert cache.read_trace("alibaba2017", tmp_path / "jobs.csv").machines is not None
    assert cache.read_trace("alibaba2017", tmp_path).machines is not None


def test_other_code_of_the_readers_has_other_entries(folder, reads, tmp_path, monkeypatch):
    log = write_log(tmp_path / "log.swf")
    cache.read_trace("swf", log)
    monkeypatch.setattr(cache, "_code", lambda form: "changed")
    cache.read_trace("swf", log)
    assert len(reads) == 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncate", "remove", "other", "manifest"])
def test_a_damaged_entry_is_made_again(damage, folder, reads, tmp_path):
    log = write_log(tmp_path / "log.swf")
    cache.read_trace("swf", log)
    (entry,) = folder.iterdir()
    tasks = entry / "tasks.parquet"
    if damage == "truncate":
        tasks.write_bytes(tasks.read_bytes()[:-10])
    elif damage == "remove":
        tasks.unlink()
    elif damage == "other":  # a sound workload, but of another log
        shutil.rmtree(entry)
        save_workload(swf.read(write_log(tmp_path / "other.swf", 5))[0], entry)
    else:
        (entry / "manifest.json").write_text("{")
    assert cache.read_trace("swf", log).tasks.height == 20
    assert cache.read_trace("swf", log).tasks.height == 20
    assert len(reads) == 2
    assert [path.name for path in folder.iterdir()] == [entry.name]
    assert not (entry / "damaged").exists()


def test_a_cache_that_cannot_be_written_is_no_failure(reads, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HINDCAST_CACHE", str(tmp_path / "file"))
    log = write_log(tmp_path / "log.swf")
    assert cache.read_trace("swf", log).tasks.height == 20
    monkeypatch.setenv("HINDCAST_CACHE", "")
    assert cache.read_trace("swf", log).tasks.height == 20
    assert len(reads) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "log.swf"]


def test_a_bad_trace_has_the_reader_s_message_and_no_entry(folder, tmp_path):
    (tmp_path / "log.swf").write_text("hello\n")
    with pytest.raises(TraceError, match=r"log\.swf"):
        cache.read_trace("swf", tmp_path / "log.swf")
    with pytest.raises(TraceError, match="no such file"):
        cache.read_trace("swf", tmp_path / "none.swf")
    assert not folder.exists()


def test_readers_of_plug_ins_are_not_cached(folder, tmp_path, monkeypatch):
    """Nobody knows which code and which files they use."""

    def read(path):
        return swf.read(path)

    form = dataclasses.replace(FORMATS["swf"], read=read)
    monkeypatch.setattr(cache, "FORMATS", {"swf": form})
    cache.read_trace("swf", write_log(tmp_path / "log.swf"))
    assert not folder.exists()


@pytest.mark.slow
def test_several_at_once_leave_one_entry(folder, tmp_path):
    log = write_log(tmp_path / "log.swf")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cache.read_trace("swf", log), range(8)))
    assert {workload.tasks.height for workload in found} == {20}
    assert len(list(folder.iterdir())) == 1


@pytest.mark.slow
def test_the_entry_that_was_not_used_for_longest_goes_first(folder, reads, tmp_path, monkeypatch):
    logs = [write_log(tmp_path / f"{n}.swf", n) for n in (20, 21, 22)]
    for age, log in zip((300, 200), logs[:2], strict=True):
        known = set(folder.iterdir()) if folder.exists() else set()
        cache.read_trace("swf", log)
        (entry,) = set(folder.iterdir()) - known
        for path in entry.iterdir():
            os.utime(path, (path.stat().st_mtime - age,) * 2)
    cache.read_trace("swf", logs[0])  # used again, so that the second is now the oldest
    size = sum(path.stat().st_size for path in entry.iterdir())
    monkeypatch.setattr(cache, "LARGEST", int(2.5 * size))
    cache.read_trace("swf", logs[2])
    reads.clear()
    for log in (logs[0], logs[2], logs[1]):
        cache.read_trace("swf", log)
    assert reads == [logs[1]]


def test_the_command_clears_the_cache(folder, tmp_path, capsys):
    cache.read_trace("swf", write_log(tmp_path / "log.swf"))
    assert main(["traces", "--clear-cache"]) == 0
    assert "deleted 1 parsed traces" in capsys.readouterr().out
    assert not list(folder.iterdir())
    assert main(["traces", "--clear-cache"]) == 0


RECIPE = """
id = "own-v1"
scenario = "queue"
[config]
starts = [0, 5, 10, 15]
jobs = 5
follow = 0
warm = false
[trace]
format = "{form}"
path = "{path}"
[split]
train = "0..1"
validation = "2..2"
test = "3..3"
[[behaviours]]
policy = "random"
"""


@pytest.mark.slow
def test_a_recipe_reads_what_lies_beside_it(folder, tmp_path, monkeypatch, capsys):
    """An ingested workload and its log give the same parts, from any working folder."""
    monkeypatch.chdir("/")
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path / "elsewhere"))
    log = write_log(tmp_path / "log.swf")
    assert main(["ingest", "swf", str(log), "--out", str(tmp_path / "wl"), "--direct"]) == 0
    parts = {}
    for name, form, path, used in (
        ("a", "workload", "wl", "on"), ("b", "swf", "log.swf", "on"),
        ("c", "swf", "log.swf", "on"), ("d", "swf", "log.swf", ""),
    ):  # fmt: skip
        if not used:
            monkeypatch.setenv("HINDCAST_CACHE", "")
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(RECIPE.format(form=form, path=path))
        out = tmp_path / name
        assert main(["build", str(recipe), "--out", str(out), "--direct"]) == 0
        files = (p for p in sorted(out.rglob("*")) if p.is_file())
        parts[name] = {str(p.relative_to(out)): p.read_bytes() for p in files}
    assert parts["b"] == parts["c"] == parts["d"]
    for file in ("data/part-00000.parquet", "episodes.parquet", "workload/tasks.parquet"):
        assert parts["a"][file] == parts["b"][file]
    missing = tmp_path / "missing.toml"
    missing.write_text(RECIPE.format(form="workload", path="none"))
    capsys.readouterr()
    assert main(["build", str(missing), "--out", str(tmp_path / "x"), "--direct"]) == 2
    told = capsys.readouterr().err
    assert f"it is not below {tmp_path}, the recipe's folder, either" in told


def test_tables_in_one_folder_have_an_entry_each(folder, tmp_path):
    for name, duration in (("january", 10), ("february", 999)):
        (tmp_path / f"jobs_{name}.csv").write_text(
            "submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"
            f"0,{duration},0.5,0.01,1,1,1,0\n"
        )
    for name, duration in (("january", 10), ("february", 999), ("january", 10)):
        workload = cache.read_trace("alibaba2017", tmp_path / f"jobs_{name}.csv")
        assert workload.tasks["duration_s"].to_list() == [duration]
