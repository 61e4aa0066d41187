"""One made log of jobs, written as each batch system writes it.

A dialect says which fields of a job it holds. A field that it takes from another of the job, as the
group of Slurm's jobs from their account, is given with the name of that field.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from hindcast.pipeline.traces.batch_systems.grid_engine import GridEngineSettings
from hindcast.pipeline.traces.slurm import SlurmSettings

FIRST: Final = 1_709_539_200  # Monday, 4 March 2024, 08:00 UTC
BERLIN: Final = "Europe/Berlin"


@dataclass(frozen=True)
class Job:
    """A job that ran; times in s since 1970, spans in s, memory of the whole job in MiB."""

    job_id: int
    submit: int
    eligible: int
    start: int
    run: int
    limit: int
    cores: int
    nodes: int
    memory: int
    gpus: int
    gpu_type: str
    user: str
    group: str
    account: str
    queue: str
    executable: str
    status: int  # 1 completed, 0 failed, 5 cancelled while it ran

    @property
    def end(self) -> int:
        return self.start + self.run


def made_jobs(rng: np.random.Generator, n: int = 60) -> list[Job]:
    """Return jobs in order of submission, at least a second apart."""
    jobs, at = [], FIRST
    for k in range(n):
        at += 1 + int(rng.exponential(600))
        nodes = int(rng.integers(1, 5))
        cores = nodes * int(2 ** rng.integers(0, 5))
        eligible = at + (int(rng.integers(1, 9000)) if rng.random() < 0.2 else 0)
        run = 1 + int(rng.lognormal(7, 1.5))
        gpus = nodes * int(rng.integers(1, 5)) if rng.random() < 0.3 else 0
        jobs.append(Job(
            job_id=1000 + k, submit=at, eligible=eligible,
            start=eligible + int(rng.exponential(1000)), run=run,
            limit=60 * int(np.ceil(run * rng.uniform(1, 6) / 60)),
            cores=cores, nodes=nodes, memory=cores * 256 * int(rng.integers(1, 17)),
            gpus=gpus, gpu_type=("a100", "v100")[int(rng.integers(2))] if gpus else "",
            user=f"user{rng.zipf(1.5) % 20}", group=f"group{rng.integers(3)}",
            account=f"account{rng.integers(4)}", queue=f"queue{rng.integers(1, 3)}",
            executable=f"job{rng.integers(9)}", status=(1, 1, 1, 0, 5)[int(rng.integers(5))],
        ))  # fmt: skip
    return jobs


# Field -> columns of the workload that it determines.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "job_id": ("job_id",), "submit": ("submit_s",), "start": ("wait_s",), "run": ("duration_s",),
    "eligible": ("eligible_s",), "limit": ("requested_s",), "cores": ("cores",),
    "nodes": ("nodes",), "memory": ("memory_mib", "memory_kb"), "gpus": ("gpus",),
    "gpu_type": ("gpus:a100", "gpus:v100"), "status": ("status",),
}  # fmt: skip
NAMES: Final = ("user", "group", "account", "queue", "partition", "qos", "executable")
EVERY: Final = ("job_id", "submit", "start", "run", "limit", "cores", "status", "user", "queue")


def truth(jobs: Sequence[Job]) -> pl.DataFrame:
    """Return the columns of the workload that the jobs are; names as they are."""
    rows = pl.DataFrame([{**vars(job), "end": job.end} for job in jobs], infer_schema_length=None)
    real = {
        name: pl.col(name).cast(pl.Float64)
        for name in rows.columns
        if rows[name].dtype.is_numeric()
    }
    typed = {
        f"gpus:{kind}": pl.when(pl.col("gpu_type") == kind).then(real["gpus"]).otherwise(0.0)
        for kind in ("a100", "v100")
    }
    return rows.select(
        job_id=pl.col("job_id").cast(pl.String),
        submit_s=real["submit"] - rows["submit"][0],
        wait_s=real["start"] - real["submit"],
        duration_s=real["run"],
        eligible_s=real["eligible"] - rows["submit"][0],
        requested_s=real["limit"],
        cores=real["cores"],
        nodes=pl.col("nodes"),
        memory_mib=real["memory"],
        memory_kb=real["memory"] * 1024 / real["cores"],
        gpus=pl.col("gpus"),
        **typed,
        **{name: pl.col("queue" if name in {"partition", "qos"} else name) for name in NAMES},
        status=pl.col("status"),
    )


@dataclass(frozen=True)
class Dialect:
    """A way to write the log.

    Attributes:
        form: Name of the trace format that reads it.
        file: Name of the file to read.
        write: Function that returns the content of each file, by name.
        holds: Fields that it holds.
        taken: Field -> field of the job that it is taken from, where that is another.
        job_name: Format of the name of a job, with its number.
        settings: Settings of the reader.
        one_value: Whether the file is one value of JSON, which a damaged line spoils wholly.
    """

    form: str
    file: str
    write: Callable[[Sequence[Job]], Mapping[str, str | bytes]]
    holds: tuple[str, ...]
    taken: Mapping[str, str] = field(default_factory=dict)
    job_name: str = "{}"
    settings: Any = None
    one_value: bool = False


def written(dialect: Dialect, jobs: Sequence[Job], folder: Path) -> Path:
    """Write the log into a folder; return the file to read."""
    for name, content in dialect.write(jobs).items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder / dialect.file


def clock(seconds: int) -> str:
    """Return a span as D-HH:MM:SS or HH:MM:SS."""
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def iso(seconds: int, zone: str = "UTC") -> str:
    """Return a moment as local time without an offset."""
    local = datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone))
    return local.strftime("%Y-%m-%dT%H:%M:%S")


_SLURM_STATES: Final = {1: "COMPLETED", 0: "FAILED", 5: "CANCELLED by 0"}


def _tres(job: Job) -> str:
    gpus = f",gres/gpu={job.gpus},gres/gpu:{job.gpu_type}={job.gpus}" if job.gpus else ""
    return f"billing={job.cores},cpu={job.cores},mem={job.memory}M,node={job.nodes}{gpus}"


def _sacct(jobs: Sequence[Job], time: Callable[[int], str]) -> list[dict[str, object]]:
    return [
        {
            "JobID": job.job_id, "JobName": job.executable, "User": job.user,
            "Account": job.account, "Partition": job.queue, "QOS": job.queue,
            "State": _SLURM_STATES[job.status], "Submit": time(job.submit),
            "Eligible": time(job.eligible), "Start": time(job.start), "End": time(job.end),
            "ElapsedRaw": job.run, "TimelimitRaw": job.limit // 60, "ReqCPUS": job.cores,
            "AllocCPUS": job.cores, "NNodes": job.nodes, "ReqTRES": _tres(job),
            "AllocTRES": _tres(job),
        }
        for job in jobs
    ]  # fmt: skip


def slurm(jobs: Sequence[Job], time: Callable[[int], str] = str) -> dict[str, str]:
    rows = _sacct(jobs, time)
    lines = ["|".join(rows[0]), *("|".join(map(str, row.values())) for row in rows)]
    return {"jobs.txt": "\n".join(lines) + "\n"}


def slurm_csv(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the log as pandas saves it: with an index, and quotes around what has commas."""
    return {"jobs.csv": _csv([{"": n, **row} for n, row in enumerate(_sacct(jobs, iso))])}


