"""Small logs with a fault each, as sites have them: the right value, or the right refusal.

The expected values are those of the table that comes with the logs; each log of the folder has an
entry. Pages of some of them are in tests/flows/test_whatif_faulty_logs.py.
"""

import csv
import io

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.tables.proposal import propose
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads import log_caveats as lc
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.log_names import names_of
from tests.pipeline.whatif.records import beside_traces

HEADER = (
    "JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,"
    "ReqCPUS,AllocCPUS,ReqNodes,ReqMem,ReqTRES,AllocTRES"
)


class Log:
    """A log of the folder: its text, and what the commands say of it."""

    def __init__(self, path, tmp_path, capsys):
        self.path, self.tmp_path, self.capsys = path, tmp_path, capsys
        self.text = path.read_text()

    def command(self, *words):
        """Run a command; return its exit code, and all that it prints."""
        code = main([str(word) for word in words])
        told = self.capsys.readouterr()
        return code, f"{told.out}\n{told.err}"

    def read(self, *settings, path=None, form=None, code=0):
        """Ingest the log; return its workload, the codes of its caveats, and what is printed."""
        if not path and not form and self.path.suffix != ".toml":
            with pytest.raises(TraceError, match="needs no mapping"):
                propose(self.path)
        path, out = path or self.path, self.tmp_path / "workload"
        options = [word for each in settings for word in ("--set", each)]
        found, told = self.command("ingest", form or recognise(path), path, "--out", out, *options)
        assert found == code, told
        workload = load_workload(out)
        assert not workload.provenance.left_out.get("quarantined"), told
        return workload, {caveat.code for caveat in lc.log_caveats(workload)}, told

    def mapped(self):
        """Propose a mapping, and ingest by it; return also what `init` says."""
        out = self.tmp_path / "mapping.toml"
        code, told = self.command("init", self.path, "--out", out)
        assert code == 0, told
        return *self.read(path=out, form="table")[:2], told

    def rows(self):
        """Return the rows of a table with a header."""
        return list(csv.DictReader(io.StringIO(self.text)))


def first(workload, **values):
    """Assert the values of the first job."""
    task = workload.tasks.row(0, named=True)
    assert {name: task[name] for name in values} == values


def no_header(log):
    code, told = log.command("ingest", "slurm", log.path, "--out", log.tmp_path / "w")
    assert code == 2
    assert "as with `sacct -n` (no header)" in told
    assert f"--set columns={HEADER}" in told
    assert recognise(log.path) == "slurm"
    with pytest.raises(TraceError, match=r"as with `sacct -n`.*--set columns=JobID,User,"):
        propose(log.path)
    workload, _, _ = log.read(f"columns={HEADER}", form="slurm")
    assert workload.tasks.height == 60
    first(workload, cores=1, requested_s=14_040)
    assert workload.tasks["duration_s"].to_list() == [
        float(line.split("|")[10]) for line in log.text.splitlines()
    ]


def without_p(log):
    for words in (("init", log.path, "--out", log.tmp_path / "m.toml"),
                  ("ingest", "slurm", log.path, "--out", log.tmp_path / "w")):  # fmt: skip
        code, told = log.command(*words)
        assert code == 2
        assert "without -P" in told
        assert "SWF" not in told.replace("a log of jobs: SWF", "")
    assert not (log.tmp_path / "w").exists()
    for look in (recognise, propose):
        with pytest.raises(TraceError, match="printed without -P") as error:
            look(log.path)
        assert "SWF" not in str(error.value)


def saved_by_pandas(log):
    workload, _, _ = log.read(form="slurm")
    wanted = [float(row["TimelimitRaw"]) * 60 for row in log.rows()]
    assert workload.tasks["requested_s"].to_list() == wanted
    assert len(wanted) == 60
    first(workload, requested_s=234 * 60, memory_mib=4096)


def two_clusters(log):
    workload, codes, told = log.read()
    assert workload.tasks.height == 120
    assert lc.CLUSTERS_POOLED in codes
    assert "warning: 2 clusters are pooled as one machine" in told
    assert "beta 50% of the jobs and 54% of the work, alpha 50%" in told
    one, codes, _ = log.read("cluster=alpha")
    assert one.tasks.height == 60
    assert one.provenance.left_out == {"a job of another cluster": 60}
    first(one, cluster=1)
    assert lc.CLUSTERS_POOLED not in codes
    words = ("ingest", "slurm", log.path, "--out", log.tmp_path / "w", "--set", "cluster=alpah")
    code, told = log.command(*words)
    assert code == 2
    assert "did you mean 'alpha'" in told


