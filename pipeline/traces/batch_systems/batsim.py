"""Reader of workloads and results of the simulator Batsim.

A workload is a JSON object with `jobs`, `profiles` and `nb_res`, the number of resources. Its jobs
have no starts. A result is the CSV file PREFIX_jobs.csv, whose jobs have the starts of the
simulation.

    column of the workload    JSON                      CSV
    job_id                    id                        job_id, with workload_name before it if
                                                        there are several
    submit_s                  subtime                   submission_time
    start                                               starting_time
    duration_s                delay of the profile      execution_time
    requested_s               walltime; -1 is no limit  requested_time
    requested_cores           res                       requested_number_of_resources
    allocated_cores                                     allocated_resources, such as "0-3 7"
    status                    0 if the profile fails    final_state: 1 COMPLETED_SUCCESSFULLY, 5
                              or is longer than its     COMPLETED_KILLED, else 0; or success
                              limit
    executable                profile                   profile

The run time of a profile of type `delay` is known, and that of a sequence of such profiles. Jobs
with other profiles, whose run times depend on the platform, and rejected jobs are left out. A
resource of Batsim is a processor here.

Sources: the documentation of Batsim 4.2, "Input workload" and "Output jobs".
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.batch_systems.records import (
    Record,
    as_text,
    csv_records,
    document,
    names_of,
    rows_of,
)
from hindcast.pipeline.traces.field_values import require_time_zone
from hindcast.pipeline.traces.files import json_text
from hindcast.pipeline.traces.first_look import head_lines
from hindcast.pipeline.traces.job_logs import Field, JobLogSettings, sift_jobs, workload_of
from hindcast.pipeline.workloads.schema import Workload

FORMAT: Final = "batsim"
DEFAULTS: Final = JobLogSettings()
_EXPECTED: Final = "a workload of Batsim (JSON with jobs and profiles) or its PREFIX_jobs.csv"
_WHAT: Final = "a job of Batsim"
_KEYS: Final = ("id", "profile", "submit", "start", "run", "limit", "asked", "held", "outcome")
_COLUMNS: Final[Mapping[str, str]] = {
    "jobid": "id", "workloadname": "workload", "profile": "profile", "submissiontime": "submit",
    "startingtime": "start", "executiontime": "run", "requestedtime": "limit",
    "requestednumberofresources": "asked", "allocatedresources": "held", "finalstate": "state",
    "success": "success",
}  # fmt: skip
_NEEDED: Final = ("id", "submit", "start", "run", "asked")
_STATES: Final[Mapping[str, str]] = {
    "COMPLETED_SUCCESSFULLY": "completed",
    **dict.fromkeys(("COMPLETED_FAILED", "COMPLETED_WALLTIME_REACHED"), "failed"),
    "COMPLETED_KILLED": "cancelled",
    **dict.fromkeys(("NOT_SUBMITTED", "SUBMITTED"), "waiting"),
    "RUNNING": "running",
}
_REJECTED: Final = "rejected by the scheduler"
_DEEPEST: Final = 50  # sequences in sequences


def read(path: Path, settings: JobLogSettings = DEFAULTS) -> tuple[Workload, pl.DataFrame]:
    """Return the workload of a file and its bad rows (file, line, reason, text).

    A job of a JSON file has its place among the jobs, from 1, for a line. Raises TraceError if the
    path is not such a file or has no job whose run time is known.
    """
    require_time_zone(settings.time_zone, f"{path}: time_zone")
    first = next(line for line in head_lines(path, _EXPECTED) if line.strip())
    if first.lstrip().startswith("{"):
        found = _json(path, document(path))
        size = found.get("nb_res")
        if settings.processors is None and type(size) is int and size > 0:
            settings = replace(settings, processors=size)
        rows = rows_of(_of_json(found), _KEYS)
        fields = _fields(with_starts=False)
    else:
        rows = rows_of(_of_csv(path), _KEYS)
        fields = _fields(with_starts=True)
    rows = rows.with_columns(
        job_id="id",
        executable="profile",
        interrupted=pl.lit(value=False),
        lists_gpus=pl.lit(value=False),
    )
    no_limit = pl.col("limit").cast(pl.Float64, strict=False)
    sifted = sift_jobs(
        path, rows, fields, _WHAT, settings, no_limit=(no_limit <= 0) | no_limit.is_infinite()
    )
    return workload_of(path, FORMAT, sifted, settings)


def is_log(lines: Sequence[str]) -> bool:
    """Return whether some lines are the first ones of such a file."""
    start = " ".join(line.strip() for line in lines[:400])
    if start.startswith("{"):
        keys = ('"subtime"', '"profile"', '"res"')
        return all(key in start for key in keys) or '"nb_res"' in start
    return {"jobid", "submissiontime", "requestednumberofresources"} <= set(names_of(lines[0]))


def _json(path: Path, text: str) -> Mapping[str, Any]:
    """Return the object of a workload; raise TraceError if it has no jobs or no profiles."""
    try:
        found = json_text.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: this is no JSON ({error}), expected {_EXPECTED}") from error
    for key, kind in (("jobs", list), ("profiles", dict)):
        if not isinstance(found, dict) or not isinstance(found.get(key), kind):
            raise TraceError(f"{path}: the object has no {key}, expected {_EXPECTED}")
    return dict(found)


def _of_json(found: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the jobs of a workload."""
    profiles = found["profiles"]
    for place, job in enumerate(found["jobs"], start=1):
        yield _of_job(Record(place, json.dumps(job)), job, profiles)


