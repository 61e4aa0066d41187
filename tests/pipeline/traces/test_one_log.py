"""Compressed files and folders of files are read as the one log that they make together."""

import bz2
import gzip
import io
import lzma
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.files.compression import natural
from hindcast.pipeline.traces.files.one_log import raw_files

SACCT = "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS\n"
CSV = "job,user,submitted,started,run_s,limit_s,cpus\n"
MAPPING = """file = "{file}"
[columns]
job_id = "job"
submit = "submitted"
start = "started"
duration = "run_s"
time_limit = "limit_s"
cores = "cpus"
user = "user"
"""
DAYS = 12


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("jobs.txt", content)
    return packed.getvalue()


PACKED = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd, "zip": zipped,
}  # fmt: skip


def jobs() -> list[tuple[int, int, int, int, int]]:
    """Return day, number, submission, wait and run of three jobs a day."""
    return [
        (day, 3 * day + k, 1709510400 + day * 86_400 + 400 * k, 60 * k, 600 + 60 * k)
        for day in range(DAYS)
        for k in range(3)
    ]


def sacct_row(job: tuple[int, ...]) -> str:
    _day, number, submit, wait, run = job
    start = submit + wait
    fields = (number, f"u{number % 4}", "COMPLETED", submit, start, start + run, run, 60, 4)
    return "|".join(map(str, fields)) + "\n"


def pbs_row(job: tuple[int, ...]) -> str:
    _day, number, submit, wait, run = job
    end = datetime.fromtimestamp(submit + wait + run, UTC)
    return (
        f"{end:%m/%d/%Y %H:%M:%S};E;{number}.server;user=u{number % 4} group=g queue=q "
        f"ctime={submit} qtime={submit} etime={submit} start={submit + wait} "
        f"end={submit + wait + run} exec_host=n1/0*4 Resource_List.ncpus=4 "
        "Resource_List.walltime=01:00:00 Exit_status=0\n"
    )


def csv_row(job: tuple[int, ...]) -> str:
    _day, number, submit, wait, run = job
    return f"{number},u{number % 4},{submit},{submit + wait},{run},3600,4\n"


LOGS = {"slurm": (SACCT, sacct_row), "pbs": ("", pbs_row), "table": (CSV, csv_row)}


def day_name(day: int) -> str:
    return f"log-{datetime(2024, 3, 4, tzinfo=UTC) + timedelta(day):%Y-%m}-{day + 1}.txt"


def write_days(name: str, folder: Path) -> str:
    """Write a log as a file a day, numbers without leading zeros; return it as one text."""
    header, row = LOGS[name]
    folder.mkdir()
    for day in range(DAYS):
        text = header + "".join(row(job) for job in jobs() if job[0] == day)
        (folder / day_name(day)).write_text(text)
    return header + "".join(map(row, jobs()))


def given(name: str, path: Path) -> Path:
    """Return what the reader of a format is given: a mapping for a table, else the path."""
    if name != "table":
        return path
    mapping = path.parent / f"{path.name}.toml"
    mapping.write_text(MAPPING.format(file=path.name))
    return mapping


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_a_folder_of_days_is_their_concatenation(name, tmp_path):
    whole = tmp_path / "whole.txt"
    whole.write_text(write_days(name, tmp_path / "days"))
    (tmp_path / "days" / "README.md").write_text("What this is\n")
    (tmp_path / "days" / "log-2024-01-0.txt").write_text("")
    expected, _ = FORMATS[name].reading(given(name, whole))
    found, _ = FORMATS[name].reading(given(name, tmp_path / "days"))
    assert found.tasks.equals(expected.tasks)
    assert found.tasks.height == 3 * DAYS
    assert found.provenance.counts == expected.provenance.counts
    days = ["log-2024-01-0.txt", *map(day_name, range(DAYS))]
    names = [file.name for file in found.provenance.files if not file.name.endswith(".toml")]
    assert names == days


@pytest.mark.slow
@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", LOGS)
def test_a_compressed_log_is_its_content(name, suffix, tmp_path):
    header, row = LOGS[name]
    text = header + "".join(map(row, jobs()))
    (tmp_path / "log.txt").write_text(text)
    packed = tmp_path / f"log.txt.{suffix}"
    packed.write_bytes(PACKED[suffix](text.encode()))
    expected, _ = FORMATS[name].reading(given(name, tmp_path / "log.txt"))
    found, _ = FORMATS[name].reading(given(name, packed))
    assert found.tasks.equals(expected.tasks)
    assert found.provenance.files[-1].name == packed.name


def test_parquet_files_of_a_folder_are_joined_by_column(tmp_path):
    header, row = LOGS["table"]
    whole = pl.read_csv((header + "".join(map(row, jobs()))).encode())
    whole.write_parquet(tmp_path / "whole.parquet")
    (tmp_path / "parts").mkdir()
    for part in range(3):
        rows = whole.slice(12 * part, 12)
        rows = rows.select(reversed(rows.columns)) if part else rows
        rows.write_parquet(tmp_path / "parts" / f"part-{part * 9}.parquet")
    expected, _ = FORMATS["table"].reading(given("table", tmp_path / "whole.parquet"))
    found, _ = FORMATS["table"].reading(given("table", tmp_path / "parts"))
    assert found.tasks.equals(expected.tasks)
    whole.drop("user").write_parquet(tmp_path / "parts" / "part-4.parquet")
    with pytest.raises(TraceError, match=r"part-4\.parquet: its columns are not those of part-0"):
        FORMATS["table"].reading(tmp_path / "parts.toml")


