"""Tests of the reader of PBS accounting logs."""

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.pbs import is_log, read
from hindcast.pipeline.traces.job_logs import JobLogSettings
from hindcast.pipeline.workloads.log_names import names_of

FIRST = 1_711_929_600
USUAL = {
    "user": "ann", "group": "users", "jobname": "a.sh", "queue": "work", "ctime": FIRST,
    "qtime": FIRST, "etime": FIRST, "start": FIRST + 60, "exec_host": "n1/0*8",
    "Resource_List.mem": "16gb", "Resource_List.ncpus": 8, "Resource_List.walltime": "01:00:00",
    "session": 77, "end": FIRST + 660, "Exit_status": 0, "resources_used.mem": "1000kb",
    "resources_used.ncpus": 8, "resources_used.walltime": "00:10:00",
}  # fmt: skip


def record(job: str, kind: str = "E", **values: object) -> str:
    """Return a record; a value None leaves the key out, and `_` in a key stands for its point."""
    given = {k.replace("List_", "List.").replace("used_", "used."): v for k, v in values.items()}
    given = {**({"account": given.pop("account")} if "account" in given else {}), **USUAL, **given}
    message = " ".join(f"{k}={v}" for k, v in given.items() if v is not None)
    return f"04/01/2024 00:00:12;{kind};{job}.server;{message}"


def log(tmp_path, *lines: str):
    """Write a log of the lines."""
    path = tmp_path / "20240401"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["pbs"], log(tmp_path, record("1"), record("2"), "3;4"))


def test_the_record_of_the_end_becomes_a_task(tmp_path):
    load, quarantine = read(
        log(tmp_path, record("1", "Q"), record("1", "S"), record("1"), record("2", "D"),
            record("3", "k"))
    )  # fmt: skip
    (task,) = load.tasks.rows(named=True)
    assert (task["job_id"], task["submit_s"], task["wait_s"]) == ("1.server", 0, 60)
    assert (task["duration_s"], task["requested_s"], task["eligible_s"]) == (600, 3600, 0)
    assert (task["cores"], task["requested_cores"], task["allocated_cores"]) == (8, 8, 8)
    assert (task["memory_kb"], task["status"]) == (2 * 1024**2, 1)
    assert (task["user"], task["group"], task["executable"], task["queue"]) == (1, 1, 1, 1)
    assert load.provenance.left_out == {
        "a record of type D, not E": 1,
        "a record of type Q, not E": 1,
        "a record of type S, not E": 1,
        "a record of type k, not E": 1,
    }
    assert f"UnixStartTime: {FIRST}" in load.provenance.notes
    assert quarantine.is_empty()


@pytest.mark.slow
def test_processors_are_counted_as_pbs_and_torque_write_them(tmp_path):
    hosts = {
        "n1/0*8+n2/0*4": 12,
        "n1/0+n1/1+n2/0": 3,
        "n1/0-7+n2/2,5,8-9": 12,
        "n1": 1,
    }
    bare = {"resources_used_ncpus": None, "Resource_List_ncpus": None}
    rows = [record(str(i), exec_host=host, **bare) for i, host in enumerate(hosts)]
    tasks = read(log(tmp_path, *rows))[0].tasks
    assert tasks["allocated_cores"].to_list() == list(hosts.values())
    asked = {
        "Resource_List_select": {"2:ncpus=8:mem=4gb+1:ncpus=4": 20, "3": 3},
        "Resource_List_nodes": {"2:ppn=8+n3:ppn=2": 18, "4": 4, "n1": 1},
        "Resource_List_procs": {"6": 6},
    }
    for key, texts in asked.items():
        none = {**bare, "exec_host": None}
        rows = [record(str(i), **none, **{key: text}) for i, text in enumerate(texts)]
        assert read(log(tmp_path, *rows))[0].tasks["cores"].to_list() == list(texts.values())