def _of_job(record: Record, job: Any, profiles: Mapping[str, Any]) -> Record:
    """Return the record of a job with its values."""
    if not isinstance(job, dict):
        record.reason = "the job is no JSON object"
        return record
    keys = {"id": "id", "profile": "profile", "submit": "subtime", "asked": "res"}
    record.values = {key: as_text(job.get(name)) for key, name in keys.items()}
    limit = job.get("walltime", -1)
    name = record.values["profile"] or ""
    run, failed, fault = _run_of(profiles, name)
    if name not in profiles:
        record.reason = f"there is no profile {name[:40]!r}"
    elif run is None:
        record.left_out = fault
    else:
        if _is_number(limit) and 0 < limit < run:
            run, failed = float(limit), True
        record.values |= {"run": str(run), "limit": as_text(limit)}
        record.values["outcome"] = "failed" if failed else None
    return record


def _run_of(
    profiles: Mapping[str, Any], name: str, depth: int = 0
) -> tuple[float | None, bool, str]:
    """Return the run time of a profile, whether it fails, and why the run time is not known."""
    profile = profiles.get(name)
    if not isinstance(profile, dict) or depth > _DEEPEST:
        return None, False, f"a job whose profile {name[:40]!r} cannot be read"
    kind = str(profile.get("type"))
    failed = profile.get("ret", 0) not in {0, None} if _is_number(profile.get("ret", 0)) else False
    if kind == "delay" and _is_number(profile.get("delay")):
        return float(profile["delay"]), failed, ""
    parts = profile.get("seq")
    if isinstance(parts, list):
        times = [_run_of(profiles, str(part), depth + 1) for part in parts]
        for run, _, fault in times:
            if run is None:
                return None, False, fault
        repeat = profile.get("repeat", 1)
        total = sum(run or 0.0 for run, _, _ in times) * (repeat if _is_number(repeat) else 1)
        return total, failed or any(fails for _, fails, _ in times), ""
    return None, False, f"a job with a profile of type {kind[:40]}, whose run time is not known"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_csv(path: Path) -> Iterator[Record]:
    """Yield the jobs of a result."""
    records = list(csv_records(path, _COLUMNS, _NEEDED, _EXPECTED))
    several = len({record.values.get("workload") for record in records if record.values}) > 1
    for record in records:
        values = record.values
        if several and values.get("id") and "!" not in str(values["id"]):
            values["id"] = f"{values.get('workload')}!{values['id']}"
        state = values.get("state") or {"1": "COMPLETED_SUCCESSFULLY", "0": "COMPLETED_FAILED"}.get(
            values.get("success") or ""
        )
        if state == "REJECTED":
            record.left_out = _REJECTED
        values["outcome"] = _STATES.get(state or "")
        held = re.findall(r"(\d+)(?:-(\d+))?", values.get("held") or "")
        values["held"] = str(sum(int(last or first) - int(first) + 1 for first, last in held) or "")
        yield record


def _fields(*, with_starts: bool) -> dict[str, Field]:
    """Return the fields of a job in the columns of Batsim; -1 as a limit is none."""

    def number(key: str, label: str, expected: str) -> Field:
        return Field(label, pl.col(key), pl.col(key).cast(pl.Float64, strict=False), expected)

    limit = pl.col("limit").cast(pl.Float64, strict=False)
    known = pl.when((limit > 0) & limit.is_finite()).then(limit)
    start = {"start": number("start", "starting_time", "seconds")} if with_starts else {}
    return {
        "submit": number("submit", "subtime", "seconds"),
        **start,
        "duration": number("run", "execution_time", "seconds"),
        "limit": Field(
            "walltime", pl.when(limit.is_null()).then("limit"), known, "a number of seconds"
        ),
        "requested_cores": number("asked", "res", "a number of resources"),
        "allocated_cores": number("held", "allocated_resources", "a list of resources"),
    }