def memory_per_node(log):
    workload, _, _ = log.read()
    assert set(workload.tasks["memory_kb"]) == {512 * 1024.0}  # of 64 cores on 8 nodes of 4 GB
    assert set(workload.tasks["memory_mib"]) == {8 * 4096.0}
    first(workload, nodes=8)


def limits_missing(log):
    workload, codes, told = log.read()
    missing = sum(line.split("|")[11] == "" for line in log.text.splitlines()[1:])
    assert missing == 40
    assert "warning: no time limit is known for 40 jobs (67% of them, 78% of the work)" in told
    assert cv.NO_LIMITS in codes
    assert workload.tasks["request_unknown"].sum() == 40


def gpus(log):
    workload, codes, told = log.read()
    assert lc.GPUS in codes
    assert "warning: 30 jobs (50% of them, 64% of the work) held GPUs" in told
    assert workload.tasks["gpus"].sum() == workload.tasks["gpus:a100"].sum() == 120
    first(workload, gpus=0, **{"gpus:a100": 0})


def tres_numbers(log):
    workload, _, _ = log.read()
    lines = [line.split("|")[-1] for line in log.text.splitlines()[1:]]
    wanted = [float(line.split(",")[0].removeprefix("1=")) for line in lines]
    assert workload.tasks["cores"].to_list() == wanted
    assert set(workload.tasks["memory_mib"]) == {4096.0}
    assert set(workload.tasks["nodes"]) == {1}


def clocks_repeat(log):
    workload, _, told = log.read('time_zone="Europe/Berlin"')
    rows = {row["job_id"]: row for row in workload.tasks.rows(named=True)}
    assert rows["5000"]["duration_s"] == 1200
    assert rows["5002"]["wait_s"] == 240
    first(workload, wait_s=4000)
    assert workload.tasks.height == len(log.text.splitlines()) - 1
    assert "quarantined" not in told


def offsets(log):
    workload, _, told = log.read()
    assert workload.tasks.height == 60
    assert "offset from UTC" not in "\n".join([told, *workload.provenance.notes])


def runaway(log):
    workload, codes, told = log.read()
    assert "runaways" in codes
    tasks = workload.tasks
    assert (tasks["duration_s"] > 100 * tasks["requested_s"]).sum() == 1
    assert "ran longer than the 7.5 h in which jobs were submitted, job 9000 for 400 days" in told
    assert "2,462 times its limit" in told


def names_with_separators(log):
    workload, codes, _ = log.read()
    assert workload.tasks.height == 60
    assert workload.tasks["job_id"].to_list() == [str(1000 + n) for n in range(60)]
    first(workload, cores=1, executable=1)
    assert lc.QUARANTINED not in codes


def eligible_later(log):
    workload, codes, told = log.read("processors=64")
    tasks = workload.tasks
    assert (tasks["submit_s"] + tasks["wait_s"] == tasks["eligible_s"]).all()
    assert tasks["wait_s"].mean() == 3 * 3600
    assert set(names_of(workload, "partition").values()) == {"cpu", "gpu"}
    assert lc.PARTITIONS_POOLED in codes
    assert "cpu 67% of the jobs and 67% of the work, gpu 33%" in told


def machine(processors):
    def check(log):
        workload, codes, told = log.read()
        assert workload.machines["cores"].to_list() == [processors]
        assert (workload.tasks["cores"] >= 1).all()
        assert workload.tasks.height == 100
        guessed = log.path.name == "32-maxnodes-only.swf"
        assert (cv.NO_CLUSTER_SIZE in codes) == guessed
        assert ("nodes are not processors, and 128 is the largest job" in told) == guessed

    return check


def size_unknown(log):
    machine(128)(log)
    workload, _, _ = log.read("processors=256")
    assert workload.machines["cores"].to_list() == [256.0]