def slurm_json(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the log as `sacct --json` prints it, numbers with their marks."""

    def resources(job: Job) -> list[dict[str, object]]:
        listed = [("cpu", "", job.cores), ("mem", "", job.memory), ("node", "", job.nodes)]
        if job.gpus:
            listed += [("gres", "gpu", job.gpus), ("gres", f"gpu:{job.gpu_type}", job.gpus)]
        return [
            {"type": kind, "name": name, "id": n, "count": count}
            for n, (kind, name, count) in enumerate(listed, 1)
        ]

    rows = [
        {
            "job_id": job.job_id, "name": job.executable, "user": job.user,
            "account": job.account, "partition": job.queue, "qos": job.queue, "cluster": None,
            "state": {"current": [_SLURM_STATES[job.status].split()[0]], "reason": "None"},
            "time": {
                "submission": job.submit, "eligible": job.eligible, "start": job.start,
                "end": job.end, "elapsed": job.run, "suspended": 0,
                "limit": {"set": True, "infinite": False, "number": job.limit // 60},
            },
            "required": {"CPUs": job.cores, "memory_per_node": {"set": False, "number": 0}},
            "allocation_nodes": job.nodes,
            "tres": {"allocated": resources(job), "requested": resources(job)},
        }
        for job in jobs
    ]  # fmt: skip
    return {"jobs.json": json.dumps({"meta": {"plugin": {}}, "jobs": rows}, indent=1)}


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def swf(jobs: Sequence[Job]) -> dict[str, str]:
    lines = [f"; UnixStartTime: {jobs[0].submit}", "; MaxProcs: 4096"]
    for job in jobs:
        names = [_digits(name) for name in (job.user, job.group, job.executable, job.queue)]
        lines.append(" ".join(map(str, (
            job.job_id, job.submit - jobs[0].submit, job.start - job.submit, job.run, job.cores, -1,
            -1, job.cores, job.limit, job.memory * 1024 // job.cores, job.status, *names, -1,
            -1, -1,
        ))))  # fmt: skip
    return {"jobs.swf": "\n".join(lines) + "\n"}


def _digits(name: str) -> str:
    return "".join(c for c in name if c.isdigit())


def pbs(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the records of ends, in order of end, after those of the queue."""
    lines = [f"{_american(j.submit)};Q;{j.job_id}.srv;queue={j.queue}" for j in jobs]
    for job in sorted(jobs, key=lambda job: job.end):
        per_node = job.cores // job.nodes
        hosts = "+".join(f"n{k}/0*{per_node}" for k in range(job.nodes))
        select = f"{job.nodes}:ncpus={per_node}"
        if job.gpus:
            select += f":ngpus={job.gpus // job.nodes}:gpu_type={job.gpu_type}"
        lines.append(
            f"{_american(job.end)};E;{job.job_id}.srv;user={job.user} group={job.group} "
            f'account="{job.account}" jobname={job.executable} queue={job.queue} '
            f"ctime={job.submit} qtime={job.submit} etime={job.eligible} start={job.start} "
            f"exec_host={hosts} Resource_List.mem={job.memory}mb Resource_List.ncpus={job.cores} "
            f"Resource_List.nodect={job.nodes} Resource_List.select={select} "
            f"Resource_List.walltime={job.limit // 3600:02}:{job.limit // 60 % 60:02}:00 "
            f"session=1 end={job.end} Exit_status={0 if job.status == 1 else 271} "
            f"resources_used.walltime={clock(job.run)}"
        )
    return {"20240304": "\n".join(lines) + "\n"}


def _american(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%m/%d/%Y %H:%M:%S")


def _category(job: Job) -> str:
    """Return the request of a job of Grid Engine; memory is for each slot."""
    gpus = f",gpu={job.gpus},gpu_type={job.gpu_type}" if job.gpus else ""
    return f"-l h_rt={job.limit},mem_free={job.memory // job.cores}M{gpus} -pe mpi {job.cores}"


def _by_end(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.end)


def grid_engine(jobs: Sequence[Job]) -> dict[str, str]:
    lines = [
        f"{job.queue}:n1:{job.group}:{job.user}:{job.executable}:{job.job_id}:sge:0:{job.submit}:"
        f"{job.start}:{job.end}:0:{0 if job.status == 1 else 137}:{job.run}:1.5:0.2:0.0{':0' * 13}:"
        f"{job.account}:staff:mpi:{job.cores}:0:{job.run}.0:1.0:0.0:{_category(job)}:0.0:NONE:1e+09:"
        "0:0"
        for job in _by_end(jobs)
    ]
    return {"accounting": "\n".join(["# Version: 8.1.9", *lines]) + "\n"}


def grid_engine_json(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the log of Open Cluster Scheduler 9, with times in microseconds."""
    lines = [
        json.dumps({
            "job_number": job.job_id, "task_number": 0, "start_time": job.start * 10**6,
            "end_time": job.end * 10**6, "submission_time": job.submit * 10**6,
            "owner": job.user, "group": job.group, "account": "sge", "project": job.account,
            "qname": job.queue, "hostname": "n1", "department": "staff", "slots": job.cores,
            "job_name": job.executable, "priority": 0, "granted_pe": "mpi",
            "category": _category(job), "failed": 0, "exit_status": 0 if job.status == 1 else 137,
            "usage": {"rusage": {"ru_wallclock": job.run, "ru_utime": 1.5}},
        })
        for job in _by_end(jobs)
    ]  # fmt: skip
    return {"accounting.jsonl": "\n".join(lines) + "\n"}


def qacct(jobs: Sequence[Job]) -> dict[str, str]:
    """Return what `qacct -j` prints; times as ctime(3) prints them, of Berlin."""

    def time(seconds: int) -> str:
        local = datetime.fromtimestamp(seconds, ZoneInfo(BERLIN))
        return local.strftime("%a %b %e %H:%M:%S %Y")

    lines = []
    for job in jobs:
        values = {
            "qname": job.queue, "hostname": "n1", "group": job.group, "owner": job.user,
            "project": job.account, "department": "staff", "jobname": job.executable,
            "jobnumber": job.job_id, "taskid": "undefined", "account": "sge", "priority": 0,
            "qsub_time": time(job.submit), "start_time": time(job.start),
            "end_time": time(job.end), "granted_pe": "mpi", "slots": job.cores, "failed": 0,
            "exit_status": 0 if job.status == 1 else 137, "ru_wallclock": f"{job.run}s",
            "category": _category(job),
        }  # fmt: skip
        lines += ["=" * 62, *(f"{key:<12} {value}" for key, value in values.items())]
    return {"qacct.txt": "\n".join(lines) + "\n"}


def _lsf_status(job: Job) -> tuple[int, int]:
    """Return jStatus and exitInfo: DONE, or EXIT, by its owner if it was cancelled."""
    return (64, 0) if job.status == 1 else (32, 14 if job.status == 5 else 0)


def _lsf_request(job: Job) -> str:
    """Return the resource requirement of a job; memory and GPUs are for each host."""
    gpus = f":ngpus_physical={job.gpus // job.nodes}:gmodel={job.gpu_type}" if job.gpus else ""
    return f"select[type == any] rusage[mem={job.memory // job.nodes}{gpus}]"


def lsf(jobs: Sequence[Job], *, short: bool = True) -> dict[str, str]:
    """Return lsb.acct; `short` as with SHORT_EVENTFILE, else with the name of a host a slot."""
    lines = [f'"EVENT_ADRSV_FINISH" "10.1" {jobs[0].submit} {jobs[0].submit} 1 500 "ops" "r#1"']
    for job in _by_end(jobs):
        status, info = _lsf_status(job)
        each = job.cores // job.nodes
        names = [f'"{each}*n{k}"' for k in range(job.nodes)]
        if not short:
            names = [f'"n{k}"' for k in range(job.nodes) for _ in range(each)]
        hosts = f"{len(names)} {' '.join(names)}"
        none = '""'
        lines.append(
            f'"JOB_FINISH" "10.1" {job.end} {job.job_id} 500 33816602 {job.cores} {job.submit} 0 0 '
            f'{job.start} "{job.user}" "{job.queue}" "{_lsf_request(job)}" {none} {none} "login" '
            f'"/home/a ""b""" {none} "/dev/null" "/dev/null" "{job.submit}.{job.job_id}" 0 '
            f'{hosts} {status} 60.0 "{job.executable}" "sleep 1" '
            f'{" ".join(["1.0"] * 2 + ["-1"] * 17)} {none} "{job.account}" 0 '
            f"{job.cores} {none} {none} 0 2048 4096 {none} {none} {none} {none} 0 {none} {info} "
            f'{none} -1 {none} {none} {none} {none} 0 {none} {none} 16 {none} 0 {none} "a note" '
            f'0 0 0 {job.limit} 512 "{_lsf_request(job)}" {none} 0 {none} 0 0 0 0 0 {none} '
            f"{job.run} {none} 0 {none} 0.0 0 0 0 0 {hosts} {job.eligible - job.submit}"
        )
    return {"lsb.acct": "\n".join(lines) + "\n"}


def lsf_csv(jobs: Sequence[Job]) -> dict[str, str]:
    rows = [
        {
            "jobId": job.job_id, "userName": job.user, "projectName": job.account,
            "queue": job.queue, "jobName": job.executable, "numProcessors": job.cores,
            "submitTime": job.submit, "startTime": job.start, "endTime": job.end,
            "runLimit": job.limit, "jStatus": _lsf_status(job)[0], "exitInfo": _lsf_status(job)[1],
            "execHosts": " ".join(f"{job.cores // job.nodes}*n{k}" for k in range(job.nodes)),
            "effectiveResReq": _lsf_request(job), "ineligiblePendTime": job.eligible - job.submit,
        }
        for job in jobs
    ]  # fmt: skip
    return {"jobs.csv": _csv(rows)}


def _ad(job: Job) -> dict[str, object]:
    """Return the attributes of a job of the parallel universe; amounts are for each host."""
    gpus = {}
    if job.gpus:
        gpus = {
            "RequestGPUs": job.gpus // job.nodes,
            "RequireGPUs": f'DeviceName == "{job.gpu_type}"',
        }
    ended = {"JobStatus": 4, "CompletionDate": job.end, "ExitCode": 0 if job.status == 1 else 1}
    if job.status == 5:
        ended = {"JobStatus": 3, "LastJobStatus": 2, "CompletionDate": 0}
    return {
        "MyType": "Job", "ClusterId": job.job_id, "ProcId": 0, "QDate": job.submit,
        "JobStartDate": job.start, "JobCurrentStartDate": job.start, "NumJobStarts": 1,
        "EnteredCurrentStatus": job.end, "RemoteWallClockTime": float(job.run),
        "AllowedJobDuration": job.limit, "JobUniverse": 11, "MaxHosts": job.nodes,
        "RequestCpus": job.cores // job.nodes, "CpusProvisioned": job.cores // job.nodes,
        "RequestMemory": job.memory // job.nodes, "Owner": job.user, "AcctGroup": job.account,
        "Cmd": job.executable, **gpus, **ended,
    }  # fmt: skip


def condor(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the history file of the schedd; strings in quotes, and the newest job last."""
    lines = []
    for job in _by_end(jobs):
        quoted = {k: json.dumps(v) if isinstance(v, str) else v for k, v in _ad(job).items()}
        if job.gpus:
            quoted["RequireGPUs"] = _ad(job)["RequireGPUs"]  # an expression
        lines += [f"{key} = {value}" for key, value in quoted.items()]
        lines.append(f'*** Offset = 0 ClusterId = {job.job_id} ProcId = 0 Owner = "{job.user}"')
    return {"history": "\n".join(lines) + "\n"}


def condor_json(jobs: Sequence[Job]) -> dict[str, str]:
    """Return what `condor_history -json` prints: the newest job first."""
    ads = [_ad(job) for job in _by_end(jobs)[::-1]]
    return {"history.json": "[\n" + "\n,\n".join(json.dumps(ad, indent=2) for ad in ads) + "\n]\n"}


def cobalt(jobs: Sequence[Job]) -> dict[str, str]:
    """Return Argonne's table of jobs."""

    def time(seconds: int) -> str:
        return iso(seconds).replace("T", " ")

    rows = [
        {
            "JOB_NAME": f"{job.job_id}.alcf", "COBALT_JOBID": job.job_id, "MACHINE_NAME": "theta",
            "QUEUED_TIMESTAMP": time(job.submit), "START_TIMESTAMP": time(job.start),
            "END_TIMESTAMP": time(job.end), "USERNAME_GENID": job.user,
            "PROJECT_NAME_GENID": job.account, "QUEUE_NAME": job.queue,
            "WALLTIME_SECONDS": f"{job.limit}.0", "RUNTIME_SECONDS": f"{job.run}.0",
            "NODES_USED": f"{job.nodes}.0", "NODES_REQUESTED": f"{job.nodes}.0",
            "CORES_USED": f"{job.cores}.0", "CORES_REQUESTED": f"{job.cores}.0",
            "ELIGIBLE_WAIT_SECONDS": job.start - job.eligible,
            "EXIT_STATUS": 0 if job.status == 1 else 143,
        }
        for job in _by_end(jobs)
    ]  # fmt: skip
    return {"ANL-ALCF-DJC-THETA_20240101_20241231.csv": _csv(rows)}


def batsim(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the jobs that Batsim writes after a simulation, on a clock that begins at 0."""
    rows = [
        {
            "job_id": job.job_id, "workload_name": "w0", "profile": job.executable,
            "submission_time": float(job.submit - jobs[0].submit),
            "requested_number_of_resources": job.cores, "requested_time": float(job.limit),
            "success": int(job.status == 1),
            "final_state": {1: "COMPLETED_SUCCESSFULLY", 0: "COMPLETED_FAILED",
                            5: "COMPLETED_KILLED"}[job.status],
            "starting_time": float(job.start - jobs[0].submit), "execution_time": float(job.run),
            "finish_time": float(job.end - jobs[0].submit),
            "waiting_time": float(job.start - job.submit),
            "turnaround_time": float(job.end - job.submit), "stretch": 1.0,
            "allocated_resources": f"0-{job.cores - 1}" if job.cores > 1 else "0",
            "consumed_energy": -1,
        }
        for job in _by_end(jobs)
    ]  # fmt: skip
    return {"out_jobs.csv": _csv(rows)}


def _table(jobs: Sequence[Job]) -> list[dict[str, object]]:
    return [{**vars(job), "end": job.end, "limit": job.limit / 60} for job in jobs]


_MAPPING: Final = """file = "{}"
{}
[columns]
job_id = "job_id"
submit = "submit"
eligible = "eligible"
start = "start"
end = "end"
time_limit = "limit"
cores = "cores"
nodes = "nodes"
gpus = "gpus"
memory = "memory"
state = "status"
user = "user"
group = "group"
account = "account"
queue = "queue"
executable = "executable"

[units]
time_limit = "min"
memory = "MB"

[states]
completed = ["1"]
failed = ["0"]
cancelled = ["5"]
"""


def table(jobs: Sequence[Job]) -> dict[str, str]:
    rows = _table(jobs)
    for row in rows:
        row |= {
            name: iso(int(str(row[name])), BERLIN)
            for name in ("submit", "eligible", "start", "end")
        }
    return {
        "jobs.csv": _csv(rows),
        "jobs.toml": _MAPPING.format("jobs.csv", f'time_zone = "{BERLIN}"'),
    }


def parquet(jobs: Sequence[Job]) -> dict[str, str | bytes]:
    data = io.BytesIO()
    pl.DataFrame(_table(jobs), infer_schema_length=None).write_parquet(data)
    return {"jobs.parquet": data.getvalue(), "jobs.toml": _MAPPING.format("jobs.parquet", "")}


_SLURM: Final = (*EVERY, "eligible", "nodes", "memory", "gpus", "gpu_type", "group", "account",
                 "partition", "qos", "executable")  # fmt: skip
_OF_SLURM: Final = {"group": "account"}
_TABLE: Final = (*EVERY, "eligible", "nodes", "memory", "gpus", "group", "account", "executable")

_GRID_ENGINE: Final = (*EVERY, "memory", "gpus", "gpu_type", "group", "account", "executable")
_LSF: Final = (*EVERY, "eligible", "nodes", "memory", "gpus", "gpu_type", "account", "executable")
_CONDOR: Final = (*(name for name in _LSF if name not in {"queue", "eligible"}),)

DIALECTS: Final[Mapping[str, Dialect]] = {
    "sacct -P": Dialect("slurm", "jobs.txt", slurm, _SLURM, _OF_SLURM),
    "sacct -P, local times": Dialect(
        "slurm", "jobs.txt", lambda jobs: slurm(jobs, lambda s: iso(s, BERLIN)), _SLURM, _OF_SLURM,
        settings=SlurmSettings(time_zone=BERLIN),
    ),
    "sacct, saved by pandas": Dialect("slurm", "jobs.csv", slurm_csv, _SLURM, _OF_SLURM),
    "sacct --json": Dialect(
        "slurm", "jobs.json", slurm_json, _SLURM, _OF_SLURM, one_value=True
    ),
    "SWF": Dialect("swf", "jobs.swf", swf, (*EVERY, "memory", "group", "executable")),
    "PBS": Dialect(
        "pbs", "20240304", pbs, (*_TABLE, "gpu_type"), job_name="{}.srv",
    ),
    "Grid Engine": Dialect("grid_engine", "accounting", grid_engine, _GRID_ENGINE),
    "Grid Engine, JSON": Dialect("grid_engine", "accounting.jsonl", grid_engine_json, _GRID_ENGINE),
    "qacct -j": Dialect(
        "grid_engine", "qacct.txt", qacct, _GRID_ENGINE,
        settings=GridEngineSettings(time_zone=BERLIN),
    ),
    "LSF": Dialect("lsf", "lsb.acct", lsf, _LSF),
    "LSF, a name a slot": Dialect(
        "lsf", "lsb.acct", lambda jobs: lsf(jobs, short=False), _LSF
    ),
    "LSF, CSV": Dialect("lsf", "jobs.csv", lsf_csv, _LSF),
    "HTCondor": Dialect("condor", "history", condor, _CONDOR, job_name="{}.0"),
    "condor_history -json": Dialect(
        "condor", "history.json", condor_json, _CONDOR, job_name="{}.0"
    ),
    "Cobalt": Dialect(
        "cobalt", "ANL-ALCF-DJC-THETA_20240101_20241231.csv", cobalt,
        (*EVERY, "eligible", "nodes", "account"),
    ),
    "Batsim": Dialect(
        "batsim", "out_jobs.csv", batsim,
        tuple(n for n in (*EVERY, "executable") if n not in {"user", "queue"}),
    ),
    "table": Dialect("table", "jobs.toml", table, _TABLE),
    "Parquet": Dialect("table", "jobs.toml", parquet, _TABLE),
}  # fmt: skip
