"""Tests of the replay in which recorded starts are events."""

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.replay import replay
from hindcast.pipeline.whatif.run import run_of
from tests.pipeline.whatif.records import by_hand, golden, record


def means(run, starts):
    """Return the mean bounded slowdown and the mean wait of the counted jobs."""
    wait = (starts - np.maximum(run.arrive, run.now))[run.counted]
    held = run.run[run.counted]
    return float(np.maximum(1, (wait + held) / np.maximum(held, 10)).mean()), float(wait.mean())


@pytest.mark.parametrize("case", ["kth-a", "kth-larger", "kth-day", "sdsc-halves"])
def test_replays_of_known_schedulers_equal_the_golden_rows(case):
    rows = golden("cases/whatif/run.csv").iter_rows(named=True)
    row = next(r for r in rows if (r["case"], r["policy"]) == (case, "recorded"))
    run = run_of(record(case), record(case).first)
    found = replay(run)
    assert (found.compared, found.late) == (row["jobs"], row["starts_other_than_recorded"])
    assert means(run, found.starts) == (row["mean_bounded_slowdown"], row["mean_wait_s"])
    if not found.late:
        assert found.ks == 0
        assert (found.starts == run.start).all()


@pytest.mark.parametrize(
    "log", [pytest.param("KTH-SP2-1996-2", marks=pytest.mark.slow),
            pytest.param("SDSC-SP2-1998-4", marks=pytest.mark.nightly)],
)  # fmt: skip
def test_replays_of_real_logs_equal_the_golden_rows(log):
    rows = golden("golden/whatif/replay.csv").iter_rows(named=True)
    row = next(r for r in rows if (r["log"], r["what"]) == (log, "replay"))
    run = run_of(record(log), record(log).first)
    found = replay(run)
    assert (found.compared, found.late) == (row["jobs"], row["jobs_late"])
    assert (found.mean_delay_s, found.ks) == (row["mean_delay_s"], row["ks"])
    assert means(run, found.starts) == (row["mean_bounded_slowdown"], row["mean_wait_s"])


def test_a_due_job_that_does_not_fit_blocks_nobody_and_delays_those_after_it():
    """Job 1 is due at 10 and fits at 100; job 2 fits at 20; job 3 is late in its turn."""
    jobs = [(0, 0, 100, 3), (0, 10, 50, 4), (0, 20, 30, 1), (0, 60, 10, 2)]
    found = replay(run_of(by_hand(4, *jobs), 0, warm=False))
    assert found.starts.tolist() == [0, 100, 20, 150]
    assert (found.late, found.mean_delay_s) == (2, (90 + 90) / 4)


def test_jobs_of_unknown_start_are_due_at_their_arrival_after_all_others():
    jobs = [(0, 0, 100, 4), (5, None, 10, 4), (6, 100, 50, 4)]
    run = run_of(by_hand(4, *jobs), 0, warm=False)
    found = replay(run)
    assert found.starts.tolist() == [0, 150, 100]
    assert (found.compared, found.late, found.ks) == (2, 0, 0)
    nothing = replay(run_of(by_hand(4, (0, None, 10, 4), (3, None, 10, 4)), 0, warm=False))
    assert nothing.starts.tolist() == [0, 10]
    assert (nothing.compared, nothing.mean_delay_s) == (0, 0)


def test_running_jobs_hold_their_processors_when_the_run_begins():
    """Job 0 runs at 50, job 1 waits then, and job 2 begins the run."""
    jobs = [(0, 0, 100, 3), (10, 100, 10, 4), (50, 50, 20, 1)]
    run = run_of(by_hand(4, *jobs), 2)
    found = replay(run)
    assert run.running == 1
    assert found.starts.tolist() == [0, 100, 50]
    assert NEVER not in found.starts
