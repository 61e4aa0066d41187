"""Made logs: the output of sacct, and a table of pods as one exports it from Kubernetes."""

from datetime import UTC, datetime, timedelta

import numpy as np

START = datetime(2024, 1, 8, 6, 0, tzinfo=UTC)
SACCT = "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
SACCT += "ReqCPUS|AllocCPUS|ReqNodes|ReqMem|ReqTRES|AllocTRES"


def sacct(rows: int, rng: np.random.Generator, processors: int = 128) -> str:
    """Return what sacct prints of jobs that a machine runs in order of submission.

    Some rows are no job that ran: every 97th was cancelled before it started, and the last two
    still run and wait.
    """
    free_at = np.full(processors, START.timestamp())
    lines, clock = [SACCT], START.timestamp()
    for job in range(rows):
        clock += float(rng.exponential(900.0 if 8 <= (clock / 3600) % 24 < 20 else 2700.0))
        cores = int(2 ** rng.integers(0, 6))
        run = int(rng.lognormal(8.3, 1.2)) + 1
        limit = int(min(run * rng.uniform(1.0, 8.0), 172_800)) // 60 + 1
        user = f"user{rng.zipf(1.6) % 40}"
        submit, when = int(clock), np.sort(free_at)[cores - 1]
        start = int(max(submit + 1, when))
        end = start + run
        free_at[np.argsort(free_at)[:cores]] = end
        state = ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT")[rng.integers(0, 5)]
        held, times = cores, (str(start), str(end), str(run))
        if job % 97 == 96:
            state, held, times = "CANCELLED by 0", 0, ("None", str(submit + 60), "0")
        elif job >= rows - 2:
            state = ("RUNNING", "PENDING")[job - rows + 2]
            times = (
                (times[0], "Unknown", "0") if state == "RUNNING" else ("Unknown", "Unknown", "0")
            )
        tres = f"billing={cores},cpu={cores},mem={cores * 2}G,node=1"
        lines.append(
            f"{1000 + job}|{user}|acc{job % 5}|batch|normal|{state}|{submit}|{submit}|{times[0]}|"
            f"{times[1]}|{times[2]}|{limit}|{cores}|{held}|1|{cores * 2}G|{tres}|{tres}"
        )
    return "\n".join(lines) + "\n"


def pods(rows: int, rng: np.random.Generator) -> str:
    """Return a CSV table of pods with amounts such as 500m, 2, 128Mi and 4Gi."""
    lines = ["pod,namespace,cpu,memory,created,start,end,phase"]
    clock = START
    for pod in range(rows):
        clock += timedelta(seconds=float(rng.exponential(40.0)))
        cpu = ("250m", "500m", "1", "1500m", "2", "4")[rng.integers(0, 6)]
        memory = ("128Mi", "512Mi", "1Gi", "2Gi", "6Gi", "1500M")[rng.integers(0, 6)]
        start = clock + timedelta(seconds=float(rng.integers(0, 4)))
        end = start + timedelta(seconds=float(rng.lognormal(5.5, 1.0)) + 1)
        phase = "Failed" if rng.random() < 0.1 else "Succeeded"
        times = [f"{t:%Y-%m-%dT%H:%M:%SZ}" for t in (clock, start, end)]
        if pod == rows - 1:
            phase, times[2] = "Running", ""
        space = f"team-{rng.integers(0, 4)}"
        lines.append(f"job-{pod:05d},{space},{cpu},{memory},{','.join(times)},{phase}")
    return "\n".join(lines) + "\n"
