"""Tests of SWF logs: sound rows, rows that lack values, and damaged rows and files."""

import gzip

import numpy as np
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.traces.swf import SwfSettings, read
from hindcast.pipeline.workloads.caveats import NO_LIMITS, NO_SIZE
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.log_caveats import log_caveats
from hindcast.pipeline.workloads.schema import TASK_COLUMNS
from tests.conftest import require_traces
from tests.representatives import nightly_but

HEADER = "; Version: 2.2\n; Computer: A Machine\n;Acknowledge: Somebody: Else\n; MaxProcs: 64\n;\n"
# job submit wait run alloc cpu mem req reqtime reqmem status user group exe queue part prec think
ROW = (
    "{job} {submit} 5 {run} {alloc} {cpu} {memory} {asked} {limit} {wanted} {status} "
    "7 1 -1 0 -1 -1 -1"
)


def row(job: int, **values: object) -> str:
    """Return one sound row with the given fields changed."""
    usual = {
        "submit": 10 * job, "run": 100, "alloc": 8, "cpu": -1, "memory": -1, "asked": 8,
        "limit": 600, "wanted": -1, "status": 1,
    }  # fmt: skip
    return ROW.format(job=job, **{**usual, **values})


def log(tmp_path, *rows: str, header: str = HEADER, name: str = "log.swf"):
    """Write a log file of the header and the rows."""
    path = tmp_path / name
    path.write_text(header + "\n".join(rows) + "\n")
    return path


def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["swf"], log(tmp_path, row(1), row(2), "3 4 5"))


def test_a_sound_log_becomes_canonical_tasks_with_more_columns(tmp_path):
    """Jobs are in order of submission; the header's machine and acknowledgement are reported."""
    load, quarantine = read(log(tmp_path, row(1, submit=50, wanted=1000), row(2, submit=20)))
    assert list(load.tasks.schema.items())[: len(TASK_COLUMNS)] == list(TASK_COLUMNS.items())
    first, second = load.tasks.rows(named=True)
    assert (first["job"], first["job_id"], first["task_id"]) == (0, "2", "0")
    assert (second["submit_s"], second["duration_s"], second["cores"]) == (50, 100, 8)
    assert (second["instances"], second["memory"], second["memory_kb"]) == (1, 8 / 64, 1000)
    assert (first["memory"], first["memory_kb"]) == (0, None)
    assert (first["requested_s"], first["requested_cores"], first["wait_s"]) == (600, 8, 5)
    assert (first["status"], first["user"], first["queue"], first["executable"]) == (1, 7, 0, None)
    assert load.machines is not None
    assert load.machines.rows() == [(0, "A Machine", 64, 1)]
    assert "Acknowledge: Somebody: Else" in load.provenance.notes
    assert quarantine.is_empty()


def test_what_is_missing_is_derived_counted_and_told(tmp_path):
    load, _ = read(
        log(
            tmp_path,
            row(1, asked=-1, alloc=4),
            row(2, limit=-1),
            row(3, run=0),
            row(4, run=-1, cpu="70.5"),
            row(5, run=-1),
            row(6, memory=500),
        )
    )
    assert load.tasks["cores"].to_list() == [4, 8, 8, 8, 8, 8]
    assert load.tasks["duration_s"].to_list() == [100, 100, 1, 70.5, 600, 100]
    assert load.tasks["requested_s"].to_list() == [600, 100, 600, 600, 600, 600]
    counts = {
        "cores from allocated processors": 1,
        "requested_s from duration_s": 1,
        "duration_s 1 for a run time of 0": 1,
        "duration_s from average cpu time": 1,
        "duration_s from requested time": 1,
        "memory unknown, taken as 0": 5,
    }
    assert counts.items() <= load.provenance.counts.items()
    for name, count in counts.items():
        assert f"{name}: {count} rows" in load.provenance.notes


