"""Schedules of made-up jobs, for tests and measurements of the page."""

import heapq
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.schedules.schedule import Schedule, make_schedule

TRIED = 50  # waiting jobs that are tried at each moment


def made_schedule(
    count: int, policy: str = "fcfs", rows: int = 256, seed: int = 0, **columns: Any
) -> Schedule:
    """Return a schedule of drawn jobs, by order of arrival ("fcfs") or least area first ("saf").

    The same count, rows and seed give the same jobs. `columns` replace columns of the table.
    """
    rng = np.random.default_rng(seed)
    amount = np.minimum(2 ** rng.integers(0, 9, count), rows)
    run = np.maximum(1, rng.lognormal(7.5, 1.6, count)).astype(np.int64).clip(1, 3 * 86_400)
    span = (amount * run).sum() / rows / 0.9
    submit = np.sort(rng.uniform(0, span, count)).astype(np.int64)
    asked = np.ceil(run * rng.uniform(1, 4, count) / 300).astype(np.int64) * 300
    rank = submit if policy == "fcfs" else asked * amount
    start = _starts(submit, run, amount, rank, rows)
    user = np.minimum(rng.zipf(1.6, count), 60)
    wait = start - submit
    jobs = pl.DataFrame({
        "job": np.arange(count), "name": [str(j + 1) for j in range(count)],
        "submit_s": submit, "eligible_s": submit, "start_s": start, "end_s": start + run,
        "processors": amount, "requested_s": asked, "user": [f"user{u}" for u in user],
        "queue": np.where(asked > 3600, "long", "short"), "counted": np.ones(count, bool),
        "wait_s": wait, "bounded_slowdown": np.maximum(1, (wait + run) / np.maximum(run, 10.0)),
    }).with_columns(**columns)  # fmt: skip
    facts = {
        "policy": policy, "scenario": "queue", "source": {"log": "made.swf", "digest": "ab" * 32},
        "window": None, "seed": None, "capacity": {"processors": rows},
        "per_unit": {"processors": 1}, "unit": "processors", "levels": {}, "machines": {},
        "machine": None, "clock": "s", "from_s": 0.0, "to_s": float((start + run).max()),
        "epoch": 1_700_000_000,
    }  # fmt: skip
    return make_schedule(jobs, facts)


def _starts(submit: Any, run: Any, amount: Any, rank: Any, rows: int) -> Any:
    """Start at every moment what fits of the first waiting jobs."""
    start = np.zeros(len(submit), np.int64)
    waiting: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    free, arrived = rows, 0
    while arrived < len(submit) or waiting:
        now = min(
            submit[arrived] if arrived < len(submit) else np.inf, ends[0][0] if ends else np.inf
        )
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while arrived < len(submit) and submit[arrived] <= now:
            heapq.heappush(waiting, (int(rank[arrived]), arrived))
            arrived += 1
        tried = [heapq.heappop(waiting) for _ in range(min(TRIED, len(waiting)))]
        for key, job in tried:
            if amount[job] <= free:
                free -= amount[job]
                start[job] = now
                heapq.heappush(ends, (int(now + run[job]), int(amount[job])))
            else:
                heapq.heappush(waiting, (key, job))
    return start
