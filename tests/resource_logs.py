"""Logs of jobs that ask for several resources, and a plain event loop that schedules them.

The loop is written from the definition of the scenario, with lists and dictionaries, and computes
every reservation and every decision anew.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hindcast.pipeline.workloads.log_names import names_note
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload

LATER = 1 << 62


def workload_of(jobs: Sequence[Mapping[str, Any]], processors: int) -> Workload:
    """Return the workload of jobs in order of submission.

    A job has submit, run, requested, processors, and may have gpus, types (by name), memory,
    partition, user, and start in the log.
    """
    types = sorted({name for job in jobs for name in job.get("types", {})})
    partitions = sorted({job["partition"] for job in jobs if job.get("partition")})
    first = min(job["submit"] for job in jobs)
    rows = [
        (i, 0, str(i), "0", float(job["submit"] - first), float(job["run"]),
         float(job["processors"]), 0.0, 1)
        for i, job in enumerate(jobs)
    ]  # fmt: skip
    tasks = pl.DataFrame(rows, schema=dict(TASK_COLUMNS), orient="row").with_columns(
        requested_s=pl.Series([float(job["requested"]) for job in jobs]),
        user=pl.Series([job.get("user") for job in jobs], dtype=pl.Int64),
        wait_s=pl.Series(
            [None if job.get("start") is None else float(job["start"] - job["submit"])
             for job in jobs], dtype=pl.Float64),
        gpus=pl.Series([job.get("gpus") for job in jobs], dtype=pl.Float64),
        memory_mib=pl.Series([job.get("memory") for job in jobs], dtype=pl.Float64),
        partition=pl.Series(
            [partitions.index(job["partition"]) + 1 if job.get("partition") else None
             for job in jobs], dtype=pl.Int64),
        **{f"gpus:{name}": pl.Series(
            [None if job.get("gpus") is None else float(job.get("types", {}).get(name, 0))
             for job in jobs], dtype=pl.Float64) for name in types},
    )  # fmt: skip
    machines = pl.DataFrame(
        [(0, "m", float(processors), 1.0)], schema=dict(MACHINE_COLUMNS), orient="row"
    )
    notes = (names_note("partition", partitions),) if partitions else ()
    return Workload(tasks, Provenance("made", notes=notes), machines)


def golden_jobs(folder: Path) -> list[dict[str, Any]]:
    """Return the jobs of the golden log. Those that waited at 0 have a start after it."""
    jobs = []
    with (folder / "log.csv").open() as file:
        for row in csv.DictReader(file):
            memory, processors, kind = row["memory_mib"], int(row["processors"]), row["gpu_type"]
            submit, gpus = int(row["submit"]), float(row["gpus"])
            jobs.append({
                "job": int(row["job"]), "submit": submit, "run": int(row["run"]),
                "requested": int(row["requested"]), "processors": processors, "gpus": gpus,
                "types": {kind: gpus} if kind in {"a", "b"} else {},
                "memory": None if memory == "" else
                int(memory) * (processors if row["memory_of"] == "core" else 1),
                "partition": row["partition"], "user": int(row["user"]),
                "start": int(row["started"]) if row["started"] else max(submit, 0),
                "running": bool(row["started"]),
            })  # fmt: skip
    return jobs


def golden_settings(folder: Path, world: str) -> dict[str, Any]:
    """Return the settings of a world of the golden log."""
    found = json.loads((folder / "worlds.json").read_text())[world]
    pools = found["pools"]
    settings = {"capacity": pools[""]} if "" in pools else {"pools": pools}
    return {"resources": tuple(found["resources"]), **settings}
