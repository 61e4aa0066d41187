"""Logs of jobs that ask for several resources, and a plain event loop that schedules them.

The loop is written from the definition of the scenario, with lists and dictionaries, and computes
every reservation and every decision anew.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.workloads.log_names import names_note
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload

LATER = 1 << 62
NAMES = ("processors", "gpus:x", "gpus:y", "memory")
CAPACITY = (12, 6, 4, 40)


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


def drawn(seed: int, jobs: int = 60, partitions: Sequence[str] = ("p",)) -> list[dict[str, Any]]:
    """Return a busy log with ties in everything, of which some jobs run over the machine at 0."""
    rng = np.random.default_rng(seed)
    found = []
    for i, submit in enumerate(np.sort(rng.integers(-40, 4 * jobs, jobs) // 20 * 20).tolist()):
        run = int(rng.choice([1, 3, 7, 20, 40, 80, 160]))
        kind, gpus = rng.choice(["", "x", "y", "any", "any"]), int(rng.choice([1, 1, 2, 4]))
        job = {
            "number": i, "submit": submit, "run": run, "user": int(rng.integers(0, 4)),
            "requested": max(1, int(run * rng.choice([0.5, 1, 1, 2, 5]))),
            "processors": int(rng.choice([1, 1, 2, 3, 5, 9, 13])), "gpus": gpus if kind else 0,
            "types": {kind: gpus} if kind in {"x", "y"} else {},
            "memory": [0, 1, 8, 20, 41, None][int(rng.integers(0, 6))],
            "partition": str(rng.choice(partitions)),
        }  # fmt: skip
        if kind == "x" and rng.random() < 0.3:  # one named GPU and another of any type
            job["gpus"] += 1
        job["start"] = submit if submit < 0 and submit + run > 0 and i % 2 else (
            max(submit, 0) + int(rng.integers(0, 60)))  # fmt: skip
        found.append(job)
    return found


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


def fits_at(ask: Sequence[int], of_any: int, have: Sequence[int], types: Sequence[int]) -> Any:
    """Return what a job takes of `have`, None if it does not suffice."""
    for kind in types if of_any else (0,):
        vector = [a + (of_any if of_any and k == kind else 0) for k, a in enumerate(ask)]
        if all(a == 0 or a <= h for a, h in zip(vector, have, strict=True)):
            return vector
    return None


def plain_schedule(
    jobs: Sequence[Mapping[str, Any]], capacity: Sequence[int], types: Sequence[int], key: Any,
    form: str = "easy", now: int = 0,
) -> dict[int, tuple[int, list[int]]]:  # fmt: skip
    """Return start and taken vector of every job of one machine, by its number.

    A job has number, submit, run, requested, ask (K), any, and `start` where it runs at `now`. key(
    job, t) is its priority, highest first. form: easy, strict, greedy, conservative, clairvoyant
    (the reservation by run times), recorded (`logged` starts).
    """
    free, running, found = list(capacity), [], {}
    known = form == "clairvoyant"

    def start(job: Mapping[str, Any], at: int, vector: list[int], begun: bool = False) -> None:
        seconds = job["run"] if known and not begun else job["requested"]
        running.append((at + job["run"], at + seconds, vector))
        free[:] = [f - v for f, v in zip(free, vector, strict=True)]
        found[job["number"]] = (at, vector)

    for job in sorted((j for j in jobs if j.get("start") is not None), key=lambda j: j["start"]):
        vector = fits_at(job["ask"], job["any"], free, types)
        if vector is None:
            kind = types[0] if job["any"] else 0
            vector = [a + (job["any"] if k == kind else 0) for k, a in enumerate(job["ask"])]
        start(job, job["start"], vector, begun=True)
    coming = [j for j in jobs if j.get("start") is None]
    waiting: list[Mapping[str, Any]] = []
    t = now
    while True:
        for ended in [r for r in running if r[0] <= t]:
            running.remove(ended)
            free[:] = [f + v for f, v in zip(free, ended[2], strict=True)]
        while coming and coming[0]["submit"] <= t:
            waiting.append(coming.pop(0))
        if form == "conservative":
            _plan(waiting, running, free, types, t, start)
        elif form == "recorded":
            while due := [
                j for j in waiting if j["logged"] < min(
                    [r[0] for r in running] + ([coming[0]["submit"]] if coming else []),
                    default=LATER,
                ) and fits_at(j["ask"], j["any"], free, types)
            ]:  # fmt: skip
                job = min(due, key=lambda j: j["logged"])
                start(job, t, fits_at(job["ask"], job["any"], free, types))
                waiting.remove(job)
        else:
            _decide(waiting, running, free, types, t, lambda job, t=t: key(job, t), form, start)
        following = [r[0] for r in running] + ([coming[0]["submit"]] if coming else [])
        after = min(following, default=LATER)
        if after == LATER:
            assert not waiting
            return found
        t = after


def _decide(waiting, running, free, types, t, key, form, start) -> None:  # type: ignore[no-untyped-def]
    while waiting:  # the open phase
        able = [j for j in waiting if form != "greedy" or fits_at(j["ask"], j["any"], free, types)]
        if not able:
            return
        head = max(able, key=key)  # the first of equal ones
        vector = fits_at(head["ask"], head["any"], free, types)
        if vector is None:
            break
        start(head, t, vector)
        waiting.remove(head)
    if not waiting or form == "strict":
        return
    for shadow in sorted({max(r[1], t) for r in running}):
        then = list(free)
        for _, end, taken in running:
            if max(end, t) <= shadow:
                then = [h + v for h, v in zip(then, taken, strict=True)]
        vector = fits_at(head["ask"], head["any"], then, types)
        if vector is not None:
            break
    spare = [h - v for h, v in zip(then, vector, strict=True)]
    while True:
        safe = []
        for job in waiting:
            seconds = job["run"] if form == "clairvoyant" else job["requested"]
            in_time = t + seconds <= shadow
            have = free if in_time else [min(f, s) for f, s in zip(free, spare, strict=True)]
            vector = fits_at(job["ask"], job["any"], have, types)
            if vector is not None:
                safe.append((job, vector, in_time))
        if not safe:
            return
        job, vector, in_time = max(safe, key=lambda one: key(one[0]))
        start(job, t, vector)
        waiting.remove(job)
        if not in_time:
            spare = [s - v for s, v in zip(spare, vector, strict=True)]


def _plan(waiting, running, free, types, t, start) -> None:  # type: ignore[no-untyped-def]
    changes = [(max(end, t + 1), vector) for _, end, vector in running]
    held: list[tuple[int, int, list[int]]] = []  # planned jobs: from, to, vector

    def free_at(s: int) -> list[int]:
        have = list(free)
        for end, vector in changes:
            if end <= s:
                have = [h + v for h, v in zip(have, vector, strict=True)]
        for begin, end, vector in held:
            if begin <= s < end:
                have = [h - v for h, v in zip(have, vector, strict=True)]
        return have

    for job in list(waiting):
        moments = sorted({t, *(c[0] for c in changes), *(h[1] for h in held)})
        best = None
        for kind in types if job["any"] else (0,):
            for begin in moments:
                end = begin + job["requested"]
                points = [begin, *(s for s in {*moments, *(h[0] for h in held)} if begin < s < end)]
                vectors = [fits_at(job["ask"], job["any"], free_at(s), (kind,)) for s in points]
                if None not in vectors:
                    if best is None or begin < best[0]:
                        best = (begin, end, vectors[0])
                    break
        assert best is not None
        if best[0] == t:
            start(job, t, best[2])
            waiting.remove(job)
            changes.append((best[1], best[2]))
            continue
        held.append(best)