def test_of_a_job_that_was_rerun_the_last_run_counts(tmp_path):
    load, quarantine = read(
        log(
            tmp_path,
            record("1", Exit_status=-12),
            record("1", "R"),
            record("1", start=FIRST + 900, end=FIRST + 1000),
            record("2"),
            record("2"),
        )
    )
    assert load.tasks.select("job_id", "wait_s", "duration_s").rows() == [
        ("1.server", 900, 100), ("2.server", 60, 600)]  # fmt: skip
    assert load.provenance.left_out["an earlier run of a job that ran again"] == 1
    assert quarantine["reason"].str.starts_with("a repetition").to_list() == [True]


def test_bad_records_are_quarantined_with_their_line_and_reason(tmp_path):
    bad = (
        ("04/01/2024;E;5.server;x=1", "the line is not of the form DATE TIME;TYPE;ID;MESSAGE"),
        ("04/01/2024 00:00:12;E;5.server", "the line is not of the form DATE TIME;TYPE;ID;MESSAGE"),
        (record("3", start=None), "start is missing, expected seconds since 1970"),
        (record("4", end=FIRST), "end is before start"),
        (record("5", ctime="x"), "ctime, qtime is 'x', expected seconds since 1970"),
        (record("6", end=None, resources_used_walltime="x"),
         "resources_used.walltime is 'x', expected a time span"),
        (record("7", Resource_List_ncpus=100, resources_used_ncpus=100),
         "100 processors, but the cluster has 64"),
    )  # fmt: skip
    path = log(tmp_path, record("1"), *(line for line, _ in bad), record("2", Exit_status=271))
    load, quarantine = read(path, JobLogSettings(processors=64))
    expected = [(line, reason) for line, (_, reason) in enumerate(bad, 2)]
    assert quarantine.select("line", "reason").rows() == expected
    assert load.tasks["status"].to_list() == [1, 0]


def test_every_job_of_an_array_is_a_job(tmp_path):
    load, _ = read(log(tmp_path, record("7[1]"), record("7[2]"), record("7[]")))
    assert load.tasks["job_id"].to_list() == ["7[1].server", "7[2].server"]
    assert load.provenance.left_out == {"an array, whose jobs have records of their own": 1}


def test_quoted_values_and_missing_keys_are_no_fault(tmp_path):
    load, quarantine = read(
        log(tmp_path, record("1", account='"a b start=5"', group=None, qtime=None, etime=0,
                             Resource_List_mem=None, end=None))
    )  # fmt: skip
    task = load.tasks.row(0, named=True)
    assert (task["group"], task["wait_s"], task["eligible_s"]) == (None, 60, None)
    assert (task["memory_kb"], task["duration_s"]) == (125, 600)
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    ("content", "message"),
    [("a line\n", "the first line is 'a line'"), ("a;b;c\n" * 3, "none of its 3 rows"),
     (record("1", "Q") + "\n", "is a job that ran"), ("", "this file is empty")],
)  # fmt: skip
def test_a_file_that_is_no_such_log_is_refused(content, message, tmp_path):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(TraceError, match=r"log: ") as error:
        read(path)
    assert message in str(error.value)


def test_account_nodes_and_gpus_of_a_job(tmp_path):
    """Nodes are counted by hosts, and GPUs by chunks, where no key has their number."""
    load, _ = read(
        log(
            tmp_path,
            record("1", account='"a b; queue=x"', exec_host="n1/0*8+n2/0*8+n2/1*8"),
            record("2", Resource_List_nodect=4, Resource_List_ngpus=2, account="other"),
            record("3", Resource_List_select="2:ncpus=4:ngpus=3+1:ncpus=8"),
            record("4", Resource_List_nodes="2:ppn=4:gpus=1+n3:ppn=8"),
        )
    )
    assert load.tasks.select("account", "nodes", "gpus").rows() == [
        (1, 2, 0), (2, 4, 2), (None, 1, 6), (None, 1, 2),
    ]  # fmt: skip
    assert names_of(load, "queue") == {1: "work"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["20240401:", "/var/spool/accounting/20240401:17:", "./a-b.log:"])
