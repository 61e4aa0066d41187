"""Logs of batch systems: outputs that cannot be read, and damaged logs."""

import gzip
import json

import numpy as np
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.records import json_objects
from hindcast.pipeline.traces.tables.proposal import propose
from tests.pipeline.traces import (
    test_batsim,
    test_cobalt,
    test_condor,
    test_grid_engine,
    test_lsf,
    test_pbs,
    test_swf,
)

UNREADABLE = {
    "             JOBID PARTITION     NAME     USER ST       TIME  NODES\n": "squeue; .* sacct",
    "Job id            Name             User\n-----  ---- ---\n": "qstat of PBS",
    "Job Id: 12.srv\n    Job_Name = a\n": "qstat of PBS",
    "job-ID  prior   name       user         state submit/start at\n-----\n": "qstat of Grid",
    "JOBID   USER    STAT  QUEUE      FROM_HOST\n1 a RUN n h\n": "bjobs, .* lsb.acct",
    " ID     OWNER          SUBMITTED   RUN_TIME     ST COMPLETED\n": "condor_history -json",
    "000 (012.000.000) 2024-03-01 08:00:00 Job submitted from host: <1>\n...\n": "event log of HTC",
    '"JOB_NEW" "10.1" 1709280000 7 1001 33\n': r"lsb\.events of LSF.*lsb\.acct",
    "Total System Usage\n    WALLCLOCK         UTIME\n": "qacct -j",
    "10:28:34 1166120914:4444 job JOBEND  moab.1 1\n": "Moab",
    "VERSION 230\n1 2 3\n": "Maui",
    "batsim_version,nb_jobs\n4.2,5\n": "_jobs.csv",
    '{\n    "apiVersion": "v1",\n    "items": [\n        {"kind": "Pod"}]}\n': "kubectl.* with jq",
    '{"kind": "PodList", "items": []}\n': "kubectl.* with jq",
}


@pytest.mark.parametrize("name", ["slurm", "swf", "pbs", "lsf", "grid_engine", "condor", "cobalt",
                                  "batsim"])  # fmt: skip
def test_a_file_of_nothing_but_a_control_character_is_refused(name, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\x01\n")
    with pytest.raises(TraceError, match=r"log\.csv: .* expected "):
        FORMATS[name].reading(path, None)


@pytest.mark.parametrize("form", ["an object a line", "an array"])
def test_half_of_a_surrogate_pair_costs_its_job_alone(form, tmp_path):
    job = {"JobStatus": 4, "QDate": 1709280000, "JobStartDate": 1709280010, "RequestCpus": 1,
           "CompletionDate": 1709280100, "ProcId": 0}  # fmt: skip
    jobs = [{**job, "ClusterId": n, "Owner": name} for n, name in enumerate(("a", "\ud800", "b"))]
    path = tmp_path / "log.json"
    path.write_text("\n".join(map(json.dumps, jobs)) if "line" in form else json.dumps(jobs))
    workload, quarantine = FORMATS["condor"].reading(path, None)
    assert workload.tasks.height == 2
    assert "half of a surrogate pair" in quarantine["reason"].item()


def test_an_object_nested_too_deeply_costs_its_record_alone():
    """Python reads a few levels more than it writes, and what it reads is written to be checked."""
    for levels in range(900, 1000):
        deep = '{"a":' * levels + '"\\ud83d\\ude00"' + "}" * levels
        found = [of for _, of in json_objects(f"[{deep},\n" + '{"b": 1}]')]
        assert found[-1] == {"b": 1}, levels


def test_half_of_a_surrogate_pair_is_refused_in_a_whole_document(tmp_path):
    rows = [{"id": n, "submit": n, "run": 9, "cores": 1, "user": "\ud800"} for n in range(3)]
    (tmp_path / "jobs.json").write_text(json.dumps(rows))
    with pytest.raises(TraceError, match=r"cannot be read \(half of a surrogate pair\)"):
        propose(tmp_path / "jobs.json")


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_is_named_with_the_log_to_give(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    for look in (recognise, propose):
        with pytest.raises(TraceError, match=UNREADABLE[text]):
            look(path)


def many(write, key, n=12) -> bytes:
    return "".join(write(**{key: str(i)}) + "\n" for i in range(1, n + 1)).encode()


LOGS = {
    "pbs": [b"".join(b"day:" + test_pbs.record(str(i)).encode() + b"\n" for i in range(12))],
    "swf": [(test_swf.HEADER + "\n".join(test_swf.row(i) for i in range(1, 13))).encode()],
    "grid_engine": [many(w, "job_number") for w in test_grid_engine.WRITERS.values()],
    "lsf": [many(test_lsf.new, "job"), many(test_lsf.old, "job")],
    "condor": [w(test_condor.JOBS).encode() for w in test_condor.WRITERS],
    "cobalt": [test_cobalt.HEADER.encode() + b"\n" + many(test_cobalt.row, "COBALT_JOBID")],
    "batsim": ["\n".join([test_batsim.HEADER, *test_batsim.RESULT]).encode()],
}
QUICK, MANY = 3, 60  # damaged logs of each content


def damaged(text: bytes, rng: np.random.Generator) -> bytes:
    """Return a log with up to four faults: bytes lost, added or twice, lines cut or exchanged."""
    for _ in range(rng.integers(1, 5)):
        at, to = sorted(rng.integers(0, len(text) + 1, 2))
        piece = text[at : min(to, at + int(rng.integers(1, 200)))]
        fault = rng.integers(6)
        if fault == 0:
            text = text[:at] + text[at + len(piece) :]
        elif fault == 1:
            text = text[:at] + bytes(rng.integers(1, 256, 1 + int(rng.integers(8)))) + text[at:]
        elif fault == 2:
            text = text[:to] + piece + text[to:]
        elif fault == 3:
            text = text[:at] + b"\n" + text[at:]
        elif fault == 4:
            lines = text.split(b"\n")
            rng.shuffle(lines)
            text = b"\n".join(lines)
        else:
            text = text[: max(at, len(text) // 2)]
    return text


@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize(
    "times",
    [pytest.param(QUICK, marks=pytest.mark.slow), pytest.param(MANY, marks=pytest.mark.nightly)],
)
def test_damaged_logs_give_no_traceback_and_every_row_is_accounted_for(tmp_path, form, times):
    rng = np.random.default_rng(times)
    path = tmp_path / "log"
    refusals = []
    for text in LOGS[form]:
        for nth in range(times):
            content = damaged(text, rng)
            path.write_bytes(gzip.compress(content, mtime=0) if nth % 7 == 0 else content)
            try:
                load, quarantine = FORMATS[form].reading(path)
            except TraceError as error:
                refusals.append(str(error))
                continue
            provenance = load.provenance
            left_out = sum(provenance.left_out.values())
            assert load.tasks.height + left_out == provenance.counts["rows_read"]
            assert quarantine.height == provenance.left_out.get("quarantined", 0)
    assert all(str(path) in refusal for refusal in refusals)
