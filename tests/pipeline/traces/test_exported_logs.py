"""Logs as the commands of docs/how-to/export-a-log.md write them."""

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.workloads.folder import load_workload
from tests.pipeline.traces.dialects import DIALECTS, FIRST, iso, made_jobs, slurm, truth

PAGE = (Path(__file__).parents[3] / "docs/how-to/export-a-log.md").read_text("utf-8")


def command(name):
    """Return the block of commands of a section, and the format that it ingests."""
    block = re.search(rf"## {name}\n.*?```text\n(.*?)```", PAGE, re.DOTALL)[1]
    return block, re.search(r"hindcast ingest (\w+) (\S+)", block).groups()


def ingested(form, path, tmp_path, *options):
    out = tmp_path / "workload"
    assert main(["ingest", form, str(path), "--out", str(out), *options]) == 0
    return load_workload(out)


def same(workload, jobs, *columns):
    wanted = truth(jobs)
    for column in columns:
        assert workload.tasks[column].to_list() == wanted[column].to_list(), column


USUAL = ("submit_s", "wait_s", "duration_s", "requested_s", "cores", "gpus", "memory_mib")


@pytest.mark.slow
def test_the_command_of_slurm_gives_all_that_the_reader_wants(tmp_path):
    block, (form, file) = command("Slurm")
    names = re.search(r"--format=(\S+)", block)[1].split(",")
    jobs = made_jobs(np.random.default_rng(4), 40)
    printed = list(csv.DictReader(slurm(jobs)["jobs.txt"].splitlines(), delimiter="|"))
    lines = ["|".join(names)]
    lines += ["|".join({"Cluster": "one", **row}[name] for name in names) for row in printed]
    (tmp_path / file).write_text("\n".join(lines) + "\n")
    workload = ingested(form, tmp_path / file, tmp_path)
    same(workload, jobs, *USUAL, "eligible_s", "nodes", "gpus:a100", "status")
    assert not [n for n in workload.provenance.notes if n.startswith("columns that are not read")]


@pytest.mark.slow
def test_a_folder_of_days_of_pbs_is_one_log(tmp_path):
    _, (form, folder) = command("PBS")
    jobs = made_jobs(np.random.default_rng(5), 40)
    (tmp_path / folder).mkdir()
    for day, part in (("20240304", jobs[:15]), ("20240305", jobs[15:])):
        (tmp_path / folder / day).write_text(DIALECTS["PBS"].write(part)["20240304"])
    workload = ingested(form, tmp_path / folder, tmp_path)
    same(workload, jobs, *USUAL, "eligible_s", "nodes")


@pytest.mark.parametrize(
    ("system", "dialect"),
    [("Grid Engine", "Grid Engine"), ("HTCondor", "condor_history -json")],
)
def test_the_file_of_a_scheduler_is_read_by_the_command(system, dialect, tmp_path):
    _, (form, file) = command(system)
    of, jobs = DIALECTS[dialect], made_jobs(np.random.default_rng(6), 40)
    assert (form, file) == (of.form, of.file)
    (tmp_path / file).write_text(of.write(jobs)[file])
    same(ingested(form, tmp_path / file, tmp_path), jobs, *USUAL)


def test_older_parts_of_the_log_of_lsf_are_in_the_folder(tmp_path):
    _, (form, folder) = command("LSF")
    jobs = made_jobs(np.random.default_rng(7), 40)
    (tmp_path / folder).mkdir()
    for name, part in (("lsb.acct.1", jobs[:15]), ("lsb.acct", jobs[15:])):
        (tmp_path / folder / name).write_text(DIALECTS["LSF"].write(part)["lsb.acct"])
    same(ingested(form, tmp_path / folder, tmp_path), jobs, *USUAL, "nodes")


def pod(n, rng):
    """Return a pod as kubectl prints it, and the row that it should give."""
    at = FIRST + 60 * n
    scheduled, ended = at + int(rng.integers(0, 9)), at + 60 + int(rng.integers(0, 900))
    asked = [
        {"cpu": "500m", "memory": "128Mi"},
        {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
        {"cpu": "1500m", "memory": "1073741824"},
        None,
    ]
    cores, mib, gpus = ((0.5, 128, 0), (2, 1024, 1), (1.5, 1024, 0), (0, 0, 0))[n % 4]
    resources = [{"requests": asked[n % 4]} if asked[n % 4] else {}, {"requests": asked[0]}]
    done = [{"state": {"terminated": {"finishedAt": iso(end) + "Z"}}} for end in (ended, ended - 5)]
    found = {
        "metadata": {"name": f"p{n}", "namespace": f"team{n % 3}",
                     "creationTimestamp": iso(at) + "Z"},
        "spec": {"containers": [{"name": "c", "resources": r} for r in resources]},
        "status": {
            "phase": ("Succeeded", "Failed")[n % 5 == 4], "containerStatuses": done,
            "conditions": [
                {"type": "Ready", "lastTransitionTime": iso(ended) + "Z"},
                {"type": "PodScheduled", "lastTransitionTime": iso(scheduled) + "Z"},
            ],
        },
    }  # fmt: skip
    return found, (cores + 0.5, mib + 128, gpus, scheduled - at, ended - scheduled)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_finished_pods_of_kubernetes_become_a_table(tmp_path):
    """The program of the page runs; a pod that still runs is left out."""
    block, (form, mapping) = command("Kubernetes")
    rng = np.random.default_rng(8)
    pods, rows = zip(*(pod(n, rng) for n in range(60)), strict=True)
    running = {**pods[0], "status": {"phase": "Running"}}
    (tmp_path / "pods.json").write_text(json.dumps({"items": [running, *pods]}))
    program = block[block.index("jq -r") : block.index("hindcast init")]
    subprocess.run(["bash", "-c", program], cwd=tmp_path, check=True)
    assert main(["init", str(tmp_path / "pods.csv")]) == 0
    workload = ingested(form, tmp_path / mapping, tmp_path)
    tasks = workload.tasks
    found = tasks.select("cores", "memory_mib", "gpus", "wait_s", "duration_s").rows()
    assert found == list(rows)
    assert tasks["job_id"].to_list() == [f"team{n % 3}/p{n}" for n in range(60)]
    assert tasks["user"].to_list() == [n % 3 + 1 for n in range(60)]
    assert tasks["status"].to_list() == [0 if n % 5 == 4 else 1 for n in range(60)]
