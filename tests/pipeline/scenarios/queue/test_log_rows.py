"""Tests of which rows of an SWF log are jobs of `queue`, and with how many processors."""

from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.traces.swf import read

HEADER = "; MaxNodes: 16 (batch partition; 32 total)\n"


def row(job, submit, run=100, alloc=4, asked=4, limit=600, status=1):
    return f"{job} {submit} 7 {run} {alloc} -1 -1 {asked} {limit} -1 {status} 3 1 -1 0 -1 -1 -1"


def test_jobs_that_ran_and_fit_are_kept_with_the_processors_that_they_held(tmp_path):
    rows = (
        row(1, 10),
        row(2, 10, run=-1, status=5),  # cancelled before it ran
        row(3, 10, run=-1),  # no run time, whatever its status
        row(4, 20, run=0, status=5),  # cancelled in its first second
        row(5, 20, alloc=8, asked=17),  # more requested than there is, fewer allocated
        row(6, 20, alloc=17),  # wider than the machine
        row(7, 30, alloc=-1, asked=5, limit=-1),
        row(8, 20, alloc=2, status=0),
        row(9, 20, status=3),  # a part of a job
        row(10, 20) + " 1 2 3",  # 21 fields
    )
    path = tmp_path / "log.swf"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    log = read_log(read(path)[0])
    assert log.processors == 16
    jobs = zip(log.submit, log.cpu, log.run, log.requested, strict=True)
    assert [tuple(map(int, job)) for job in jobs] == [
        (10, 4, 100, 600), (20, 4, 1, 600), (20, 8, 100, 600), (20, 2, 100, 600),
        (30, 5, 100, 100),
    ]  # fmt: skip