@pytest.mark.slow
def test_all_compressions_may_stand_in_one_folder(tmp_path):
    text = write_days("slurm", tmp_path / "days")
    (tmp_path / "whole.txt").write_text(text)
    for day, (suffix, packed) in enumerate(PACKED.items()):
        path = tmp_path / "days" / day_name(day)
        path.with_name(f"{path.name}.{suffix}").write_bytes(packed(path.read_bytes()))
        path.unlink()
    found, _ = FORMATS["slurm"].reading(tmp_path / "days")
    assert found.tasks.equals(FORMATS["slurm"].reading(tmp_path / "whole.txt")[0].tasks)


def test_files_of_folders_below_are_in_natural_order(tmp_path):
    for name in ("2024/10/1", "2024/9/30", "2024/9/4", "2023/12/31", ".git/x", "2024/9/4~"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(file.relative_to(tmp_path)) for file in raw_files(tmp_path)]
    assert found == ["2023/12/31", "2024/9/4", "2024/9/30", "2024/10/1"]
    assert natural("day9") < natural("day10") < natural("day10b")


def test_another_header_is_refused_by_the_name_of_the_file(tmp_path):
    write_days("slurm", tmp_path / "days")
    odd = tmp_path / "days" / day_name(4)
    odd.write_text(odd.read_text().replace("|User|", "|Account|", 1))
    with pytest.raises(TraceError, match=r"log-2024-03-5\.txt: the header is 'JobID\|Account\|"):
        FORMATS["slurm"].reading(tmp_path / "days")


def test_logs_whose_clocks_begin_at_other_moments_are_not_one_log(tmp_path):
    for day in (1, 2):
        row = f"{day} 5 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n"
        (tmp_path / f"{day}.swf").write_text(f"; UnixStartTime: {day}00\n; MaxProcs: 8\n{row}")
    with pytest.raises(TraceError, match=r"2\.swf: UnixStartTime is 200, but in 1\.swf it is 100"):
        FORMATS["swf"].reading(tmp_path)


@pytest.mark.slow
def test_bad_rows_name_the_file_and_its_line(tmp_path):
    write_days("slurm", tmp_path / "days")
    path = tmp_path / "days" / day_name(7)
    path.write_text(path.read_text() + "1|x|gremlins\n")
    quarantine = FORMATS["slurm"].reading(tmp_path / "days")[1]
    assert quarantine.select("file", "line").rows() == [(day_name(7), 5)]
    for file in (tmp_path / "days").iterdir():
        file.write_text(SACCT + "1|x|gremlins\n")
    with pytest.raises(TraceError, match=r"/days: none of its 12 rows .* line 2 of log-2024-03-1"):
        FORMATS["slurm"].reading(tmp_path / "days")


@pytest.mark.slow
def test_a_folder_is_recognised_by_its_first_file(tmp_path, capsys):
    write_days("pbs", tmp_path / "days")
    assert recognise(tmp_path / "days") == "pbs"
    write_days("table", tmp_path / "tables")
    assert main(["init", str(tmp_path / "tables")]) == 0
    assert "submit           submitted" in capsys.readouterr().out
    out = str(tmp_path / "w")
    assert main(["ingest", "table", str(tmp_path / "tables.toml"), "--out", out, "--direct"]) == 0


def test_a_folder_without_content_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(TraceError, match="this folder has no files with content"):
        FORMATS["slurm"].reading(tmp_path)


def excel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (excel(), "a workbook of Excel, which cannot be read; save it as CSV"),
        (b"SQLite format 3\0junk", "an SQLite database.*sqlite3 -header -csv"),
        (b"x" * 257 + b"ustar\0", "a tar archive; unpack it"),
        (gzip.compress(b"x" * 257 + b"ustar\0", mtime=0), "a tar archive; unpack it"),
        (gzip.compress(b"X\n\0\0\0\3", mtime=0), "a file of R.*readRDS"),
        (b"ARROW1\0\0", "Arrow.*to_parquet"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16.*iconv"),
        (zstd(b"a,b\n" * 900)[:-4], "this compressed file is damaged"),
        (bz2.compress(b"a,b\n" * 900)[:-9], "this compressed file is damaged"),
        (b"PK\x03\x04junk", "cannot be read to its end"),
        (b"<!DOCTYPE html>\n<html>\n", "a web page.*download the file itself"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b"JobID User\n----- ----\n    1   u0\n", "printed without -P"),
        (b"  1000  u0  cpu  COMPLETED 2024-03-04T08:02:37 69\n" * 3, "printed without -P"),
        (b"1000 u0 COMPLETED 2024-03-04T08:02:37 2024-03-04T08:03:00\n", "printed without -P"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_the_way_to_convert_it(content, words, tmp_path, capsys):
    path = tmp_path / "jobs.dat"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=words):
        recognise(path)
    assert main(["init", str(path)]) == 2
    assert "SWF" not in capsys.readouterr().err
