"""Latency of `hindcast decide`: from a line of JSON to the answer as a line of JSON.

    python -m tests.benchmarks.deciding

The states are drawn: 500 waiting jobs, 100 running ones, 1,000 completed runs and 50 users. The
process is warm. The ratio is to reading the same line with json.loads. The time is that of the
processor, so that other work on the machine does not count: nothing here waits.
"""

import json
import time
from pathlib import Path

import numpy as np

from hindcast.policies.deciding import Decider, Guard, load_decider

AGENT = Path(__file__).resolve().parents[2] / "datasets" / "queue-ctc-online" / "agent"
WAITING, RUNNING, COMPLETED, USERS = 500, 100, 1000, 50
FREE = 8
STATES = 20
ROUNDS = 30


def drawn_state(seed: int) -> str:
    """Return a state as a line of JSON; few processors are free."""
    rng = np.random.default_rng(seed)
    now = 1_700_000_000

    def jobs(count: int, time_key: str, span: int, most: int) -> list[dict[str, object]]:
        times = np.sort(rng.integers(now - span, now, count)).tolist()
        cpu, requested = rng.integers(1, most, count).tolist(), rng.integers(60, 86_400, count)
        user = rng.integers(0, USERS, count).tolist()
        return [
            {"id": f"{time_key}{i}", time_key: times[i], "processors": cpu[i],
             "requested": int(requested[i]), "user": f"user{user[i]}"}
            for i in range(count)
        ]  # fmt: skip

    completed = [
        {"user": f"user{rng.integers(USERS)}", "processors": int(rng.integers(1, 20)),
         "requested": int(rng.integers(60, 86_400)), "run": int(rng.integers(1, 80_000))}
        for _ in range(COMPLETED)
    ]  # fmt: skip
    running = jobs(RUNNING, "started", 60_000, 20)
    held = sum(int(str(job["processors"])) for job in running)
    state = {
        "now": now,
        "processors": max(held + FREE, 60),
        "running": running,
        "waiting": jobs(WAITING, "submitted", 200_000, 60),
        "completed": completed,
    }
    return json.dumps(state)


def latencies(decider: Decider, lines: list[str], *, first: bool) -> np.ndarray:
    """Return the seconds of every answer."""
    found = []
    for _ in range(ROUNDS):
        for line in lines:
            begun = time.process_time()
            json.dumps(decider.decide(json.loads(line), first=first))
            found.append(time.process_time() - begun)
    return np.array(found)


def measure() -> list[tuple[str, float, str, str]]:
    """Return percentiles of the latency, and ratios within this run."""
    lines = [drawn_state(seed) for seed in range(STATES)]
    read = []
    for _ in range(ROUNDS):
        for line in lines:
            begun = time.process_time()
            json.loads(line)
            read.append(time.process_time() - begun)
    found = []
    for name, policy, guard in (
        ("saf_easy", "saf_easy", Guard()),
        ("an agent", str(AGENT), Guard()),
        ("an agent with a guard", str(AGENT), Guard(1e6, 1e6, 1e-9, 1e-6)),
    ):
        decider = load_decider(policy, guard=guard)
        decider.decide(json.loads(lines[0]))
        for what, first in (("one decision", True), ("a moment", False)):
            seconds = latencies(decider, lines, first=first)
            for part, value in (("p50", 50), ("p99", 99)):
                ratio = np.percentile(seconds, value) / np.percentile(read, value)
                found.append((
                    f"decide, {name}, {what}, {part}", 1e3 * float(np.percentile(seconds, value)),
                    "ms", f"{ratio:.1f} of json.loads",
                ))  # fmt: skip
    return found


if __name__ == "__main__":
    for name, value, unit, beside in measure():
        print(f"{name:50} {value:8.2f} {unit} {beside}")