def more_fields(log):
    code, told = log.command("ingest", "swf", log.path, "--out", log.tmp_path / "w")
    assert code == 2
    assert "28 fields, expected 18; with `--set further_fields=true`" in told
    assert log.read("further_fields=true")[0].tasks.height == 100


def half_of_the_waits(log):
    workload, codes, told = log.read()
    known = workload.tasks["wait_s"].drop_nulls()
    assert (workload.tasks.height, len(known), known.mean()) == (800, 400, 3600)
    assert workload.machines["cores"].to_list() == [128]
    assert lc.UNKNOWN_WAITS in codes
    assert "warning: the start of 400 jobs (50% of them, 50% of the work) is unknown" in told


def no_requests(log):
    workload, codes, told = log.read()
    assert cv.NO_LIMITS in codes
    assert f"warning: {cv.NO_REQUESTS}" in told
    assert workload.tasks.height == 900
    assert workload.machines["cores"].to_list() == [96]
    assert workload.tasks["requested_s"].equals(workload.tasks["duration_s"])


def slurmdbd(log):
    workload, _, told = log.mapped()
    rows = log.rows()
    assert workload.tasks["status"].to_list() == [
        {"3": 1, "4": 5}.get(row["state"], 0) for row in rows
    ]
    limits = [int(row["timelimit"]) for row in rows]
    longest = max(limit for limit in limits if limit != 4_294_967_295) * 60
    wanted = [
        float(max(longest, int(row["time_end"]) - int(row["time_start"])))
        if limit == 4_294_967_295
        else limit * 60.0
        for row, limit in zip(rows, limits, strict=True)
    ]
    assert workload.tasks["requested_s"].to_list() == wanted
    assert workload.tasks["wait_s"].to_list() == [
        float(row["time_start"]) - float(row["time_submit"]) for row in rows
    ]
    assert "time_limit       timelimit (min)" in told
    assert all(f"time_{name}" in told for name in ("submit", "start", "end"))


def states_by_number(log):
    workload, codes, _ = log.mapped()
    rows = log.rows()
    assert workload.tasks["status"].to_list() == [
        {"3": 1, "4": 5}.get(row["state"], 0) for row in rows
    ]
    assert lc.QUARANTINED not in codes


def limit_in_minutes(log):
    workload, codes, told = log.mapped()
    assert workload.tasks["requested_s"].to_list() == [
        60.0 * float(row["time_limit"]) for row in log.rows()
    ]
    assert lc.LIMITS_EXCEEDED not in codes
    assert "time_limit       time_limit (min)" in told
    assert "since in s 76% of the jobs would run longer than their limit" in told
    mapping = log.tmp_path / "mapping.toml"
    mapping.write_text(mapping.read_text().replace('time_limit = "min"', 'time_limit = "s"'))
    told = log.read(path=mapping, form="table")[2]
    assert "ran longer than it: is the limit in minutes?" in told


def queue_is_a_wait(log):
    workload, _, told = log.mapped()
    assert "unsure: " in told
    assert "'queue' looks like queue by its name" in told
    assert "432 different numbers in 450 rows" in told
    assert len(names_of(workload, "queue")) < 10
    mapping = log.tmp_path / "mapping.toml"
    text = mapping.read_text()
    assert "'queue' looks like queue by its name" in text
    assert 'queue = "vc"' in text.splitlines()
    text = text.replace("[columns]", '[columns]\nqueue = "queue"', 1)
    lines = [line for line in text.splitlines() if line != 'queue = "vc"']
    mapping.write_text("\n".join(lines))
    assert "queue has 432 values in 450 jobs" in log.read(path=mapping, form="table")[2]


def pods(log):
    workload, _, _ = log.mapped()
    rows = log.rows()
    assert workload.tasks["cores"].to_list() == [int(row["cpu_milli"]) / 1000 for row in rows]
    assert workload.tasks["job_id"].to_list() == [row["name"] for row in rows]
    assert workload.tasks["wait_s"].to_list() == [
        float(row["scheduled_time"]) - float(row["creation_time"]) for row in rows
    ]
    assert workload.tasks["duration_s"].to_list() == [
        float(row["deletion_time"]) - float(row["scheduled_time"]) for row in rows
    ]
    assert workload.tasks["memory_mib"].to_list() == [float(row["memory_mib"]) for row in rows]
    assert workload.tasks["gpus"].to_list() == [float(row["num_gpu"]) for row in rows]


