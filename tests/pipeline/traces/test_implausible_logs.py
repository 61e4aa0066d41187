"""Logs of several dialects with faults that are warned of, two or more of each kind."""

import dataclasses
import re

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads import log_caveats as lc
from hindcast.pipeline.workloads import log_units as lu
from hindcast.pipeline.workloads.folder import load_workload
from tests.pipeline.traces.dialects import DIALECTS, made_jobs, written

JOBS = 120


def every(n, **changes):
    """Return a change of each n-th job; a value is one, or a function of the job."""

    def change(jobs):
        return [
            job
            if k % n
            else dataclasses.replace(
                job, **{name: v(job) if callable(v) else v for name, v in changes.items()}
            )
            for k, job in enumerate(jobs)
        ]

    return change


def replaced(pattern, text, share=1.0):
    """Return a change of the written lines: a share of the matches is replaced."""

    def change(content):
        rng = np.random.default_rng(0)
        return re.sub(
            pattern,
            lambda match: match.expand(text) if rng.random() < share else match[0],
            content,
            flags=re.MULTILINE,
        )

    return change


def scaled(pattern, factor):
    """Return a change that multiplies the number behind a pattern."""
    return lambda text: re.sub(
        rf"({pattern})(\d+(?:\.\d+)?)", lambda m: f"{m[1]}{round(float(m[2]) * factor)}", text
    )


def column(name, value):
    """Return a change of a column of a CSV table; `value` is a function of its row number."""

    def change(text):
        head, *rows = text.splitlines()
        place = head.split(",").index(name)
        lines = [head]
        for n, row in enumerate(rows):
            fields = row.split(",")
            fields[place] = str(value(n, fields[place]))
            lines.append(",".join(fields))
        return "\n".join(lines) + "\n"

    return change


