"""Slurm's accounting as JSON: sacct and slurmrestd of several versions, cut and damaged files."""

import gzip
import json

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.slurm import read
from tests.pipeline.traces.test_slurm import COLUMNS, FIRST, log, row


def job(number, **values):
    """Return a job as sacct of Slurm 23.11 writes it."""

    def known(value):
        return {"set": True, "infinite": False, "number": value}

    tres = [{"type": "cpu", "name": "", "id": 1, "count": 8},
            {"type": "mem", "name": "", "id": 2, "count": 32 * 1024},
            {"type": "node", "name": "", "id": 4, "count": 1},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 4},
            {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 4}]  # fmt: skip
    return {
        "account": "physics", "association": {"user": "ann", "account": "physics"},
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "allocation_nodes": 1, "cluster": "alpha", "group": "users", "job_id": number,
        "name": "a|b\nc", "partition": "batch", "qos": "normal", "user": "ann",
        "required": {"CPUs": 4, "memory_per_cpu": known(4096),
                     "memory_per_node": {"set": False, "infinite": False, "number": 0}},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "steps": [{"state": ["COMPLETED"], "time": {"elapsed": 600}}],
        "time": {"elapsed": 600, "eligible": FIRST, "end": FIRST + 660, "start": FIRST + 60,
                 "submission": FIRST, "limit": known(20)},
        "tres": {"allocated": tres, "requested": [*tres[1:], {**tres[0], "count": 4}]},
        **values,
    }  # fmt: skip


def json_log(tmp_path, *jobs, **keys):
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"meta": {"jobs": 1}, "jobs": jobs, "errors": [], **keys}, indent=1))
    return path


@pytest.mark.slow
def test_the_reader_of_json_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["slurm"], json_log(tmp_path, job(1)))
    assert recognise(json_log(tmp_path, job(1))) == "slurm"


@pytest.mark.slow
def test_json_gives_the_workload_of_the_same_output_as_text(tmp_path):
    tres = "billing=4,mem=32G,node=1,gres/gpu=4,gres/gpu:a100=4"
    lists = {"ReqTRES": f"cpu=4,{tres}", "AllocTRES": f"cpu=8,{tres}", "ReqMem": "4096Mc"}
    names = ("JobID", *COLUMNS[1:], "JobName", "Cluster")
    rows = [f"{row(str(n), **lists)}|x|alpha" for n in (1, 2)]
    text, _ = read(log(tmp_path, *rows, header="|".join(names)))
    load, quarantine = read(json_log(tmp_path, job(1), job(2)))
    assert load.tasks.equals(text.tasks)
    assert quarantine.is_empty()


def test_versions_of_slurm_write_a_value_differently(tmp_path):
    old = job(5, state={"current": "CANCELLED"},
              required={"CPUs": 4, "memory": 2**63 + 100},
              tres={"allocated": [{"type": "cpu", "name": None, "id": 1, "count": 8}]},
              time={"elapsed": 600, "submission": FIRST, "start": FIRST + 60, "end": FIRST + 660,
                    "eligible": 0, "limit": 2**32 - 1})  # fmt: skip
    unlimited = {"set": False, "infinite": True, "number": 0}
    array = job(9, state=["FAILED"], array={"job_id": 8, "task_id": {"set": True, "number": 3}},
                time={**job(1)["time"], "limit": unlimited})  # fmt: skip
    rest = {"job_id": 7, "job_state": ["TIMEOUT"], "submit_time": {"set": True, "number": FIRST},
            "start_time": {"set": True, "number": FIRST}, "end_time": FIRST + 9, "user_name": "bo",
            "time_limit": {"set": True, "number": 3}, "tres_alloc_str": "cpu=2,mem=4G"}  # fmt: skip
    load, _ = read(json_log(tmp_path, old, array, rest))
    tasks = {task["job_id"]: task for task in load.tasks.rows(named=True)}
    assert list(tasks) == ["5", "8_3", "7"]
    assert (tasks["5"]["status"], tasks["5"]["memory_mib"], tasks["5"]["eligible_s"]) == (
        5,
        800,
        None,
    )
    assert [tasks[name]["requested_s"] for name in ("5", "8_3", "7")] == [600, 600, 180]
    assert (tasks["8_3"]["status"], tasks["8_3"]["gpus:a100"]) == (0, 4)
    assert (tasks["7"]["cores"], tasks["7"]["memory_mib"], tasks["7"]["duration_s"]) == (2, 4096, 9)


@pytest.mark.slow
def test_several_documents_a_list_and_lines_of_jobs_are_read(tmp_path):
    path = tmp_path / "jobs.json"
    document = json.dumps({"jobs": [job(1)]})
    texts = (
        f"{document}\n{json.dumps({'jobs': [job(2)]}, indent=2)}",
        json.dumps([job(1), job(2)]),
        f"{json.dumps(job(1))}\n{json.dumps(job(2))}\n",
    )
    for text in texts:
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        assert read(path)[0].tasks["job_id"].to_list() == ["1", "2"]


@pytest.mark.slow
def test_json_that_ends_within_a_job_gives_the_jobs_before(tmp_path):
    """Every job is in the workload, left out, or a bad row."""
    text = json_log(tmp_path, job(1), job(2), "no job", job(3)).read_text()
    path = tmp_path / "cut.json"
    for end in range(text.index('"job_id": 3') + 12, text.rindex("]"), 511):
        path.write_text(text[:end])
        load, quarantine = read(path)
        assert load.tasks["job_id"].to_list() == ["1", "2"]
        assert quarantine["reason"].to_list() == [
            "this is no JSON object, expected a job",
            "the file ends within this job",
        ]
        assert text.splitlines()[quarantine["line"][0] - 1].strip() == '"no job",'


@pytest.mark.slow
def test_files_of_a_folder_are_one_log_also_in_one_line_each(tmp_path):
    """A file of one line may be longer than a line of a table."""
    folder = tmp_path / "log"
    folder.mkdir()
    long = {"admin_comment": "x" * (1 << 21)}
    for day, jobs in ((1, [job(1, **long)]), (2, [job(2)]), (11, [job(3), "no job"])):
        (folder / f"day{day}.json").write_text(json.dumps({"jobs": jobs}))
    load, quarantine = FORMATS["slurm"].reading(folder)
    assert load.tasks["job_id"].to_list() == ["1", "2", "3"]
    assert quarantine["file"].to_list() == ["day11.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jobs": []}', "this JSON has no jobs"),
        ('{"meta": {}}', "this JSON has no jobs"),
        ('{"jobs": [{"job_id": 1},\n{"job_id": ], "user": "ann"}]}', "line 2 is no JSON"),
        ('{"jobs": [{"job_id": 1} {"job_id": 2}]}', "line 1 is no JSON"),
        ('{"jobs" [1]}', "line 1 is no JSON"),
        ("[" * 100_000, "line 1 is no JSON"),
        (f'{{"jobs": [{{"job_id": {"9" * 5000}}}]}}', "line 1 is no JSON"),
        (f'{{"jobs": [{{"job_id": {"9" * 400}}}]}}', "state is '', expected a state"),
        ('{"jobs": [{"job_id": 1, "state": "\\ud800"}]}', r"state is '\?', expected a state"),
        ("{ jobs }", "line 1 is no JSON"),
    ],
)
def test_json_that_is_no_log_is_refused(text, message, tmp_path):
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=message) as error:
        read(path)
    assert "\n" not in str(error.value)