def test_names_of_files_before_the_lines_are_dropped(tmp_path, name):
    lines = [record("1"), record("2", "Q"), record("3")]
    path = log(tmp_path, *(name + line for line in lines))
    named, quarantine = read(path)
    bare, _ = read(log(tmp_path, *lines))
    assert is_log([name + lines[0]])
    assert named.tasks.equals(bare.tasks)
    assert quarantine.is_empty()
    assert not is_log([lines[0].replace(";", ",")])


def test_a_job_that_moved_between_queues_waited_since_it_was_created(tmp_path):
    load, _ = read(
        log(
            tmp_path,
            record("1"),
            record("2", qtime=FIRST + 50),
            record("3", ctime=0, qtime=FIRST + 50),
            record("4", "Q", qtime=FIRST + 50),
        )
    )
    assert load.tasks["wait_s"].to_list() == [60, 60, 10]
    assert "qtime after ctime, from which waits are counted: 1 rows" in load.provenance.notes


def test_memory_is_that_of_the_request_and_used_memory_is_none(tmp_path):
    none = {"Resource_List_mem": None}
    load, _ = read(
        log(
            tmp_path,
            record("1"),
            record("2", **none, Resource_List_select="2:ncpus=4:mem=3gb+1:ncpus=1:mem=512mb"),
            record("3", **none, Resource_List_pmem="1gb", Resource_List_vmem="99gb"),
            record("4", **none, Resource_List_vmem="4gb"),
            record("5", **none, Resource_List_pvmem="100mb"),
            record("6", **none),
        )
    )
    assert load.tasks["memory_mib"].to_list() == [16384, 6656, 8192, 4096, 800, None]
    assert load.tasks["memory_kb"].to_list()[3:] == [512 * 1024, 100 * 1024, 125]


def test_gpus_are_counted_by_type(tmp_path):
    """Chunks name types; the vnodes of a job have what it held."""
    load, _ = read(
        log(
            tmp_path,
            record("1", Resource_List_select="2:ncpus=4:ngpus=3:gpu_type=a100+1:ngpus=1"),
            record("2", exec_vnode="(n1:ncpus=4:ngpus=2)+(n2:ncpus=4:ngpus=2)",
                   Resource_List_select="2:ncpus=4:ngpus=1:gpu_type=v100"),
            record("3", Resource_List_naccelerators=2, Resource_List_accelerator_model="k20"),
            record("4", Resource_List_ngpus=1),
            record("5", exec_host=None, resources_used_ncpus=None,
                   exec_vnode="(n1:ncpus=4)+(n2:ncpus=2)"),
        )
    )  # fmt: skip
    columns = ["gpus", "gpus:a100", "gpus:k20", "gpus:v100"]
    assert load.tasks.select(columns).rows() == [
        (7, 6, 0, 0), (4, 0, 0, 2), (2, 0, 2, 0), (1, 0, 0, 0), (0, 0, 0, 0),
    ]  # fmt: skip
    last = load.tasks.row(4, named=True)
    assert (last["allocated_cores"], last["nodes"]) == (6, 2)


def test_the_accounting_log_of_cobalt_is_read(tmp_path):
    """Its places are blocks of nodes, and its names have no server."""
    place = {"exec_host": '"0-15,20"', "resources_used.location": '"0-15,20"'}
    line = record("7", **place, resources_used_ncpus=None, Resource_List_ncpus=1088,
                  Resource_List_nodect=17, start=f"{FIRST + 60}.5")  # fmt: skip
    load, quarantine = read(log(tmp_path, line.replace("7.server", "7")))
    task = load.tasks.row(0, named=True)
    assert (task["job_id"], task["cores"], task["nodes"], task["wait_s"]) == ("7", 1088, 17, 60.5)
    assert quarantine.is_empty()