def test_parts_and_jobs_that_never_ran_are_left_out_and_counted(tmp_path):
    """The number of rows read is the number of tasks plus the number of rows left out."""
    load, quarantine = read(
        log(
            tmp_path,
            row(1),
            row(1, status=2),
            row(1, status=3),
            row(2, status=5, run=-1),
            row(3, status=5, run=0),  # cancelled in its first second
            row(4, status=5),  # cancelled while running
            row(5, alloc=-1, asked=-1),
            row(6, run=-1, limit=-1),
        )
    )
    assert load.tasks["job_id"].to_list() == ["1", "3", "4"]
    assert load.tasks["duration_s"].to_list() == [100, 1, 100]
    assert load.provenance.left_out == {
        "a partial execution (status 2, 3 or 4) of a job with a row of its own": 2,
        "cancelled before it ran (status 5)": 1,
        "no number of processors, requested or allocated": 1,
        "no run time, cpu time or requested time": 1,
    }
    assert load.provenance.counts["rows_read"] == 8
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(2) + " 1 2 3", "21 fields, expected 18"),
        ("7", "1 field, expected 18"),
        (row(2, run="1e300"), "run is 1e300, expected at most 1e+09"),
        (row(2, run="nan"), "run is 'nan', expected a number"),
        (row(2, run="12,5"), "run is '12,5', expected a number"),
        (row(2, run=-7), "run is -7, expected at least -1"),
        (row(2, run=-0.5), "run is -0.5, expected -1 (unknown) or at least 0"),
        (row(2, submit=-5), "submit is -5, expected at least 0"),
        (row(2, submit=99999999999), "submit is 99999999999, expected at most 1e+10"),
        (row(2, asked=65, alloc=65), "requested is 65, but the cluster has 64 processors"),
        (row(2, asked=65, alloc=-1), "requested is 65, but the cluster has 64 processors"),
        (row(2, alloc=10**6, asked=-1), "allocated is 1000000, but the cluster has 64 processors"),
        (row(2, asked=2.5), "requested is 2.5, expected a whole number"),
        (row("two", submit=1), "job is 'two', expected a number"),
        (row(1), "a repetition: job_id 1 is already in line 6"),
    ],
)
def test_a_bad_row_goes_to_the_quarantine_with_its_line(tmp_path, bad, reason):
    load, quarantine = read(log(tmp_path, row(1), bad, row(3)))
    assert load.tasks["job_id"].to_list() == ["1", "3"]
    assert quarantine.select("file", "line", "reason").rows() == [("log.swf", 7, reason)]
    assert load.provenance.left_out == {"quarantined": 1}


def test_a_field_that_the_task_does_not_need_costs_no_row(tmp_path):
    """Some logs give memory in bytes, or a name as the user: such values are taken as unknown."""
    load, quarantine = read(
        log(
            tmp_path,
            row(1, wanted=161_061_273_600, memory=500),
            row(2, cpu="abc", limit=-7, alloc=8.5),
            row(3).replace(" 7 1 -1 0 ", " root 1 -1 nan "),
            row(4, asked=-1, alloc=4, memory="1e300"),
            row(5, run=-1, limit="inf", cpu=50),
            row(6, asked=65),
        )
    )
    assert quarantine.is_empty()
    assert load.tasks["job_id"].to_list() == ["1", "2", "3", "4", "5", "6"]
    assert load.tasks["memory_kb"].to_list() == [500, None, None, None, None, None]
    assert load.tasks["requested_s"].to_list() == [600, 100, 600, 600, 50, 600]
    assert load.tasks["requested_cores"].to_list() == [8, 8, 8, None, 8, None]
    assert load.tasks["allocated_cores"].to_list() == [8, None, 8, 4, 8, 8]
    assert load.tasks["cores"].to_list() == [8, 8, 8, 4, 8, 8]
    assert load.tasks["user"].to_list() == [7, 7, None, 7, 7, 7]
    told = [note for note in load.provenance.notes if "taken as unknown" in note]
    assert told == [
        "allocated not usable, taken as unknown: 1 rows",
        "average_cpu not usable, taken as unknown: 1 rows",
        "used_memory not usable, taken as unknown: 1 rows",
        "requested not usable, taken as unknown: 1 rows",
        "requested_time not usable, taken as unknown: 2 rows",
        "requested_memory not usable, taken as unknown: 1 rows",
        "user not usable, taken as unknown: 1 rows",
        "queue not usable, taken as unknown: 1 rows",
    ]