def table_without_size(log):
    code, told = log.command("init", log.path, "--out", log.tmp_path / "m.toml")
    assert code == 0
    assert "submit           timestamp" in told
    assert "no column was found for cores, which is needed" in told
    assert "cores " not in told.split("unsure")[0]
    assert 'to play the GPUs as the machine, write cores = "num_gpus"' in told
    with pytest.raises(TraceError, match=r"columns\.cores is missing"):
        FORMATS["table"].reading(log.tmp_path / "m.toml")


def no_starts_and_no_size(log):
    _, codes, told = log.read()
    assert {cv.NO_CLUSTER_SIZE, cv.NO_WAIT_TIMES, cv.NO_LIMITS} <= codes
    assert "16 is the largest job" in told
    assert "no wait time is known" in told
    assert {cv.NO_CLUSTER_SIZE, cv.NO_WAIT_TIMES, cv.NO_LIMITS} <= lc.DISQUALIFYING.keys()


def of_other_systems(form, jobs=60):
    def check(log):
        assert recognise(log.path) == form
        workload, _, _ = log.read()
        assert workload.tasks.height == jobs
        assert (workload.tasks["cores"] >= 1).all()
        if jobs == 60:  # waits count from the creation of the job
            assert workload.tasks["wait_s"].mean() == pytest.approx(1074.25, abs=0.01)
        else:
            first(workload, requested_s=14_400, duration_s=6972, wait_s=4000)

    return check


RIGHT = {
    "01-noheader.txt": no_header,
    "02-without-P.txt": without_p,
    "04-saved-by-pandas.csv": saved_by_pandas,
    "05-two-clusters.txt": two_clusters,
    "06-nnodes-reqmem-n.txt": memory_per_node,
    "07-limits-missing-in-two-thirds.txt": limits_missing,
    "09-gpus.txt": gpus,
    "10-tres-numbers.txt": tres_numbers,
    "11-clocks-repeat.txt": clocks_repeat,
    "13-offsets.txt": offsets,
    "14-runaway.txt": runaway,
    "15-blank-in-name.txt": names_with_separators,
    "16-eligible-later-and-partitions.txt": eligible_later,
    "20-grep-prefix.log": of_other_systems("pbs"),
    "21-moved-between-queues.log": of_other_systems("pbs"),
    "30-maxprocs-comma.swf": machine(1024.0),
    "32-maxnodes-only.swf": machine(128.0),
    "33-maxprocs-unknown.swf": size_unknown,
    "35-more-fields.swf": more_fields,
    "36-waits-half-unknown.swf": half_of_the_waits,
    "37-no-requested-times.swf": no_requests,
    "40-slurmdb.csv": slurmdbd,
    "41-slurm-state-numbers.csv": states_by_number,
    "42-limit-in-minutes.csv": limit_in_minutes,
    "44-queue-is-a-wait.csv": queue_is_a_wait,
    "46-pods.csv": pods,
    "48-no-starts-no-size.csv": table_without_size,
    "48-no-starts-no-size.toml": no_starts_and_no_size,
    "60-lsb.acct": of_other_systems("lsf"),
    "61-sge-accounting": of_other_systems("grid_engine"),
    "62-slurm-json.json": of_other_systems("slurm", 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_small_log_gives_the_right_value_or_the_right_refusal(name, tmp_path, capsys):
    RIGHT[name](Log(beside_traces(f"cases/logs/{name}"), tmp_path, capsys))


@pytest.mark.slow
def test_logs_of_the_same_jobs_by_three_batch_systems_give_the_same_times():
    logs = []
    for name in ("20-grep-prefix.log", "60-lsb.acct", "61-sge-accounting"):
        path = beside_traces(f"cases/logs/{name}")
        logs.append(FORMATS[recognise(path)].reading(path)[0].tasks.select(
            "submit_s", "duration_s", "cores", "wait_s", "status"))  # fmt: skip
    assert all(log.equals(logs[0]) for log in logs[1:])


def test_each_small_log_has_an_expected_value():
    files = {path.name for path in beside_traces("cases/logs").iterdir() if path.is_file()}
    assert {name for name in files if not name.endswith(".md")} <= RIGHT.keys()