SAME = list
# kind -> dialect, change of the jobs, change of the text, code, and a part of the warning
FAULTS = {
    "limits of a third missing, HTCondor": (
        "HTCondor", SAME, replaced(r"^AllowedJobDuration.*\n", "", 0.33), cv.NO_LIMITS,
        "no time limit is known for"),
    "limits of a third missing, Grid Engine": (
        "Grid Engine", SAME, replaced(r"h_rt=\d+,", "", 0.33), cv.NO_LIMITS,
        "no time limit is known for"),
    "limits of a few missing, SWF": (
        "SWF", SAME, replaced(r"^((?:\S+ ){8})\d+", r"\1-1", 0.02), "some_requests_are_run_times",
        "no time limit is known for"),
    "no limits, PBS": (
        "PBS", SAME, replaced(r"Resource_List\.walltime=\S+ ", ""), cv.NO_LIMITS,
        "rules that read it know how long jobs run"),
    "no limits, table": (
        "table", SAME, column("limit", lambda _, __: ""), cv.NO_LIMITS,
        "rules that read it know how long jobs run"),
    "GPUs of few jobs, PBS": (
        "PBS", every(120, gpus=4, gpu_type="a100", nodes=1, cores=1, run=1),
        str, "some_gpus", "1 job (0.8% of them"),
    "GPUs, LSF": ("LSF", every(2, gpus=lambda job: 2 * job.nodes, gpu_type="h100"), str, lc.GPUS,
                  "held GPUs, for"),
    "GPUs, table": ("table", every(3, gpus=3), str, lc.GPUS, "held GPUs, for"),
    "runaway, SWF": ("SWF", every(120, run=500 * 86_400), str, "runaways",
                     "job 1000 for 500 days"),
    "runaways, LSF": ("LSF", every(50, run=300 * 86_400), str, "runaways", "3 jobs (2.5% of them"),
    "runaway without limit, Grid Engine": (
        "Grid Engine", every(120, run=90 * 86_400), replaced(r"h_rt=\d+,", ""), "runaways",
        "job 1000 for 90 days"),
    "nodes for processors, SWF": (
        "SWF", SAME, replaced("MaxProcs: 4096", "MaxNodes: 2"), cv.NO_CLUSTER_SIZE,
        "jobs are wider than its MaxNodes, 2: nodes are not processors"),
    "nodes for processors, a tenth wider": (
        "SWF", lambda jobs: every(9, cores=48, nodes=1)(every(1, cores=4, nodes=1)(jobs)),
        replaced("MaxProcs: 4096", "MaxNodes: 16"), cv.NO_CLUSTER_SIZE, "and 48 is the largest"),
    "a tenth of the starts unknown, SWF": (
        "SWF", SAME, replaced(r"^(\d+ \d+) \d+", r"\1 -1", 0.15), lc.UNKNOWN_WAITS,
        "count in no recorded wait"),
    "few starts unknown, SWF": (
        "SWF", every(1, run=600, cores=1, nodes=1, limit=600),
        replaced(r"^(\d+ \d+) \d+", r"\1 -1", 0.03), "some_unknown_waits",
        "count in no recorded wait"),
    "submissions of another zone, PBS": (
        "PBS", every(1, submit=lambda job: job.submit + 10**6), str, cv.NO_WAIT_TIMES,
        "120 starts are before their submissions"),
    "some submissions of another zone, Grid Engine": (
        "Grid Engine", every(5, submit=lambda job: job.submit + 10**6), str, lc.UNKNOWN_WAITS,
        "24 since it is before the submission: are both in one unit and time zone?"),
    "limits in minutes, LSF CSV": (
        "LSF, CSV", SAME, column("runLimit", lambda _, s: float(s) / 60), lc.LIMITS_EXCEEDED,
        "is the limit in minutes?"),
    "limits in hours, HTCondor": (
        "HTCondor", SAME, scaled("AllowedJobDuration = ", 1 / 3600), lc.LIMITS_EXCEEDED,
        "is the limit in hours?"),
    "limits in seconds, sacct": (
        "sacct -P", every(2, limit=lambda job: 60 * max(1, job.run // 55)),
        lambda text: "\n".join(_slurm_limit(line) for line in text.splitlines()),
        lc.LIMITS_FAR, "is the limit in seconds, or the run time in minutes?"),
    "run times in milliseconds, table": (
        "table with run times", SAME, column("run", lambda _, s: int(s) * 1000), cv.RUNS_AND_ENDS,
        "is the run time in milliseconds?"),
    "run times in minutes, table": (
        "table with run times", SAME, column("run", lambda _, s: int(s) / 60), cv.RUNS_AND_ENDS,
        "is the run time in minutes?"),
    "processors in thousandths, table": (
        "table", SAME, column("cores", lambda _, s: int(s) * 1000), lc.CORE_UNIT,
        "are they in thousandths of a processor?"),
    "processors in hundredths, Grid Engine": (
        "Grid Engine", SAME, replaced(r":mpi:(\d+):0:", r":mpi:\g<1>00:0:"), lc.CORE_UNIT,
        "are they in hundredths of a processor?"),
    "memory in bytes, table": (
        "table", every(1, memory=2**25), str, lu.MEMORY_UNIT,
        "is it in bytes?"),
    "a queue for each job, table": (
        "table", SAME, column("queue", lambda n, _: f"q{n}"), lu.TOO_MANY_NAMES,
        "queue has 120 values in 120 jobs"),
    "a user for each job, HTCondor": (
        "HTCondor", SAME, replaced(r'^(ClusterId = (\d+)\n(?:.*\n)*?Owner = )".*"', r'\1"u\2"'),
        lu.TOO_MANY_NAMES, "user has 120 values in 120 jobs"),
}  # fmt: skip


def _slurm_limit(line):
    """Write the limit in s where Slurm has minutes."""
    fields = line.split("|")
    if fields[12].isdigit():
        fields[12] = str(int(fields[12]) * 60)
    return "|".join(fields)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_warned_of_and_the_sound_log_is_not(fault, tmp_path, capsys):
    name, of_jobs, of_text, code, said = FAULTS[fault]
    dialect = DIALECTS[name.removesuffix(" with run times")]
    jobs = every(1, gpus=0, gpu_type="")(made_jobs(np.random.default_rng(11), JOBS))
    for log, change, edit in (("sound", list, str), ("faulty", of_jobs, of_text)):
        folder = tmp_path / log
        folder.mkdir()
        path = written(dialect, change(jobs), folder)
        data = path if path.suffix != ".toml" else folder / "jobs.csv"
        data.write_text(edit(data.read_text()))
        if name.endswith("with run times"):
            mapping = path.read_text().replace("[columns]", '[columns]\nduration = "run"')
            path.write_text(mapping)
        words = ["ingest", dialect.form, str(path), "--out", str(folder / "out")]
        assert main(words) == 0
        told = capsys.readouterr().err
        workload_codes = {c.code for c in lc.log_caveats(load_workload(folder / "out"))}
        assert (code in workload_codes) == (log == "faulty"), told
        assert (said in told) == (log == "faulty"), told


@pytest.mark.slow
@pytest.mark.parametrize("names", [("north", "south"), ("a", "b", "c")])
@pytest.mark.parametrize("form", ["slurm", "table"])
def test_several_clusters_are_pooled_only_with_a_warning(form, names, tmp_path, capsys):
    dialect = DIALECTS["sacct -P" if form == "slurm" else "table"]
    path = written(dialect, made_jobs(np.random.default_rng(2), 30), tmp_path)
    data = path if form == "slurm" else tmp_path / "jobs.csv"
    sign = "|" if form == "slurm" else ","
    lines = [
        f"{'Cluster' if not n else names[n % len(names)]}{sign}{line}"
        for n, line in enumerate(data.read_text().splitlines())
    ]
    data.write_text("\n".join(lines) + "\n")
    if form == "table":
        path.write_text(path.read_text().replace("[columns]", '[columns]\ncluster = "Cluster"'))
    assert main(["ingest", form, str(path), "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err
    assert f"warning: {len(names)} clusters are pooled as one machine: " in told
    if form == "slurm":
        words = ["ingest", form, str(path), "--out", str(tmp_path / "one")]
        assert main([*words, "--set", f"cluster={names[0]!r}"]) == 0
        assert "pooled" not in capsys.readouterr().err


@pytest.mark.parametrize(("bad", "code"), [(2, 0), (10, 0), (31, 1)])
def test_a_log_of_which_most_rows_are_unread_ends_with_exit_code_1(bad, code, tmp_path, capsys):
    """Of 60 rows; above a twentieth with a warning, and the workload is written all the same."""
    dialect = DIALECTS["SWF"]
    path = written(dialect, made_jobs(np.random.default_rng(2), 60), tmp_path)
    head, *rows = path.read_text().splitlines()
    path.write_text(
        "\n".join([head, *(f"x{row}" if 0 < n <= bad else row for n, row in enumerate(rows))])
    )
    assert main(["ingest", "swf", str(path), "--out", str(tmp_path / "out")]) == code
    told = capsys.readouterr().err
    assert (f"warning: {bad} of 60 rows of jobs" in told) == (bad > 3)
    assert (tmp_path / "out" / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("bad", "code"), [(10, 0), (40, 1)])
def test_init_reads_the_table_that_it_maps(bad, code, tmp_path, capsys):
    """Of 60 rows; the mapping is written all the same."""
    dialect = DIALECTS["table"]
    written(dialect, made_jobs(np.random.default_rng(2), 60), tmp_path)
    data, mapping = tmp_path / "jobs.csv", tmp_path / "mapping.toml"
    data.write_text(column("cores", lambda n, cores: -1 if n < bad else cores)(data.read_text()))
    assert main(["init", str(data), "--out", str(mapping)]) == code
    assert f"warning: {bad} of 60 rows of jobs" in capsys.readouterr().err
    assert mapping.is_file()