def test_an_allocation_beyond_the_cluster_is_kept_beside_the_request(tmp_path):
    """A scenario that replays what ran can leave such a job out."""
    load, quarantine = read(log(tmp_path, row(1), row(2, alloc=65)))
    assert quarantine.is_empty()
    assert load.tasks.select("cores", "requested_cores", "allocated_cores").rows() == [
        (8, 8, 8),
        (8, 8, 65),
    ]


def test_tasks_whose_run_time_is_unknown_are_marked(tmp_path):
    """The column is absent where it would be false throughout."""
    load, _ = read(log(tmp_path, row(1), row(2, run=-1), row(3, run=0), row(4, run=-1, cpu=7)))
    assert load.tasks.columns[-1] == "run_unknown"
    assert load.tasks["run_unknown"].to_list() == [False, True, False, True]
    load, _ = read(log(tmp_path, row(1), row(2, run=-1, status=5), row(3, run=0)))
    assert "run_unknown" not in load.tasks.columns


def test_jobs_of_one_second_keep_the_order_of_the_file(tmp_path):
    load, _ = read(log(tmp_path, *(row(n, submit=50 - n // 3) for n in (9, 4, 3, 5, 1, 2))))
    assert load.tasks["job_id"].to_list() == ["9", "4", "3", "5", "1", "2"]


def test_a_request_of_minus_one_is_the_run_time(tmp_path):
    load, _ = read(log(tmp_path, row(1, limit=-1, run=0), row(2, limit=0), row(3, limit=7)))
    assert load.tasks["requested_s"].to_list() == [1, 100, 7]


def test_further_fields_are_refused_unless_a_setting_leaves_them_out(tmp_path):
    path = log(tmp_path, *(row(n) + " 1 2 3" for n in range(1, 9)))
    with pytest.raises(
        TraceError, match=r"log\.swf: the rows have 21 fields, expected 18; with `--"
    ):
        read(path)
    load, quarantine = read(path, SwfSettings(further_fields=True))
    assert load.tasks.height == 8
    assert quarantine.is_empty()


def test_a_row_too_wide_among_others_is_quarantined(tmp_path):
    """Most rows decide; two lines run together are no further fields."""
    rows = [row(n) for n in range(1, 5)]
    load, quarantine = read(log(tmp_path, *rows[:3], rows[3] + " 1", rows[1] + rows[2]))
    assert load.tasks.height == 3
    assert quarantine["reason"].to_list() == ["19 fields, expected 18", "35 fields, expected 18"]
    with pytest.raises(TraceError, match="the rows have 20 fields"):
        read(log(tmp_path, rows[0], *(line + " 1 2" for line in rows[1:])))


@pytest.mark.parametrize(("known", "code"), [(1, "unknown_waits"), (99, "some_unknown_waits")])
def test_unknown_waits_are_a_caveat_with_their_share(tmp_path, known, code):
    rows = [row(n) if n % 100 < known else row(n).replace(" 5 ", " -1 ", 1) for n in range(1, 501)]
    load, _ = read(log(tmp_path, *rows))
    unknown = load.tasks["wait_s"].null_count()
    caveat = next(c for c in log_caveats(load) if c.code == code)
    assert f"the start of {unknown} jobs" in caveat.text


@pytest.mark.parametrize("limit", [-1, 0])
def test_a_log_without_requested_times_has_a_caveat(tmp_path, limit):
    load, _ = read(log(tmp_path, *(row(n, limit=limit) for n in range(1, 9))))
    assert NO_LIMITS in {caveat.code for caveat in log_caveats(load)}


def test_blanks_tabs_carriage_returns_and_late_comments_are_no_matter(tmp_path):
    path = tmp_path / "log.swf"
    text = HEADER + "  " + row(1) + "\n\n; Note: a comment\n" + "\t".join(row(2).split()) + "  \n"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    load, quarantine = read(path)
    assert load.tasks.height == 2
    assert quarantine.is_empty()


@pytest.mark.parametrize(("wider", "cores"), [(10, 8), (11, 16)])
def test_nodes_are_no_processors_where_many_jobs_are_wider(tmp_path, wider, cores):
    rows = [row(i, asked=16 if i < wider else 4, alloc=16 if i < wider else 4) for i in range(100)]
    load, quarantine = read(log(tmp_path, *rows, header="; MaxNodes: 8\n"))
    assert load.machines["cores"].to_list() == [cores]
    assert load.tasks.height + quarantine.height == 100
    assert quarantine.height == (10 if cores == 8 else 0)
    told = [note for note in load.provenance.notes if note.startswith(NO_SIZE)]
    assert ["nodes are not processors, and 16 is the largest job" in note for note in told] == (
        [True] if cores == 16 else []
    )


def test_a_status_out_of_range_is_unknown_and_counted(tmp_path):
    load, quarantine = read(log(tmp_path, row(1, status=9), row(2, status=-3), row(3)))
    assert load.tasks["status"].to_list() == [None, None, 1]
    assert load.provenance.counts["status not usable, taken as unknown"] == 2
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    ("header", "cores"),
    [
        ("; MaxProcs: 1.024\n", 1024),
        ("; MaxProcs: 1'048'576 cores\n", 2**20),
        ("; MaxProcs: 128cpus\n", 128),
        ("; MaxProcs: n/a\n; MaxNodes: 1,024 (of 4 processors)\n", 1024),
        ("; MaxProcs: ?\n", 8),
    ],
)
def test_numbers_of_the_header_may_have_separators_and_suffixes(tmp_path, header, cores):
    load, _ = read(log(tmp_path, row(1), header=header))
    assert load.machines["cores"].to_list() == [cores]


@pytest.mark.parametrize("size", ["2k", "64x8", "64 x 8", "1,02", "12.5", "~100"])
def test_a_header_that_can_be_two_numbers_is_refused_and_the_setting_counts(tmp_path, size):
    path = log(tmp_path, row(1), row(2, asked=300, alloc=300), header=f"; MaxProcs: {size}\n")
    with pytest.raises(TraceError, match=r"expected a whole number .*--set processors=N"):
        read(path)
    load, quarantine = read(path, SwfSettings(processors=256))
    assert load.machines["cores"].to_list() == [256]
    assert quarantine["reason"].to_list() == [
        "requested is 300, but the cluster has 256 processors"
    ]


@pytest.mark.slow
def test_without_maxprocs_maxnodes_or_the_largest_job_is_the_cluster(tmp_path):
    for header, cores in (
        ("; MaxNodes: 32\n", 32),
        ("; MaxProcs: 1,024\n", 1024),
        ("; MaxProcs: -1\n", 16),
        ("; MaxProcs: unknown\n; MaxNodes: 128\n", 128),
        ("", 16),
        ("; MaxNodes: 338 (batch partition; 512 total)\n", 338),
        ("; MaxNodes: 338(batch)\n; MaxProcs: -1\n", 338),
    ):
        load, _ = read(log(tmp_path, row(1), row(2, asked=16), header=header))
        assert load.machines is not None
        assert load.machines["cores"].to_list() == [cores]
        assert any("16 is the largest job" in n for n in load.provenance.notes) == (cores == 16)
    with pytest.raises(TraceError, match="MaxProcs is 'many', expected a whole number"):
        read(log(tmp_path, row(1), header="; MaxProcs: many\n"))


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.2, 0.9, -4])
def test_a_truncated_gzip_file_is_an_error(tmp_path, keep):
    """A file cut within the first lines, late, or in the closing checksum is refused."""
    rng = np.random.default_rng(0)
    rows = [row(n, run=int(rng.integers(1, 10**6))) for n in range(1, 20_000)]
    whole = gzip.compress((HEADER + "\n".join(rows)).encode())
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole[: keep if keep < 0 else int(keep * len(whole))])
    with pytest.raises(
        TraceError,
        match=r"log\.swf\.gz: this (file cannot be read to its end|gzip file is damaged)",
    ):
        read(path)
    path.write_bytes(whole)
    assert read(path)[0].tasks.height == len(rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)) * 40, "is a binary file"),
        (b"", "is empty, expected an SWF log"),
        (HEADER.encode(), "has no rows"),
        (b"a,b\n1,2\n", "none of its 2 rows .* line 1: 1 field, expected 18"),
        ((HEADER + row(1, status=5, run=-1)).encode(), "none of its 1 rows is a job that ran"),
        (gzip.compress((HEADER + row(1)).encode(), mtime=0)[:60], "this gzip file is damaged"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "log.swf"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        read(path)
    assert "\n" not in str(error.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    log(tmp_path, row(1))
    with pytest.raises(TraceError, match="is a folder, expected the file"):
        read(tmp_path)
    with pytest.raises(TraceError, match=r"no such file.*did you mean 'log\.swf'"):
        read(tmp_path / "logs.swf")


def test_an_ingested_log_comes_back_with_its_columns(tmp_path):
    path = log(tmp_path, row(1), row(2) + " 9")
    result = ingest("swf", path, tmp_path / "out")
    assert result.quarantined == 1
    load = load_workload(tmp_path / "out")
    assert load.tasks.equals(read(path)[0].tasks)
    assert load.provenance.counts["memory unknown, taken as 0"] == 1
    assert "name the archive" in FORMATS["swf"].terms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "cores", "derived"),
    [
        ("KTH-SP2-1996-2.swf.gz", 28_489, 100, {"duration_s 1 for a run time of 0": 8}),
        (
            "NASA-iPSC-1993-3.1-cln.swf",
            18_239,
            128,
            {"cores from allocated processors": 18_239, "requested_s from duration_s": 18_239},
        ),
        (
            "CTC-SP2-1996-3.1-cln.swf.gz",
            77_222,
            338,
            {"duration_s 1 for a run time of 0": 17, "requested_s from duration_s": 6},
        ),
        ("HPC2N-2002_alea_head3k.swf", 3_170, 240, {"duration_s from average cpu time": 25}),
        ("lublin_256.swf", 10_000, 256, {"requested_s from duration_s": 10_000}),
    ],
)
def test_the_archives_logs_are_read_whole(name, rows, cores, derived):
    load, quarantine = read(require_traces("swf") / name)
    assert load.provenance.counts["rows_read"] == load.tasks.height == rows
    assert derived.items() <= load.provenance.counts.items()
    assert load.provenance.left_out == {}
    assert quarantine.is_empty()
    assert load.machines is not None
    assert load.machines["cores"].to_list() == [cores]
    assert (load.tasks["duration_s"].to_numpy() > 0).all()
    assert load.tasks["cores"].to_numpy().max() <= cores
    assert 0 <= load.tasks["memory"].to_numpy().min() <= load.tasks["memory"].to_numpy().max() <= 1
    assert any(note.startswith("Acknowledge: ") for note in load.provenance.notes)


SDSC_SP2 = ("SDSC-SP2-1998-4.2-cln.swf.gz", 54_044, 5_671, 0, 128)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tasks", "left_out", "unknown", "cores"),
    nightly_but(
        {SDSC_SP2}, [SDSC_SP2, ("SDSC-BLUE-2000-4.2-cln.swf.gz", 232_564, 10_742, 2, 1_152)]
    ),
)
def test_cancelled_jobs_of_the_archives_logs_are_left_out(name, tasks, left_out, unknown, cores):
    """Jobs that were cancelled in their first second are among the tasks."""
    load, quarantine = read(require_traces("swf") / name)
    assert load.tasks.height == tasks
    assert load.provenance.left_out == {"cancelled before it ran (status 5)": left_out}
    assert quarantine.is_empty()
    marked = load.tasks["run_unknown"].sum() if "run_unknown" in load.tasks.columns else 0
    assert marked == unknown
    assert load.tasks["allocated_cores"].drop_nulls().to_numpy().max() <= cores
