"""Rules of learned run times against numbers of an independent implementation, on two real logs."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.batched import BatchedEpisodes
from hindcast.pipeline.simulation.policy import Behaviour, best_feasible
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.run import run_of
from hindcast.policies.heuristics import rules
from tests.pipeline.whatif.records import golden, record, workload

SCENARIO = load_scenario("queue")
RULES = rules("queue")
LOGS = {"kth": "KTH-SP2-1996-2", "sdsc-sp2": "SDSC-SP2-1998-4"}


def window(log: str, first: int, **settings):
    """Return the spec and the instance of a window."""
    config = QueueConfig(starts=(first,), run_times=True, **settings)
    spec = SCENARIO.spec(config, "bounded_slowdown")
    of_log, rng = workload(LOGS[log]), np.random.default_rng(0)
    return spec, SCENARIO.instance(config, "bounded_slowdown", of_log, 0, rng)


def check_windows(rows: pl.DataFrame, **settings) -> None:
    for row in rows.iter_rows(named=True):
        spec, instance = window(row["log"], row["first_job"], **settings)
        rule = f"{row['rule']}_easy"
        behaviour = Behaviour(rule, RULES[rule])
        episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(0))
        found = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
        assert round(found["mean_wait_s"] * row["counted"]) == row["wait_s"], row
        assert found["max_wait_s"] == row["max_wait_s"], row
        wanted = pytest.approx(row["mean_bounded_slowdown"], rel=1e-9)
        assert found["mean_bounded_slowdown"] == wanted, row


@pytest.mark.slow
def test_waits_of_windows_equal_golden_rows():
    rows = golden("golden/queue/run_times_windows.csv").filter(pl.col("log") == "kth")
    check_windows(rows.gather_every(49))


@pytest.mark.nightly
@pytest.mark.parametrize("allow_wait", [False, True])
def test_waits_of_all_windows_equal_golden_rows(allow_wait):
    rows = golden("golden/queue/run_times_windows.csv")
    assert rows.height == 296
    check_windows(rows, allow_wait=allow_wait)


@pytest.mark.nightly
def test_runs_of_whatif_have_the_waits_of_golden_rows():
    rows = golden("golden/queue/run_times_windows.csv")
    for row in rows.iter_rows(named=True):
        first = row["first_job"]
        run = run_of(record(LOGS[row["log"]]), first, first + 256, follow=1024)
        jobs = counted(run, play(run, *policy_of(f"{row['rule']}_easy")))
        assert (len(jobs.wait), jobs.wait.sum()) == (row["counted"], row["wait_s"]), row
        assert jobs.wait.max() == row["max_wait_s"]
        wanted = pytest.approx(row["mean_bounded_slowdown"], rel=1e-9)
        assert jobs.slowdown.mean() == wanted, row


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["aged_expected_easy", "wsept_easy"])
@pytest.mark.parametrize(("log", "first"), [("kth", 19_942), ("sdsc-sp2", 37_830)])
def test_a_long_run_of_whatif_starts_every_job_as_the_scenario_does(log, first, rule):
    spec, instance = window(log, first, whole=True)
    kept = {}

    def keep(ints):
        kept["schedule"] = read_schedule(ints)
        return {}

    behaviour = Behaviour(rule, RULES[rule])
    rng = np.random.default_rng(0)
    run_episode(dataclasses.replace(SCENARIO, blocks=keep), spec, instance, behaviour, rng)
    run = run_of(record(LOGS[log]), first)
    starts = play(run, *policy_of(rule)) - run.now
    np.testing.assert_array_equal(starts, kept["schedule"].start)


@pytest.mark.nightly
@pytest.mark.parametrize(("log", "first"), [("kth", 2304), ("sdsc-sp2", 25600)])
@pytest.mark.parametrize("rule", ["aged_expected", "wsept"])
def test_starts_and_what_was_learned_until_then_equal_golden_rows(log, first, rule):
    rows = golden("golden/queue/run_times_starts.csv").filter(
        (pl.col("log") == log) & (pl.col("first_job") == first) & (pl.col("rule") == rule)
    )
    spec, instance = window(log, first)
    began = int(workload(LOGS[log]).tasks["submit_s"].sort()[first])
    episode, learned = BatchedEpisodes(SCENARIO, spec, [instance]), {}
    first_counted = int(instance.ints[m.FIRST_COUNTED])
    while len(episode.live):
        seen, ints = episode.observe(), episode.memory(0)[0]
        scores = np.empty(len(seen.feasible))
        RULES[f"{rule}_easy"].score(
            seen.context[0], seen.candidates, seen.feasible, np.zeros(0), scores
        )
        row = best_feasible(scores, seen.feasible)
        job = int(ints[ints[m.WAITING_AT] + row]) - first_counted
        learned[job] = [math.exp(ln) for ln in seen.candidates[row, -2:]]
        episode.step(np.array([row]))
    schedule = read_schedule(episode.memory(0)[0])
    starts = schedule.start[schedule.counted] + began
    np.testing.assert_array_equal(starts, rows["start"].to_numpy())
    found = np.array([learned[job] for job in range(rows.height)])
    wanted = rows.select("v_at_start", "expected_at_start").to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
