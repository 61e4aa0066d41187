"""The made log `example.swf`: 1,000 jobs on 16 processors in eighteen weeks.

    python examples/example_log.py [FILE]

Jobs, users and requested times are drawn with seed 0. They are served in order of arrival with EASY
backfilling: the first waiting job that does not fit gets a reservation, computed from requested
times, and later jobs start before it only if they do not delay it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Job = tuple[int, int, int, int, int]  # submission, run time, processors, request, user

PROCESSORS, JOBS, USERS = 16, 1000, 8
DAY_S, HOUR_S = 86_400, 3600
HEADER = f"""\
; Version: 2.2
; Computer: none, this log is made
; Note: drawn by examples/example_log.py with seed 0; no such machine, job or user exists
; Note: served in order of arrival with EASY backfilling
; UnixStartTime: 1704067200
; TimeZoneString: UTC
; MaxProcs: {PROCESSORS}
; MaxJobs: {JOBS}
"""


def draw(rng: np.random.Generator) -> list[Job]:
    """Return the jobs in order of submission."""
    users = rng.choice(USERS, JOBS, p=np.array([8, 5, 4, 3, 2, 2, 1, 1]) / 26)
    length = rng.normal(9.4, 0.8, USERS)  # logarithm of the user's usual run time in seconds
    width = rng.integers(1, 4, USERS)  # logarithm of the usual processors
    submit = 0.0
    jobs: list[Job] = []
    for user in users:
        hour = submit % DAY_S / HOUR_S
        busy = submit // DAY_S % 7 < 5 and 8 <= hour < 20
        gap = 60 if rng.random() < 0.6 else 12_500 if busy else 40_000  # jobs come in groups
        submit += rng.exponential(gap)
        run = int(np.clip(rng.lognormal(length[user], 1.1), 20, 2 * DAY_S))
        cores = 2 ** int(np.clip(width[user] + rng.integers(-1, 2), 0, 3))
        asked = run * rng.uniform(1.1, 6.0)
        request = next(h for h in (1, 2, 4, 8, 12, 24, 48) if asked <= h * HOUR_S or h == 48)
        jobs.append((int(submit), run, cores, request * HOUR_S, int(user) + 1))
    return jobs


def serve(jobs: Sequence[Job]) -> list[int]:
    """Return the start of every job, in order of arrival with EASY backfilling."""
    starts = [-1] * len(jobs)
    waiting: list[int] = []
    running: list[int] = []
    now, coming = 0, 0
    while coming < len(jobs) or waiting:
        ends = [starts[j] + jobs[j][1] for j in running]
        moments = ends + ([jobs[coming][0]] if coming < len(jobs) else [])
        now = min(moments)
        running = [j for j, end in zip(running, ends, strict=True) if end > now]
        while coming < len(jobs) and jobs[coming][0] <= now:
            waiting.append(coming)
            coming += 1
        free = PROCESSORS - sum(jobs[j][2] for j in running)
        reserved, spare = None, 0  # start of the reservation, processors beside it
        for job in tuple(waiting):
            _, _, cores, request, _ = jobs[job]
            if cores <= free and (reserved is None or now + request <= reserved or cores <= spare):
                starts[job] = now
                waiting.remove(job)
                running.append(job)
                free -= cores
                if reserved is not None and now + request > reserved:
                    spare -= cores
            elif reserved is None:
                room = free
                for end, other in sorted((starts[j] + jobs[j][3], j) for j in running):
                    if reserved is not None and end > reserved:
                        break
                    room += jobs[other][2]
                    if room >= cores:
                        reserved, spare = end, room - cores
    return starts


def main(path: Path) -> None:
    """Write the log."""
    jobs = draw(np.random.default_rng(0))
    lines = [
        f"{n} {submit} {start - submit} {run} {cores} -1 -1 {cores} {request} -1 1 {user}"
        " -1 -1 1 1 -1 -1"
        for n, ((submit, run, cores, request, user), start) in enumerate(
            zip(jobs, serve(jobs), strict=True), start=1
        )
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("example.swf"))
