"""Logs of batch systems as sites have them: made inputs with the right values, and damaged logs."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.swf import SwfSettings
from hindcast.pipeline.traces.tables.proposal import propose
from tests.conftest import traces_folder
from tests.pipeline.traces import (
    test_batsim,
    test_cobalt,
    test_condor,
    test_grid_engine,
    test_lsf,
    test_pbs,
    test_swf,
)

CASES = traces_folder().parent / "cases" / "logs"
# File -> its format, jobs, mean wait in s, processors in use at most.
RIGHT = {
    "20-grep-prefix.log": ("pbs", 60, 1074.25, None),
    "21-moved-between-queues.log": ("pbs", 60, 1074.25, None),
    "30-maxprocs-comma.swf": ("swf", 100, None, 1024),
    "32-maxnodes-only.swf": ("swf", 100, None, 128),
    "33-maxprocs-unknown.swf": ("swf", 100, None, 128),
    "36-waits-half-unknown.swf": ("swf", 800, 3600, 128),
    "37-no-requested-times.swf": ("swf", 900, None, 96),
    "60-lsb.acct": ("lsf", 60, 1074.25, None),
    "61-sge-accounting": ("grid_engine", 60, 1074.25, None),
}


def case(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip(f"the folder of made inputs has no {name}")
    return CASES / name


@pytest.mark.parametrize("name", RIGHT)
def test_made_inputs_give_the_right_values(name):
    path = case(name)
    form, jobs, wait, processors = RIGHT[name]
    assert recognise(path) == form
    with pytest.raises(TraceError, match="needs no mapping"):
        propose(path)
    load, quarantine = FORMATS[form].reading(path)
    assert (load.tasks.height, quarantine.height) == (jobs, 0)
    if wait is not None:
        assert load.tasks["wait_s"].mean() == pytest.approx(wait, abs=0.01)
    if processors is not None:
        assert load.machines["cores"].to_list() == [processors]
    assert (load.tasks["cores"] >= 1).all()


def test_dialects_of_the_same_jobs_give_the_same_times():
    """The made logs of PBS, LSF and Grid Engine have the same jobs."""
    columns = ["submit_s", "duration_s", "cores", "wait_s", "status"]
    logs = [
        FORMATS[form].reading(case(name))[0].tasks.select(columns)
        for name, (form, *_) in RIGHT.items()
        if name.startswith(("20", "60", "61"))
    ]
    assert all(log.equals(logs[0]) for log in logs[1:])


def test_further_fields_of_a_made_input_need_the_setting():
    path = case("35-more-fields.swf")
    with pytest.raises(
        TraceError, match="28 fields, expected 18; with `--set further_fields=true`"
    ):
        FORMATS["swf"].reading(path)
    load, quarantine = FORMATS["swf"].reading(path, SwfSettings(further_fields=True))
    assert (load.tasks.height, quarantine.height) == (100, 0)
    fallback = FORMATS["swf"].reading(case("33-maxprocs-unknown.swf"), SwfSettings(processors=256))
    assert fallback[0].machines["cores"].to_list() == [256]


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
