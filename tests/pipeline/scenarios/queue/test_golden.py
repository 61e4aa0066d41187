"""Tests of `queue` against numbers of an independent implementation, on real logs and a model.

golden_256.csv holds outcomes of windows of 256 jobs, golden_starts_2304.csv starts of the counted
jobs of one window, on the clock of the log. The traces are found through HINDCAST_TRACES.
"""

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.batched import BatchedEpisodes
from hindcast.pipeline.simulation.memory_rules import MemoryRule, play_rule
from hindcast.pipeline.simulation.policy import Behaviour, best_feasible
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.traces import swf
from hindcast.policies.heuristics import rules
from tests.conftest import require_traces

SCENARIO = load_scenario("queue")
HERE = Path(__file__).parent
FILES = {"KTH-SP2": "swf/KTH-SP2-1996-2.swf.gz", "lublin_256": "swf/lublin_256.swf"}
RULES = rules("queue")


@cache
def workload(log: str):
    return swf.read(require_traces(FILES[log]))[0]


@pytest.mark.slow
@pytest.mark.parametrize("log", FILES)
def test_waits_equal_golden_rows_and_slowdowns_within_rounding(log):
    golden = pl.read_csv(HERE / "golden_256.csv").filter(pl.col("log") == log)
    jobs, rng = workload(log), np.random.default_rng(0)
    assert golden.height >= 34
    for row in golden.iter_rows(named=True):
        config = QueueConfig(
            starts=(row["first_job"],), follow=row["follow"], allow_wait=True, warm=log == "KTH-SP2"
        )
        spec = SCENARIO.spec(config, "bounded_slowdown")
        instance = SCENARIO.instance(config, "bounded_slowdown", jobs, 0, rng)
        behaviour = Behaviour(row["rule"], RULES[row["rule"]])
        episode = run_episode(SCENARIO, spec, instance, behaviour, rng)
        found = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
        assert found["carried"] == row["carried"]
        assert found["mean_wait_s"] == row["mean_wait_s"], row
        assert found["max_wait_s"] == row["max_wait_s"], row
        wanted = pytest.approx(row["mean_bounded_slowdown"], rel=1e-9)
        assert found["mean_bounded_slowdown"] == wanted, row


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["saf_easy", "conservative"])
def test_every_start_equals_golden_starts(rule):
    jobs, rng = workload("KTH-SP2"), np.random.default_rng(0)
    golden = pl.read_csv(HERE / "golden_starts_2304.csv")[rule].to_numpy()
    config = QueueConfig(starts=(2304,))
    spec = SCENARIO.spec(config, "bounded_slowdown")
    instance = SCENARIO.instance(config, "bounded_slowdown", jobs, 0, rng)
    policy = RULES[rule]
    if isinstance(policy, MemoryRule):
        ints = play_rule(SCENARIO, spec, instance, policy)[1]
    else:
        episode = BatchedEpisodes(SCENARIO, spec, [instance])
        while len(episode.live):
            seen = episode.observe()
            scores = np.empty(len(seen.feasible))
            policy.score(seen.context[0], seen.candidates, seen.feasible, np.zeros(0), scores)
            episode.step(np.array([best_feasible(scores, seen.feasible)]))
        ints = episode.memory(0)[0]
    schedule = read_schedule(ints)
    began = int(jobs.tasks["submit_s"][2304])
    np.testing.assert_array_equal(schedule.start[schedule.counted] + began, golden)


@pytest.mark.slow
def test_the_mean_wait_of_the_recorded_schedule_is_that_of_the_log():
    """Starts move to the event before them, and later where the log exceeds its machine."""
    jobs, rng = workload("KTH-SP2"), np.random.default_rng(0)
    config = QueueConfig(jobs=1, whole=True, allow_wait=True)
    instance = SCENARIO.instance(config, "wait", jobs, 0, rng)
    _, ints, _ = play_rule(SCENARIO, SCENARIO.spec(config, "wait"), instance, RULES["recorded"])
    log = read_log(jobs)
    recorded = float(np.mean(log.start - log.submit))
    assert read_schedule(ints).waits.mean() == pytest.approx(recorded, rel=0.02)
